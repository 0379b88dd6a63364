// How much of each interface is used: a row an agent, the busiest first.

import { address, question } from '../ground/address';
import { useAnswer } from '../ground/connection/live';
import { Panel } from '../ground/panel';
import { count, percent } from '../ground/quantity';
import { Save } from '../ground/table';
import { visible } from '../ground/text';
import { AgentLink, Find } from './agents';
import type { Heat, Port } from './answers';

/** The greater utilisation of both directions, per cent. */
export function used(port: Port): number | undefined {
  const known = [port.ifinutilization, port.ifoututilization].filter(share => share !== undefined);
  return known.length > 0 ? Math.max(...known) : undefined;
}

const STEPS = [0.1, 1, 5, 10, 20, 40, 60, 80, 95];

const heat = (step: number) => ({ background: `var(--heat-${step})` });

/** What a cell looks like. */
function cell(share: number | undefined) {
  if (share === undefined) return { class: 'unknown' };
  const above = STEPS.findIndex(edge => share < edge);
  return { style: heat(above < 0 ? STEPS.length : above) };
}

type Row = Heat['rows'][number];

export function HeatMap({ rows }: { rows: Row[] }) {
  return (
    <ul class="heat" aria-label="Utilisation of interfaces by agent">
      {rows.map(row => {
        const busiest = [...row.ports].sort((a, b) => (used(b) ?? -1) - (used(a) ?? -1))[0];
        return (
          <li key={row.agent} data-id={row.agent}>
            <span class="who">
              <AgentLink agent={row.agent} host={row.host} />
            </span>
            <span class="cells" aria-hidden="true">
              {row.ports.map(port => (
                <i
                  key={port.dataSource}
                  {...cell(used(port))}
                  title={`${visible(port.name ?? `ifIndex ${port.dataSource}`)}: in ${percent(port.ifinutilization)}, out ${percent(port.ifoututilization)}`}
                />
              ))}
            </span>
            <span class="most">
              {busiest && (
                <>
                  {percent(used(busiest))} <small>{visible(busiest.name ?? `ifIndex ${busiest.dataSource}`, 24)}</small>
                </>
              )}
            </span>
          </li>
        );
      })}
    </ul>
  );
}

export function HeatView() {
  const find = address.value.query.get('find') ?? '';
  const answer = useAnswer<Heat>(question('heat', { find }));
  const { rows = [], matched = 0 } = answer.value ?? {};
  const ports = rows.flatMap(row => row.ports.map(port => ({ ...port, agent: row.agent, host: row.host })));
  type Cell = (typeof ports)[number];
  const sheet = {
    name: 'utilisation',
    rows: ports,
    columns: [
      { title: 'agent', value: (port: Cell) => port.agent },
      { title: 'host', value: (port: Cell) => port.host, text: (port: Cell) => visible(port.host ?? '') },
      { title: 'ifIndex', value: (port: Cell) => port.dataSource },
      { title: 'interface', value: (port: Cell) => port.name, text: (port: Cell) => visible(port.name ?? '') },
      {
        title: 'in %',
        value: (port: Cell) => port.ifinutilization,
        text: (port: Cell) => percent(port.ifinutilization),
        numeric: true,
      },
      {
        title: 'out %',
        value: (port: Cell) => port.ifoututilization,
        text: (port: Cell) => percent(port.ifoututilization),
        numeric: true,
      },
    ],
  };
  return (
    <Panel
      wide
      title="How much of each interface is used"
      answer={answer}
      tools={<Save sheet={sheet} />}
      about={
        matched > rows.length && `The ${count(rows.length)} agents with the busiest interfaces, of ${count(matched)}.`
      }
    >
      <div class="controls">
        <Find value={find} label="Find agents by name or address" />
        <span class="spring" />
        <span class="scale" aria-hidden="true">
          0 %
          {['', ...STEPS].map((edge, index) => (
            <i key={edge} style={heat(index)} title={edge === '' ? 'less than 0.1 %' : `${edge} % and more`} />
          ))}
          100 %
        </span>
      </div>
      {rows.length === 0 ? (
        <p class="empty">{answer.at ? 'No agent is called so.' : 'Waiting…'}</p>
      ) : (
        <HeatMap rows={rows} />
      )}
    </Panel>
  );
}
