// A table that can be sorted, saved and read aloud.

import type { ComponentChildren } from 'preact';
import { here } from './address';
import { type Column, csv, picture, type Sheet, save, seen, shown } from './sheet';

export interface Shown<Row> extends Column<Row> {
  /** What stands in the cell, if it is more than a text. */
  view?: (row: Row) => ComponentChildren;
  /** The address sorted by this one. */
  sort?: string;
  /** Of little importance where there is little room. */
  minor?: boolean;
}

interface Props<Row> {
  sheet: Omit<Sheet<Row>, 'columns'> & { columns: Shown<Row>[] };
  label: string;
  id: (row: Row) => string;
  /** By what it is sorted, of those that it can be. */
  sorted?: string;
  empty?: string;
}

export function Table<Row>({ sheet, label, id, sorted, empty = 'Nothing.' }: Props<Row>) {
  if (sheet.rows.length === 0) return <p class="empty">{empty}</p>;
  const columns = seen(sheet.columns);
  const kind = (column: Shown<Row>) => `${column.numeric ? 'number' : ''}${column.minor ? ' minor' : ''}`;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is to be scrolled by keys, too
    // biome-ignore lint/a11y/useSemanticElements: no set of fields
    <div class="scroll" role="group" tabIndex={0} aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map(column => (
              <th
                key={column.title}
                scope="col"
                class={kind(column)}
                aria-sort={column.sort && column.sort === sorted ? 'descending' : undefined}
              >
                {column.sort === undefined ? (
                  column.title
                ) : (
                  <a href={here({ sort: column.sort, offset: undefined })}>
                    {column.title}
                    {column.sort === sorted ? ' ↓' : ''}
                  </a>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sheet.rows.map(row => (
            <tr key={id(row)} data-id={id(row)}>
              {columns.map(column => (
                <td key={column.title} class={kind(column)}>
                  {column.view ? column.view(row) : shown(column, row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Buttons that save what is shown. */
export function Save<Row>({ sheet, drawing }: { sheet: Sheet<Row>; drawing?: () => HTMLCanvasElement | null }) {
  const png = () => {
    picture(sheet, drawing?.() ?? undefined).toBlob(blob => blob && save(`${sheet.name}.png`, blob));
  };
  return (
    <span class="save">
      <button
        type="button"
        class="quiet"
        aria-label={`Save ${sheet.name} as CSV`}
        onClick={() => save(`${sheet.name}.csv`, new Blob([csv(sheet)], { type: 'text/csv' }))}
      >
        CSV
      </button>
      <button type="button" class="quiet" aria-label={`Save ${sheet.name} as PNG`} onClick={png}>
        PNG
      </button>
    </span>
  );
}
