// The report of a large run, in a real browser, from a file. Exits with 0 if all holds; prints what does as it goes.

import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';
import { Browser } from './browser.mjs';

const CELLS = Number(process.env.CELLS);
const SHOWN = 2000;
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
  const names = () => page.locator('table[data-sort] tbody > tr > td:first-child').allTextContents();
  const cells = page.locator('details');

  await check('the first rows are there, and the table of all is named', async () => {
    assert.deepEqual(
      await names(),
      Array.from({ length: SHOWN }, (_, i) => name(i)),
    );
    assert.equal(await cells.count(), SHOWN);
    assert.match(
      await page.locator('p.note').first().textContent(),
      new RegExp(`first ${SHOWN} of ${CELLS} rows.*results.csv`),
    );
  });

  await check('a heading sorts the rows, in both directions', async () => {
    const heading = page.locator('table[data-sort] th', { hasText: /^sent$/ });
    // The number of messages sent falls with the number of the cell.
    await heading.click();
    assert.equal((await names())[0], name(SHOWN - 1));
    await heading.click();
    assert.equal((await names())[0], name(0));
  });

  await check('a cell opens, with its timelines and its ledger', async () => {
    const cell = cells.nth(SHOWN - 1);
    await cell.locator('summary').click();
    await page.waitForSelector('.timelines svg path', { state: 'attached' });
    assert.match(await cell.locator('.timelines').textContent(), /Congestion window/);
    assert.match(await cell.locator('table').first().textContent(), /sent2500/);
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
