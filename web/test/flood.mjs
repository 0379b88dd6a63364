// A flood, from the agent's samples to the page of a running analyser, and a person who approves. Exits with 0 if all holds.

import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Browser, check } from './browser.mjs';
import { Server } from './server.mjs';
import { Agent, RATE, Sender } from './traffic.mjs';

const { SHOTS } = process.env;
const TOKEN = '0123456789abcdef'.repeat(4);
const TARGET = '192.0.2.7';

/** Samples in a tenth of a second. */
const USUAL = 2;
const FLOOD = 40;

const directory = mkdtempSync(join(tmpdir(), 'weir-flood-'));
const config = join(directory, 'sflow.toml');
const tokens = join(directory, 'tokens');
writeFileSync(tokens, `alice act ${TOKEN}\n`);
chmodSync(tokens, 0o600);
writeFileSync(
  config,
  `http = "127.0.0.1:0"
[[listener]]
address = "127.0.0.1:0"
[protect]
mode = "manual"
settle = "5s"
agents = ["10.1.0.1 from 127.0.0.1"]
journal = "${join(directory, 'journal')}"
[protect.groups.web]
networks = ["192.0.2.0/24"]
[protect.groups.web.thresholds]
udp_flood = { packets = "5k/s", min_sources = 10 }
udp_amplification = { packets = "5k/s", min_sources = 10 }
[protect.speaker]
gobgp = "127.0.0.1:1"
[protect.access]
tokens = "${tokens}"
`,
);
const server = await Server.start({ config });
const sender = new Sender(server.udp);
const agent = new Agent('10.1.0.1', { host: 'edge1', interfaces: 1, speed: 1e10 });
let ticks = 0;
let flooded = false;
let octets = 0;
const timer = setInterval(() => tick().catch(() => {}), 100);

const browser = await Browser.start();
const { page } = browser;
try {
  await check('before it there is none', quiet);
  await check('it is there, and waits', detected);
  await check('what it consists of is what was sent', consists);
  await check('approved, it is wanted, and what the speaker says is told', approved);
  await check('when it is over it goes by itself, and who did what is known', over);
  assert.deepEqual(browser.faults.splice(0), [], 'errors of the console, and violations of the policy');
} finally {
  clearInterval(timer);
  sender.close();
  await browser.end();
  await server.end('SIGKILL');
  rmSync(directory, { recursive: true });
}

/** What the agent samples in a tenth of a second, and each second what it has counted. */
async function tick() {
  ticks += 1;
  const samples = [];
  for (let count = 0; count < USUAL; count++) {
    samples.push({
      from: `198.18.${ticks % 7}.${1 + (ticks % 250)}`,
      to: TARGET,
      port: 443,
      source: 50000 + (ticks % 999),
      bytes: 900,
    });
  }
  for (let count = 0; flooded && count < FLOOD; count++) {
    // Resolvers that answer a forged question: some are asked more often, and say more.
    const number = (ticks * FLOOD + count) * 7919;
    const one = number % 3 === 0 ? number % 9 : number % 480;
    const from = `${one < 240 ? '203.0.113' : '198.51.100'}.${1 + (one % 240)}`;
    const bytes = 1250 + 10 * (one % 26);
    samples.push({ from, to: TARGET, port: 1024 + (number % 60000), source: 53, bytes });
  }
  octets += samples.reduce((sum, { bytes }) => sum + bytes * RATE, 0);
  const told = samples.map(sample => agent.packet(sample, { input: 1, output: 1 }));
  if (ticks % 10 === 0) {
    // Some more than was sampled: it has other traffic, too.
    told.push(agent.counters(1, 2 * octets), agent.named());
    octets = 0;
  }
  while (told.length > 0) await sender.send(agent.datagram(told.splice(0, 8)));
}

async function quiet() {
  // From the analyser's page there is a way.
  await page.goto(`http://${server.http}/`);
  await page.click('nav a:text("Protect")');
  await page.fill('input[name="token"]', TOKEN);
  await page.click('button:text("Sign in")');
  await browser.settled();
  await page.waitForSelector('.empty:text("No attack now.")');
  // What is usual is learnt, and counters come for what is sampled.
  const until = ticks + (SHOTS ? 900 : 60);
  while (ticks < until) await page.waitForTimeout(100);
  assert.equal(await page.locator('[aria-label="Attacks"] tbody tr').count(), 0);
}

async function detected() {
  flooded = true;
  const row = page.locator('[aria-label="Attacks"] tbody tr', { hasText: `${TARGET}/32` });
  await row.locator('.mark:text("waits for you")').first().waitFor();
  // The first samples may tell of a host or of the prefix around it.
  const until = ticks + 50;
  while (ticks < until) await page.waitForTimeout(100);
  await row.locator('.mark:text("waits for you")').first().waitFor();
}

async function consists() {
  await page.click(`[aria-label="Attacks"] a:text("${TARGET}/32")`);
  await page.waitForSelector('h2:has-text("udp amplification")');
  await page.waitForSelector('[aria-label="Source ports"] li:first-child:has-text("53")');
  await page.waitForSelector('text=Nothing speaks against it.');
  await page.waitForSelector('.routes code:has-text("from port 53")');
  // The first samples say little; with more of them it is as it is.
  const sent = FLOOD * 10 * RATE;
  for (let told = 0; Math.abs(told / sent - 1) > 0.25; ) {
    assert.ok(ticks < 1200, `${told} packets/s are told, ${sent} sent`);
    await page.waitForTimeout(200);
    const attacks = await asked('/protect/attacks');
    told = attacks.find(attack => attack.class === 'udp_amplification')?.packets ?? 0;
  }
  if (SHOTS) {
    const until = ticks + 400;
    while (ticks < until) await page.waitForTimeout(100);
    mkdirSync(SHOTS, { recursive: true });
    await page.screenshot({ path: `${SHOTS}/protect-page.png`, fullPage: true });
  }
}

async function approved() {
  await page.click('button:text("Approve")');
  await page.click('button:text("Yes, approve")');
  await page.waitForSelector('.mark:text("unreachable by BGP")');
  // Nobody answers there.
  await page.waitForSelector('.mark:text("not there yet")');
  await page.waitForSelector('text=Last decided by alice.');
}

async function over() {
  flooded = false;
  await page.click('button:text("Withdraw")');
  await page.click('button:text("Yes, withdraw")');
  await page.waitForSelector('.mark:text("over")', { timeout: 120_000 });
  const journal = await asked('/protect/journal');
  const events = journal.map(({ event, by }) => (by ? `${event} by ${by}` : event)).reverse();
  for (const event of ['detected', 'pending', 'announced by alice', 'withdrawn by alice', 'over']) {
    assert.ok(events.includes(event), `${event}: ${events}`);
  }
}

async function asked(path) {
  const answer = await fetch(`http://${server.http}${path}`, { headers: { Authorization: `Bearer ${TOKEN}` } });
  assert.equal(answer.status, 200, path);
  return answer.json();
}
