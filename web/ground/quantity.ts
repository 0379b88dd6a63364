// Numbers with their units, as people read them: three digits that count.

const PREFIXES = ['', 'k', 'M', 'G', 'T', 'P', 'E'];

function digits(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  if (size >= 0.01) return value.toFixed(2);
  return value.toPrecision(1);
}

/** `12.3 Mbit/s`; a dash where there is no number. */
export function scaled(value: number | undefined | null, unit: string): string {
  if (value === undefined || value === null || !Number.isFinite(value)) return '–';
  let step = 0;
  let rest = value;
  // What would be rounded to 1000 is one of the next.
  while (Math.abs(rest) >= 999.5 && step < PREFIXES.length - 1) {
    rest /= 1000;
    step += 1;
  }
  return `${digits(rest)} ${PREFIXES[step]}${unit}`.trimEnd();
}

/** `13.4 – 50.8 Mbit/s`: a unit that both have is said once. */
export function between(low: string, high: string): string {
  const [number, ...unit] = low.split(' ');
  return high.endsWith(` ${unit.join(' ')}`) ? `${number} – ${high}` : `${low} – ${high}`;
}

/** Bytes a second as bits. */
export function bits(bytes: number | undefined | null): string {
  return scaled(bytes === undefined || bytes === null ? bytes : bytes * 8, 'bit/s');
}

export function percent(share: number | undefined | null): string {
  if (share === undefined || share === null || !Number.isFinite(share)) return '–';
  return `${share > 0 && share < 0.01 ? '< 0.01' : digits(share)} %`;
}

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

/** `12,345` */
export function count(value: number | undefined | null): string {
  return value === undefined || value === null ? '–' : WHOLE.format(value);
}

/** `1 agent`, `12,345 agents` */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? '' : 's'}`;
}

/** `3.2 s`, `12 min`, `4 d`. */
export function lasting(milliseconds: number | undefined | null): string {
  if (milliseconds === undefined || milliseconds === null) return '–';
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`;
  if (seconds < 172_800) return `${(seconds / 3600).toFixed(0)} h`;
  return `${(seconds / 86_400).toFixed(0)} d`;
}

/** `14:03:27` of a moment in milliseconds since 1970. */
export function clockTime(moment: number): string {
  return new Date(moment).toLocaleTimeString('en-GB');
}
