// Agents and their health: the worst first.

import { address, go, here, question, to } from '../ground/address';
import { useAnswer } from '../ground/connection/live';
import { Panel } from '../ground/panel';
import { bits, count, lasting, percent, scaled } from '../ground/quantity';
import { Save, type Shown, Table } from '../ground/table';
import { visible } from '../ground/text';
import type { AgentRow, Agents, Trouble } from './answers';

const TROUBLES: Record<Trouble, { text: string; bad: boolean; about: string }> = {
  silent: { text: 'silent', bad: true, about: 'nothing came for three minutes' },
  losing: { text: 'losing', bad: true, about: '5 % of its datagrams or more are lost on the way' },
  outdated: { text: 'outdated', bad: true, about: 'its counters are older than three of its polling intervals' },
  loss: { text: 'some loss', bad: false, about: 'some of its datagrams are lost on the way' },
  thinned: { text: 'thinned', bad: false, about: 'a sample stands for a quarter more packets than the agent says' },
  busy: { text: 'busy', bad: false, about: 'an interface is used by 80 % or more' },
  discarding: { text: 'discards', bad: false, about: 'it drops packets, or its interfaces receive damaged ones' },
  restarted: { text: 'restarted', bad: false, about: 'it began anew within ten minutes' },
};

export function Troubles({ troubles }: { troubles: Trouble[] }) {
  if (troubles.length === 0) return <span class="fine">fine</span>;
  return (
    <>
      {troubles.map(trouble => (
        <span key={trouble} class={TROUBLES[trouble].bad ? 'mark bad' : 'mark warn'} title={TROUBLES[trouble].about}>
          {TROUBLES[trouble].bad ? '▲ ' : '● '}
          {TROUBLES[trouble].text}
        </span>
      ))}
    </>
  );
}

/** An agent by its name and address, with the way to all about it. */
export function AgentLink({ agent, host }: { agent: string; host?: string | null | undefined }) {
  return (
    <a href={to('agent', { agent })}>
      {host ? (
        <>
          {visible(host, 40)} <small>{agent}</small>
        </>
      ) : (
        agent
      )}
    </a>
  );
}

export function loss(row: AgentRow): number {
  return (100 * row.lostLately) / Math.max(1, row.lostLately + row.receivedLately);
}

/** Packets a second that its interfaces dropped or received damaged; undefined where nothing is known. */
export function discarded(row: AgentRow): number | undefined {
  if (row.discards === undefined && row.errors === undefined) return undefined;
  return (row.discards ?? 0) + (row.errors ?? 0);
}

function sampling(row: AgentRow): string {
  if (!row.samplingRate || !row.effectiveSamplingRate) return '–';
  return `1:${count(row.samplingRate)} → 1:${count(row.effectiveSamplingRate)}`;
}

function thinning(row: AgentRow): number | undefined {
  return row.samplingRate && row.effectiveSamplingRate ? row.effectiveSamplingRate / row.samplingRate : undefined;
}

function busiest(row: AgentRow) {
  if (!row.busiest) return '–';
  return (
    <>
      {percent(row.busiest.utilization)}{' '}
      <small>{visible(row.busiest.name ?? `ifIndex ${row.busiest.dataSource}`, 24)}</small>
    </>
  );
}

export const COLUMNS: Record<string, Shown<AgentRow>> = {
  state: {
    title: 'State',
    value: row => row.troubles.join(' '),
    text: row => row.troubles.join(' ') || 'fine',
    view: row => <Troubles troubles={row.troubles} />,
    sort: '',
  },
  agent: {
    title: 'Agent',
    value: row => row.agent,
    text: row => visible(row.host ? `${row.host} ${row.agent}` : row.agent),
    view: row => <AgentLink agent={row.agent} host={row.host} />,
    sort: 'agent',
  },
  host: { title: 'Host', value: row => row.host, hidden: true },
  loss: {
    title: 'Lost lately',
    value: row => row.lostLately,
    text: row => (row.receivedLately + row.lostLately > 0 ? percent(loss(row)) : '–'),
    numeric: true,
    sort: 'loss',
  },
  lost: {
    title: 'Lost',
    value: row => row.sFlowDatagramsLost,
    text: row => count(row.sFlowDatagramsLost),
    numeric: true,
    sort: 'lost',
  },
  received: {
    title: 'Datagrams',
    value: row => row.sFlowDatagramsReceived,
    text: row => count(row.sFlowDatagramsReceived),
    numeric: true,
    sort: 'received',
    minor: true,
  },
  sampling: {
    title: 'Sampling: told → found',
    csv: 'Sampling: found by told',
    value: thinning,
    text: sampling,
    numeric: true,
    sort: 'sampling',
  },
  busiest: {
    title: 'Busiest interface',
    csv: 'Busiest interface %',
    value: row => row.busiest?.utilization,
    text: row =>
      row.busiest
        ? `${percent(row.busiest.utilization)} ${visible(row.busiest.name ?? row.busiest.dataSource, 24)}`
        : '–',
    view: busiest,
    numeric: true,
    sort: 'utilization',
  },
  traffic: {
    title: 'Comes in',
    csv: 'Comes in bit/s',
    value: row => (row.ifinoctets === undefined ? undefined : row.ifinoctets * 8),
    text: row => bits(row.ifinoctets),
    numeric: true,
    sort: 'traffic',
  },
  discards: {
    title: 'Discards, errors',
    csv: 'Discards, errors /s',
    value: discarded,
    text: row => scaled(discarded(row), '/s'),
    numeric: true,
    sort: 'discards',
    minor: true,
  },
  restarts: {
    title: 'Restarts',
    value: row => row.restarts,
    text: row => count(row.restarts),
    numeric: true,
    sort: 'restarts',
    minor: true,
  },
  seen: {
    title: 'Last seen',
    csv: 'Last seen ms ago',
    value: row => row.lastSeen,
    text: row => `${lasting(row.lastSeen)} ago`,
    numeric: true,
    sort: 'silence',
  },
};

const PAGE = 50;

export function AgentsView() {
  const query = address.value.query;
  const [find, sort] = [query.get('find') ?? '', query.get('sort') ?? ''];
  const troubled = query.get('troubled') ?? undefined;
  const offset = Number(query.get('offset') ?? 0);
  const answer = useAnswer<Agents>(
    question('agents', { find, sort, troubled, offset: offset || undefined, count: PAGE }),
  );
  const { rows = [], matched = 0 } = answer.value ?? {};
  const sheet = { name: 'agents', columns: Object.values(COLUMNS), rows };
  return (
    <Panel wide title="Agents" answer={answer} tools={<Save sheet={sheet} />}>
      <div class="controls">
        <Find value={find} label="Find agents by name or address" />
        <a
          class="choice"
          aria-current={troubled ? undefined : 'true'}
          href={here({ troubled: undefined, offset: undefined })}
        >
          all
        </a>
        <a
          class="choice"
          aria-current={troubled ? 'true' : undefined}
          href={here({ troubled: '1', offset: undefined })}
        >
          in trouble
        </a>
        <span class="spring" />
        <Pages offset={offset} shown={rows.length} matched={matched} size={PAGE} />
      </div>
      <Table
        sheet={sheet}
        label="Agents"
        id={row => row.agent}
        sorted={sort}
        empty={answer.at ? 'No agent is called so.' : 'Waiting…'}
      />
    </Panel>
  );
}

/** A field that narrows this view as one types. */
export function Find({ value, label }: { value: string; label: string }) {
  return (
    <input
      type="search"
      value={value}
      placeholder="find…"
      aria-label={label}
      onInput={event => go(here({ find: event.currentTarget.value, offset: undefined }), true)}
    />
  );
}

interface Paging {
  offset: number;
  shown: number;
  matched: number;
  size: number;
}

function Pages({ offset, shown, matched, size }: Paging) {
  return (
    <nav class="pages" aria-label="Pages">
      {offset > 0 && <a href={here({ offset: Math.max(0, offset - size) || undefined })}>← before</a>}
      <span data-matched={matched}>
        {matched === 0 ? '0' : `${count(offset + 1)}–${count(offset + shown)}`} of {count(matched)}
      </span>
      {offset + shown < matched && <a href={here({ offset: offset + size })}>next →</a>}
    </nav>
  );
}
