// Thresholds, and when they were crossed.

import { address, question, to } from '../ground/address';
import { useAnswer } from '../ground/connection/live';
import { Panel } from '../ground/panel';
import { clockTime, count, scaled } from '../ground/quantity';
import { Save, type Shown, Table } from '../ground/table';
import { visible } from '../ground/text';
import type { Event, Events } from './answers';

const what = (event: Event) =>
  [event.flowKey, event.drop?.who, event.drop?.why, event.drop?.where].filter(part => part).join(', ');

export const COLUMNS: Shown<Event>[] = [
  { title: 'Time', value: event => new Date(event.timestamp).toISOString(), text: event => clockTime(event.timestamp) },
  { title: 'Threshold', value: event => event.thresholdID, text: event => visible(event.thresholdID, 40) },
  {
    title: 'Agent',
    value: event => event.agent,
    view: event => <a href={to('agent', { agent: event.agent })}>{event.agent}</a>,
  },
  { title: 'Source', value: event => event.dataSource },
  { title: 'Metric', value: event => event.metric, text: event => visible(event.metric, 40), minor: true },
  { title: 'Value', value: event => event.value, text: event => scaled(event.value, ''), numeric: true },
  { title: 'Limit', value: event => event.threshold, text: event => scaled(event.threshold, ''), numeric: true },
  { title: 'What', value: what, text: event => visible(what(event), 80) },
];

export function EventsView() {
  const wanted = address.value.query.get('threshold') ?? '';
  const answer = useAnswer<Events>(question('events', { count: 200 }));
  const { events = [], thresholds = {}, evicted = 0 } = answer.value ?? {};
  const sheet = {
    name: 'events',
    columns: COLUMNS,
    rows: events.filter(event => !wanted || event.thresholdID === wanted),
  };
  const rules = {
    name: 'thresholds',
    rows: Object.entries(thresholds).map(([name, threshold]) => ({ name, ...threshold })),
    columns: [
      {
        title: 'Threshold',
        value: (rule: { name: string }) => rule.name,
        text: (rule: { name: string }) => visible(rule.name, 40),
        view: (rule: { name: string }) => <a href={to('events', { threshold: rule.name })}>{visible(rule.name, 40)}</a>,
      },
      {
        title: 'Metric',
        value: (rule: { metric: string }) => rule.metric,
        text: (rule: { metric: string }) => visible(rule.metric, 40),
      },
      {
        title: 'Greater than',
        value: (rule: { value: number }) => rule.value,
        text: (rule: { value: number }) => scaled(rule.value, ''),
        numeric: true,
      },
      {
        title: 'Again after',
        value: (rule: { timeout: number }) => rule.timeout,
        text: (rule: { timeout: number }) => `${rule.timeout} s`,
        numeric: true,
      },
    ] as Shown<{ name: string; metric: string; value: number; timeout: number }>[],
  };
  return (
    <>
      <Panel
        wide
        title={wanted ? `Events of ${visible(wanted, 40)}` : 'Events'}
        answer={{ ...answer, value: {} }}
        about={evicted > 0 && `${count(evicted)} older ones are not kept any more.`}
        tools={
          <>
            {wanted && <a href={to('events')}>all</a>}
            <Save sheet={sheet} />
          </>
        }
      >
        <Table
          sheet={sheet}
          label="Events"
          id={event => String(event.eventID)}
          empty={answer.at ? 'No threshold was crossed.' : 'Waiting…'}
        />
      </Panel>
      <Panel wide title="Thresholds" answer={{ ...answer, value: {} }} tools={<Save sheet={rules} />}>
        <Table
          sheet={rules}
          label="Thresholds"
          id={rule => rule.name}
          empty={
            answer.at
              ? 'There is none: [threshold.NAME] in the configuration, or PUT /threshold/NAME/json.'
              : 'Waiting…'
          }
        />
      </Panel>
    </>
  );
}
