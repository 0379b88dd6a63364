// All that is known of an attack, and what can be done about it.

import { address, to } from '../ground/address';
import { between, clockTime, count, counted, lasting, percent, scaled } from '../ground/quantity';
import { visible } from '../ground/text';
import type { Evidence, Rate, Share, Whole } from './answers';
import { Chart } from './curve';
import { frame } from './feed';
import { Careful, classed, Marks, Panel, useDone } from './parts';

export function AttackView() {
  const id = Number(address.value.query.get('id'));
  const told = frame.value;
  const attack = told?.attack?.id === id ? told.attack : undefined;
  if (!told || !attack) {
    return (
      <Panel title={`Attack ${id}`} wide>
        <p class="empty">
          {told && !told.attack ? 'There is no such attack: it may be too long ago. ' : 'Waiting… '}
          <a href={to('')}>All attacks</a>
        </p>
      </Panel>
    );
  }
  const { evidence } = attack;
  return (
    <>
      <Panel
        title={`${classed(attack.class)} on ${attack.target}`}
        wide
        tools={<Marks row={attack} />}
        about={`attack ${attack.id}, group ${visible(attack.group)}, since ${clockTime(attack.began_ms)}${
          attack.ended_ms === null ? '' : ` until ${clockTime(attack.ended_ms)}`
        }${decided(attack)}`}
      >
        <Chart
          values={attack.curve}
          threshold={evidence.threshold_packets}
          end={attack.ended_ms === null ? 'now' : clockTime(attack.ended_ms)}
        />
        <Figures attack={attack} />
      </Panel>
      <Actions attack={attack} />
      <div class="column">
        <Doubts attack={attack} />
        <Rule attack={attack} />
      </div>
      <Tops evidence={evidence} alike={attack.rules.at(-1)?.text} />
      <Headers evidence={evidence} />
    </>
  );
}

function Figures({ attack }: { attack: Whole }) {
  const { evidence, harm_is: harm } = attack;
  const rate = (rate: Rate, unit: string) =>
    rate.high === null
      ? `at least ${scaled(rate.low, unit)}`
      : between(scaled(rate.low, unit), scaled(rate.high, unit));
  const figures: [string, string, string][] = [
    ['Packets', scaled(evidence.packets.value, 'packets/s'), rate(evidence.packets, 'packets/s')],
    ['Bits', scaled(evidence.bits.value, 'bit/s'), rate(evidence.bits, 'bit/s')],
    ['At most', scaled(attack.peak_packets, 'packets/s'), scaled(attack.peak_bits, 'bit/s')],
    ['Sources', count(evidence.sources), counted(evidence.samples, 'sample')],
    ['Hosts hit', count(evidence.hosts), `at ${counted(evidence.points.length, 'interface')}`],
    [
      'It would cost',
      harm.share === null ? 'not known' : percent(harm.share * 100),
      harm.share === null
        ? 'nothing is known of the time before'
        : `${scaled(harm.packets, 'packets/s')} that are no flood`,
    ],
  ];
  return (
    <dl class="figures">
      {figures.map(([title, value, more]) => (
        <div key={title}>
          <dt>{title}</dt>
          <dd>
            <b>{value}</b>
            <small>{more}</small>
          </dd>
        </div>
      ))}
    </dl>
  );
}

const HOURS = [1, 6, 24];

function Actions({ attack }: { attack: Whole }) {
  const { done, run } = useDone();
  const path = `/protect/attacks/${attack.id}`;
  const announced = ['unreachable', 'active', 'fading'].includes(attack.phase);
  const cost =
    attack.harm_is.share === null
      ? 'What it hits besides is not known.'
      : `It hits ${percent(attack.harm_is.share * 100)} of the other traffic.`;
  const approvable = attack.phase === 'pending' || ['harm', 'withdrawn'].includes(attack.refusal?.limit ?? '');
  return (
    <Panel
      title={announced ? 'What is in force' : attack.was_announced ? 'What was announced' : 'What would be announced'}
      tools={
        attack.expires_ms !== null &&
        announced && <small>withdrawn in {lasting(Math.max(0, attack.expires_ms - nowMs()))}</small>
      }
    >
      {attack.refusal && (
        <p class="about warn">
          Not announced ({visible(attack.refusal.limit)}): {visible(attack.refusal.why, 300)}
        </p>
      )}
      {attack.phase === 'pending' && <p class="about warn">It waits for a person. {cost}</p>}
      {attack.routes_are.length === 0 && <p class="empty">Nothing.</p>}
      <ul class="routes">
        {attack.routes_are.map(route => (
          <li key={route.text}>
            <code>{visible(route.text, 300)}</code>{' '}
            {route.installed === 'yes' && <span class="mark on">in the speaker's table</span>}
            {route.installed === 'waiting' && <span class="mark warn">not there yet</span>}
            {route.installed === 'no' && <span class="mark bad">not taken: {visible(route.why ?? '', 200)}</span>}
          </li>
        ))}
      </ul>
      {attack.by && <p class="about">Last decided by {visible(attack.by)}.</p>}
      {frame.value?.role === 'read' ? (
        <p class="about">Your token lets you look, not act.</p>
      ) : (
        attack.phase !== 'over' && (
          <div class="controls">
            {approvable && <Careful text="Approve" kind="go" question={cost} run={() => run(`${path}/approve`)} />}
            {announced && <Careful text="Take the next step" question={cost} run={() => run(`${path}/approve`)} />}
            {announced &&
              HOURS.map(hours => (
                <button
                  key={hours}
                  type="button"
                  onClick={() => run(`${path}/extend`, JSON.stringify({ seconds: hours * 3600 }))}
                >
                  Keep for {hours} h
                </button>
              ))}
            {(announced || attack.phase === 'pending') && (
              <Careful
                text="Withdraw"
                kind="danger"
                question="Its routes are withdrawn, and nothing more is done until it is over."
                run={() => run(`${path}/withdraw`)}
              />
            )}
          </div>
        )
      )}
      {done.value && (
        <p class={done.value.bad ? 'problem' : 'done'} role="status">
          {visible(done.value.text, 300)}
        </p>
      )}
    </Panel>
  );
}

/** How soon it was decided. */
function decided({ decision_ms: time }: Whole): string {
  if (time === null) return '';
  return `; decided ${time < 1 ? 'less than 1 ms' : soon(time)} after the first sample too many`;
}

/** `40 ms`; from a second on as everywhere. */
function soon(milliseconds: number): string {
  return milliseconds < 1000 ? `${milliseconds.toFixed(0)} ms` : lasting(milliseconds);
}

function nowMs(): number {
  return frame.value?.state.now_ms ?? 0;
}

function Doubts({ attack }: { attack: Whole }) {
  return (
    <Panel title="What speaks against it">
      {attack.doubts_are.length === 0 ? (
        <p class="fine">Nothing speaks against it.</p>
      ) : (
        <>
          <p class="about warn">{unbelieved(attack)}</p>
          <ul class="facts">
            {attack.doubts_are.map(({ doubt, text }) => (
              <li key={text}>
                <span class="mark warn">{classed(doubt)}</span>
                {visible(text, 300)}
              </li>
            ))}
          </ul>
        </>
      )}
    </Panel>
  );
}

/** What follows from doubts, as things are. */
function unbelieved({ phase, was_announced: announced }: Whole): string {
  if (phase === 'unreachable' || phase === 'active' || phase === 'fading')
    return 'What is announced stays until its time is over.';
  if (phase === 'over') return announced ? 'It was announced all the same.' : 'Nothing was announced for it.';
  return 'Nothing is announced for it unless a person approves.';
}

function Rule({ attack }: { attack: Whole }) {
  const { evidence } = attack;
  return (
    <Panel title="The rule that fired">
      <p>{visible(evidence.rule, 300)}</p>
      {attack.decision_ms !== null && !evidence.rule.includes(`, ${attack.class}, `) && (
        <p class="about">What came above it is {classed(attack.class)}: it is told as that.</p>
      )}
      <p class="about">
        The evidence against chance is e<sup>{evidence.log_evidence.toFixed(0)}</sup>. Seen at{' '}
        {evidence.points
          .slice(0, 8)
          .map(({ agent, index }) => `interface ${index} of ${agent}`)
          .join(', ')}
        {evidence.points.length > 8 && ` and ${evidence.points.length - 8} more`}.
      </p>
    </Panel>
  );
}

/** `alike`: what nearly all of its packets have in common. */
function Tops({ evidence, alike }: { evidence: Evidence; alike: string | undefined }) {
  const lists: [string, Share[]][] = [
    ['Sources', evidence.top_sources],
    ['Source ports', evidence.top_source_ports],
    ['Destination ports', evidence.top_destination_ports],
    ['Flags and types', evidence.top_flags],
    ['Countries', evidence.top_countries],
    ['Autonomous systems', evidence.top_asns],
  ];
  const known = lists.filter(([, shares]) => shares.length > 0);
  return (
    <Panel title="What it consists of" wide>
      <div class="tops">
        {known.map(([title, shares]) => (
          <section key={title} aria-label={title}>
            <h3>{title}</h3>
            <ul>
              {shares.slice(0, 10).map(({ value, share }) => (
                <li key={value}>
                  <span class="bar" style={{ width: `${Math.max(1, share * 100)}%` }} />
                  <span class="name">{visible(value)}</span>
                  <span>{percent(share * 100)}</span>
                </li>
              ))}
            </ul>
          </section>
        ))}
      </div>
      {known.length === 0 && <p class="empty">No source, port or flag stands out among its packets.</p>}
      {alike && (
        <p class="about">
          Nearly all of them are <code>{visible(alike, 300)}</code>.
        </p>
      )}
    </Panel>
  );
}

function Headers({ evidence }: { evidence: Evidence }) {
  if (evidence.headers.length === 0) return null;
  return (
    <Panel title="First bytes of some packets" wide>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is to be scrolled by keys, too */}
      <pre class="scroll" tabIndex={0}>
        {evidence.headers.slice(0, 8).map(header => `${(header.match(/.{1,2}/g) ?? []).join(' ')}\n`)}
      </pre>
    </Panel>
  );
}
