// Alarms are acknowledged: by whom is asked once, and known from then on.

import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { visible } from '../ground/text';
import { acknowledge, type Channel, catalog, connection, inWords, states } from './feed';

const KEY = 'weir-monitor-name';

/** Why the last one was not carried out. */
export const refusal = signal('');

/** Channels with an alarm that nobody has acknowledged. */
export function owed(): Channel[] {
  const found = [...states.value].filter(([, state]) => state.unacknowledged !== 'none');
  return found.map(([id]) => catalog.value.get(id)).filter(channel => channel !== undefined);
}

/** What is to be acknowledged as soon as it is known by whom. */
const asking = signal<Channel[]>([]);

/** Says that their alarms are seen. */
async function say(channels: Channel[]): Promise<void> {
  const name = read();
  if (!name) {
    asking.value = channels;
    return;
  }
  try {
    await acknowledge(channels, name);
    refusal.value = '';
  } catch (error) {
    refusal.value = error instanceof Error ? error.message : String(error);
    // Perhaps the name was to blame.
    write('');
  }
}

/** Who acknowledges: asked where nobody has said so. */
export function Acknowledger() {
  const [name, setName] = useState('');
  if (asking.value.length === 0) return null;
  const submit = (event: Event) => {
    event.preventDefault();
    if (!name.trim()) return;
    write(name.trim());
    const channels = asking.value;
    asking.value = [];
    say(channels);
  };
  return (
    <form class="acknowledger" onSubmit={submit}>
      <label>
        Your name, which everybody sees and the log keeps{' '}
        <input
          name="by"
          maxLength={30}
          autoComplete="nickname"
          value={name}
          onInput={event => setName(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="choice">
        Acknowledge
      </button>
      <button
        type="button"
        class="quiet"
        onClick={() => {
          asking.value = [];
        }}
      >
        Cancel
      </button>
    </form>
  );
}

export function AcknowledgeButton({ channels, label }: { channels: Channel[]; label: string }) {
  if (connection.value.isReadOnly || channels.length === 0) return null;
  const [one] = channels;
  const what = channels.length === 1 && one ? visible(`${one.station} ${one.name}`, 80) : `${channels.length} signals`;
  return (
    <button type="button" class="quiet acknowledge" aria-label={`Acknowledge ${what}`} onClick={() => say(channels)}>
      {label}
    </button>
  );
}

/** What of a signal's alarms is to be acknowledged, or by whom it was. */
export function Acknowledged({ channel }: { channel: Channel }) {
  const state = states.value.get(channel.id);
  if (!state) return null;
  const { alarm, unacknowledged, acknowledged } = state;
  return (
    <>
      {unacknowledged !== 'none' && unacknowledged !== alarm && (
        <span class={`mark was ${unacknowledged.startsWith('very') ? 'bad' : 'warn'}`}>
          was {inWords(unacknowledged)}
        </span>
      )}
      {unacknowledged !== 'none' && <AcknowledgeButton channels={[channel]} label="acknowledge" />}
      {acknowledged && <span class="mark">seen by {visible(acknowledged.by, 60)}</span>}
    </>
  );
}

function read(): string {
  try {
    return localStorage.getItem(KEY) ?? '';
  } catch {
    return '';
  }
}

function write(name: string): void {
  try {
    localStorage.setItem(KEY, name);
  } catch {
    // It is asked for again.
  }
}
