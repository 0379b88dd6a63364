// What is known of a channel in a range of time: samples or buckets one behind another, and gaps.

import type { Block, Cause } from './wire';

export interface Gap {
  /** From when to when, ms. */
  begin: number;
  end: number;
  /** Index of the first sample that is missing. */
  first: number;
  samples: number;
  cause: Cause;
}

/** What there is at a time. */
export type At =
  | { gap: Gap }
  | { least: number; greatest: number; last: number; time: number; samples: number }
  | undefined;

const FIELDS = ['time', 'span', 'first', 'samples', 'least', 'greatest', 'begin', 'last', 'joined'] as const;

export class Series {
  /** When each begins, ms. */
  time = new Float64Array(1024);
  /** How long each lasts, ms. */
  span = new Float64Array(1024);
  /** Index of the first sample of each. */
  first = new Float64Array(1024);
  samples = new Float64Array(1024);
  /** The values, in what is measured. */
  least = new Float64Array(1024);
  greatest = new Float64Array(1024);
  begin = new Float64Array(1024);
  last = new Float64Array(1024);
  /** 1: it goes on where the one before ends. */
  joined = new Float64Array(1024);
  /** From this one to that, exclusive. */
  from = 0;
  to = 0;
  gaps: Gap[] = [];
  /** Behind the newest, ms. */
  end = Number.NEGATIVE_INFINITY;
  /** What has changed since it was last drawn begins there, ms. */
  changed = Number.NEGATIVE_INFINITY;
  private joins = false;

  constructor(
    /** Samples a bucket, as it was asked for. */
    readonly bucket: number,
    private readonly scale: number,
    private readonly offset: number,
  ) {}

  append(block: Block): void {
    const { time, period, first, gap } = block;
    // A clock that was set is no line.
    if (Math.abs(time - this.end) > period) this.joins = false;
    this.changed = Math.min(this.changed, time);
    if (gap) {
      const before = this.gaps.at(-1);
      this.end = time + gap.samples * period;
      if (before && before.cause === gap.cause && before.first + before.samples === first) {
        before.samples += gap.samples;
        before.end = this.end;
      } else {
        this.gaps.push({ begin: time, end: this.end, first, samples: gap.samples, cause: gap.cause });
      }
      this.joins = false;
      return;
    }
    const { count, bucket, isBucket } = block;
    const width = bucket * period;
    const { scale, offset } = this;
    for (let index = 0; index < count; index += 1) {
      const at = time + index * width;
      if (isBucket) {
        const [one, other] = [block.value(4 * index) * scale + offset, block.value(4 * index + 1) * scale + offset];
        const [begin, last] = [
          block.value(4 * index + 2) * scale + offset,
          block.value(4 * index + 3) * scale + offset,
        ];
        this.add(at, width, first + index * bucket, bucket, Math.min(one, other), Math.max(one, other), begin, last);
      } else {
        const value = block.value(index) * scale + offset;
        this.add(at, width, first + index, 1, value, value, value, value);
      }
    }
    this.end = time + count * width;
  }

  private add(
    time: number,
    span: number,
    first: number,
    samples: number,
    least: number,
    greatest: number,
    begin: number,
    last: number,
  ): void {
    if (Number.isNaN(least)) {
      // The source could not measure it.
      this.joins = false;
      return;
    }
    const before = this.to - 1;
    const isPart =
      this.joins &&
      samples < this.bucket &&
      before >= this.from &&
      Math.floor((this.first[before] ?? 0) / this.bucket) === Math.floor(first / this.bucket);
    if (isPart) {
      this.span[before] = (this.span[before] ?? 0) + span;
      this.samples[before] = (this.samples[before] ?? 0) + samples;
      this.least[before] = Math.min(this.least[before] ?? least, least);
      this.greatest[before] = Math.max(this.greatest[before] ?? greatest, greatest);
      this.last[before] = last;
      this.changed = Math.min(this.changed, this.time[before] ?? time);
      return;
    }
    if (this.to === this.time.length) this.grow();
    const at = this.to;
    this.time[at] = time;
    this.span[at] = span;
    this.first[at] = first;
    this.samples[at] = samples;
    this.least[at] = least;
    this.greatest[at] = greatest;
    this.begin[at] = begin;
    this.last[at] = last;
    this.joined[at] = this.joins ? 1 : 0;
    // A line to it begins at the one before.
    if (this.joins && at > this.from) this.changed = Math.min(this.changed, this.time[at - 1] ?? time);
    this.joins = true;
    this.to += 1;
  }

  private grow(): void {
    const kept = this.to - this.from;
    const size = kept > this.time.length / 2 ? this.time.length * 2 : this.time.length;
    for (const field of FIELDS) {
      const larger = new Float64Array(size);
      larger.set(this[field].subarray(this.from, this.to));
      this[field] = larger;
    }
    this.from = 0;
    this.to = kept;
  }

  /** Forgets what is older. */
  trim(oldest: number): void {
    // The last there was is told of one that stands still, too.
    while (this.from < this.to - 1 && (this.time[this.from] ?? 0) + (this.span[this.from] ?? 0) < oldest)
      this.from += 1;
    const past = this.gaps.findIndex(gap => gap.end >= oldest);
    if (past !== 0) this.gaps.splice(0, past < 0 ? this.gaps.length : past);
  }

  /** The first that ends after a time. */
  find(time: number): number {
    let [low, high] = [this.from, this.to];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.time[middle] ?? 0) + (this.span[middle] ?? 0) > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** What there is at a time. */
  at(time: number): At {
    const gap = this.gaps.find(gap => time >= gap.begin && time < gap.end);
    if (gap) return { gap };
    const index = this.find(time);
    const begin = this.time[index];
    if (index >= this.to || begin === undefined || begin > time) return undefined;
    return {
      least: this.least[index] ?? 0,
      greatest: this.greatest[index] ?? 0,
      last: this.last[index] ?? 0,
      time: begin,
      samples: this.samples[index] ?? 0,
    };
  }

  /** The newest value. */
  get newest(): number | undefined {
    return this.to > this.from ? this.last[this.to - 1] : undefined;
  }

  /** The least and the greatest in a range of time. */
  extremes(begin: number, end: number): [number, number] | undefined {
    let [least, greatest] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (let index = this.find(begin); index < this.to && (this.time[index] ?? 0) < end; index += 1) {
      least = Math.min(least, this.least[index] ?? least);
      greatest = Math.max(greatest, this.greatest[index] ?? greatest);
    }
    return least <= greatest ? [least, greatest] : undefined;
  }

  /** Samples that are missing in a range of time, by cause. */
  missing(begin: number, end: number): Map<Cause, number> {
    const missing = new Map<Cause, number>();
    for (const gap of this.gaps) {
      if (gap.end > begin && gap.begin < end) missing.set(gap.cause, (missing.get(gap.cause) ?? 0) + gap.samples);
    }
    return missing;
  }
}
