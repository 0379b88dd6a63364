// The connection to a server, or to another of the same feed when it is gone; and what came of it.

import { signal } from '@preact/signals';
import { Series } from './series';
import { type Block, type Cause, read, sinceBase } from './wire';

export interface Channel {
  /** What it is called everywhere: station/stream/name, each escaped. Keys are a server's own. */
  id: string;
  key: number;
  station: string;
  stream: string;
  name: string;
  unit: string;
  description: string;
  origin: string;
  /** Made here of others: what it lacks they lack. */
  derived: boolean;
  rate_hz: number;
  scale: number;
  offset: number;
  display: [number | null, number | null];
  /** Very low, low, high, very high. */
  limits: [number | null, number | null, number | null, number | null];
}

export type Alarm = 'none' | 'very_low' | 'low' | 'high' | 'very_high';

/** As people say it. */
export const inWords = (alarm: Alarm) => alarm.replace('_', ' ');

export interface State {
  key: number;
  alarm: Alarm;
  stale: boolean;
  since_ms: number;
  /** The worst alarm that nobody has acknowledged; it stays when it is over. */
  unacknowledged: Alarm;
  /** Who has acknowledged the alarm that there is. */
  acknowledged: { by: string; time_ms: number } | null;
}

export interface Happening {
  id: number;
  time_ms: number;
  severity: 'info' | 'minor' | 'major';
  station: string;
  channel: string;
  kind: string;
  text: string;
  remedy: string | null;
}

/** What is to be seen. */
export interface Wanted {
  ids: string[];
  columns: number;
  span: number;
  /** ms since 1970; absent: now. */
  from?: number | undefined;
}

/** Where samples were lost, and what to do. */
interface Words {
  place: string;
  remedy: string;
  /** Whether something was lost, and not only not taken. */
  loss: boolean;
}

interface Told {
  hello?: { version: string; peers: string[]; read_only: boolean; causes: Record<Cause, Words> };
  channels?: Omit<Channel, 'id'>[];
  states?: State[];
  events?: Happening[];
  clock?: { time_ms: number };
  begin?: { ask: number; feeds: { key: number; bucket: number; first: number }[] };
  whole?: { ask: number; keys: number[] };
}

export const connection = signal<{
  state: 'connecting' | 'live' | 'gone';
  since: number;
  server: string;
  /** Whether nothing can be acknowledged there. */
  isReadOnly: boolean;
}>({
  state: 'connecting',
  since: performance.now(),
  server: location.host,
  isReadOnly: true,
});

/** By id, in the order in which the server has them. */
export const catalog = signal<Map<string, Channel>>(new Map());
export const states = signal<Map<string, State>>(new Map());
/** The newest first. */
export const events = signal<Happening[]>([]);

/** As the server has told them. */
export let causes: Partial<Record<Cause, Words>> = {};

/** What is shown of each channel. */
export const shown = new Map<string, Series>();

/** Grows when a series is another than before. */
export const replaced = signal(0);

/** How long nothing may come before the server is thought gone, ms: it says something every second. */
const SILENCE = 2500;
const PAUSE = 500;
const MOST_EVENTS = 500;

const coming = new Map<string, Series>();
let byKey: Channel[] = [];
let servers = [location.origin];
let server = 0;
let socket: WebSocket | undefined;
let heard = 0;
let tries = 0;
let asked = 0;
let wanted: Wanted | undefined;
let sent = '';
let begun = 0;
let clockOffset: number | undefined;
const arrivals: ((end: number, now: number) => void)[] = [];

/** Calls back with the time of the newest sample whenever there are new ones. */
export function onArrival(call: (end: number, now: number) => void): void {
  arrivals.push(call);
}

export function idOf(channel: { station: string; stream: string; name: string }): string {
  return [channel.station, channel.stream, channel.name].map(encodeURIComponent).join('/');
}

/** The server's time, ms since 1970; before it has told, this machine's. */
export function serverTime(now = performance.now()): number {
  return now + (clockOffset ?? performance.timeOrigin);
}

/** Whether all that was wanted is there. */
export function isWhole(): boolean {
  return socket?.readyState === WebSocket.OPEN && asked === begun && coming.size === 0;
}

/** Wants to see that from now on. */
export function want(next: Wanted): void {
  wanted = next;
  ask();
}

function ask(): void {
  if (!wanted || socket?.readyState !== WebSocket.OPEN) return;
  const keys = wanted.ids.map(id => catalog.value.get(id)?.key).filter(key => key !== undefined);
  const { columns, span, from } = wanted;
  const hidden = document.hidden && from === undefined;
  const text = { watch: hidden ? [] : keys, columns, span_ms: span, ...(from === undefined ? {} : { from_ms: from }) };
  const next = JSON.stringify(text);
  if (next === sent) return;
  sent = next;
  asked += 1;
  socket.send(JSON.stringify({ ask: asked, ...text }));
  const ids = new Set(wanted.ids);
  for (const id of [...shown.keys()]) if (!ids.has(id)) shown.delete(id);
  for (const id of [...coming.keys()]) if (!ids.has(id)) coming.delete(id);
}

function connect(): void {
  const origin = servers[server % servers.length] ?? location.origin;
  const opened = new WebSocket(`${origin.replace(/^http/, 'ws')}/live`);
  opened.binaryType = 'arraybuffer';
  socket = opened;
  heard = performance.now();
  opened.addEventListener('message', event => {
    if (opened !== socket) return;
    heard = performance.now();
    if (typeof event.data === 'string') told(JSON.parse(event.data) as Told, origin);
    else data(event.data as ArrayBuffer);
  });
  opened.addEventListener('close', () => opened === socket && lose());
}

function lose(): void {
  socket?.close();
  socket = undefined;
  sent = '';
  coming.clear();
  if (connection.value.state !== 'gone') {
    connection.value = { ...connection.value, state: 'gone', since: performance.now() };
  }
  // At once to the other, if there is one; round all of them at leisure.
  server += 1;
  tries += 1;
  setTimeout(connect, tries < servers.length ? 0 : PAUSE);
}

function told(message: Told, origin: string): void {
  if (message.hello) {
    servers = [...new Set([location.origin, origin, ...message.hello.peers])];
    server = servers.indexOf(origin);
    tries = 0;
    byKey = [];
    catalog.value = new Map();
    states.value = new Map();
    events.value = [];
    const { read_only: isReadOnly } = message.hello;
    ({ causes } = message.hello);
    connection.value = { state: 'live', since: performance.now(), server: new URL(origin).host, isReadOnly };
  }
  if (message.channels) {
    const next = new Map(catalog.value);
    for (const told of message.channels) {
      const channel = { ...told, id: idOf(told) };
      byKey[told.key] = channel;
      next.set(channel.id, channel);
    }
    catalog.value = next;
    ask();
  }
  if (message.states) {
    const next = new Map(states.value);
    for (const state of message.states) {
      const id = byKey[state.key]?.id;
      if (id) next.set(id, state);
    }
    states.value = next;
  }
  if (message.events) {
    // By the time at which it happened: what is told late is not new.
    const all = [...message.events, ...events.value];
    events.value = all.sort((one, other) => other.time_ms - one.time_ms || other.id - one.id).slice(0, MOST_EVENTS);
  }
  if (message.clock) clockOffset = message.clock.time_ms - performance.now();
  if (message.begin) begun = message.begin.ask;
  for (const { key, bucket } of message.begin?.feeds ?? []) {
    const channel = byKey[key];
    if (channel) coming.set(channel.id, new Series(bucket, channel.scale, channel.offset));
  }
  for (const key of message.whole?.keys ?? []) {
    const id = byKey[key]?.id;
    const series = id && coming.get(id);
    if (!series) continue;
    shown.set(id, series);
    coming.delete(id);
    replaced.value += 1;
  }
}

function data(buffer: ArrayBuffer): void {
  let newest = Number.NEGATIVE_INFINITY;
  const take = (block: Block) => {
    const id = byKey[block.key]?.id;
    const series = id === undefined ? undefined : (coming.get(id) ?? shown.get(id));
    series?.append(block);
    if (series) newest = Math.max(newest, series.end);
  };
  read(buffer, take);
  const now = performance.now();
  if (newest > Number.NEGATIVE_INFINITY) for (const call of arrivals) call(newest, now);
}

/** Somebody has seen the alarms of channels: said to all servers of this feed, each of which watches by itself. */
export async function acknowledge(channels: Channel[], by: string): Promise<void> {
  const say = async (origin: string, { id, station, stream, name: channel }: Channel) => {
    const alarm = states.value.get(id)?.unacknowledged ?? 'none';
    if (alarm === 'none') return;
    const query = new URLSearchParams({ station, stream, channel, by, alarm });
    const answer = await fetch(`${origin}/acknowledge?${query}`, { method: 'POST' });
    // What is over there by now, or was never there, is fine.
    if (!answer.ok && answer.status !== 404 && answer.status !== 409) throw new Error((await answer.json()).error);
  };
  const [first, ...others] = [...servers.slice(server % servers.length), ...servers.slice(0, server % servers.length)];
  if (first === undefined) return;
  // Where this page is connected it has to be heard; others may be gone.
  const told = channels.map(channel => say(first, channel));
  await Promise.allSettled(others.flatMap(origin => channels.map(channel => say(origin, channel))));
  await Promise.all(told);
}

/** How old the newest sample of a channel is, ms; absent: there is none. */
export function ageOf(series: Series | undefined): number | undefined {
  if (!series || series.end === Number.NEGATIVE_INFINITY) return undefined;
  return Math.max(0, sinceBase(serverTime()) - series.end);
}

setInterval(() => {
  if (socket && performance.now() - heard > SILENCE) lose();
}, SILENCE / 5);

document.addEventListener('visibilitychange', ask);
connect();
