// What is dropped, by reason and place; and how long packets wait where they are not.

import { question, to } from '../ground/address';
import { useAnswer } from '../ground/connection/live';
import { Panel } from '../ground/panel';
import { scaled } from '../ground/quantity';
import { Save, Table } from '../ground/table';
import { COLUMNS, discarded } from './agents';
import type { AgentRow, Agents } from './answers';
import { FlowPanel } from './flows';
import { DELAY, DEPTH, DROPS, WHO } from './presets';

export function DropsView() {
  const answer = useAnswer<Agents>(question('agents', { sort: 'discards', count: 20 }));
  const rows = (answer.value?.rows ?? []).filter(row => (discarded(row) ?? 0) > 0);
  const pick = (names: string[]) => names.flatMap(name => (COLUMNS[name] ? [COLUMNS[name]] : []));
  const columns = [
    ...pick(['agent']),
    {
      title: 'Discards /s',
      value: (row: AgentRow) => row.discards,
      text: (row: AgentRow) => scaled(row.discards, ''),
      numeric: true,
    },
    {
      title: 'Errors /s',
      value: (row: AgentRow) => row.errors,
      text: (row: AgentRow) => scaled(row.errors, ''),
      numeric: true,
    },
    ...pick(['busiest']),
  ].map(({ sort: _, ...column }: (typeof COLUMNS)[string]) => column);
  const sheet = { name: 'discards', columns, rows };
  return (
    <>
      <FlowPanel
        wide
        title="Dropped, by reason and place"
        asked={DROPS}
        about="Packets that agents tell they discarded: why, and by which interface they came."
      />
      <FlowPanel chart={false} title="Who was dropped" asked={WHO} tools={<a href={to('flows', { ...WHO })}>more</a>} />
      <Panel title="Discards and errors of interfaces" answer={answer} tools={<Save sheet={sheet} />}>
        <Table
          sheet={sheet}
          label="Discards and errors"
          id={row => row.agent}
          empty={answer.at ? 'No interface counts any.' : 'Waiting…'}
        />
      </Panel>
    </>
  );
}

export function QueuesView() {
  return (
    <>
      <FlowPanel
        title="Queue depth"
        asked={DEPTH}
        chart={false}
        about="Mean bytes that waited in the queue that a sampled packet went into."
      />
      <FlowPanel
        title="Transit delay"
        asked={DELAY}
        chart={false}
        about="Mean time that sampled packets were in the device."
      />
    </>
  );
}
