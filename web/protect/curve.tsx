// The last minute of an attack, and the threshold that it is above.

import { scaled } from '../ground/quantity';

const WIDTH = 600;

/** A sketch beside a number that says the same. */
export function Sketch({ values }: { values: number[] }) {
  const most = Math.max(1, ...values) * 1.05;
  return (
    <svg
      class="curve"
      viewBox={`0 0 ${WIDTH} 24`}
      preserveAspectRatio="none"
      style={{ height: '24px' }}
      aria-hidden="true"
    >
      <Line values={values} most={most} height={24} />
    </svg>
  );
}

/** A picture of its own: packets a second, one value a second, the newest at the right. */
export function Chart({ values, threshold, end }: { values: number[]; threshold: number | null; end: string }) {
  const ticks = ticksTo(Math.max(1, ...values, threshold ?? 0));
  const most = ticks.at(-1) ?? 1;
  const at = (value: number) => HEIGHT * (1 - value / most);
  const seconds = Math.max(1, values.length - 1);
  const largest = scaled(Math.max(...values, 0), 'packets/s');
  const of = threshold === null ? '' : `, dashed: the threshold, ${scaled(threshold, 'packets/s')}`;
  return (
    <figure class="plot">
      <figcaption>packets/s{of}</figcaption>
      <ol class="ys" aria-hidden="true">
        {ticks.map(tick => (
          <li key={tick} style={{ bottom: `${(100 * tick) / most}%` }}>
            {scaled(tick, '')}
          </li>
        ))}
      </ol>
      <svg
        class="curve"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        style={{ height: `${HEIGHT}px` }}
        role="img"
        aria-label={`Packets a second of ${seconds} s: at most ${largest}${of}`}
      >
        {ticks.map(tick => (
          <line key={tick} class="grid" x1="0" x2={WIDTH} y1={at(tick)} y2={at(tick)} />
        ))}
        <Line values={values} most={most} height={HEIGHT} />
        {threshold !== null && <line class="threshold" x1="0" x2={WIDTH} y1={at(threshold)} y2={at(threshold)} />}
      </svg>
      <p class="xs" aria-hidden="true">
        <span>{seconds} s before</span>
        <span>{Math.round(seconds / 2)} s</span>
        <span>{end}</span>
      </p>
    </figure>
  );
}

const HEIGHT = 140;

function Line({ values, most, height }: { values: number[]; most: number; height: number }) {
  if (values.length < 2) return null;
  const step = WIDTH / (values.length - 1);
  const points = values.map(
    (value, index) => `${(index * step).toFixed(1)},${(height * (1 - value / most)).toFixed(1)}`,
  );
  return (
    <>
      <polygon class="area" points={`0,${height} ${points.join(' ')} ${WIDTH},${height}`} />
      <polyline class="line" points={points.join(' ')} />
    </>
  );
}

/** Three to six round numbers from nothing to what is at least this much. */
function ticksTo(most: number): number[] {
  const power = 10 ** Math.floor(Math.log10(most));
  const step = ([0.2, 0.5, 1, 2].find(part => part * power * 5 >= most) ?? 2) * power;
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, index) => index * step);
}
