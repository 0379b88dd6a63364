// Plots one below another, with what each signal is now, and the time that they share.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { count, lasting } from '../ground/quantity';
import { visible } from '../ground/text';
import { Swatch } from '../ground/theme';
import { Acknowledged } from './acknowledge';
import { type Channel, causes, inWords, type State, serverTime, shown, states } from './feed';
import { TIME_MARKS, VALUE_MARKS } from './plot/painter';
import { marks, measured, number, stepOf, timeStep, timeText } from './plot/scale';
import {
  beat,
  colourOf,
  drawnWindow,
  follow,
  onScreen,
  type Plot,
  painterOf,
  pan,
  pause,
  place,
  plotWidth,
  pulse,
  range,
  zoom,
} from './plot/stage';
import type { At } from './series';
import { look, toggle, view } from './view';
import { CAUSES, sinceBase } from './wire';

/** Pixels that a drag has at least. */
const DRAG = 4;

/** Plots by signals, or by units: signals without one have none in common. */
export function plotsOf(channels: Channel[], overlaid: boolean): Plot[] {
  if (!overlaid) return channels.map(channel => ({ id: channel.id, unit: channel.unit, channels: [channel] }));
  const units = new Map<string, Channel[]>();
  for (const channel of channels) {
    const key = channel.unit ? `unit:${channel.unit}` : channel.id;
    units.set(key, [...(units.get(key) ?? []), channel]);
  }
  return [...units].map(([id, channels]) => ({ id, unit: channels[0]?.unit ?? '', channels }));
}

interface Pointer {
  /** Pixels from the left of plots. */
  x: number;
  /** Where it was pressed. */
  pressed?: number | undefined;
  kind: string;
}

export function Plots({ plots }: { plots: Plot[] }) {
  const element = useRef<HTMLDivElement>(null);
  const [pointer, setPointer] = useState<Pointer>();
  const width = plotWidth.value;
  const timeAt = (x: number) => {
    const { begin, end } = onScreen();
    return begin + (x / Math.max(1, width)) * (end - begin);
  };
  const place = (event: { clientX: number }) => {
    const canvas = element.current?.querySelector('canvas')?.getBoundingClientRect();
    return canvas ? Math.max(0, Math.min(canvas.width, event.clientX - canvas.left)) : 0;
  };
  const isOver = (event: Event) => event.target instanceof HTMLCanvasElement;
  const move = (event: PointerEvent) => {
    const x = place(event);
    if (pointer?.pressed !== undefined && event.pointerType === 'touch') {
      pan((pointer.pressed - x) / Math.max(1, width));
      setPointer({ ...pointer, x, pressed: x });
    } else if (isOver(event) || pointer?.pressed !== undefined) {
      setPointer({ ...pointer, x, kind: event.pointerType });
    } else setPointer(undefined);
  };
  const press = (event: PointerEvent) => {
    if (!isOver(event) || event.button !== 0) return;
    const x = place(event);
    (event.target as Element).setPointerCapture(event.pointerId);
    setPointer({ x, pressed: x, kind: event.pointerType });
  };
  const release = (event: PointerEvent) => {
    if (pointer?.pressed === undefined) return;
    const [from, to] = [Math.min(pointer.pressed, pointer.x), Math.max(pointer.pressed, pointer.x)];
    setPointer({ x: pointer.x, kind: pointer.kind });
    if (to - from >= DRAG) range(timeAt(from), timeAt(to));
    else if (event.pointerType !== 'touch') look(event.shiftKey ? { b: timeAt(to) } : { a: timeAt(to) });
  };
  useEffect(() => {
    const place = element.current;
    if (!place) return;
    // Where there is nothing to scroll, the wheel zooms; else with a key held.
    const wheel = (event: WheelEvent) => {
      if (!(event.target instanceof HTMLCanvasElement)) return;
      const scrolls = place.offsetHeight > innerHeight;
      const box = event.target.getBoundingClientRect();
      const part = (event.clientX - box.left) / Math.max(1, box.width);
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        pan(event.deltaX / Math.max(1, box.width));
      } else if (!scrolls || event.ctrlKey || event.shiftKey || event.altKey) {
        event.preventDefault();
        zoom(Math.exp(event.deltaY / 400), view.value.from === undefined && part > 0.9 ? 1 : part);
      }
    };
    place.addEventListener('wheel', wheel, { passive: false });
    return () => place.removeEventListener('wheel', wheel);
  }, []);
  const keys = (event: KeyboardEvent) => {
    const step = event.shiftKey ? 0.5 : 0.1;
    const { begin, end } = onScreen();
    const does: Record<string, () => void> = {
      ArrowLeft: () => pan(-step),
      ArrowRight: () => pan(step),
      '+': () => zoom(0.5, view.value.from === undefined ? 1 : 0.5),
      '=': () => zoom(0.5, view.value.from === undefined ? 1 : 0.5),
      '-': () => zoom(2, view.value.from === undefined ? 1 : 0.5),
      ' ': () => (view.value.from === undefined ? pause() : follow()),
      End: follow,
      a: () => look({ a: pointer ? timeAt(pointer.x) : begin + (end - begin) / 3 }),
      b: () => look({ b: pointer ? timeAt(pointer.x) : begin + (2 * (end - begin)) / 3 }),
      Escape: () => look({ a: undefined, b: undefined }),
    };
    const run = event.ctrlKey || event.metaKey || event.altKey ? undefined : does[event.key];
    if (!run) return;
    event.preventDefault();
    run();
  };
  const dragged = pointer?.pressed !== undefined && Math.abs(pointer.x - pointer.pressed) >= DRAG;
  // Under a pointer that rests there is something else with each beat, and in another view.
  if (pointer) pulse.value;
  const hover = pointer && !dragged ? timeAt(pointer.x) : undefined;
  return (
    // biome-ignore lint/a11y/useSemanticElements: no set of fields
    <div
      ref={element}
      class={`plots ${plots.length === 1 ? 'one' : plots.length <= 6 ? 'few' : 'many'}`}
      role="group"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: plots are moved and zoomed by keys
      tabIndex={0}
      aria-label="Signals. Arrow keys move in time, plus and minus zoom, space stops and goes on, a and b set cursors."
      onKeyDown={keys}
      onPointerMove={move}
      onPointerDown={press}
      onPointerUp={release}
      onPointerLeave={() => setPointer(undefined)}
      onDblClick={follow}
    >
      {plots.map(plot => (
        <PlotRow key={plot.id} plot={plot} hover={hover} />
      ))}
      <TimeAxis />
      <Marker time={view.value.a} name="a" />
      <Marker time={view.value.b} name="b" />
      {hover !== undefined && <Marker time={hover} name="hover" />}
      {dragged && pointer?.pressed !== undefined && (
        <Over>
          <div
            class="picked"
            style={{
              left: `${Math.min(pointer.x, pointer.pressed)}px`,
              width: `${Math.abs(pointer.x - pointer.pressed)}px`,
            }}
          />
        </Over>
      )}
    </div>
  );
}

function Over({ children }: { children: ComponentChildren }) {
  return (
    <div class="over" aria-hidden="true">
      {children}
    </div>
  );
}

function Marker({ time, name }: { time: number | undefined; name: string }) {
  pulse.value;
  if (time === undefined) return null;
  const { begin, end } = onScreen();
  const part = (time - begin) / (end - begin);
  if (part < 0 || part > 1) return null;
  return (
    <Over>
      <div class={`marker ${name}`} style={{ left: `${100 * part}%` }}>
        {name !== 'hover' && <b>{name.toUpperCase()}</b>}
      </div>
    </Over>
  );
}

function PlotRow({ plot, hover }: { plot: Plot; hover: number | undefined }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => (canvas.current ? place(plot, canvas.current) : undefined), [plot]);
  const known = states.value;
  const names = plot.channels.map(({ name }) => visible(name)).join(', ');
  const isStale = plot.channels.every(channel => known.get(channel.id)?.stale);
  return (
    <section class={isStale ? 'plot stale' : 'plot'} aria-label={names}>
      <ul class="signals" tabIndex={plot.channels.length > 1 ? 0 : undefined}>
        {plot.channels.map(channel => (
          <Signal key={channel.id} plot={plot} channel={channel} state={known.get(channel.id)} hover={hover} />
        ))}
      </ul>
      <Values plot={plot} />
      <div class="curve">
        <canvas ref={canvas} role="img" aria-label={`Curve of ${names}`} />
      </div>
    </section>
  );
}

interface Told {
  plot: Plot;
  channel: Channel;
  state: State | undefined;
  hover: number | undefined;
}

/** What a signal is now, or where the pointer is. */
function Signal({ plot, channel, state, hover }: Told) {
  beat(plot);
  const series = shown.get(channel.id);
  const { a, b } = view.value;
  const at = (time: number | undefined): At => (time === undefined ? undefined : series?.at(sinceBase(time)));
  const value = (time: number | undefined) => {
    const found = at(time);
    return found && 'last' in found ? found.last : undefined;
  };
  const [here, one, other] = [at(hover), value(a), value(b)];
  const name = visible(channel.name, 60);
  const { begin, end } = drawnWindow.peek();
  const missing = series?.missing(sinceBase(begin), sinceBase(end));
  const lost = [...(missing ?? [])].filter(([cause]) => causes[cause]?.loss);
  // Of what is derived nothing was lost by itself.
  const verb = channel.derived ? 'missing, derived' : 'lost';
  const alarm = state && state.alarm !== 'none' ? state.alarm : undefined;
  const owes = state !== undefined && state.unacknowledged !== 'none';
  return (
    <li
      data-id={channel.id}
      data-alarm={alarm}
      data-stale={state?.stale || undefined}
      title={visible(`${channel.station}/${channel.stream} ${channel.description}`, 300)}
    >
      <span class="name">
        <Swatch colour={colourOf(channel.id)} />
        <b>{name}</b>
        <button
          type="button"
          class="quiet drop"
          aria-label={`Take ${name} away`}
          onClick={() => toggle([channel.id], false)}
        >
          ×
        </button>
      </span>
      <span class="station">{visible(channel.origin || channel.station, 40)}</span>
      <span class="value">
        {here === undefined ? (
          measured(hover === undefined ? series?.newest : undefined, visible(channel.unit, 16))
        ) : (
          <Found at={here} channel={channel} />
        )}
      </span>
      {(alarm || owes || state?.stale || lost.length > 0) && (
        <span class="marks">
          {alarm && <span class={`mark ${alarm.startsWith('very') ? 'bad' : 'warn'}`}>{inWords(alarm)}</span>}
          <Acknowledged channel={channel} />
          {state?.stale && <span class="mark warn">stale, {lasting(Math.max(0, serverTime() - state.since_ms))}</span>}
          {lost.length > 0 && (
            <span class="mark lost-mark">
              {lost.map(([cause, samples]) => `${count(samples)} ${verb}: ${cause}`).join(', ')}
            </span>
          )}
        </span>
      )}
      {(one !== undefined || other !== undefined) && (
        <span class="between">
          {one !== undefined && `A ${measured(one, '')}`} {other !== undefined && `B ${measured(other, '')}`}{' '}
          {one !== undefined && other !== undefined && `Δ ${measured(other - one, visible(channel.unit, 16))}`}
        </span>
      )}
    </li>
  );
}

function Found({ at, channel }: { at: Exclude<At, undefined>; channel: Channel }) {
  if ('gap' in at) {
    const { samples, cause, begin, end } = at.gap;
    return (
      <span class="in-gap">
        {count(samples)} missing ({lasting(end - begin)}): {cause}
      </span>
    );
  }
  const unit = visible(channel.unit, 16);
  if (at.samples <= 1 || at.least === at.greatest) return <>{measured(at.last, unit)}</>;
  return (
    <>
      {measured(at.least, '')} … {measured(at.greatest, unit)}
    </>
  );
}

/** The scale of a plot. */
function Values({ plot }: { plot: Plot }) {
  beat(plot);
  const painter = painterOf(plot.id);
  const height = painter?.canvas.clientHeight ?? 0;
  if (!painter || height === 0 || !(painter.range.high > painter.range.low)) return <div class="values" />;
  const { low, high } = painter.range;
  const found = marks(low, high, height / VALUE_MARKS);
  const step = stepOf(found);
  return (
    <div class="values" aria-hidden="true">
      {found.map(mark => {
        const part = 1 - (mark - low) / (high - low);
        // Half a line would be cut.
        if (part * height < 6 || part * height > height - 6) return null;
        return (
          <span key={mark} style={{ top: `${100 * part}%` }}>
            {number(mark, step)}
          </span>
        );
      })}
      {plot.unit && <i>{visible(plot.unit, 10)}</i>}
    </div>
  );
}

/** Half as wide as the time of a mark can be, pixels. */
const HALF_LABEL = 36;

function TimeAxis() {
  pulse.value;
  const { begin, end } = view.value.from === undefined ? drawnWindow.value : onScreen();
  const width = plotWidth.value;
  const step = timeStep(end - begin, width / TIME_MARKS);
  const found = [];
  for (let mark = Math.ceil(begin / step) * step; mark <= end && found.length < 40; mark += step) found.push(mark);
  return (
    <div class="times" aria-hidden="true">
      {found.map(mark => {
        const part = (mark - begin) / (end - begin);
        // Half a label would stick out of the screen.
        return part * width > HALF_LABEL && (1 - part) * width > HALF_LABEL ? (
          <span key={mark} style={{ left: `${100 * part}%` }}>
            {timeText(mark, step)}
          </span>
        ) : null;
      })}
    </div>
  );
}

/** What the colours of gaps mean: of those that are on the screen, with how many samples are missing. */
export function Legend({ channels }: { channels: Channel[] }) {
  pulse.value;
  const { begin, end } = drawnWindow.value;
  const sums = new Map<string, number>();
  let derived = 0;
  for (const channel of channels) {
    const missing = shown.get(channel.id)?.missing(sinceBase(begin), sinceBase(end)) ?? [];
    for (const [cause, samples] of missing) {
      // What is derived lacks what its inputs lack: that counts once.
      if (channel.derived) derived += samples;
      else sums.set(cause, (sums.get(cause) ?? 0) + samples);
    }
  }
  const found = CAUSES.filter(cause => sums.has(cause));
  return (
    <ul class="legend" aria-label="Missing samples on the screen, by where they were lost">
      {found.length === 0 && derived === 0 && <li class="fine">Nothing is missing.</li>}
      {found.map(cause => (
        <li key={cause} data-cause={cause} title={`What to do: ${causes[cause]?.remedy}`}>
          <Swatch colour={`gap-${cause}-bar`} width={14} />
          <b>{count(sums.get(cause) ?? 0)}</b> {causes[cause]?.loss ? 'lost' : 'missing'}: {cause}{' '}
          <small>{causes[cause]?.place}</small>
        </li>
      ))}
      {derived > 0 && (
        <li data-cause="derived">
          <b>{count(derived)}</b> missing in derived signals: <small>their inputs lack them, or come thinned</small>
        </li>
      )}
    </ul>
  );
}
