// What is called so: agents, interfaces, addresses of flows.

import { useEffect, useState } from 'preact/hooks';
import { address, to } from '../ground/address';
import type { Problem } from '../ground/connection/connection';
import { Panel } from '../ground/panel';
import { visible } from '../ground/text';
import { AgentLink, Troubles } from './agents';
import { type Found, rest } from './answers';
import { written } from './flows';
import { narrowed } from './presets';

export function SearchView() {
  const text = address.value.query.get('text') ?? '';
  const [found, setFound] = useState<{ at: number; value?: Found; problem?: Problem }>({ at: 0 });
  useEffect(() => {
    let left = false;
    setFound({ at: 0 });
    rest<Found>('GET', `/live/search?${new URLSearchParams({ text })}`).then(
      value => left || setFound({ at: performance.now(), value }),
      problem => left || setFound({ at: performance.now(), problem: problem as Problem }),
    );
    return () => {
      left = true;
    };
  }, [text]);
  const { value } = found;
  const state = { at: found.at, ...(found.problem ? { problem: found.problem } : {}) };
  const none = <p class="empty">{found.at ? 'None.' : 'Looking…'}</p>;
  const more = (is: boolean | undefined) => is && 'These are the first; there are more.';
  return (
    <>
      <Panel title={`Agents called “${visible(text, 40)}”`} answer={state} about={more(value?.agents.more)}>
        <ul class="found">
          {value?.agents.rows.map(row => (
            <li key={row.agent}>
              <AgentLink agent={row.agent} host={row.host} /> <Troubles troubles={row.troubles} />
            </li>
          ))}
        </ul>
        {!value?.agents.rows.length && none}
      </Panel>
      <Panel title="Interfaces" answer={state} about={more(value?.interfaces.more)}>
        <ul class="found">
          {value?.interfaces.rows.map(row => (
            <li key={`${row.agent} ${row.dataSource}`}>
              <a href={to('agent', { agent: row.agent })}>{visible(row.name)}</a>{' '}
              <small>
                ifIndex {row.dataSource} of {visible(row.host ?? row.agent)}
              </small>
            </li>
          ))}
        </ul>
        {!value?.interfaces.rows.length && none}
      </Panel>
      <Panel title="Flows" answer={state} about={more(value?.flows.more)}>
        <ul class="found">
          {value?.flows.rows.map(row => (
            <li key={`${row.name} ${row.keys.join(' ')}`}>
              <a href={to('flows', { keys: row.of, value: row.unit, filter: filterOf(row.of, row.keys, text) })}>
                {visible(row.keys.join(' → '))}
              </a>{' '}
              {written(row.unit)(row.value)}
            </li>
          ))}
        </ul>
        {!value?.flows.rows.length && none}
      </Panel>
    </>
  );
}

/** Only what has the key that was looked for. */
function filterOf(of: string, keys: string[], text: string): string | undefined {
  const at = keys.findIndex(key => key.toLowerCase().includes(text.trim().toLowerCase()));
  const key = of.split(',')[at];
  return key === undefined ? undefined : narrowed(undefined, key, keys[at] ?? '');
}
