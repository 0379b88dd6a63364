// What all plots have in common: the window of time, and the loop that draws them as often as the screen is renewed.

import { effect, type Signal, signal } from '@preact/signals';
import { repaint } from '../../ground/theme';
import { type Channel, isWhole, onArrival, replaced, shown, want } from '../feed';
import { chosen, LONGEST, look, SHORTEST, view } from '../view';
import { sinceBase, sinceEpoch } from '../wire';
import { Edge } from './edge';
import { type Drawn, Painter, type Window } from './painter';
import { fitted } from './scale';

/** A plot: some signals with one scale. */
export interface Plot {
  id: string;
  unit: string;
  channels: Channel[];
}

interface Placed {
  painter: Painter;
  plot: Plot;
  isSeen: Signal<boolean>;
  fitted: number;
}

/** Grows five times a second: what stands in texts is read then. */
export const pulse = signal(0);

/** Grows once a second: what nobody sees is read then. */
const seldom = signal(0);

/** The window of time as it was drawn last, ms since 1970. */
export const drawnWindow = signal<Window>({ begin: 0, end: 1 });

/** Width of all plots, pixels. */
export const plotWidth = signal(0);

/** Names of colours, each signal its own among its neighbours. */
const COLOURS = 8;

const placed = new Map<string, Placed>();
const edge = new Edge();
const still = matchMedia('(prefers-reduced-motion: reduce)');
let shownWindow: Window = { begin: 0, end: 1 };
let last = 0;
let again = true;
let order = new Map<string, number>();

onArrival((end, now) => edge.arrive(end, now));

/** Time between drawings where motion is not wanted, ms. */
const SELDOM = 500;

/** Plots that are moved in each frame; more are moved as often as a film is, and what is new is still drawn in each frame. */
const SMOOTH = 8;
const FILM = 1000 / 30;

/** Time between looks at scales, ms. */
const FIT = 250;

export function colourOf(id: string): string {
  return `part-${(order.get(id) ?? 0) % COLOURS}`;
}

effect(() => {
  order = new Map(chosen.value.map((channel, index) => [channel.id, index]));
  again = true;
});

effect(() => {
  repaint.value;
  for (const { painter } of placed.values()) painter.recolour();
  again = true;
});

effect(() => {
  replaced.value;
  again = true;
});

// What is wanted of the server.
effect(() => {
  const { span, from } = view.value;
  const ids = chosen.value.map(channel => channel.id);
  const columns = Math.max(1, Math.min(16_384, Math.round(plotWidth.value * devicePixelRatio)));
  again = true;
  if (plotWidth.value > 0) wanted({ ids, columns, span, from });
});

let wanting: ReturnType<typeof setTimeout> | undefined;

/** Not with each step of a wheel. */
function wanted(next: Parameters<typeof want>[0]): void {
  clearTimeout(wanting);
  wanting = setTimeout(() => {
    wanting = undefined;
    want(next);
  }, 40);
}

/** Whether all that is to be seen has come, and was drawn. */
export function isDrawn(): boolean {
  return wanting === undefined && !again && isWhole();
}

/** A canvas for a plot; what is returned takes it away. */
export function place(plot: Plot, canvas: HTMLCanvasElement): () => void {
  const made: Placed = { painter: new Painter(canvas), plot, isSeen: signal(true), fitted: 0 };
  placed.set(plot.id, made);
  const sight = new IntersectionObserver(entries => {
    made.isSeen.value = entries.some(entry => entry.isIntersecting);
    made.painter.forget();
  });
  sight.observe(canvas);
  const size = new ResizeObserver(([entry]) => {
    if (!entry) return;
    const { width, height } = entry.contentRect;
    // One that was taken away, or is hidden, is told to have no size: the others keep theirs, and with it the window its columns.
    if (width === 0) return;
    made.painter.resize(width, height, devicePixelRatio);
    plotWidth.value = width;
    again = true;
    // A canvas of another size is empty: it is not shown so.
    if (last > 0) draw(made, shownWindow, last, false);
  });
  size.observe(canvas);
  return () => {
    sight.disconnect();
    size.disconnect();
    if (placed.get(plot.id) === made) placed.delete(plot.id);
  };
}

/** The scale of a plot, and its canvas. */
export function painterOf(id: string): Painter | undefined {
  return placed.get(id)?.painter;
}

/** The window of now. */
function current(now: number): Window | undefined {
  const { span, from } = view.value;
  if (from !== undefined) {
    const begin = sinceBase(from);
    return { begin, end: begin + span };
  }
  const at = edge.at(now);
  if (at === undefined) return undefined;
  // Whole columns: what is drawn is moved by them.
  const column = span / Math.max(1, Math.round(plotWidth.value * devicePixelRatio));
  let seen = 0;
  for (const { isSeen } of placed.values()) if (isSeen.peek()) seen += 1;
  const step = column * (seen > SMOOTH ? Math.ceil(FILM / column) : 1);
  const end = (Math.floor(at / step) + 1) * step;
  return { begin: end - span, end };
}

function frame(now: number): void {
  requestAnimationFrame(frame);
  if (still.matches && !again && now - last < SELDOM) return;
  const window = current(now);
  if (!window) return;
  const isFixed = view.value.from !== undefined;
  last = now;
  shownWindow = window;
  for (const one of placed.values()) {
    if (!one.isSeen.peek()) continue;
    if (isFixed && again) one.painter.forget();
    draw(one, window, now, again || now - one.fitted > FIT);
  }
  again = false;
}

/** Draws one of them; `fitting`: its scale is fitted, too, as it is where something new does not fit on it. */
function draw(one: Placed, window: Window, now: number, fitting: boolean): void {
  const drawn: Drawn[] = one.plot.channels.map(channel => ({
    channel,
    series: shown.get(channel.id),
    colour: colourOf(channel.id),
  }));
  if (fitting || isBeyond(one.painter, drawn)) {
    one.fitted = now;
    fit(one, drawn, window);
  }
  one.painter.paint(drawn, window);
}

/** Whether something new does not fit on the scale. */
function isBeyond({ range }: Painter, drawn: Drawn[]): boolean {
  return drawn.some(({ series }) => {
    const fresh = series?.extremes(series.changed, Number.POSITIVE_INFINITY);
    return fresh !== undefined && (fresh[0] < range.low || fresh[1] > range.high);
  });
}

function fit({ painter, plot }: Placed, drawn: Drawn[], window: Window): void {
  let extremes: [number, number] | undefined;
  for (const { series } of drawn) {
    const own = series?.extremes(window.begin, window.end);
    if (own) extremes = extremes ? [Math.min(extremes[0], own[0]), Math.max(extremes[1], own[1])] : own;
  }
  const lows = plot.channels.map(channel => channel.display[0]).filter(low => low !== null);
  const highs = plot.channels.map(channel => channel.display[1]).filter(high => high !== null);
  const display: [number | null, number | null] = [
    lows.length > 0 ? Math.min(...lows) : null,
    highs.length > 0 ? Math.max(...highs) : null,
  ];
  painter.fit(fitted(extremes, display, painter.range));
}

requestAnimationFrame(frame);

setInterval(() => {
  drawnWindow.value = { begin: sinceEpoch(shownWindow.begin), end: sinceEpoch(shownWindow.end) };
  // What has left the screen is forgotten. Not while another view is about to be asked for, or drawn: whoever goes back at once finds what
  // was there, which does not come again.
  if (view.value.from === undefined && wanting === undefined && !again) {
    const oldest = shownWindow.begin - 0.05 * view.value.span;
    for (const series of shown.values()) series.trim(oldest);
  }
  pulse.value += 1;
  if (pulse.value % 5 === 0) seldom.value += 1;
}, 200);

/** Has the texts of a plot read anew by whoever calls it: with each pulse where they are seen. */
export function beat(plot: Plot): void {
  const isSeen = placed.get(plot.id)?.isSeen.value ?? true;
  (isSeen ? pulse : seldom).value;
}

/** The window that is on the screen now, ms since 1970. */
export function onScreen(): Window {
  return { begin: sinceEpoch(shownWindow.begin), end: sinceEpoch(shownWindow.end) };
}

/** Stops where it is. */
export function pause(): void {
  look({ from: onScreen().begin });
}

/** Goes on with what is new. */
export function follow(): void {
  look({ from: undefined });
}

/** Shows more or less time; the moment at that part of the screen stays where it is. */
export function zoom(factor: number, part = 1): void {
  const { span, from } = view.value;
  const next = Math.min(LONGEST, Math.max(SHORTEST, span * factor));
  if (from === undefined && part >= 1) {
    look({ span: next });
    return;
  }
  const { begin } = onScreen();
  look({ span: next, from: (from ?? begin) + part * (span - next) });
}

/** Moves by a part of the screen; what moves to the newest follows it. */
export function pan(part: number): void {
  const { span, from } = view.value;
  const now = edge.at(performance.now());
  const begin = (from ?? onScreen().begin) + part * span;
  const isNewest = now !== undefined && begin + span >= sinceEpoch(now);
  look({ from: isNewest && part > 0 ? undefined : begin });
}

/** Shows that range. */
export function range(begin: number, end: number): void {
  look({ from: begin, span: Math.min(LONGEST, Math.max(SHORTEST, end - begin)) });
}
