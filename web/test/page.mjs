// The page of a running analyser, in a real browser. Exits with 0 if all holds; prints what does as it goes.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { Browser, check, checkLong } from './browser.mjs';
import { Server } from './server.mjs';
import { Agent, Network, Sender } from './traffic.mjs';

const SHOTS = process.env.SHOTS;
const VIEWS = [
  '',
  'agents',
  'agent?agent=10.1.0.5',
  'flows',
  'flows?define=1',
  'interfaces',
  'drops',
  'queues',
  'events',
  'search?text=leaf',
];

/** Markup, a control and what turns text around; what is seen of it: these are replaced with spaces. */
const HOSTILE = '<img src=x onerror=alert(1)>\u001b[2J\u202egnp';
const SEEN = '<img src=x onerror=alert(1)> [2J gnp';

let server = await Server.start();
const sender = new Sender(server.udp);
const network = new Network(sender);
const hostile = new Agent('10.9.9.9', {
  host: HOSTILE,
  interfaces: 2,
  names: () => '"><script>alert(2)</script>&amp;',
});
network.agents.push(hostile);
await server.put('/flow/kept/json', { keys: 'ipsource,ipdestination', value: 'bytes', t: 600 });
await server.put('/threshold/busy/json', { metric: 'ifinutilization', value: 80 });
await server.put(`/threshold/${encodeURIComponent('<b>bold')}/json`, { metric: 'ifinutilization', value: 90 });
network.start();

const browser = await Browser.start();
const { page } = browser;
try {
  await check('it opens, and says that it is live', opens);
  await check('what is wrong is at the top', worstFirst);
  await check('names of others are shown, not obeyed', names);
  await checkLong('interfaces are used as REST says', interfaces);
  await check('a click on a key narrows, and an address brings it back', narrows);
  await checkLong('a definition is tried, its mistake pointed at, and kept', defines);
  await checkLong('what is called so is found', searches);
  await checkLong('seven tabs and more have one connection', tabs);
  await checkLong('without shared workers each tab has a connection of its own', alone);
  await checkLong('frames come in time while all moves', frames);
  await network.stop();
  await check('the screen says what REST says', equalsRest);
  await checkLong('CSV and PNG have what is shown', saves);
  await checkLong('it is usable by keyboard', keyboard);
  await checkLong('axe finds nothing, and nothing overflows, at 1400 and 400 px, light and dark', looks);
  const faults = browser.faults.splice(0);
  assert.deepEqual(faults, [], 'errors of the console, and violations of the policy');
  await check('it says when the analyser is gone, and comes back by itself', comesBack);
} finally {
  network.stop();
  sender.close();
  await browser.end();
  await server.end('SIGKILL');
}

async function opens() {
  await page.goto(`http://${server.http}/`);
  await page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length > 0);
  const painted = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
  console.log(`first paint after ${Math.round(painted)} ms`);
  await browser.settled();
  assert.equal(await page.locator('nav a:text("Protect")').count(), 0, 'a way to what is not there');
  const sizes = await page.evaluate(() =>
    performance.getEntriesByType('resource').map(({ name, encodedBodySize }) => [name, encodedBodySize]),
  );
  const size = sizes.filter(([name]) => name.includes('/page/')).reduce((sum, [, bytes]) => sum + bytes, 0);
  console.log(`${size} bytes, compressed`);
  assert.ok(size > 10_000 && size <= 150_000, JSON.stringify(sizes));
}

async function worstFirst() {
  // Datagrams of the second switch are lost, the fifth has a busy interface, the third drops packets.
  await page.waitForSelector('section.state.bad');
  await page.waitForFunction(() => {
    const first = document.querySelector('[aria-label="Agents in trouble"] tbody tr');
    return first?.dataset.id === '10.1.0.2' && first.innerText.includes('losing');
  });
  await page.waitForFunction(() => document.querySelector('.heat li')?.dataset.id === '10.1.0.5');
  await page.waitForSelector('[aria-label="Dropped"] tbody tr[data-id^="ttl_exceeded"]');
  await page.waitForSelector('[aria-label="Dropped"] tbody tr[data-id^="acl 10.1.0.4 - -"]');
  await page.waitForSelector('[aria-label="Events"] tbody tr');
}

async function names() {
  await browser.go('#/agents?find=10.9.9.9');
  await page.waitForFunction(
    seen => document.querySelector('tr[data-id="10.9.9.9"]')?.textContent.includes(seen),
    SEEN,
  );
  await browser.go('#/agent?agent=10.9.9.9');
  await page.waitForFunction(() =>
    document.querySelector('main').textContent.includes('"><script>alert(2)</script>&amp;'),
  );
  await browser.go('#/events');
  await page.waitForFunction(() => document.querySelector('main').textContent.includes('<b>bold'));
  assert.equal(
    await page.locator('main img, main b, main script').count(),
    0,
    'markup of others has become part of the page',
  );
}

/** Counters come every second: what is on the screen is one of the values that REST has had. */
async function interfaces() {
  await browser.go('#/agent?agent=10.1.0.5');
  const digits = value => value.toFixed(value >= 10 ? 1 : 2);
  const told = new Map();
  const shown = await page.waitForSelector('tr[data-id="7"] svg.hot');
  const ask = async () => {
    for (const { dataSource, metricValue } of await server.get('/dump/10.1.0.5/ifinutilization/json')) {
      if (!told.has(dataSource)) told.set(dataSource, new Set(['0 %']));
      told.get(dataSource).add(`${digits(metricValue)} %`);
    }
  };
  for (let count = 0; count < 40; count++) {
    await ask();
    await page.waitForTimeout(50);
  }
  assert.ok(shown);
  const rows = await page.$$eval('tr[data-id]', rows =>
    rows.filter(row => row.cells.length > 8).map(row => [row.dataset.id, row.cells[2].textContent]),
  );
  // What came since is on the screen, too.
  await ask();
  assert.equal(rows.length, 24);
  for (const [port, used] of rows)
    assert.ok(told.get(port).has(used), `${port}: ${used} is none of ${[...told.get(port)]}`);
}

async function narrows() {
  await browser.go('#/flows');
  await page
    .locator('a', { hasText: /^192\.0\.2\.1$/ })
    .first()
    .click();
  await page.waitForFunction(
    () =>
      [...document.querySelectorAll('tbody tr')].length > 0 &&
      [...document.querySelectorAll('tbody tr')].every(row => row.dataset.id.startsWith('192.0.2.1 ')),
  );
  const address = page.url();
  assert.match(decodeURIComponent(address), /filter=or:ipsource:ip6source=192\.0\.2\.1/);
  const colleague = await browser.tab();
  await colleague.goto(address);
  await browser.settled(colleague);
  await colleague.waitForSelector('tbody tr[data-id^="192.0.2.1 "]');
  await colleague.close();
}

async function defines() {
  await browser.go('#/flows?define=1');
  await page.fill('input[name="filter"]', 'ipprotocl=17');
  await page.click('button:text("Try")');
  await page.waitForSelector('.problem:has-text("did you mean `ipprotocol`")');
  await page.fill('input[name="filter"]', 'ipprotocol=17');
  await page.click('button:text("Try")');
  await page.waitForSelector('tbody tr[data-id^="192.0.2.1 "]');
  await page.fill('input[name="name"]', 'udp');
  const toml = await page.inputValue('textarea');
  assert.match(
    toml,
    /^\[flow\.udp\]\nkeys = "or:ipsource:ip6source,or:ipdestination:ip6destination"\nvalue = "bytes"\nfilter = "ipprotocol=17"\n$/,
  );
  await page.click('button:text("Keep")');
  await page.waitForSelector('[role=status]:has-text("kept as udp")');
  assert.equal((await server.get('/flow/udp/json')).filter, 'ipprotocol=17');
}

async function searches() {
  for (const [text, found] of [
    ['leaf4', '10.1.0.4'],
    ['swp17', 'swp17'],
    ['198.51.100.3', '198.51.100.3'],
  ]) {
    await page.fill('header input[type=search]', text);
    await page.press('header input[type=search]', 'Enter');
    await page.waitForFunction(
      found => [...document.querySelectorAll('.found li')].some(item => item.textContent.includes(found)),
      found,
    );
  }
}

async function tabs() {
  const others = [];
  for (let count = 0; count < 8; count++) {
    const tab = await browser.tab();
    await tab.goto(`http://${server.http}/#/agents`);
    await browser.settled(tab);
    others.push(tab);
  }
  for (const tab of others) await tab.close();
}

async function alone() {
  const own = await browser.tab();
  await own.addInitScript(() => delete globalThis.SharedWorker);
  await own.goto(`http://${server.http}/`);
  await browser.settled(own);
  await own.waitForSelector('[aria-label="Agents in trouble"] tbody tr');
  await own.close();
}

async function frames() {
  await browser.go('#/');
  const { median } = await browser.frames();
  // The machine may stand still now and then: the middle tells what the page costs.
  assert.ok(median < 17.5, `median ${median} ms`);
}

/** Waits until at least as many datagrams of each agent are on the screen as REST has told. */
async function shown(agents) {
  const received = Object.entries(agents).map(([agent, told]) => [agent, told.sFlowDatagramsReceived]);
  await page.waitForFunction(
    received =>
      received.every(([agent, least]) => {
        const cell = document.querySelector(`tr[data-id="${agent}"] td:nth-child(5)`);
        return cell && Number(cell.textContent.replaceAll(',', '')) >= least;
      }),
    received,
  );
}

/** Nothing is sent any more: what REST says stays, but for what decays. */
async function equalsRest() {
  await browser.go('#/agents');
  // What was sent last may still wait to be read; it has been shown once a survey is made after it.
  await sender.drained(0);
  const number = text => Number(text.replaceAll(',', ''));
  const agents = await server.get('/agents/json');
  await shown(agents);
  const rows = await page.$$eval('tbody tr', rows =>
    rows.map(row => [row.dataset.id, ...[...row.cells].map(cell => cell.textContent)]),
  );
  assert.deepEqual(rows.map(([agent]) => agent).sort(), Object.keys(agents).sort());
  for (const [agent, , , , lost, received, sampling, , , , restarts] of rows) {
    const told = agents[agent];
    assert.equal(number(lost), told.sFlowDatagramsLost, agent);
    assert.equal(number(received), told.sFlowDatagramsReceived, agent);
    assert.equal(number(restarts), told.restarts, agent);
    const [rate, effective] = [told.samplingRate, told.effectiveSamplingRate].map(
      packets => packets && Math.round(packets),
    );
    assert.equal(sampling, rate ? `1:${rate} → 1:${effective}` : '–', agent);
  }
  await browser.go('#/flows?name=kept');
  await page.waitForSelector('tbody tr');
  // Values decay: what is on the screen lies between what REST says before and after.
  const before = await server.get('/activeflows/ALL/kept/json?maxFlows=20');
  const at = await page.evaluate(() => performance.now());
  await page.waitForFunction(at => performance.now() - at > 2500, at);
  const flows = await page.$$eval('tbody tr', rows => rows.map(row => [row.dataset.id, row.cells[2].textContent]));
  const after = await server.get('/activeflows/ALL/kept/json?maxFlows=20');
  assert.deepEqual(
    flows.map(([id]) => id),
    before.map(({ key }) => key.replace(',', ' ')),
  );
  const scale = { 'bit/s': 1, 'kbit/s': 1e3, 'Mbit/s': 1e6, 'Gbit/s': 1e9 };
  for (const [index, [id, text]] of flows.entries()) {
    // A machine that stood still has made the agent silent: then that is told, and no rate.
    if (text.startsWith('silent for ')) {
      assert.ok(after[index].stale, `${id}: ${text}, REST says it is not`);
      continue;
    }
    const [digits, unit] = text.split(' ');
    const shown = (Number(digits) * scale[unit]) / 8;
    const [most, least] = [before[index].value, after[index].value].map(
      (value, side) => value * (side === 0 ? 1.006 : 0.994),
    );
    assert.ok(
      shown <= most && shown >= least,
      `${id}: ${text}, REST says ${before[index].value} to ${after[index].value} bytes/s`,
    );
  }
}

async function saves() {
  await browser.go('#/agents?sort=agent');
  const [csv] = await Promise.all([
    page.waitForEvent('download'),
    page.click('button[aria-label="Save agents as CSV"]'),
  ]);
  const lines = readFileSync(await csv.path(), 'utf8')
    .trim()
    .split('\r\n');
  const agents = await server.get('/agents/json');
  assert.equal(lines.length, Object.keys(agents).length + 1);
  const line = lines.find(line => line.includes('10.1.0.2')).split(',');
  assert.equal(line[lines[0].split(',').indexOf('Lost')], String(agents['10.1.0.2'].sFlowDatagramsLost));
  const name = lines.find(line => line.includes('10.9.9.9'));
  assert.ok(name.includes(SEEN), name);
  await browser.go('#/flows?name=kept');
  const [flows] = await Promise.all([
    page.waitForEvent('download'),
    page.click('button[aria-label="Save flows of kept as CSV"]'),
  ]);
  const [head, first] = readFileSync(await flows.path(), 'utf8')
    .split('\r\n')
    .map(line => line.split(','));
  assert.deepEqual(head, ['ipsource', 'ipdestination', 'bytes now', 'low', 'high', 'Samples']);
  assert.ok(Number(first[3]) <= Number(first[2]) && Number(first[2]) <= Number(first[4]), first.join());
  await browser.go('#/flows');
  const [png] = await Promise.all([
    page.waitForEvent('download'),
    page.click('button[aria-label="Save conversations as PNG"]'),
  ]);
  const picture = readFileSync(await png.path());
  assert.equal(picture.subarray(1, 4).toString(), 'PNG');
  assert.ok(picture.readUInt32BE(16) > 600 && picture.readUInt32BE(20) > 400, 'width and height');
}

async function keyboard() {
  await browser.go('#/');
  await page.reload();
  await browser.settled();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'MAIN');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.closest('section.state') !== null), true);
  await page.keyboard.press('Enter');
  await page.waitForSelector('.panel h2:text("Agents")');
}

async function looks() {
  for (const [colorScheme, width] of [
    ['light', 1400],
    ['dark', 1400],
    ['light', 400],
    ['dark', 400],
  ]) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width, height: 900 });
    for (const view of VIEWS) {
      await browser.go(`#/${view}`);
      assert.deepEqual(await browser.axe(), [], `${view} ${colorScheme} ${width}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `#/${view} is ${wide} px wide at ${width} px`);
      if (SHOTS) {
        mkdirSync(SHOTS, { recursive: true });
        await page.screenshot({
          path: `${SHOTS}/${view.replace(/\?.*/, '') || 'overview'}-${width}-${colorScheme}.png`,
          fullPage: true,
        });
      }
    }
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 1400, height: 900 });
}

async function comesBack() {
  await browser.go('#/agents');
  await server.end('SIGKILL');
  await page.waitForSelector('.pulse.gone');
  assert.match(await page.innerText('.lost'), /has not answered/);
  const { http, udp } = server;
  server = await Server.start({ http, listen: udp });
  for (let count = 0; count < 3; count++) await network.tick();
  await sender.drained(0);
  await browser.settled();
  const agents = await server.get('/agents/json');
  await page.waitForFunction(
    count => document.querySelectorAll('tbody tr').length === count,
    Object.keys(agents).length,
  );
  assert.equal(await page.locator('.lost').isVisible(), false);
  await shown(agents);
  const rows = await page.$$eval('tbody tr', rows => rows.map(row => [row.dataset.id, row.cells[4].textContent]));
  for (const [agent, received] of rows) assert.equal(Number(received), agents[agent].sFlowDatagramsReceived, agent);
}
