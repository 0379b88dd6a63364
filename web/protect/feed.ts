// The connection: who asks, what comes of it, and what is asked to be done. The token is a header of each request, never a cookie: no
// other page can make a browser send it.

import { signal } from '@preact/signals';
import { address } from '../ground/address';
import type { Frame } from './answers';

export type Link = 'unknown' | 'connecting' | 'live' | 'gone';

/** `unknown`: the server does not know the token, or none was given. */
export const connection = signal<{ state: Link; since: number; why: string }>({
  state: 'unknown',
  since: performance.now(),
  why: '',
});

/** The latest; absent before the first. */
export const frame = signal<Frame | undefined>(undefined);

/** When it came. */
export const heard = signal(0);

/** `performance.now()`, twice a second. */
export const now = signal(performance.now());

/** How long nothing may come before the server is thought gone, ms: it says something every second. */
const SILENCE = 4000;
const PAUSE = 1000;
const KEY = 'weir.protect.token';

let token = kept();
let reading: AbortController | undefined;
/** The attack that the connection tells all of. */
let followed = '';
let opening: ReturnType<typeof setTimeout> | undefined;

/** For this tab alone, until it is closed. */
function kept(): string {
  try {
    return sessionStorage.getItem(KEY) ?? '';
  } catch {
    // Storage is forbidden: it lasts as long as this page.
    return '';
  }
}

export function signIn(given: string): void {
  token = given.trim();
  try {
    if (token) sessionStorage.setItem(KEY, token);
    else sessionStorage.removeItem(KEY);
  } catch {
    // As above.
  }
  if (token) open(0);
  else leave('');
}

/** Forgets the token, and all that was shown. */
function leave(why: string): void {
  reading?.abort();
  reading = undefined;
  clearTimeout(opening);
  frame.value = undefined;
  become('unknown', why);
}

function become(state: Link, why = ''): void {
  if (connection.value.state !== state || connection.value.why !== why) {
    connection.value = { state, since: performance.now(), why };
  }
}

/** The attack that all is shown of. */
function wanted(): string {
  const { view, query } = address.value;
  return view === 'attack' ? (query.get('id') ?? '') : '';
}

function open(delay: number): void {
  clearTimeout(opening);
  opening = setTimeout(follow, delay);
}

async function follow(): Promise<void> {
  reading?.abort();
  const own = new AbortController();
  reading = own;
  heard.value = performance.now();
  if (connection.value.state === 'unknown') become('connecting');
  try {
    followed = wanted();
    const attack = followed;
    const answer = await ask(`/protect/live${attack ? `?attack=${encodeURIComponent(attack)}` : ''}`, own.signal);
    if (own !== reading) return;
    if (answer.status === 401 || answer.status === 429) {
      const why = await reason(answer);
      signIn('');
      leave(why);
      return;
    }
    if (!answer.ok || !answer.body) throw new Error(await reason(answer));
    await read(answer.body, own);
    // It ends where the token is no longer known: the next answer says so.
    if (own === reading) open(PAUSE / 4);
  } catch (error) {
    if (own !== reading || own.signal.aborted) return;
    become('gone', error instanceof Error ? error.message : '');
    open(PAUSE);
  }
}

async function read(body: ReadableStream<Uint8Array>, own: AbortController): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done || own !== reading) return;
    text += value;
    const events = text.split('\n\n');
    text = events.pop() ?? '';
    for (const event of events) {
      const data = /^data: (.*)$/m.exec(event)?.[1];
      if (!data) continue;
      heard.value = performance.now();
      frame.value = JSON.parse(data) as Frame;
      become('live');
    }
  }
}

function ask(path: string, abort?: AbortSignal, body?: string): Promise<Response> {
  return fetch(path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { Authorization: `Bearer ${token}` },
    cache: 'no-store',
    ...(abort ? { signal: abort } : {}),
    ...(body === undefined ? {} : { body }),
  });
}

async function reason(answer: Response): Promise<string> {
  try {
    return ((await answer.json()) as { error: string }).error;
  } catch {
    return `${answer.status} ${answer.statusText}`;
  }
}

/** What is there at a path; a sentence if there is nothing. */
export async function get<T>(path: string): Promise<{ value: T } | { problem: string }> {
  try {
    const answer = await ask(path);
    return answer.ok ? { value: (await answer.json()) as T } : { problem: await reason(answer) };
  } catch {
    return { problem: 'The analyser does not answer.' };
  }
}

/** Has something done; what was, or why not, in a sentence. */
export async function act(path: string, body = ''): Promise<{ done: string } | { problem: string }> {
  try {
    const answer = await ask(path, undefined, body);
    return answer.ok ? ((await answer.json()) as { done: string }) : { problem: await reason(answer) };
  } catch {
    return { problem: 'The analyser does not answer: whether it was done is not known.' };
  }
}

address.subscribe(() => {
  if (token && wanted() !== followed) open(0);
});

setInterval(() => {
  now.value = performance.now();
  if (connection.value.state === 'live' && performance.now() - heard.value > SILENCE) {
    become('gone', 'nothing came for some seconds');
    open(0);
  }
}, 500);

if (token) open(0);
