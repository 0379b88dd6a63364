// Scales: from what to what, and where to put marks.

/** Labels of a scale: fewer tell no size. */
const LEAST_MARKS = 3;

/** Share of a plot at each end where a label would be cut. */
const EDGE = 0.1;

/** Marks at round numbers: so many about, three at least that are not at an end. */
export function marks(low: number, high: number, count: number): number[] {
  let step = round((high - low) / Math.max(LEAST_MARKS, count));
  if (!(step > 0)) return [];
  const room = EDGE * (high - low);
  let found = multiples(low, high, step);
  // Each is at least half of the one before: a few turns, whatever the numbers are.
  for (let turn = 0; turn < 8; turn += 1) {
    if (found.filter(mark => mark >= low + room && mark <= high - room).length >= LEAST_MARKS) break;
    step = round(step / 2.5);
    found = multiples(low, high, step);
  }
  return found;
}

function multiples(low: number, high: number, step: number): number[] {
  const from = Math.ceil(low / step - 1e-9);
  // Where numbers have no more digits, one more is the same.
  if (!(Math.abs(from) < 1e12)) return [];
  const found = [];
  for (let index = from; index * step <= high + step * 1e-9; index += 1) found.push(index * step);
  return found;
}

const DIGITS = [1, 2, 2.5, 5, 10];

/** The next that is round, and not less. */
function round(step: number): number {
  const size = 10 ** Math.floor(Math.log10(step));
  const digits = step / size;
  return (DIGITS.find(round => digits <= round * (1 + 1e-9)) ?? 10) * size;
}

/** Digits behind the point that tell multiples of a step apart; negative: so many in front of it are 0. */
function decimals(step: number): number {
  const size = Math.floor(Math.log10(step) + 1e-9);
  const digits = step / 10 ** size;
  return (Math.abs(digits - Math.round(digits)) < 1e-6 ? 0 : 1) - size;
}

const TIMES = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000,
  1_800_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000,
];

/** The step of marks of time, ms: so many about. */
export function timeStep(span: number, count: number): number {
  const least = span / Math.max(1, count);
  if (least < 0.5) return round(least);
  return TIMES.find(step => step >= least) ?? 86_400_000;
}

/** A time as its marks are told apart. */
export function timeText(time: number, step: number): string {
  const text = new Date(time).toLocaleTimeString('en-GB');
  if (step >= 1000) return step >= 60_000 ? text.slice(0, 5) : text;
  const digits = Math.min(6, Math.max(1, Math.ceil(-Math.log10(step / 1000))));
  const seconds = (((time % 1000) + 1000) % 1000) / 1000;
  return text + seconds.toFixed(digits).slice(1);
}

/** From one mark to the next; of a single one, as far as it is from 0. */
export function stepOf(marks: number[]): number {
  const [first = 0, second] = marks;
  return second === undefined ? Math.abs(first) || 1 : second - first;
}

/** Numbers of one scale, with as many digits as tell its marks apart. */
export function number(value: number, step: number): string {
  const [part, prefix] = prefixed(Math.abs(value) >= 1e6 ? value : 0);
  if (prefix) return `${fixed(part, (step * part) / value)} ${prefix}`;
  if (value !== 0 && step < 1e-4) return value.toExponential(Math.max(0, digits(value, step)));
  return fixed(value, step);
}

function fixed(value: number, step: number): string {
  return value.toFixed(Math.max(0, Math.min(12, decimals(step))));
}

const PREFIXES: [number, string][] = [
  [1e15, 'P'],
  [1e12, 'T'],
  [1e9, 'G'],
  [1e6, 'M'],
];

function prefixed(value: number): [number, string] {
  const found = PREFIXES.find(([size]) => Math.abs(value) >= size && Math.abs(value) < 1e18);
  return found ? [value / found[0], found[1]] : [value, ''];
}

function digits(value: number, step: number): number {
  return Math.min(12, Math.floor(Math.log10(Math.abs(value) || 1)) + decimals(step));
}

/** Units that take a prefix: those that have none yet. */
const PLAIN = /^(B|bit|A|V|W|J|N|T|Hz|Pa|eV|Wh|m|s|g|l)(\/s)?$/;

/** A value with so many digits as it can be read by, and its unit. */
export function measured(value: number | undefined, unit: string): string {
  if (value === undefined || !Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  const [part, prefix] = PLAIN.test(unit) ? prefixed(value) : [value, ''];
  if (prefix) return `${part.toPrecision(4)} ${prefix}${unit}`;
  const text =
    size !== 0 && (size >= 1e6 || size < 1e-3)
      ? value.toExponential(3)
      : size >= 1000
        ? value.toFixed(1)
        : value.toPrecision(4);
  return unit ? `${text} ${unit}` : text;
}

export interface Range {
  low: number;
  high: number;
}

/** What is to be seen of values: all of them, what is to be displayed at least, and a little room; it shrinks seldom. */
export function fitted(
  extremes: [number, number] | undefined,
  display: [number | null, number | null],
  now: Range,
): Range {
  const [least, greatest] = extremes ?? [display[0] ?? 0, display[1] ?? 1];
  let low = Math.min(least, display[0] ?? least);
  let high = Math.max(greatest, display[1] ?? greatest);
  // What differs in its last digits alone is one value.
  if (!(high - low > 1e-9 * Math.max(Math.abs(low), Math.abs(high)))) {
    const room = Math.abs(low) * 0.05 || 1;
    [low, high] = [low - room, high + room];
  }
  const inside = low >= now.low && high <= now.high;
  if (inside && high - low > 0.5 * (now.high - now.low)) return now;
  const room = 0.06 * (high - low);
  return { low: low - room, high: high + room };
}
