// The first view: what is wrong, and what goes on.

import { question, to } from '../ground/address';
import { useAnswer } from '../ground/connection/live';
import { Panel } from '../ground/panel';
import { bits, count, counted, percent } from '../ground/quantity';
import { Save, Table } from '../ground/table';
import { COLUMNS as AGENT } from './agents';
import type { Agents, Events, Heat, Summary } from './answers';
import { COLUMNS as EVENT } from './events';
import { FlowPanel } from './flows';
import { HeatMap } from './heat';
import { CONVERSATIONS, DROPS } from './presets';

const TILES = [
  { key: 'silent', text: 'silent', bad: true, sort: 'silence' },
  { key: 'losing', text: 'losing datagrams', bad: true, sort: 'loss' },
  { key: 'outdated', text: 'outdated', bad: true, sort: '' },
  { key: 'thinned', text: 'samples thinned', bad: false, sort: 'sampling' },
  { key: 'busy', text: 'busy', bad: false, sort: 'utilization' },
  { key: 'discarding', text: 'dropping packets', bad: false, sort: 'discards' },
  { key: 'restarted', text: 'restarted', bad: false, sort: '' },
] as const;

export function Overview() {
  const summary = useAnswer<Summary>('summary');
  return (
    <>
      <State summary={summary.value} />
      <div class="column">
        <FlowPanel
          title="Conversations"
          asked={{ keys: CONVERSATIONS, value: 'bytes', count: 8 }}
          tools={<a href={to('flows')}>all</a>}
        />
        <FlowPanel chart={false} title="Dropped" asked={{ ...DROPS, count: 6 }} tools={<a href={to('drops')}>all</a>} />
      </div>
      <div class="column first">
        <Worst />
        <Busiest />
        <Latest />
      </div>
    </>
  );
}

function State({ summary }: { summary: Summary | undefined }) {
  const sum = summary?.sum;
  if (!sum) return <p class="state waiting">Waiting for the analyser…</p>;
  const troubled = sum.agents - sum.fine;
  const sentence =
    sum.agents === 0
      ? 'No agent has sent anything yet.'
      : troubled === 0
        ? `All is well with ${counted(sum.agents, 'agent')}.`
        : `${count(troubled)} of ${counted(sum.agents, 'agent')} ${troubled === 1 ? 'needs' : 'need'} a look.`;
  const lately = sum.receivedLately + sum.lostLately;
  const worst = sum.silent + sum.losing + sum.outdated > 0 ? 'bad' : troubled > 0 ? 'warn' : 'fine';
  return (
    <section class={`state ${worst}`} aria-label="State of the network" data-agents={sum.agents}>
      <h2>{sentence}</h2>
      <ul>
        {TILES.map(({ key, text, bad, sort }) => (
          <li key={key}>
            <a class={sum[key] === 0 ? 'none' : bad ? 'bad' : 'warn'} href={to('agents', { troubled: '1', sort })}>
              <b>{count(sum[key])}</b> {text}
            </a>
          </li>
        ))}
      </ul>
      <p>
        {sum.current > 0 && `${bits(sum.ifinoctets)} into ${counted(sum.current, 'interface')}; `}
        {sum.current < sum.interfaces &&
          `nothing current is known of ${counted(sum.interfaces - sum.current, 'interface')}; `}
        {counted(sum.datagramsReceived, 'datagram')} of sFlow came, {count(sum.datagramsLost)}{' '}
        {sum.datagramsLost === 1 ? 'was' : 'were'} lost on the way
        {lately > 0 && `, ${percent((100 * sum.lostLately) / lately)} lately`}.
      </p>
    </section>
  );
}

function Worst() {
  const answer = useAnswer<Agents>(question('agents', { troubled: '1', count: 8 }));
  const columns = ['state', 'agent', 'loss', 'sampling', 'seen'].flatMap(name => {
    const column = AGENT[name];
    if (!column) return [];
    const { sort: _, ...rest } = column;
    return [rest];
  });
  const sheet = { name: 'agents in trouble', columns, rows: answer.value?.rows ?? [] };
  const more = (answer.value?.matched ?? 0) - sheet.rows.length;
  return (
    <Panel
      title="Agents in trouble"
      answer={answer}
      tools={
        <>
          <a href={to('agents', { troubled: '1' })}>{more > 0 ? `${count(more)} more` : 'all'}</a>
          <Save sheet={sheet} />
        </>
      }
    >
      <Table sheet={sheet} label="Agents in trouble" id={row => row.agent} empty={answer.at ? 'None.' : 'Waiting…'} />
    </Panel>
  );
}

function Busiest() {
  const answer = useAnswer<Heat>(question('heat', { count: 10 }));
  return (
    <Panel title="Interfaces" answer={answer} tools={<a href={to('interfaces')}>all</a>}>
      <HeatMap rows={answer.value?.rows ?? []} />
      {answer.value?.rows.length === 0 && <p class="empty">No interface counters have come.</p>}
    </Panel>
  );
}

function Latest() {
  const answer = useAnswer<Events>(question('events', { count: 8 }));
  const sheet = { name: 'events', columns: EVENT, rows: answer.value?.events ?? [] };
  return (
    <Panel title="Events" answer={{ at: answer.at }} tools={<a href={to('events')}>all</a>}>
      <Table
        sheet={sheet}
        label="Events"
        id={event => String(event.eventID)}
        empty={answer.at ? 'No threshold was crossed.' : 'Waiting…'}
      />
    </Panel>
  );
}
