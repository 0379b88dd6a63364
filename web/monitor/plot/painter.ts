// Draws signals on a canvas: every peak, no line across a gap. While it follows, what is drawn is moved, and only what is new is drawn.

import { colour } from '../../ground/theme';
import type { Channel } from '../feed';
import type { Series } from '../series';
import { sinceEpoch } from '../wire';
import { marks, type Range, timeStep } from './scale';

/** A signal, and how it is drawn. */
export interface Drawn {
  channel: Channel;
  series: Series | undefined;
  /** Name of its colour. */
  colour: string;
}

/** From when to when, ms. */
export interface Window {
  begin: number;
  end: number;
}

/** Distance of marks, pixels. */
export const TIME_MARKS = 130;
export const VALUE_MARKS = 34;

export class Painter {
  readonly canvas: HTMLCanvasElement;
  range: Range = { low: Number.POSITIVE_INFINITY, high: Number.NEGATIVE_INFINITY };
  private readonly pen: CanvasRenderingContext2D | null;
  private width = 0;
  private height = 0;
  private dots = 1;
  private begin = Number.NaN;
  private step = Number.NaN;
  private stale = true;
  private drawn: Drawn[] = [];
  private colours = new Map<string, string>();

  constructor(canvas: HTMLCanvasElement) {
    this.canvas = canvas;
    this.pen = canvas.getContext('2d', { alpha: false });
  }

  /** Everything is drawn anew the next time. */
  forget(): void {
    this.stale = true;
  }

  /** Colours have changed. */
  recolour(): void {
    this.colours.clear();
    this.stale = true;
  }

  resize(width: number, height: number, dots: number): void {
    const [w, h] = [Math.max(1, Math.round(width * dots)), Math.max(1, Math.round(height * dots))];
    if (w === this.width && h === this.height) return;
    [this.width, this.height, this.dots] = [w, h, dots];
    this.canvas.width = w;
    this.canvas.height = h;
    this.stale = true;
  }

  /** Fits the scale to what is to be seen. */
  fit(next: Range): void {
    if (next.low === this.range.low && next.high === this.range.high) return;
    this.range = next;
    this.stale = true;
  }

  /** Draws the window, whose columns are those of this canvas. */
  paint(drawn: Drawn[], { begin, end }: Window): void {
    const step = (end - begin) / this.width;
    const moved = Math.round((begin - this.begin) / step);
    const isSame = drawn.length === this.drawn.length && drawn.every((one, at) => is(one, this.drawn[at]));
    const changed = Math.min(...drawn.map(({ series }) => series?.changed ?? Number.POSITIVE_INFINITY));
    for (const { series } of drawn) if (series) series.changed = Number.POSITIVE_INFINITY;
    this.drawn = drawn;
    const follows = isSame && !this.stale && Math.abs(step / this.step - 1) < 1e-9 && moved >= 0 && moved < this.width;
    [this.step, this.stale] = [step, false];
    if (!follows) {
      this.begin = begin;
      this.region(0, begin, step);
      return;
    }
    // By whole columns, so that what is moved and what is new fit together.
    this.begin += moved * step;
    // What is new, or follows what was new, is behind that column; a line begins in the one before.
    const first = Number.isFinite(changed) ? Math.floor((changed - this.begin) / step) - 3 * this.dots : this.width;
    const from = Math.max(0, Math.min(first, this.width - moved - (moved > 0 ? 3 : 0)));
    if (moved > 0)
      this.pen?.drawImage(
        this.canvas,
        moved,
        0,
        this.width - moved,
        this.height,
        0,
        0,
        this.width - moved,
        this.height,
      );
    if (from < this.width) this.region(Math.floor(from), this.begin, step);
  }

  /** Draws what is right of a column. */
  private region(left: number, begin: number, step: number): void {
    const { pen, width, height } = this;
    if (!pen) return;
    const x = (time: number) => (time - begin) / step;
    const { low, high } = this.range;
    const y = (value: number) => height - ((value - low) / (high - low)) * height;
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, width - left, height);
    pen.clip();
    pen.fillStyle = this.colour('panel');
    pen.fillRect(left, 0, width - left, height);
    const from = begin + left * step;
    const end = begin + width * step;
    this.grid(from, end, x, y);
    for (const one of this.drawn) this.gaps(one, left, x);
    for (const one of this.drawn) if (one.series) this.signal(one.series, one.colour, left, x, y, step);
    // A dense curve would cover them.
    for (const one of this.drawn) this.limits(one, left, y);
    // To the next plot.
    pen.fillStyle = this.colour('line');
    pen.fillRect(left, height - this.dots, width - left, this.dots);
    pen.restore();
  }

  private grid(from: number, end: number, x: (time: number) => number, y: (value: number) => number): void {
    const { pen, width, height, dots } = this;
    if (!pen) return;
    pen.fillStyle = this.colour('line');
    const step = timeStep(this.step * width, width / dots / TIME_MARKS);
    const first = Math.floor(sinceEpoch(from) / step) * step;
    for (let mark = first; mark <= sinceEpoch(end); mark += step) {
      pen.fillRect(Math.round(x(from + (mark - sinceEpoch(from)))), 0, dots, height);
    }
    const { low, high } = this.range;
    for (const mark of marks(low, high, height / dots / VALUE_MARKS)) pen.fillRect(0, Math.round(y(mark)), width, dots);
  }

  private gaps({ series }: Drawn, left: number, x: (time: number) => number): void {
    const { pen, width, height, dots } = this;
    if (!pen || !series) return;
    for (let index = series.gaps.length - 1; index >= 0; index -= 1) {
      const gap = series.gaps[index];
      if (!gap) continue;
      const [begin, end] = [
        Math.floor(x(gap.begin)),
        Math.max(Math.ceil(x(gap.end)), Math.floor(x(gap.begin)) + 2 * dots),
      ];
      if (begin > width) continue;
      if (end < left) break;
      pen.fillStyle = this.colour(`gap-${gap.cause}`);
      pen.fillRect(begin, 0, end - begin, height);
      // A bar that stands out where shades do not.
      pen.fillStyle = this.colour(`gap-${gap.cause}-bar`);
      pen.fillRect(begin, 0, end - begin, 3 * dots);
    }
  }

  private limits({ channel }: Drawn, left: number, y: (value: number) => number): void {
    const { pen, width, height, dots } = this;
    if (!pen) return;
    channel.limits.forEach((limit, index) => {
      if (limit === null) return;
      const at = Math.round(y(limit));
      if (at < 0 || at > height) return;
      pen.fillStyle = this.colour(index === 0 || index === 3 ? 'major' : 'minor');
      // Whole, thin and pale: dashes would wander.
      pen.globalAlpha = 0.55;
      pen.fillRect(left, at, width - left, dots);
      pen.globalAlpha = 1;
    });
  }

  private signal(
    series: Series,
    name: string,
    left: number,
    x: (time: number) => number,
    y: (value: number) => number,
    step: number,
  ): void {
    const { pen, width, height, dots } = this;
    if (!pen) return;
    const stroke = this.colour(name);
    const { time, span, least, greatest, begin, last, joined, samples } = series;
    const clamp = (value: number) => Math.max(-4, Math.min(height + 4, y(value)));
    // From one before what is seen, so that a line comes in from the left.
    let index = Math.max(series.from, series.find(this.begin + (left - 4) * step) - 2);
    const bands: number[] = [];
    pen.beginPath();
    // What is in one column, as far as it hangs together.
    let column = Number.NaN;
    let [low, high, end, single, at] = [0, 0, 0, false, 0];
    const close = () => {
      if (Number.isNaN(column)) return;
      if (high > low) {
        pen.lineTo(at, clamp(low));
        pen.lineTo(at, clamp(high));
      }
      pen.lineTo(single ? at + dots : at, clamp(end));
      column = Number.NaN;
    };
    for (; index < series.to; index += 1) {
      const px = x(time[index] ?? 0);
      if (px > width + 2) break;
      const wide = (span[index] ?? 0) / step;
      const isJoined = joined[index] === 1 && index > series.from;
      const next = joined[index + 1] === 1 && index + 1 < series.to;
      if ((samples[index] ?? 1) > 1 && wide > 2) {
        // A bucket that is wider than a column: where in it its peaks are is not known.
        close();
        const [top, bottom] = [clamp(greatest[index] ?? 0), clamp(least[index] ?? 0)];
        bands.push(px, top, wide, Math.max(dots, bottom - top));
        if (isJoined) pen.lineTo(px, clamp(begin[index] ?? 0));
        else pen.moveTo(px, clamp(begin[index] ?? 0));
        pen.lineTo(px + wide - wide / (samples[index] ?? 1), clamp(last[index] ?? 0));
        continue;
      }
      const here = wide < 1 ? Math.floor(px) : px;
      if (isJoined && here === column) {
        low = Math.min(low, least[index] ?? low);
        high = Math.max(high, greatest[index] ?? high);
        end = last[index] ?? end;
        single = false;
        continue;
      }
      close();
      column = here;
      at = wide < 1 ? here + 0.5 : px;
      low = least[index] ?? 0;
      high = greatest[index] ?? 0;
      end = last[index] ?? 0;
      single = !isJoined && !next;
      if (isJoined) pen.lineTo(at, clamp(begin[index] ?? 0));
      else pen.moveTo(at, clamp(begin[index] ?? 0));
    }
    close();
    pen.strokeStyle = stroke;
    pen.lineWidth = 1.25 * dots;
    pen.lineJoin = 'bevel';
    pen.stroke();
    if (bands.length > 0) {
      pen.globalAlpha = 0.3;
      pen.fillStyle = stroke;
      for (let band = 0; band < bands.length; band += 4) {
        pen.fillRect(bands[band] ?? 0, bands[band + 1] ?? 0, bands[band + 2] ?? 0, bands[band + 3] ?? 0);
      }
      pen.globalAlpha = 1;
    }
  }

  private colour(name: string): string {
    const known = this.colours.get(name);
    if (known !== undefined) return known;
    const found = colour(name);
    this.colours.set(name, found);
    return found;
  }
}

function is(one: Drawn, other: Drawn | undefined): boolean {
  return one.series === other?.series && one.channel === other?.channel && one.colour === other?.colour;
}
