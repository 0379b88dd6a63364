// How things stand: what somebody should do first.

import { to } from '../ground/address';
import { count, counted, lasting, percent, scaled } from '../ground/quantity';
import { type Shown, Table } from '../ground/table';
import { visible } from '../ground/text';
import type { Row, State } from './answers';
import { Sketch } from './curve';
import { frame } from './feed';
import { Careful, classed, Marks, Panel, since, useDone } from './parts';

const ORDER = { pending: 0, unreachable: 1, active: 2, fading: 3, seen: 4, over: 5 };

export const COLUMNS: Shown<Row>[] = [
  {
    title: 'Target',
    value: row => row.target,
    view: row => (
      <>
        <a href={to('attack', { id: row.id })}>{row.target}</a> <small>{visible(row.group)}</small>
      </>
    ),
  },
  { title: 'State', value: row => row.phase, view: row => <Marks row={row} /> },
  { title: 'Class', value: row => classed(row.class), minor: true },
  { title: 'Last minute', value: () => '', view: row => <Sketch values={row.curve} />, minor: true },
  { title: 'Packets/s', value: row => row.packets, text: row => scaled(row.packets, ''), numeric: true },
  { title: 'Bit/s', value: row => row.bits, text: row => scaled(row.bits, ''), numeric: true, minor: true },
  { title: 'Sources', value: row => row.sources, text: row => count(row.sources), numeric: true, minor: true },
  { title: 'Since', value: row => row.began_ms, text: row => lasting(since(row.began_ms)), numeric: true },
];

export function NowView() {
  const told = frame.value;
  if (!told) return <p class="empty panel wide">Waiting…</p>;
  const rows = [...told.attacks].sort((one, other) => ORDER[one.phase] - ORDER[other.phase] || other.bits - one.bits);
  const all = told.state.attacks;
  const more = all.seen + all.pending + all.unreachable + all.active + all.fading - rows.length;
  return (
    <>
      <Standing state={told.state} />
      <Panel title="Attacks" wide>
        <Table
          sheet={{ name: 'attacks', columns: COLUMNS, rows }}
          label="Attacks"
          id={row => String(row.id)}
          empty="No attack now."
        />
        {more > 0 && <p class="about">{counted(more, 'attack')} more: /protect/attacks lists all.</p>}
      </Panel>
      <SpeakerPanel state={told.state} />
      <Caps state={told.state} />
    </>
  );
}

/** One line: what is going on, and what stops it. */
function Standing({ state }: { state: State }) {
  const { done, run } = useDone();
  const { attacks, stopped, speaker } = state;
  const going = attacks.pending + attacks.unreachable + attacks.active + attacks.fading + attacks.seen;
  const kind = stopped || attacks.pending > 0 ? 'bad' : going > 0 ? 'warn' : 'fine';
  const late = state.now_ms - state.time_ms > 5000;
  return (
    <section class={`state ${kind}`} aria-label="State">
      <p>
        {stopped ? (
          <b>
            Stopped by {visible(stopped.by)} {lasting(since(stopped.since_ms))} ago: nothing is announced.
          </b>
        ) : going === 0 ? (
          <b>No attack.</b>
        ) : (
          <b>
            {counted(going, 'attack')}
            {attacks.pending > 0 && `, ${attacks.pending} waiting for you`}
            {attacks.unreachable > 0 && `, ${attacks.unreachable} unreachable by BGP`}
            {attacks.active + attacks.fading > 0 && `, ${attacks.active + attacks.fading} announced`}.
          </b>
        )}{' '}
        <span>
          Mode {state.mode}.{late && ` The guard has said nothing for ${lasting(state.now_ms - state.time_ms)}.`}
        </span>
      </p>
      {stopped && speaker?.in_doubt && <p class="problem">{visible(speaker.text, 300)}.</p>}
      {state.counts.believed_agents === 0 && (
        <p class="problem">
          No agent is heard whose samples may lead to an action: look at agents of [protect] (which say "from" where
          datagrams come from another address than the agent's), at allow, and whether datagrams come.
        </p>
      )}
      {state.counts.switch_unwritten && (
        <p class="problem">
          The last stop, or its end, is not in the journal yet: a restart would not know of it. It is tried each second.
        </p>
      )}
      <span class="controls">
        {stopped ? (
          <Careful
            text="Resume"
            question="Mode automatic announces again what attacks ask for; mode manual asks again, what was approved too."
            run={() => run('/protect/resume')}
          />
        ) : (
          <Careful
            text="Stop everything"
            kind="danger"
            question={`${counted(state.caps.routes, 'route')} are withdrawn at once, and nothing is announced until somebody resumes.`}
            run={() => run('/protect/stop')}
          />
        )}
      </span>
      {done.value && (
        <p class={done.value.bad ? 'problem' : 'done'} role="status">
          {visible(done.value.text, 300)}
        </p>
      )}
    </section>
  );
}

function SpeakerPanel({ state }: { state: State }) {
  const { speaker } = state;
  return (
    <Panel title="BGP speaker">
      {!speaker ? (
        <p class="empty">None is configured: nothing can be announced.</p>
      ) : (
        <>
          <p>
            <span class={`mark ${speaker.connected ? 'on' : 'bad'}`}>{speaker.connected ? 'connected' : 'gone'}</span>
            {visible(`${speaker.version} ${speaker.address}`)}
            {speaker.since_ms !== null && <small> {lasting(since(speaker.since_ms))}</small>}
          </p>
          {speaker.why && <p class="about warn">{visible(speaker.why, 300)}</p>}
          <p class={speaker.in_doubt ? 'about warn' : 'about'}>{visible(speaker.text, 300)}.</p>
          <ul class="facts">
            {speaker.neighbours.map(({ address, asn, state: session }) => (
              <li key={address}>
                <span class={`mark ${session === 'Established' ? 'on' : 'warn'}`}>{visible(session)}</span>
                {address} <small>AS {asn}</small>
              </li>
            ))}
          </ul>
        </>
      )}
    </Panel>
  );
}

function Caps({ state }: { state: State }) {
  const { caps, counts } = state;
  const rows: [string, string, number][] = [
    ['Routes', `${count(caps.routes)} of ${count(caps.max_routes)}`, caps.routes / caps.max_routes],
    ['Prefixes', `${count(caps.prefixes)} of ${count(caps.max_prefixes)}`, caps.prefixes / caps.max_prefixes],
    [
      'Protected space',
      `${percent(caps.share * 100)} of ${percent(caps.max_share * 100)}`,
      caps.share / caps.max_share,
    ],
  ];
  return (
    <Panel title="What is announced, of what may be">
      <dl class="caps">
        {rows.map(([title, text, part]) => (
          <div key={title}>
            <dt>{title}</dt>
            <dd>
              {text}
              <progress max={1} value={Number.isFinite(part) ? part : 0} aria-label={title} />
            </dd>
          </div>
        ))}
      </dl>
      {counts.dropped > 0 && (
        <p class="about warn">
          {counted(counts.dropped, 'sample')} of {count(counts.dropped + counts.sightings)} were not looked at: the
          guard is too slow.
        </p>
      )}
    </Panel>
  );
}
