// What was told of parts of a whole, second by second: the latest minutes, the largest parts by themselves, the rest together.

/** Parts that are shown by themselves. */
export const PARTS = 8;

/** Seconds that are kept. */
export const SPAN = 300;

/** Seconds without news after which the line breaks: what was not told is not drawn. */
const GAP = 4;

export interface Part {
  key: string;
  value: number;
}

interface Moment {
  /** Seconds since 1970. */
  time: number;
  parts: Map<string, number>;
  /** All parts together; null: nothing was told. */
  total: number | null;
}

export interface Stack {
  /** The parts, the largest first, each with the number of its colour. */
  parts: { key: string; slot: number }[];
  /** Times, then sums from the top of the stack to the bottom: the whole, and without its rest, its smallest part ... */
  data: [number[], ...(number | null)[][]];
}

export class History {
  private moments: Moment[] = [];
  private slots = new Map<string, number>();

  add(time: number, parts: Part[], others: number): void {
    const last = this.moments.at(-1);
    if (last && time <= last.time) return;
    if (last && time - last.time > GAP) this.moments.push({ time: last.time + 0.001, parts: new Map(), total: null });
    const total = parts.reduce((sum, part) => sum + part.value, others);
    this.moments.push({ time, parts: new Map(parts.map(part => [part.key, part.value])), total });
    const oldest = this.moments.findIndex(moment => moment.time >= time - SPAN);
    this.moments.splice(0, oldest);
  }

  stack(): Stack {
    const sums = new Map<string, number>();
    for (const moment of this.moments) {
      for (const [key, value] of moment.parts) sums.set(key, (sums.get(key) ?? 0) + value);
    }
    const largest = [...sums].sort(([, a], [, b]) => b - a).slice(0, PARTS);
    const keys = largest.map(([key]) => key);
    this.colour(keys);
    const sum = (moment: Moment, most: number) =>
      moment.total === null ? null : keys.slice(0, most).reduce((sum, key) => sum + (moment.parts.get(key) ?? 0), 0);
    const layers = Array.from({ length: PARTS }, (_, index) => this.moments.map(moment => sum(moment, PARTS - index)));
    return {
      parts: keys.map(key => ({ key, slot: this.slots.get(key) ?? 0 })),
      data: [this.moments.map(moment => moment.time), this.moments.map(moment => moment.total), ...layers],
    };
  }

  /** A part keeps its colour while it is shown. */
  private colour(keys: string[]): void {
    for (const key of this.slots.keys()) if (!keys.includes(key)) this.slots.delete(key);
    for (const key of keys) {
      if (this.slots.has(key)) continue;
      const taken = new Set(this.slots.values());
      const free = Array.from({ length: PARTS }, (_, slot) => slot).find(slot => !taken.has(slot));
      this.slots.set(key, free ?? 0);
    }
  }
}
