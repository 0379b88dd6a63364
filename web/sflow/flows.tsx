// Flows: what is largest, over time and now, with its interval. A click on a key narrows.

import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { address, go, here, question, to } from '../ground/address';
import { History, type Stack } from '../ground/chart/history';
import { partColour, StackChart } from '../ground/chart/stack';
import { useAnswer } from '../ground/connection/live';
import { Panel } from '../ground/panel';
import { between, bits, count, counted, lasting, scaled } from '../ground/quantity';
import { Save, type Shown, Table } from '../ground/table';
import { visible } from '../ground/text';
import { Swatch } from '../ground/theme';
import type { Flow, Flows } from './answers';
import { DefinitionForm } from './definition';
import { type Asked, CONVERSATIONS, keyTitle, narrowed, PRESETS } from './presets';

/** How values of a definition are written. */
export function written(value: string | undefined): (value: number | undefined | null) => string {
  const [of = 'bytes', mean] = (value ?? 'bytes').split(':').reverse();
  if (of.endsWith('bytes') && !mean) return bits;
  if (of === 'queuedepth') return number => scaled(number, 'B');
  if (of === 'transitdelay') return number => scaled(typeof number === 'number' ? number / 1000 : number, 'µs');
  return mean ? number => scaled(number, '') : number => scaled(number, '/s');
}

interface Props {
  title: string;
  asked: Asked;
  wide?: boolean;
  chart?: boolean;
  about?: ComponentChildren;
  tools?: ComponentChildren;
}

export function FlowPanel({ title, asked, wide = false, chart = true, about, tools }: Props) {
  const answer = useAnswer<Flows>(question('flows', { ...asked }));
  const stack = useStack(question('flows', { ...asked }), answer.value, answer.at);
  const canvas = useRef<HTMLCanvasElement | null>(null);
  // Means do not add up to a whole.
  const isMean = (answer.value?.definition.value ?? asked.value ?? '').startsWith('avg:');
  const isDrawn = chart && !isMean;
  const format = written(answer.value?.definition.value ?? asked.value);
  const sheet = {
    name: title.toLowerCase(),
    columns: columns(asked, answer.value, format, isDrawn ? stack : undefined),
    rows: answer.value?.flows ?? [],
    ...(isDrawn ? { mark: (flow: Flow) => colourOf(flow, stack) } : {}),
  };
  const others = answer.value?.others;
  const silent = sheet.rows.filter(flow => flow.stale);
  return (
    <Panel
      title={title}
      wide={wide}
      answer={answer.problem ? { problem: answer.problem, at: answer.at } : { at: answer.at }}
      about={about}
      tools={
        <>
          {tools}
          <Save sheet={sheet} drawing={() => (isDrawn ? canvas.current : null)} />
        </>
      }
    >
      {isDrawn && (
        <StackChart
          stack={stack}
          format={format}
          label={`${title} over the last five minutes`}
          canvas={made => {
            canvas.current = made;
          }}
        />
      )}
      {silent.length > 0 && (
        <p class="about warn">
          The agents of {counted(silent.length, 'flow')} here have fallen silent: what{' '}
          {silent.length === 1 ? 'it carries' : 'they carry'} now is not known.
        </p>
      )}
      <Table
        sheet={sheet}
        label={title}
        id={flow => flow.keys.join(' ')}
        empty={answer.at ? 'No such packets were sampled of late.' : 'Waiting…'}
      />
      {others && others.flows > 0 && (
        <p class="about">
          {answer.value?.more ? 'At least ' : ''}
          {count(others.flows)} more{isMean ? '' : `, ${format(others.value)} together`}.
        </p>
      )}
    </Panel>
  );
}

interface Past {
  at: number;
  history: History;
  stack: Stack;
}

/** What was told of the questions that were asked last, so that a view one comes back to goes on. */
const pasts = new Map<string, Past>();

/** Questions whose past is kept. */
const PASTS = 12;

/** What the answers to a question were over time. */
function useStack(asked: string, value: Flows | undefined, at: number): Stack {
  const past = pastOf(asked);
  if (value && at > past.at) {
    const means = value.definition.value?.startsWith('avg:') ?? false;
    const parts = value.flows.map(flow => ({ key: flow.keys.join('\u001f'), value: flow.value }));
    past.history.add((performance.timeOrigin + at) / 1000, parts, means ? 0 : value.others.value);
    past.at = at;
    past.stack = past.history.stack();
  }
  return past.stack;
}

function pastOf(asked: string): Past {
  const known = pasts.get(asked);
  if (known) return known;
  const history = new History();
  const made = { at: 0, history, stack: history.stack() };
  pasts.set(asked, made);
  for (const oldest of pasts.keys()) {
    if (pasts.size <= PASTS) break;
    pasts.delete(oldest);
  }
  return made;
}

type Format = (value: number | undefined | null) => string;

function columns(asked: Asked, value: Flows | undefined, format: Format, stack: Stack | undefined): Shown<Flow>[] {
  const keys = (value?.definition.keys ?? asked.keys ?? '').split(',').filter(key => key);
  const most = Math.max(...(value?.flows ?? []).map(flow => flow.high ?? flow.value), 0);
  const narrow = (flow: Flow, index: number) => {
    const [key, text] = [keys[index] ?? '', flow.keys[index] ?? ''];
    const { name, keys: _, ...rest } = asked;
    const definition = { ...rest, keys: keys.join(','), value: value?.definition.value, count: undefined };
    const filter = narrowed(value?.definition.filter ?? asked.filter, key, text);
    const dropped = value?.definition.dropped ? '1' : undefined;
    return to('flows', { ...definition, filter, dropped });
  };
  const of = keys.map((key, index) => ({
    title: keyTitle(key),
    value: (flow: Flow) => flow.keys[index] ?? '',
    text: (flow: Flow) => visible(flow.keys[index] ?? ''),
    view: (flow: Flow) => (
      <>
        {index === 0 && stack && <Swatch colour={colourOf(flow, stack)} />}
        <a href={narrow(flow, index)} title="Show only this">
          {visible(flow.keys[index] ?? '', 60)}
        </a>
      </>
    ),
  }));
  return [
    ...of,
    {
      title: 'Now',
      csv: `${value?.definition.value ?? 'bytes'} now`,
      value: (flow: Flow) => (flow.stale ? undefined : flow.value),
      text: (flow: Flow) => (flow.stale ? `silent for ${lasting(flow.lastUpdate)}` : format(flow.value)),
      numeric: true,
    },
    {
      title: '95 % between',
      csv: 'low',
      value: (flow: Flow) => (flow.stale ? undefined : flow.low),
      text: (flow: Flow) =>
        !flow.stale && typeof flow.low === 'number' ? between(format(flow.low), format(flow.high)) : '–',
      view: (flow: Flow) => <Interval flow={flow} most={most} format={format} />,
      numeric: true,
    },
    { title: 'high', value: (flow: Flow) => (flow.stale ? undefined : flow.high), hidden: true },
    {
      title: 'Samples',
      value: (flow: Flow) => flow.samples,
      // Of a mean it is not known.
      text: (flow: Flow) => (typeof flow.low === 'number' ? count(flow.samples) : '–'),
      numeric: true,
      minor: true,
    },
  ];
}

/** The name of the colour that a flow has in the chart. */
function colourOf(flow: Flow, stack: Stack): string {
  const part = stack.parts.find(part => part.key === flow.keys.join('\u001f'));
  return part ? partColour(part.slot) : 'part-others';
}

function Interval({ flow, most, format }: { flow: Flow; most: number; format: Format }) {
  if (flow.stale || typeof flow.low !== 'number' || typeof flow.high !== 'number') return <>–</>;
  const at = (value: number) => (most > 0 ? (value / most) * 80 : 0);
  return (
    <span class="drawn">
      <svg class="interval" width="80" height="10" aria-hidden="true">
        <rect class="range" x={at(flow.low)} y="2" width={Math.max(1, at(flow.high) - at(flow.low))} height="6" />
        <rect class="value" x={at(flow.value)} y="0" width="2" height="10" />
      </svg>
      <span>{between(format(flow.low), format(flow.high))}</span>
    </span>
  );
}

/** What an address asks. */
function askedHere(): Asked {
  const query = address.value.query;
  const get = (key: string) => query.get(key) ?? undefined;
  const asked: Asked = {
    name: get('name'),
    keys: get('keys'),
    value: get('value'),
    filter: get('filter'),
    t: get('t'),
    dropped: get('dropped'),
    agent: get('agent'),
    count: 20,
  };
  return asked.name ? asked : { ...asked, keys: asked.keys ?? CONVERSATIONS, value: asked.value ?? 'bytes' };
}

export function FlowsView() {
  const asked = askedHere();
  const open = address.value.query.has('define');
  const preset = PRESETS.find(preset => preset.keys === asked.keys && !asked.name);
  const title = asked.name ? `Flows of ${visible(asked.name, 40)}` : (preset?.title ?? 'Flows');
  const { name, count: _, ...definition } = asked;
  return (
    <>
      <nav class="controls" aria-label="What flows are told apart by">
        {PRESETS.map(({ title, keys }) => (
          <a
            key={title}
            class="choice"
            aria-current={preset?.title === title ? 'true' : undefined}
            href={to('flows', { ...definition, keys })}
          >
            {title}
          </a>
        ))}
        <button
          type="button"
          class="choice"
          aria-expanded={open}
          onClick={() => go(here({ define: open ? undefined : '1' }))}
        >
          Define…
        </button>
      </nav>
      {(asked.filter || asked.agent) && (
        <p class="controls">
          Only
          {asked.agent && (
            <a class="chip" href={to('flows', { ...definition, agent: undefined })} title="Show all agents again">
              seen by {visible(asked.agent, 40)} ×
            </a>
          )}
          {asked.filter && (
            <a class="chip" href={to('flows', { ...definition, filter: undefined })} title="Take the filter away">
              {visible(asked.filter, 160)} ×
            </a>
          )}
        </p>
      )}
      {open && <DefinitionForm key={JSON.stringify(definition)} asked={{ ...asked, name }} />}
      <FlowPanel wide title={title} asked={asked} />
    </>
  );
}
