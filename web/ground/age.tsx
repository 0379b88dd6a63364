// How old what is shown is.

import { signal } from '@preact/signals';
import { connection } from './connection/live';
import { lasting } from './quantity';

/** `performance.now()`, twice a second. */
export const now = signal(performance.now());

setInterval(() => {
  now.value = performance.now();
}, 500);

/** Age after which what comes every second is late, ms. */
const LATE = 5000;

/**
 * The age of an answer that came at `at`, of what was `older` ms old already. Until there is one it says that it waits.
 */
export function Age({ at, older = 0 }: { at: number; older?: number }) {
  if (at === 0) return <span class="age">waiting…</span>;
  const silence = Math.max(0, now.value - at);
  const late = silence > LATE || connection.value.state === 'gone';
  return <span class={late ? 'age late' : 'age'}>{lasting(silence + older)} old</span>;
}
