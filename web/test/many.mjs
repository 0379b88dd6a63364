// 50,000 agents: whether the page still opens at once, says what REST says, and how old it is.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Browser } from './browser.mjs';
import { Server } from './server.mjs';
import { Agent, Sender } from './traffic.mjs';

const AGENTS = Number(process.env.AGENTS ?? 50_000);
const ROUNDS = 4;

const server = await Server.start();
const browser = await Browser.start();
const { page } = browser;
try {
  const agents = Array.from(
    { length: AGENTS },
    (_, index) => new Agent(`10.${16 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`, { host: `rack${index}` }),
  );
  const sender = new Sender(server.udp);
  for (let round = 1; round <= ROUNDS; round++) {
    for (const [index, agent] of agents.entries()) {
      const samples = [1, 2].map(port => agent.counters(port, ((index % 90) / 100) * 1e8));
      samples.push(agent.named());
      // One in a thousand loses a datagram in the last round but one.
      const bytes = agent.datagram(samples);
      if (round !== ROUNDS - 1 || index % 1000 !== 0) await sender.send(bytes);
      // No faster than a processor that is busy can take it.
      if (index % 200 === 199) {
        await new Promise(later => setTimeout(later, 4));
        await sender.drained(1 << 20);
      }
    }
  }
  await sender.drained(0);
  sender.close();
  await page.goto(`http://${server.http}/`);
  await page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length > 0);
  const painted = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime);
  const begun = performance.now();
  await page.waitForSelector('section.state[data-agents]', { timeout: 60_000 });
  console.log(
    `first paint ${Math.round(painted)} ms, the state of all after ${Math.round(performance.now() - begun)} ms more`,
  );
  const told = await server.get('/agents/json');
  const known = Object.keys(told).length;
  await page.waitForFunction(known => Number(document.querySelector('section.state').dataset.agents) === known, known, {
    timeout: 60_000,
  });
  console.log(`${known} agents`);
  assert.equal(known, AGENTS);
  const age = await page.innerText('[aria-label="Agents in trouble"] .age');
  console.log(`agents in trouble: ${age}`);

  await browser.go('#/agents?sort=agent&offset=40000');
  await page.waitForSelector('[data-matched]');
  const rows = await page.$$eval('tbody tr', rows =>
    rows.map(row => [row.dataset.id, row.cells[3].textContent, row.cells[4].textContent]),
  );
  assert.equal(rows.length, 50);
  for (const [agent, lost, received] of rows) {
    assert.deepEqual(
      [Number(lost), Number(received)],
      [told[agent].sFlowDatagramsLost, told[agent].sFlowDatagramsReceived],
      agent,
    );
  }
  await browser.go('#/agents?find=rack4999');
  await page.waitForFunction(() => document.querySelector('[data-matched]')?.dataset.matched === '11');
  await browser.go('#/agents?sort=lost');
  await page.waitForFunction(() => document.querySelector('tbody tr td:nth-child(4)')?.textContent === '1');

  const { median } = await browser.frames();
  assert.ok(median < 17.5, `median ${median} ms`);
  const memory = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.child.pid}/status`, 'utf8'));
  const ticks = () =>
    readFileSync(`/proc/${server.child.pid}/stat`, 'utf8')
      .split(' ')
      .slice(13, 15)
      .reduce((sum, value) => sum + Number(value), 0);
  const before = ticks();
  await new Promise(later => setTimeout(later, 10_000));
  console.log(
    `analyser: ${Math.round(Number(memory[1]) / 1024)} MiB, ${((ticks() - before) / 10).toFixed(1)} % of a processor while watched`,
  );
  assert.deepEqual(browser.faults, []);
} finally {
  await browser.end();
  await server.end('SIGKILL');
}
