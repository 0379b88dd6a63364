// A flow definition: written, tried at once, and taken away as configuration.

import { useEffect, useRef, useState } from 'preact/hooks';
import { address, go, to } from '../ground/address';
import type { Problem } from '../ground/connection/connection';
import { Panel } from '../ground/panel';
import { rest } from './answers';
import type { Asked } from './presets';

/** The definition as the configuration has it. */
export function toml(name: string, asked: Asked): string {
  // Basic strings of TOML are those of JSON, but for the delete.
  const text = (value: string) => JSON.stringify(value).replaceAll('\u007f', '\\u007f');
  const bare = /^[A-Za-z0-9_-]+$/.test(name) ? name : text(name);
  const lines = [`[flow.${bare}]`];
  for (const key of ['keys', 'value', 'filter'] as const) {
    const value = asked[key];
    if (value) lines.push(`${key} = ${text(value)}`);
  }
  if (asked.t) lines.push(`t = ${Number(asked.t)}`);
  if (asked.dropped) lines.push('dropped = true');
  return `${lines.join('\n')}\n`;
}

export function DefinitionForm({ asked }: { asked: Asked }) {
  const [draft, setDraft] = useState(asked);
  const [name, setName] = useState(asked.name ?? drafted() ?? 'mine');
  const [said, setSaid] = useState<{ text: string; problem?: Problem }>();
  const keys = useKeys();
  const text = useRef<HTMLTextAreaElement>(null);
  const field = (key: 'keys' | 'value' | 'filter' | 't', label: string, hint: string) => (
    <label>
      {label}
      <input
        type="text"
        name={key}
        value={draft[key] ?? ''}
        placeholder={hint}
        spellcheck={false}
        autocomplete="off"
        {...(key === 'keys' ? { list: 'flow-keys' } : {})}
        onInput={event => setDraft({ ...draft, [key]: event.currentTarget.value || undefined })}
      />
    </label>
  );
  const copy = async () => {
    text.current?.select();
    try {
      await navigator.clipboard.writeText(toml(name, draft));
      setSaid({ text: 'Copied.' });
    } catch {
      setSaid({ text: 'It is selected: copy it by the keyboard.' });
    }
  };
  const keep = async () => {
    const { keys, value, filter, t, dropped } = draft;
    const definition = { keys, value, filter, ...(t ? { t: Number(t) } : {}), ...(dropped ? { dropped: true } : {}) };
    try {
      await rest('PUT', `/flow/${encodeURIComponent(name)}/json`, definition);
      setSaid({ text: `It is kept as ${name}.` });
    } catch (problem) {
      setSaid({ text: '', problem: problem as Problem });
    }
  };
  const attempt = (event: SubmitEvent) => {
    event.preventDefault();
    const { name: _, count: __, ...definition } = draft;
    go(to('flows', { ...definition, define: name }));
  };
  return (
    <Panel
      wide
      title="Define flows"
      about="Keys tell flows apart, the value is summed by the second, the filter says which packets count."
    >
      <form class="definition" onSubmit={attempt}>
        {field('keys', 'Keys', 'ipsource,ipdestination')}
        {field('value', 'Value', 'bytes')}
        {field('filter', 'Filter', 'ipprotocol=6&tcpdestinationport=80,443')}
        {field('t', 'Smoothing, s', '2')}
        <label class="check">
          <input
            type="checkbox"
            checked={Boolean(draft.dropped)}
            onChange={event => setDraft({ ...draft, dropped: event.currentTarget.checked ? '1' : undefined })}
          />
          discarded packets
        </label>
        <button type="submit">Try</button>
        <datalist id="flow-keys">
          {keys.map(key => (
            <option key={key} value={key} />
          ))}
        </datalist>
      </form>
      <div class="definition">
        <label>
          Name
          <input type="text" name="name" value={name} onInput={event => setName(event.currentTarget.value)} />
        </label>
        <label class="toml">
          Configuration
          <textarea ref={text} readOnly rows={6} value={toml(name, draft)} />
        </label>
        <button type="button" onClick={copy}>
          Copy
        </button>
        <button type="button" onClick={keep}>
          Keep
        </button>
      </div>
      <p role="status">{said?.text}</p>
      {said?.problem && (
        <div class="problem" role="alert">
          <p>{said.problem.error}</p>
          {said.problem.caret && <pre>{`${said.problem.text}\n${said.problem.caret}`}</pre>}
        </div>
      )}
    </Panel>
  );
}

/** The name that was typed before the definition was tried. */
function drafted(): string | undefined {
  const name = address.value.query.get('define');
  return name && name !== '1' ? name : undefined;
}

/** Names of keys that samples have had. */
function useKeys(): string[] {
  const [keys, setKeys] = useState<string[]>([]);
  useEffect(() => {
    rest<Record<string, number>>('GET', '/flowkeys/json').then(
      known => setKeys(Object.keys(known)),
      // They are a help, no more.
      () => setKeys([]),
    );
  }, []);
  return keys;
}
