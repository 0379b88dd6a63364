// Where one is: every view has an address that can be sent.

import { signal } from '@preact/signals';

export interface Address {
  /** `agents` of `#/agents?sort=loss`; empty for the first view. */
  view: string;
  query: URLSearchParams;
}

export const address = signal<Address>(read());

addEventListener('hashchange', () => {
  address.value = read();
});

function read(): Address {
  const [view = '', query = ''] = location.hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  return { view, query: new URLSearchParams(query) };
}

type Query = Record<string, string | number | undefined>;

/** The address of a view, for a link. What is empty is left out. */
export function to(view: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return `#/${view}${text ? `?${text}` : ''}`;
}

/** The address of this view with other values. */
export function here(changes: Query): string {
  return to(address.value.view, { ...Object.fromEntries(address.value.query), ...changes });
}

/** Goes there; `replace`: without a step back, as while one types. */
export function go(target: string, replace = false): void {
  if (replace) {
    history.replaceState(null, '', target);
    address.value = read();
  } else {
    location.hash = target;
  }
}

/** A question with what is given of its parts: `agents?find=leaf`. */
export function question(kind: string, parts: Query = {}): string {
  return to(kind, parts).slice(2);
}
