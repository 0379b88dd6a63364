// Chromium with one page open, which notes whatever goes wrong in it.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Whether all is looked at, and times are judged. */
export const LONG = process.env.LONG !== '';

export async function check(what, run) {
  const begin = performance.now();
  await run();
  console.log(`ok: ${what} (${Math.round(performance.now() - begin)} ms)`);
}

/** The same, of what takes its time. */
export async function checkLong(what, run) {
  if (LONG) await check(what, run);
}

export class Browser {
  /** Errors of the console, exceptions and violations of the policy. */
  faults = [];

  static async start(options = {}) {
    const browser = new Browser();
    browser.chromium = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      // In a container, as root, there is neither a sandbox nor much of /dev/shm.
      args: ['--no-sandbox', '--disable-dev-shm-usage', '--enable-precise-memory-info', '--js-flags=--expose-gc'],
    });
    browser.context = await browser.chromium.newContext({ viewport: { width: 1400, height: 900 }, ...options });
    await browser.context.addInitScript(() => {
      addEventListener('securitypolicyviolation', event =>
        console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`),
      );
    });
    browser.page = await browser.tab();
    return browser;
  }

  async tab() {
    const page = await this.context.newPage();
    page.setDefaultTimeout(30_000);
    page.on('console', message => message.type() === 'error' && this.faults.push(message.text()));
    page.on('pageerror', error => this.faults.push(String(error)));
    page.on('dialog', dialog => {
      this.faults.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    return page;
  }

  /** Goes to a view and waits until all that it shows has been answered. */
  async go(view, page = this.page) {
    await page.evaluate(hash => {
      location.hash = hash;
    }, view);
    await this.settled(page);
  }

  async settled(page = this.page) {
    await page.waitForSelector('.pulse.live');
    await page.waitForFunction(() => {
      const ages = [...document.querySelectorAll('main .age')];
      return document.querySelector('main')?.children.length && ages.every(age => age.textContent !== 'waiting…');
    });
  }

  /**
   * From one frame to the next, ms: the middle, and what 95 of 100 are within. Where others are busy frames are late, whatever the page
   * costs: the best of a few looks.
   */
  async frames() {
    let best;
    for (let looks = 0; looks < 5 && !(best?.median < 17.5); looks++) {
      const gaps = await this.page.evaluate(
        () =>
          new Promise(done => {
            const gaps = [];
            let last;
            const frame = now => {
              if (last !== undefined) gaps.push(now - last);
              last = now;
              if (gaps.length < 300) requestAnimationFrame(frame);
              else done(gaps.sort((a, b) => a - b));
            };
            requestAnimationFrame(frame);
          }),
      );
      const [median, late] = [gaps[150], gaps[285]];
      if (!(best?.median < median)) best = { median, late };
    }
    console.log(`frames: median ${best.median.toFixed(1)} ms, 95 % within ${best.late.toFixed(1)} ms`);
    return best;
  }

  /** What axe finds, in words. */
  async axe() {
    // Each takes some time: whoever waits for a line is to see that it goes on.
    console.log(`axe looks at ${this.page.url()}`);
    await this.page.evaluate(AXE);
    const { violations } = await this.page.evaluate(() => globalThis.axe.run());
    return violations.map(
      ({ id, help, nodes }) =>
        `${id}: ${help}: ${nodes
          .map(({ html }) => html)
          .slice(0, 3)
          .join(' ')}`,
    );
  }

  async end() {
    await this.chromium.close();
  }
}
