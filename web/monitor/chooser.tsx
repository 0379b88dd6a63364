// All channels, by station: found, chosen, taken away.

import { useState } from 'preact/hooks';
import { count } from '../ground/quantity';
import { visible } from '../ground/text';
import { type Channel, catalog, inWords, states } from './feed';
import { chosen, MOST, toggle } from './view';

/** Channels of a station that are listed before one asks for all. */
const LISTED = 60;

export function Chooser() {
  const [text, setText] = useState('');
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (channel: Channel) => {
    const all =
      `${channel.station} ${channel.stream} ${channel.name} ${channel.unit} ${channel.description}`.toLowerCase();
    return words.every(word => all.includes(word));
  };
  const stations = new Map<string, Channel[]>();
  for (const channel of catalog.value.values()) {
    if (!matches(channel)) continue;
    const group = channel.stream === 'display' ? channel.station : `${channel.station} / ${channel.stream}`;
    stations.set(group, [...(stations.get(group) ?? []), channel]);
  }
  const on = new Set(chosen.value.map(channel => channel.id));
  const found = [...stations.values()].reduce((sum, channels) => sum + channels.length, 0);
  return (
    <aside class="chooser" aria-label="Signals to choose from">
      <input
        type="search"
        placeholder="Find a signal"
        aria-label="Find a signal"
        value={text}
        onInput={event => setText(event.currentTarget.value)}
      />
      <p class="about" aria-live="polite">
        {count(on.size)} of {count(catalog.value.size)} shown{words.length > 0 && `, ${count(found)} found`}
        {on.size >= MOST && `: no more than ${MOST} at once`}
      </p>
      {[...stations].map(([station, channels]) => (
        <Station key={station} station={station} channels={channels} on={on} isFound={words.length > 0} />
      ))}
      {catalog.value.size === 0 && (
        <p class="empty">
          No signal has come yet. <code>weir monitor station</code> sends some; <code>weir monitor check</code> says why
          none is heard.
        </p>
      )}
    </aside>
  );
}

interface Props {
  station: string;
  channels: Channel[];
  on: Set<string>;
  isFound: boolean;
}

function Station({ station, channels, on, isFound }: Props) {
  const [all, setAll] = useState(false);
  const ids = channels.map(channel => channel.id);
  const some = ids.some(id => on.has(id));
  const every = ids.every(id => on.has(id));
  const listed = all ? channels : channels.slice(0, LISTED);
  const known = states.value;
  const bad = ids.filter(id => known.get(id)?.alarm !== undefined && known.get(id)?.alarm !== 'none').length;
  const stale = ids.filter(id => known.get(id)?.stale).length;
  const name = visible(station, 60);
  return (
    <details open={isFound || some || catalog.value.size <= LISTED}>
      <summary>
        <b>{name}</b> <small>{count(channels.length)}</small>
        {bad > 0 && <span class="mark bad">{count(bad)}</span>}
        {stale > 0 && <span class="mark warn">{stale === ids.length ? 'stale' : `${count(stale)} stale`}</span>}
      </summary>
      <button type="button" class="quiet" onClick={() => toggle(ids, !every)}>
        {every ? 'none' : 'all'} of {name}
      </button>
      <ul>
        {listed.map(channel => {
          const alarm = known.get(channel.id)?.alarm ?? 'none';
          return (
            <li key={channel.id}>
              <label title={visible(channel.description, 300)}>
                <input
                  type="checkbox"
                  checked={on.has(channel.id)}
                  onChange={event => toggle([channel.id], event.currentTarget.checked)}
                />
                <span>{visible(channel.name, 60)}</span>
                {alarm !== 'none' && <span class="mark bad">{inWords(alarm)}</span>}
                <small>{visible(channel.unit, 16)}</small>
              </label>
            </li>
          );
        })}
      </ul>
      {listed.length < channels.length && (
        <button type="button" class="quiet" onClick={() => setAll(true)}>
          {count(channels.length - listed.length)} more
        </button>
      )}
    </details>
  );
}
