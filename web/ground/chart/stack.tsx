// A stacked chart over time: the whole and its largest parts.

import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { clockTime } from '../quantity';
import { colour, repaint, Swatch } from '../theme';
import { PARTS, SPAN, type Stack } from './history';

interface Props {
  stack: Stack;
  format: (value: number) => string;
  label: string;
  height?: number;
  canvas?: (canvas: HTMLCanvasElement) => void;
}

/** Seconds that are shown at least. */
const LEAST = 60;

/** The name of the colour of a part. */
export function partColour(slot: number): string {
  return `part-${slot}`;
}

export function StackChart({ stack, format, label, height = 220, canvas }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const [at, setAt] = useState<number>();
  const latest = useRef(stack);
  latest.current = stack;
  const painted = repaint.value;

  useEffect(() => {
    const element = place.current;
    if (!element) return;
    // Series 1 is the whole, series 2 what is left without the rest: the last is the largest part alone.
    const fill = (index: number) => {
      const part = latest.current.parts[PARTS + 1 - index];
      return index === 1 ? colour('part-others') : part ? colour(partColour(part.slot)) : 'transparent';
    };
    // Of nothing there is no scale: what stands at its axis would be made up.
    const isEmpty = () => !latest.current.data.slice(1).some(row => row.some(value => (value ?? 0) > 0));
    const series: uPlot.Series = { spanGaps: false, points: { show: false }, width: 1 };
    const axis = (): uPlot.Axis => ({
      stroke: colour('soft'),
      grid: { stroke: colour('line'), width: 1 },
      ticks: { show: false },
      font: '12px system-ui, sans-serif',
    });
    const made = new uPlot(
      {
        width: element.clientWidth,
        height,
        cursor: { y: false, points: { show: false }, drag: { setScale: false, x: false } },
        hooks: { setCursor: [({ cursor }) => setAt(cursor.idx ?? undefined)] },
        legend: { show: false },
        scales: {
          x: {
            time: true,
            // Of one moment alone uPlot would tell a range of its own.
            range: () => {
              const [times] = latest.current.data;
              const [first = 0, last = 0] = [times[0], times.at(-1)];
              return [last - Math.min(SPAN, Math.max(LEAST, last - first)), last];
            },
          },
          y: { range: (_, __, most) => [0, most > 0 ? most * 1.05 : 1] },
        },
        axes: [
          { ...axis(), values: (_, times) => times.map(time => clockTime(time * 1000)), space: 90, size: 30 },
          {
            ...axis(),
            values: (_, values) => values.map(value => (value > 0 && isEmpty() ? '' : format(value))),
            size: 86,
          },
        ],
        series: [
          {},
          ...Array.from({ length: PARTS + 1 }, (_, index) => ({
            ...series,
            stroke: () => fill(index + 1),
            fill: () => fill(index + 1),
          })),
        ],
      },
      latest.current.data as uPlot.AlignedData,
      element,
    );
    plot.current = made;
    made.ctx.canvas.setAttribute('aria-hidden', 'true');
    canvas?.(made.ctx.canvas);
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [painted, height]);

  useEffect(() => plot.current?.setData(stack.data as uPlot.AlignedData), [stack]);

  return (
    <>
      <div class="chart" ref={place} role="img" aria-label={label} />
      <p class="readout" aria-hidden="true">
        {at !== undefined && <Readout stack={stack} at={at} format={format} />}
      </p>
    </>
  );
}

/** What was told of the moment below the pointer. */
function Readout({ stack, at, format }: { stack: Stack; at: number; format: (value: number) => string }) {
  const [times, total, ...layers] = stack.data;
  const [time, whole] = [times[at], total?.[at]];
  if (time === undefined || whole === undefined) return null;
  if (whole === null) return <>{clockTime(time * 1000)}: nothing was told</>;
  // The last layer is the largest part alone, each before it has one part more.
  const sum = (parts: number) => (parts === 0 ? 0 : (layers[PARTS - parts]?.[at] ?? 0));
  // What was not among the largest then is in the rest.
  const part = (index: number) => {
    const value = sum(index + 1) - sum(index);
    return value > 0 ? format(value) : '–';
  };
  return (
    <>
      <b>{clockTime(time * 1000)}</b> {format(whole)}
      {stack.parts.map(({ key, slot }, index) => (
        <span key={key}>
          <Swatch colour={partColour(slot)} />
          {part(index)}
        </span>
      ))}
    </>
  );
}
