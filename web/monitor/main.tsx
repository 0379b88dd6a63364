// The page of `weir monitor serve`.

import { render } from 'preact';
import { useMemo } from 'preact/hooks';
import { lasting } from '../ground/quantity';
import { visible } from '../ground/text';
import { ThemeButton } from '../ground/theme';
import { AcknowledgeButton, Acknowledger, owed, refusal } from './acknowledge';
import { Chooser } from './chooser';
import { Events } from './events';
import { ageOf, catalog, connection, events, shown, states } from './feed';
import { follow, isDrawn, onScreen, painterOf, pan, pause, pulse, zoom } from './plot/stage';
import { Legend, Plots, plotsOf } from './plots';
import { savePicture, saveRows } from './save';
import { chosen, look, SPANS, view } from './view';
import { sinceEpoch } from './wire';

function Page() {
  const { layout, span, from } = view.value;
  const channels = chosen.value;
  const plots = useMemo(() => plotsOf(channels, layout === 'overlaid'), [channels, layout]);
  const skip = () => document.querySelector<HTMLElement>('.plots')?.focus();
  const choose = () => document.body.classList.toggle('choosing');
  const { state } = connection.value;
  return (
    <>
      <button type="button" class="skip" onClick={skip}>
        To the signals
      </button>
      <header class="top">
        <h1>
          <a href="#/">weir monitor</a>
        </h1>
        <button type="button" class="choice signals-button" onClick={choose}>
          Signals…
        </button>
        <nav class="controls" aria-label="Time">
          <button
            type="button"
            class="choice"
            aria-pressed={from !== undefined}
            onClick={from === undefined ? pause : follow}
          >
            {from === undefined ? 'Pause' : 'Go live'}
          </button>
          <button type="button" class="choice" aria-label="Back" onClick={() => pan(-0.5)}>
            ◀
          </button>
          <button
            type="button"
            class="choice"
            aria-label="Forward"
            disabled={from === undefined}
            onClick={() => pan(0.5)}
          >
            ▶
          </button>
          <button
            type="button"
            class="choice"
            aria-label="Show less time"
            onClick={() => zoom(0.5, from === undefined ? 1 : 0.5)}
          >
            +
          </button>
          <button
            type="button"
            class="choice"
            aria-label="Show more time"
            onClick={() => zoom(2, from === undefined ? 1 : 0.5)}
          >
            −
          </button>
          {SPANS.map(choice => (
            <button
              key={choice}
              type="button"
              class="choice span"
              aria-pressed={Math.abs(span / choice - 1) < 0.01}
              onClick={() => zoom(choice / span, from === undefined ? 1 : 0.5)}
            >
              {choice < 60_000 ? `${choice / 1000} s` : `${choice / 60_000} min`}
            </button>
          ))}
        </nav>
        <span class="spring" />
        <span class="controls">
          <button
            type="button"
            class="choice"
            aria-pressed={layout === 'overlaid'}
            onClick={() => look({ layout: layout === 'overlaid' ? 'stacked' : 'overlaid' })}
          >
            Overlay by unit
          </button>
          <button type="button" class="quiet" aria-label="Save what is shown as CSV" onClick={() => saveRows(plots)}>
            CSV
          </button>
          <button type="button" class="quiet" aria-label="Save what is shown as PNG" onClick={() => savePicture(plots)}>
            PNG
          </button>
        </span>
        <Pulse />
        <ThemeButton />
      </header>
      <Gone />
      <Attention />
      <Acknowledger />
      <div class={state === 'gone' ? 'body gone' : 'body'}>
        <Chooser />
        <main>
          <Legend channels={channels} />
          <Between />
          {plots.length > 0 ? (
            <Plots plots={plots} />
          ) : (
            <p class="empty panel">
              {catalog.value.size > 0
                ? 'Choose signals on the left.'
                : state === 'live'
                  ? 'No signal has come yet.'
                  : 'Waiting…'}
            </p>
          )}
          <Events />
        </main>
      </div>
    </>
  );
}

/** Whether samples come, and how old the newest is. */
function Pulse() {
  pulse.value;
  const { state, server } = connection.value;
  const ages = [...shown.values()].map(ageOf).filter(age => age !== undefined);
  const age = ages.length > 0 ? Math.min(...ages) : undefined;
  const paused = view.value.from !== undefined;
  const text =
    state === 'gone'
      ? 'no connection'
      : state === 'connecting'
        ? 'connecting'
        : paused
          ? 'paused'
          : age === undefined
            ? 'live'
            : `live, ${age < 1000 ? `${Math.round(age / 10) * 10} ms` : lasting(age)}`;
  return (
    <span class={`pulse ${paused && state === 'live' ? 'paused' : state}`} data-state={state} title={`from ${server}`}>
      {text}
    </span>
  );
}

function Gone() {
  pulse.value;
  const { state, since, server } = connection.value;
  const text =
    state === 'gone'
      ? `${server} has not answered for ${lasting(performance.now() - since)}. What you see is from before; it is tried again all the time.`
      : '';
  return (
    <div class="lost" role="alert" hidden={!text}>
      {text}
    </div>
  );
}

/** What somebody should look at, in one line. */
function Attention() {
  const alarms = [...states.value.values()].filter(state => state.alarm !== 'none').length;
  const stale = [...states.value.values()].filter(state => state.stale).length;
  const unseen = owed();
  const latest = events.value.find(event => event.severity === 'major');
  if (alarms === 0 && stale === 0 && unseen.length === 0) return null;
  return (
    <p class="attention" role="status">
      {alarms > 0 && (
        <b class="bad">
          {alarms} {alarms === 1 ? 'signal' : 'signals'} beyond a limit
        </b>
      )}
      {stale > 0 && <b class="warn">{stale} stale</b>}
      {unseen.length > 0 && <b class="unseen">{unseen.length} not acknowledged</b>}
      <AcknowledgeButton channels={unseen} label="acknowledge all" />
      {refusal.value && <span class="refusal">{visible(refusal.value, 160)}</span>}
      {latest && <span>{visible(`${latest.station} ${latest.channel}: ${latest.text}`, 160)}</span>}
    </p>
  );
}

/** The time between two cursors. */
function Between() {
  const { a, b } = view.value;
  if (a === undefined && b === undefined) return null;
  const time = (ms: number) => new Date(ms).toISOString().slice(11, 23);
  return (
    <p class="cursors">
      {a !== undefined && <span>A {time(a)}</span>}
      {b !== undefined && <span>B {time(b)}</span>}
      {a !== undefined && b !== undefined && (
        <span>
          Δ {Math.abs(b - a) < 10_000 ? `${(b - a).toFixed(3)} ms` : lasting(b - a)}
          {b !== a && `, ${(1000 / Math.abs(b - a)).toPrecision(4)} Hz`}
        </span>
      )}
      <button type="button" class="quiet" onClick={() => look({ a: undefined, b: undefined })}>
        clear
      </button>
    </p>
  );
}

// What tests hold against pixels.
Object.assign(globalThis, {
  weir: {
    isDrawn,
    begin: () => {
      const series = shown.get(chosen.value[0]?.id ?? '');
      return sinceEpoch(series?.time[series.from] ?? 0);
    },
    end: () => sinceEpoch(shown.get(chosen.value[0]?.id ?? '')?.end ?? 0),
    window: onScreen,
    range: () => painterOf(chosen.value[0]?.id ?? '')?.range,
  },
});

const root = document.getElementById('page');
if (root) {
  root.textContent = '';
  render(<Page />, root);
}
