// What is on the screen, as a picture and as CSV.

import { csv, save } from '../ground/sheet';
import { visible } from '../ground/text';
import { colour } from '../ground/theme';
import { shown } from './feed';
import { TIME_MARKS, VALUE_MARKS } from './plot/painter';
import { marks, measured, number, stepOf, timeStep, timeText } from './plot/scale';
import { colourOf, onScreen, type Plot, painterOf } from './plot/stage';
import { type Cause, sinceBase, sinceEpoch } from './wire';

interface Row {
  signal: string;
  unit: string;
  time: number;
  index: number;
  samples: number;
  least?: number;
  greatest?: number;
  first?: number;
  last?: number;
  cause?: Cause;
}

/** All samples, buckets and gaps on the screen. */
export function saveRows(plots: Plot[]): void {
  const { begin, end } = onScreen();
  const [from, to] = [sinceBase(begin), sinceBase(end)];
  const rows: Row[] = [];
  for (const { channels } of plots) {
    for (const channel of channels) {
      const series = shown.get(channel.id);
      if (!series) continue;
      const [signal, unit] = [`${channel.station}/${channel.stream}/${channel.name}`, channel.unit];
      const own: Row[] = [];
      for (let at = series.find(from); at < series.to && (series.time[at] ?? 0) < to; at += 1) {
        own.push({
          signal,
          unit,
          time: series.time[at] ?? 0,
          index: series.first[at] ?? 0,
          samples: series.samples[at] ?? 0,
          least: series.least[at] ?? 0,
          greatest: series.greatest[at] ?? 0,
          first: series.begin[at] ?? 0,
          last: series.last[at] ?? 0,
        });
      }
      for (const gap of series.gaps) {
        if (gap.end <= from || gap.begin >= to) continue;
        own.push({ signal, unit, time: gap.begin, index: gap.first, samples: gap.samples, cause: gap.cause });
      }
      rows.push(...own.sort((one, other) => one.index - other.index));
    }
  }
  const sheet = {
    name: 'signals',
    rows,
    columns: [
      { title: 'signal', value: (row: Row) => row.signal },
      { title: 'unit', value: (row: Row) => row.unit },
      { title: 'time', value: (row: Row) => new Date(sinceEpoch(row.time)).toISOString() },
      { title: 'time_ms', value: (row: Row) => sinceEpoch(row.time) },
      { title: 'index', value: (row: Row) => row.index },
      { title: 'samples', value: (row: Row) => row.samples },
      { title: 'least', value: (row: Row) => row.least },
      { title: 'greatest', value: (row: Row) => row.greatest },
      { title: 'first', value: (row: Row) => row.first },
      { title: 'last', value: (row: Row) => row.last },
      { title: 'gap', value: (row: Row) => row.cause },
    ],
  };
  save('signals.csv', new Blob([csv(sheet)], { type: 'text/csv' }));
}

/** The plots with their names, scales and times. */
export function savePicture(plots: Plot[]): void {
  const [left, gap, line, edge, dots] = [70, 8, 18, 16, devicePixelRatio];
  const painters = plots.map(plot => ({ plot, painter: painterOf(plot.id) }));
  const width = Math.max(1, ...painters.map(({ painter }) => painter?.canvas.clientWidth ?? 0));
  const heights = painters.map(({ painter }) => painter?.canvas.clientHeight ?? 0);
  const whole = document.createElement('canvas');
  whole.width = (left + width + 2 * edge) * dots;
  whole.height = (2 * edge + 2 * line + heights.reduce((sum, height) => sum + height + line + gap, 0)) * dots;
  const pen = whole.getContext('2d');
  if (!pen) return;
  pen.scale(dots, dots);
  pen.fillStyle = colour('panel');
  pen.fillRect(0, 0, whole.width, whole.height);
  pen.font = '12px system-ui, sans-serif';
  const { begin, end } = onScreen();
  let y = edge + line;
  pen.fillStyle = colour('soft');
  pen.fillText(`${new Date(begin).toISOString()} to ${new Date(end).toISOString()}`, edge, y - 6);
  painters.forEach(({ plot, painter }, index) => {
    const height = heights[index] ?? 0;
    let x = edge + left;
    for (const channel of plot.channels) {
      pen.fillStyle = colour(colourOf(channel.id));
      pen.fillRect(x, y + 3, 9, 9);
      pen.fillStyle = colour('text');
      const text = visible(
        `${channel.station} ${channel.name}  ${measured(shown.get(channel.id)?.newest, channel.unit)}`,
        90,
      );
      pen.fillText(text, x + 14, y + 12);
      x += pen.measureText(text).width + 34;
    }
    y += line;
    if (painter && height > 0) {
      const { low, high } = painter.range;
      const found = marks(low, high, height / VALUE_MARKS);
      const step = stepOf(found);
      pen.fillStyle = colour('soft');
      pen.textAlign = 'right';
      for (const mark of found)
        pen.fillText(number(mark, step), edge + left - 6, y + height * (1 - (mark - low) / (high - low)) + 4);
      pen.textAlign = 'left';
      pen.fillText(visible(plot.unit, 10), edge, y + 10);
      pen.drawImage(painter.canvas, edge + left, y, width, height);
    }
    y += height + gap;
  });
  const step = timeStep(end - begin, width / TIME_MARKS);
  pen.fillStyle = colour('soft');
  pen.textAlign = 'center';
  for (let mark = Math.ceil(begin / step) * step; mark <= end; mark += step) {
    pen.fillText(timeText(mark, step), edge + left + (width * (mark - begin)) / (end - begin), y + 10);
  }
  whole.toBlob(blob => blob && save('signals.png', blob));
}
