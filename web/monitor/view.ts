// What is looked at: signals, time, layout, cursors. All of it stands in the address, which can be sent.

import { computed, effect, signal } from '@preact/signals';
import { address, go, to } from '../ground/address';
import { type Channel, catalog } from './feed';

export type Layout = 'stacked' | 'overlaid';

export interface View {
  /** Ids of channels; absent: the first few. */
  ids: string[] | undefined;
  /** Time on the screen, ms. */
  span: number;
  /** When it begins, ms since 1970; absent: it follows. */
  from: number | undefined;
  layout: Layout;
  /** Cursors, ms since 1970. */
  a: number | undefined;
  b: number | undefined;
}

export const SPANS = [1000, 10_000, 60_000, 300_000, 600_000];
export const SHORTEST = 0.05;
export const LONGEST = 3_600_000;

/** Signals that are shown unless some are chosen. */
const FIRST = 8;

/** Signals at most. */
export const MOST = 256;

export const view = signal<View>(read());

/** Channels that are shown, in their order. */
export const chosen = computed<Channel[]>(() => {
  const known = catalog.value;
  const { ids } = view.value;
  if (ids) return ids.map(id => known.get(id)).filter(channel => channel !== undefined);
  const all = [...known.values()];
  const display = all.filter(channel => channel.stream !== 'full');
  return (display.length > 0 ? display : all).slice(0, FIRST);
});

function read(): View {
  const { query } = address.value;
  const number = (key: string) => {
    const text = query.get(key);
    const value = text === null ? Number.NaN : Number(text);
    return Number.isFinite(value) ? value : undefined;
  };
  const ids = query.get('signals');
  return {
    ids:
      ids === null
        ? undefined
        : ids
            .split(',')
            .filter(id => id.split('/').length === 3)
            .slice(0, MOST),
    span: Math.min(LONGEST, Math.max(SHORTEST, number('span') ?? 10_000)),
    from: number('from'),
    layout: query.get('layout') === 'overlaid' ? 'overlaid' : 'stacked',
    a: number('a'),
    b: number('b'),
  };
}

/** Looks at something else. */
export function look(changes: Partial<View>): void {
  view.value = { ...view.value, ...changes };
}

/** The channels that are shown, and one more or one less. */
export function toggle(ids: string[], on: boolean): void {
  const now = chosen.value.map(channel => channel.id);
  const others = (view.value.ids ?? now).filter(id => !ids.includes(id));
  look({ ids: (on ? [...others, ...ids] : others).slice(0, MOST) });
}

let written = location.hash;
let writing: ReturnType<typeof setTimeout> | undefined;

// Browsers slow pages down that write addresses often.
effect(() => {
  const { ids, span, from, layout, a, b } = view.value;
  const target = to('', {
    signals: ids?.join(','),
    span: span === 10_000 ? undefined : Number(span.toPrecision(6)),
    from: from?.toFixed(3),
    layout: layout === 'stacked' ? undefined : layout,
    a: a?.toFixed(3),
    b: b?.toFixed(3),
  });
  clearTimeout(writing);
  writing = setTimeout(() => {
    // Whoever has gone elsewhere is heard in the next turn: that is not written over.
    if (target === written || location.hash !== written) return;
    go(target, true);
    written = location.hash;
  }, 300);
});

addEventListener('hashchange', () => {
  if (location.hash === written) return;
  written = location.hash;
  view.value = read();
});
