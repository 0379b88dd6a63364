// What several views show: panels, marks, buttons that ask twice.

import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { visible } from '../ground/text';
import type { Row } from './answers';
import { act, frame, get, now } from './feed';

export function Panel({
  title,
  tools,
  about,
  wide = false,
  children,
}: {
  title: string;
  tools?: ComponentChildren;
  about?: ComponentChildren;
  wide?: boolean;
  children: ComponentChildren;
}) {
  return (
    <section class={wide ? 'panel wide' : 'panel'} aria-label={title}>
      <header>
        <h2>{title}</h2>
        <span class="spring" />
        {tools}
      </header>
      {about && <p class="about">{about}</p>}
      {children}
    </section>
  );
}

const PHASES = {
  seen: ['seen', 'warn'],
  pending: ['waits for you', 'bad'],
  active: ['announced', 'on'],
  unreachable: ['unreachable by BGP', 'bad'],
  fading: ['fading', 'on'],
  over: ['over', ''],
} as const;

/** Limits that are nobody's fault. */
const REFUSED: Record<string, string> = {
  observe: 'observed only',
  withdrawn: 'withdrawn by a person',
  stopped: 'stopped',
};

/** Where an attack stands, and why nothing is done about it. */
export function Marks({ row }: { row: Row }) {
  const [text, kind] = PHASES[row.phase];
  const missing = row.phase === 'active' && row.installed < row.routes;
  return (
    <>
      <span class={`mark ${kind}`}>{text}</span>
      {row.doubts > 0 && <span class="mark warn">doubted</span>}
      {row.refused && <span class="mark warn">{REFUSED[row.refused] ?? `refused: ${visible(row.refused)}`}</span>}
      {missing && (
        <span class="mark bad">
          {row.installed} of {row.routes} installed
        </span>
      )}
    </>
  );
}

export function classed(name: string): string {
  return name.replaceAll('_', ' ');
}

/** How long ago, by the server's clock. */
export function since(ms: number): number {
  now.value;
  const state = frame.value?.state;
  return state ? Math.max(0, state.now_ms - ms) : 0;
}

/** What became of the last thing that somebody asked for. */
export function useDone() {
  const done = useSignal<{ text: string; bad: boolean } | undefined>(undefined);
  const run = async (path: string, body?: string) => {
    const answer = await act(path, body);
    done.value = 'done' in answer ? { text: answer.done, bad: false } : { text: answer.problem, bad: true };
  };
  return { done, run };
}

/** A button that asks again, and says what would happen. */
export function Careful({
  text,
  question,
  kind = '',
  run,
}: {
  text: string;
  question: ComponentChildren;
  kind?: string;
  run: () => Promise<void>;
}) {
  const asks = useSignal(false);
  const busy = useSignal(false);
  if (frame.value?.role !== 'act') return null;
  const sure = async () => {
    busy.value = true;
    await run();
    busy.value = false;
    asks.value = false;
  };
  return (
    <span class="careful">
      <button type="button" class={kind} aria-expanded={asks.value} onClick={() => (asks.value = !asks.value)}>
        {text}
      </button>
      {asks.value && (
        // biome-ignore lint/a11y/useSemanticElements: no set of fields
        <span class="sure" role="group" aria-label={text}>
          <span>{question}</span>
          <button type="button" class={kind || 'go'} disabled={busy.value} onClick={sure}>
            Yes, {text.toLowerCase()}
          </button>
          <button type="button" onClick={() => (asks.value = false)}>
            No
          </button>
        </span>
      )}
    </span>
  );
}

/** What there is at a path, asked again every few seconds. */
export function useAsked<T>(path: string) {
  const asked = useSignal<{ value: T } | { problem: string } | undefined>(undefined);
  useEffect(() => {
    let shown = true;
    const look = async () => {
      if (document.hidden) return;
      const answer = await get<T>(path);
      if (shown) asked.value = answer;
    };
    void look();
    const timer = setInterval(look, 3000);
    return () => {
      shown = false;
      clearInterval(timer);
    };
  }, [path]);
  return asked.value;
}
