// What was: attacks that are over, who did what, and what is protected.

import { to } from '../ground/address';
import { clockTime, count, lasting, scaled } from '../ground/quantity';
import { type Shown, Table } from '../ground/table';
import { visible } from '../ground/text';
import type { Group, Row } from './answers';
import { COLUMNS } from './now';
import { classed, Panel, useAsked } from './parts';

function Asked<T>({
  asked,
  children,
}: {
  asked: ReturnType<typeof useAsked<T>>;
  children: (value: T) => preact.JSX.Element;
}) {
  if (!asked) return <p class="empty">Waiting…</p>;
  return 'value' in asked ? (
    children(asked.value)
  ) : (
    <p class="problem" role="alert">
      {visible(asked.problem, 300)}
    </p>
  );
}

const OVER: Shown<Row>[] = [
  ...COLUMNS.filter(({ title }) => !['State', 'Last minute', 'Since'].includes(title)),
  { title: 'Began', value: row => new Date(row.began_ms).toISOString(), text: row => moment(row.began_ms) },
  {
    title: 'Lasted',
    value: row => (row.ended_ms ?? row.last_seen_ms) - row.began_ms,
    text: row => lasting((row.ended_ms ?? row.last_seen_ms) - row.began_ms),
    numeric: true,
  },
  { title: 'Done', value: done, minor: true },
  { title: 'Evidence', value: row => (row.doubts > 0 ? 'doubted' : 'sound'), minor: true },
  { title: 'By', value: row => visible(row.by ?? '–'), minor: true },
];

/** What was done about it: what would have been is nothing. */
function done(row: Row): string {
  if (row.was_announced) return row.action ?? '–';
  return row.refused ? `nothing: ${visible(row.refused)}` : '–';
}

/** The day too, where it is not today. */
function moment(ms: number): string {
  const day = new Date(ms).toLocaleDateString('en-CA');
  return day === new Date().toLocaleDateString('en-CA') ? clockTime(ms) : `${day} ${clockTime(ms)}`;
}

export function HistoryView() {
  const asked = useAsked<Row[]>('/protect/history');
  return (
    <Panel title="Attacks that are over" wide>
      <Asked asked={asked}>
        {rows => (
          <Table
            sheet={{ name: 'history', columns: OVER, rows }}
            label="History"
            id={row => String(row.id)}
            empty="None yet."
          />
        )}
      </Asked>
    </Panel>
  );
}

/** Whatever an entry has besides the columns stands in the last one. */
type Entry = Record<string, unknown>;

const KNOWN = ['id', 'time_ms', 'event', 'by', 'attack', 'target', 'group', 'text'];

function said(value: unknown): string {
  if (value === undefined || value === null) return '';
  return visible(typeof value === 'string' ? value : JSON.stringify(value), 400);
}

const ENTRIES: Shown<Entry>[] = [
  { title: 'When', value: entry => Number(entry.time_ms), text: entry => moment(Number(entry.time_ms)) },
  { title: 'What', value: entry => said(entry.event) },
  {
    title: 'Attack',
    value: entry => said(entry.attack),
    view: entry =>
      entry.attack === undefined ? (
        ''
      ) : (
        <a href={to('attack', { id: Number(entry.attack) })}>
          {said(entry.attack)} {said(entry.target)}
        </a>
      ),
  },
  { title: 'Who', value: entry => said(entry.by) || 'weir' },
  {
    title: 'More',
    value: entry =>
      said(entry.text) ||
      Object.entries(entry)
        .filter(([key, value]) => !KNOWN.includes(key) && value !== null)
        .map(([key, value]) => `${key} ${said(value)}`)
        .join(', '),
    minor: true,
  },
];

export function JournalView() {
  const asked = useAsked<Entry[]>('/protect/journal');
  return (
    <Panel title="Who did what" wide>
      <Asked asked={asked}>
        {rows => (
          <Table
            sheet={{ name: 'journal', columns: ENTRIES, rows }}
            label="Journal"
            id={entry => String(entry.id ?? entry.time_ms)}
            empty="Nothing yet."
          />
        )}
      </Asked>
    </Panel>
  );
}

export function GroupsView() {
  const asked = useAsked<Group[]>('/protect/groups');
  return (
    <Asked asked={asked}>
      {groups => (
        <>
          {groups.map(group => (
            <Panel key={group.name} title={visible(group.name)} tools={<span class="mark">{group.mode}</span>}>
              <p class="about">
                {group.networks.join(', ')}; {count(group.hosts)} hosts known
              </p>
              <Table
                sheet={{
                  name: 'thresholds',
                  rows: group.thresholds,
                  columns: [
                    { title: 'Class', value: threshold => classed(threshold.class) },
                    {
                      title: 'Packets/s',
                      value: threshold => threshold.packets,
                      text: threshold => scaled(threshold.packets, ''),
                      numeric: true,
                    },
                    {
                      title: 'Bit/s',
                      value: threshold => threshold.bits,
                      text: threshold => scaled(threshold.bits, ''),
                      numeric: true,
                    },
                    { title: 'Is', value: threshold => (threshold.learnt ? 'learnt' : 'fixed') },
                  ],
                }}
                label={`Thresholds of ${visible(group.name)}`}
                id={threshold => threshold.class}
                empty="No thresholds: nothing is looked for."
              />
            </Panel>
          ))}
          {groups.length === 0 && <p class="empty panel wide">Nothing is protected.</p>}
        </>
      )}
    </Asked>
  );
}
