// The page of protect, in a real browser, at a server whose board is known. Exits with 0 if all holds; prints what does as it goes, and
// what the server is to do (`do: ...`), which it answers with a line.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Browser, check, checkLong } from './browser.mjs';

const { HTTP, ALICE, BOB, SHOTS } = process.env;
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** What would be seen of the fixture's hostile name. */
const SEEN = '<img src=x onerror=alert(1)>‹U+001B›[2J‹U+202E›gnp';

const browser = await Browser.start();
const { page } = browser;
try {
  await check('who is not known is shown nothing, and asked who it is', asks);
  await check('who may look is shown all, and no button that acts', looksOnly);
  await check('what waits is first, and is the title', first);
  await check('an attack shows its evidence, and names of others are not obeyed', evidence);
  await check('approve says what it costs, and what became of it', approves);
  await check('it is kept for longer, and withdrawn', withdraws);
  await check('who did what is in the journal, what was in the history', past);
  await check('a stop asks twice, and is at the top', stops);
  await check('what still stands, and a stop that the journal lacks, are told', stands);
  await checkLong('axe finds nothing, and nothing overflows, at 400 to 1400 px, light and dark', looks);
  await checkLong('it is usable by keyboard', keyboard);
  await check('nothing to show is said', empty);
  // What the browser itself says of an answer that is no success.
  const faults = browser.faults.splice(0).filter(fault => !/status of (401|409)/.test(fault));
  assert.deepEqual(faults, [], 'errors of the console, and violations of the policy');
  await check('it says when the analyser is gone, and comes back by itself', comesBack);
  await check('who is no longer known is shown nothing any more', revoked);
} catch (error) {
  console.log(browser.faults.join('\n'));
  throw error;
} finally {
  await browser.end();
}
process.exit(0);

/** Has the server do something. */
async function order(what) {
  console.log(`do: ${what}`);
  await answers.next();
}

async function signIn(token) {
  await page.fill('input[name="token"]', token);
  await page.click('button:text("Sign in")');
}

async function asks() {
  await page.goto(`http://${HTTP}/protect`);
  await page.waitForSelector('.signin');
  assert.equal(await page.locator('table').count(), 0);
  await signIn('0'.repeat(32));
  await page.waitForSelector('.signin .problem:has-text("no known token")');
  assert.equal(await page.getAttribute('.pulse', 'data-state'), 'unknown');
  assert.equal(await page.evaluate(() => sessionStorage.length), 0, 'a token that is wrong is kept');
}

async function looksOnly() {
  await signIn(BOB);
  await browser.settled();
  await page.waitForSelector('tr[data-id="17"]');
  assert.equal(await page.locator('button:text("Stop everything")').count(), 0);
  await browser.go('#/attack?id=17');
  await page.waitForSelector('text=Your token lets you look, not act.');
  assert.equal(await page.locator('button:text("Approve")').count(), 0);
  await page.click('button:has-text("Sign out bob")');
  await page.waitForSelector('.signin');
  assert.equal(await page.locator('main :text("192.0.2.7")').count(), 0, 'what was shown is still there');
  await browser.page.evaluate(() => {
    location.hash = '#/';
  });
  await signIn(ALICE);
  await browser.settled();
}

async function first() {
  await page.waitForSelector('tr[data-id="17"]');
  const rows = await page.$$eval('[aria-label="Attacks"] tbody tr', rows => rows.map(row => row.dataset.id));
  assert.deepEqual(rows, ['17', '18']);
  assert.match(await page.innerText('tr[data-id="17"]'), /waits for you/);
  assert.match(await page.innerText('tr[data-id="18"]'), /doubted/);
  assert.match(await page.title(), /^\(1\) Now/);
  assert.match(await page.innerText('section.state'), /2 attacks, 1 waiting for you/);
}

async function evidence() {
  await page.click('a:text("192.0.2.7/32")');
  await page.waitForSelector('h2:text("udp amplification on 192.0.2.7/32")');
  const text = await page.innerText('main');
  for (const told of [
    'group web, udp_amplification, 40,000 packets/s (fixed)',
    'Nothing speaks against it.',
    '812 kpackets/s',
    '790 – 834 kpackets/s',
    '1,204',
    'udp/53',
    '203.0.113.7',
    '64500',
    '0.40 %',
    'drop: udp to 192.0.2.7/32, from port 53, 500 to 65535 bytes',
    '00 50 56',
  ])
    assert.ok(text.includes(told), `${told}: ${text}`);
  assert.ok((await page.textContent('main')).includes(SEEN), 'a hostile name is not seen as it is');
  assert.equal(await page.locator('main img').count(), 0, 'markup of others has become part of the page');
  await axes();
  await browser.go('#/attack?id=18');
  await page.waitForSelector('text=no counters of interface 1 of agent 10.0.0.9 have come of late');
  assert.equal(await page.locator('button:text("Approve")').count(), 0, 'what a cap refuses can be approved');
}

/** The curve tells its units, what its scale is, and when; the threshold is where its value is. */
async function axes() {
  await page.waitForSelector('.plot figcaption:has-text("packets/s, dashed: the threshold, 40.0 kpackets/s")');
  const shown = await page.evaluate(() => {
    const middle = element => {
      const { top, bottom } = element.getBoundingClientRect();
      return (top + bottom) / 2;
    };
    const plot = document.querySelector('.plot');
    return {
      ticks: [...plot.querySelectorAll('.ys li')].map(tick => [tick.textContent, middle(tick)]),
      threshold: middle(plot.querySelector('.threshold')),
      times: [...plot.querySelectorAll('.xs span')].map(time => time.textContent),
    };
  });
  assert.deepEqual(
    shown.ticks.map(([text]) => text),
    ['0', '200 k', '400 k', '600 k', '800 k', '1.00 M'],
  );
  assert.deepEqual(shown.times, ['59 s before', '30 s', 'now']);
  const [bottom, top] = [shown.ticks[0][1], shown.ticks.at(-1)[1]];
  const told = (1e6 * (bottom - shown.threshold)) / (bottom - top);
  assert.ok(Math.abs(told - 40e3) < 10e3, `the threshold is drawn at ${told}`);
}

async function approves() {
  await browser.go('#/attack?id=17');
  await page.click('button:text("Approve")');
  await page.waitForSelector('.sure:has-text("It hits 0.40 % of the other traffic.")');
  await page.click('.sure button:text("No")');
  assert.equal(await page.locator('.sure').count(), 0);
  await page.click('button:text("Approve")');
  await page.click('button:text("Yes, approve")');
  await page.waitForSelector('[role=status]:has-text("1 route of attack 17 is announced")');
  await page.waitForSelector('.mark:text("announced")');
  await page.waitForSelector(`.mark:text("in the speaker's table")`);
  await page.waitForSelector('text=Last decided by alice.');
}

async function withdraws() {
  await page.click('button:text("Keep for 6 h")');
  await page.waitForSelector('[role=status]:has-text("attack 17 lives for 21600 s")');
  await page.click('button:text("Withdraw")');
  await page.click('button:text("Yes, withdraw")');
  await page.waitForSelector('.mark:text("seen")');
}

async function past() {
  await browser.go('#/journal');
  await page.waitForSelector('[aria-label="Journal"] tbody tr:has-text("alice")');
  assert.ok((await page.locator('[aria-label="Journal"] tbody tr').count()) >= 4);
  await browser.go('#/history');
  await page.waitForSelector('tr[data-id="3"]');
  await page.click('tr[data-id="3"] a');
  await page.waitForSelector('.mark:text("over")');
  await browser.go('#/groups');
  await page.waitForSelector('tr[data-id="udp_amplification"]:has-text("40.0 k")');
}

async function stops() {
  await browser.go('#/');
  await page.click('button:text("Stop everything")');
  await page.click('button:text("Yes, stop everything")');
  await page.waitForSelector('section.state.bad:has-text("Stopped by alice")');
  await page.click('button:text("Resume")');
  await page.click('button:text("Yes, resume")');
  await page.waitForSelector('section.state:not(:has-text("Stopped"))');
}

async function stands() {
  await page.waitForSelector(`[aria-label="BGP speaker"] :text("gobgpd's table has 1 route of Weir's.")`);
  assert.equal(await page.locator('section.state .problem').count(), 0);
  await order('silent');
  await page.waitForSelector(
    'section.state .problem:has-text("gobgpd does not answer: 3 routes may still stand.") >> nth=0',
  );
  await page.waitForSelector('section.state .problem:has-text("a restart would not know of it")');
  await page.waitForSelector('[aria-label="BGP speaker"] .warn:has-text("3 routes may still stand")');
  await order('answers');
  await page.waitForSelector('section.state:not(:has(.problem))');
}

async function looks() {
  for (const [colorScheme, width] of [
    ['light', 1400],
    ['dark', 1400],
    ['light', 400],
    ['dark', 400],
    ['light', 420],
    ['light', 600],
  ]) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width, height: 900 });
    for (const [name, view, shown] of [
      ['now', '#/', 'tr[data-id="17"]'],
      ['attack', '#/attack?id=17', '.tops'],
      ['journal', '#/journal', '[aria-label="Journal"] tbody tr'],
      ['history', '#/history', 'tr[data-id="3"]'],
      ['groups', '#/groups', 'tr[data-id="udp_amplification"]'],
    ]) {
      await browser.go(view);
      await page.waitForSelector(shown);
      assert.deepEqual(await browser.axe(), [], `${name} ${colorScheme} ${width}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${name} is ${wide} px wide at ${width} px`);
      if (name === 'now') await uncut(width);
      if (SHOTS) {
        mkdirSync(SHOTS, { recursive: true });
        await page.screenshot({ path: `${SHOTS}/protect-${name}-${width}-${colorScheme}.png`, fullPage: true });
      }
    }
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 1400, height: 900 });
}

/** The last column of the attacks is there at once, whatever their targets and states are. */
async function uncut(width) {
  const [needed, room] = await page.evaluate(() => {
    const scroll = document.querySelector('.scroll[aria-label="Attacks"]');
    const texts = [
      [scroll.querySelector('td a'), '2001:db8:1234:5678:9abc:def0:1234:5678/128'],
      [scroll.querySelector('.mark'), 'withdrawn by a person'],
      [scroll.querySelector('td.number:last-child'), '119 min'],
    ];
    const before = texts.map(([element]) => element.textContent);
    for (const [element, text] of texts) element.firstChild.data = text;
    const found = [scroll.scrollWidth, scroll.clientWidth];
    for (const [index, [element]] of texts.entries()) element.firstChild.data = before[index];
    return found;
  });
  assert.ok(needed <= room, `the attacks need ${needed} px at ${width} px, of which ${room} are theirs`);
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
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Stop everything');
}

async function empty() {
  await order('empty');
  await page.waitForSelector('section.state.fine:has-text("No attack.")');
  await page.waitForSelector('.empty:text("No attack now.")');
  await page.waitForSelector('.empty:has-text("None is configured: nothing can be announced.")');
  await browser.go('#/attack?id=99');
  await page.waitForSelector('.empty:has-text("There is no such attack")');
  await browser.go('#/');
}

async function comesBack() {
  await order('gone');
  await page.waitForSelector('.pulse.gone');
  assert.match(await page.innerText('.lost'), /has not answered for .* Routes that are announced stay\./);
  await order('back');
  await page.waitForSelector('.pulse.live');
  assert.equal(await page.locator('.lost').isVisible(), false);
}

async function revoked() {
  await order('revoke');
  await page.waitForSelector('.signin .problem:has-text("no known token")');
  assert.equal(await page.locator('section.state').count(), 0);
}
