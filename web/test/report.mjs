// The report of a large run, in a real browser, from a file. Exits with 0 if all holds; prints what does as it goes.

import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';
import { Browser } from './browser.mjs';

const CELLS = Number(process.env.CELLS);
const address = pathToFileURL(process.env.REPORT).href;

const browser = await Browser.start();
const { page } = browser;
const asked = [];
page.on('request', request => asked.push(request.url()));
try {
  await page.goto(address, { waitUntil: 'domcontentloaded' });
  await page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))));
  const ready = await page.evaluate(() => Math.round(performance.now()));
  console.log(`ready and painted after ${ready} ms`);
  const rows = page.locator('[data-list="rows"] > tr');
  const names = () => page.locator('[data-list="rows"] > tr > td:first-child').allTextContents();
  const accounts = page.locator('[data-list="accounts"] > details');
  const more = page.locator('.card:has([data-list="rows"]) + button');
  const search = kind => page.locator(`[data-find="${kind}"]`);
  const find = async (kind, text) => {
    await search(kind).fill(text);
    await search(kind).press('Enter');
    await page.waitForFunction(kind => document.querySelector(`[data-found="${kind}"]`).textContent !== '…', kind);
  };

  await check('the first rows are there, of all', async () => {
    assert.equal(await rows.count(), 100);
    assert.equal(await accounts.count(), 100);
    assert.equal(await more.textContent(), `Show 200 more of ${CELLS - 100}`);
  });

  await check('more are shown when asked for, in order', async () => {
    await more.click();
    await page.waitForFunction(() => document.querySelectorAll('[data-list="rows"] > tr').length === 300);
    assert.deepEqual(
      await names(),
      Array.from({ length: 300 }, (_, i) => name(i)),
    );
  });

  await check('a heading sorts all rows, whichever way', async () => {
    const heading = page.locator('table[data-sort] th', { hasText: /^sent$/ });
    const first = want =>
      page.waitForFunction(want => document.querySelector('[data-list="rows"] > tr > td')?.textContent === want, want);
    // What was sent falls with the number of the cell.
    await heading.click();
    await first(name(CELLS - 1));
    await heading.click();
    await first(name(0));
    assert.equal(await rows.count(), 200);
  });

  await check('what is looked for is found in all rows, as it is seen', async () => {
    await find('rows', name(CELLS - 1).toUpperCase());
    assert.deepEqual(await names(), [name(CELLS - 1)]);
    await find('rows', '<b>');
    assert.equal(await rows.count(), 200);
    assert.equal(await page.locator('[data-found="rows"]').textContent(), `${CELLS} of ${CELLS}`);
    // Of markup nothing is found.
    await find('rows', 'class="n"');
    assert.equal(await rows.count(), 0);
    await find('rows', '');
    assert.equal(await rows.count(), 200);
  });

  await check('an account opens, with what was sampled', async () => {
    await find('accounts', name(CELLS - 2));
    assert.equal(await accounts.count(), 1);
    await accounts.locator('summary').click();
    await page.waitForSelector('.timelines svg path', { state: 'attached' });
    assert.match(await accounts.locator('.timelines').textContent(), /Congestion window/);
    assert.match(await accounts.locator('table').first().textContent(), new RegExp(`sent${CELLS}`));
  });

  assert.deepEqual(asked, [address], 'nothing is fetched');
  assert.deepEqual(browser.faults, []);
} finally {
  await browser.end();
}

function name(number) {
  return `cell ${String(number).padStart(4, '0')} </script><b>`;
}

async function check(what, run) {
  await run();
  console.log(`ok: ${what}`);
}
