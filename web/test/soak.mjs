// Whether the page grows while it is looked at: `node test/soak.mjs 10` watches for ten minutes, going round all views.

import assert from 'node:assert/strict';
import { Browser } from './browser.mjs';
import { Server } from './server.mjs';
import { Network, Sender } from './traffic.mjs';

const MINUTES = Number(process.argv[2] ?? 10);
const VIEWS = ['', 'agents', 'flows', 'interfaces', 'drops', 'queues', 'events', 'agent?agent=10.1.0.5'];

const server = await Server.start();
const sender = new Sender(server.udp);
const network = new Network(sender);
network.start();
const browser = await Browser.start();
await browser.page.goto(`http://${server.http}/`);
await browser.settled();

const heaps = [];
const end = performance.now() + MINUTES * 60_000;
while (performance.now() < end) {
  for (const view of VIEWS) {
    await browser.go(`#/${view}`);
    await browser.page.waitForTimeout(1500);
  }
  heaps.push(await heap());
  console.log(`${heaps.at(-1).toFixed(2)} MB`);
}
await browser.go('#/');
network.stop();
sender.close();
await browser.end();
await server.end();
// Histories fill for five minutes; what comes after is compared.
const half = Math.floor(heaps.length / 2);
const least = part => Math.min(...part);
const [before, after] = [
  least(heaps.slice(half, half + Math.ceil(half / 2))),
  least(heaps.slice(-Math.ceil(half / 2))),
];
console.log(`third quarter ${before.toFixed(2)} MB, last quarter ${after.toFixed(2)} MB`);
assert.ok(after < before * 1.1, 'the page grows');

/** What is in use once everything that nobody has is gone. */
async function heap() {
  return browser.page.evaluate(() => {
    globalThis.gc();
    return performance.memory.usedJSHeapSize / 1e6;
  });
}
