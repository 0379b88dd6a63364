// One connection for all tabs: a browser has six to a server, and a stream holds one for good.

import { Connection, type State, type Told } from './connection';

/** From a page: what it asks; again and again, so that who has gone is known. */
export interface Asking {
  ask: string[];
}

/** To a page. */
export type Telling = { told: Told } | { state: State };

interface Tab {
  port: MessagePort;
  ask: string[];
  heard: number;
}

/** Timers of tabs that nobody sees are slowed down to one a minute, ms. */
const FORGOTTEN = 150_000;

const tabs = new Set<Tab>();
const latest = new Map<string, Told>();
let state: State = 'connecting';

const connection = new Connection(
  told => {
    latest.set(told.ask, told);
    for (const tab of tabs) if (tab.ask.includes(told.ask)) send(tab, { told });
  },
  next => {
    if (next === state) return;
    state = next;
    // What was known is old now.
    if (state === 'gone') latest.clear();
    for (const tab of tabs) send(tab, { state });
  },
);

function send(tab: Tab, telling: Telling): void {
  tab.port.postMessage(telling);
}

function gather(): void {
  const now = performance.now();
  for (const tab of tabs) if (now - tab.heard > FORGOTTEN) tabs.delete(tab);
  const asked = new Set([...tabs].flatMap(tab => tab.ask));
  for (const question of latest.keys()) if (!asked.has(question)) latest.delete(question);
  connection.ask(asked);
}

addEventListener('connect', event => {
  const port = (event as MessageEvent).ports[0];
  if (!port) return;
  const tab: Tab = { port, ask: [], heard: performance.now() };
  tabs.add(tab);
  port.addEventListener('message', (message: MessageEvent<Asking>) => {
    const fresh = message.data.ask.filter(question => !tab.ask.includes(question));
    tab.ask = message.data.ask;
    tab.heard = performance.now();
    tabs.add(tab);
    gather();
    for (const question of fresh) {
      const told = latest.get(question);
      if (told) send(tab, { told });
    }
  });
  port.start();
  send(tab, { state });
});

setInterval(gather, 10_000);
