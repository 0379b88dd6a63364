// What is shown as rows and columns: one description for the table, for CSV and for a picture.

import { colour } from './theme';

export interface Column<Row> {
  title: string;
  /** The value as it is, for CSV. */
  value: (row: Row) => string | number | undefined | null;
  /** Its title in CSV, where the value is in another unit than the text; unless given, the same. */
  csv?: string;
  /** Whether it is in CSV alone. */
  hidden?: boolean;
  /** The value as people read it; unless given, as it is. */
  text?: (row: Row) => string;
  numeric?: boolean;
}

export interface Sheet<Row> {
  /** Name of files. */
  name: string;
  columns: Column<Row>[];
  rows: Row[];
  /** Name of the colour that a row has in the drawing above it. */
  mark?: (row: Row) => string;
}

/** CSV as of RFC 4180. Texts that a spreadsheet would take for a formula begin with an apostrophe. */
export function csv<Row>(sheet: Sheet<Row>): string {
  const cell = (value: string | number | undefined | null) => {
    if (value === undefined || value === null) return '';
    const text = typeof value === 'number' ? String(value) : value.replace(/^[=+\-@\t\r]/, "'$&");
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [
    sheet.columns.map(column => cell(column.csv ?? column.title)),
    ...sheet.rows.map(row => sheet.columns.map(column => cell(column.value(row)))),
  ];
  return lines.map(line => `${line.join(',')}\r\n`).join('');
}

/** The columns that are seen. */
export function seen<C extends { hidden?: boolean }>(columns: C[]): C[] {
  return columns.filter(column => !column.hidden);
}

export function shown<Row>(column: Column<Row>, row: Row): string {
  return column.text?.(row) ?? String(column.value(row) ?? '');
}

/** The sheet as a picture, below a drawing if there is one. */
export function picture<Row>(sheet: Sheet<Row>, drawing?: HTMLCanvasElement): HTMLCanvasElement {
  const [line, gap, edge, scale] = [24, 20, 20, 2];
  const canvas = document.createElement('canvas');
  const pen = canvas.getContext('2d');
  if (!pen) return canvas;
  const font = '13px system-ui, sans-serif';
  pen.font = font;
  const columns = seen(sheet.columns);
  const rows = sheet.rows.slice(0, 200);
  const texts = rows.map(row => columns.map(column => shown(column, row)));
  const widths = columns.map((column, index) =>
    Math.max(...[column.title, ...texts.map(row => row[index] ?? '')].map(text => pen.measureText(text).width)),
  );
  const indent = sheet.mark ? gap : 0;
  const table = widths.reduce((sum, width) => sum + width + gap, indent);
  const [chartWidth, chartHeight] = drawing ? [drawing.clientWidth, drawing.clientHeight + line] : [0, 0];
  const width = Math.max(table, chartWidth, 320) + 2 * edge;
  const height = 2 * edge + line * (texts.length + 2) + chartHeight;
  canvas.width = width * scale;
  canvas.height = height * scale;
  pen.scale(scale, scale);
  pen.fillStyle = colour('ground');
  pen.fillRect(0, 0, width, height);
  pen.fillStyle = colour('soft');
  pen.font = font;
  pen.fillText(`${sheet.name}, ${new Date().toISOString().slice(0, 19)}Z`, edge, edge + 10);
  if (drawing) pen.drawImage(drawing, edge, edge + line, chartWidth, chartHeight - line);
  const write = (row: string[], y: number) => {
    let x = edge + indent;
    row.forEach((text, index) => {
      const cell = widths[index] ?? 0;
      const right = columns[index]?.numeric ?? false;
      pen.textAlign = right ? 'right' : 'left';
      pen.fillText(text, right ? x + cell : x, y);
      x += cell + gap;
    });
  };
  const top = edge + line + chartHeight + 12;
  write(
    columns.map(column => column.title),
    top,
  );
  rows.forEach((row, index) => {
    const y = top + line * (index + 1);
    if (sheet.mark) {
      pen.fillStyle = colour(sheet.mark(row));
      pen.fillRect(edge, y - 10, 10, 10);
    }
    pen.fillStyle = colour('text');
    write(texts[index] ?? [], y);
  });
  return canvas;
}

/** Gives the browser a file to save. */
export function save(name: string, blob: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
