// From a sensor to a pixel: how long after a step of the signal the canvas of the page shows it, and likewise a page that polls InfluxDB.
// What drives it is bench/monitor/src/scenes/pixel.rs, which reads the one line of JSON that it prints.

import { Browser } from './browser.mjs';

const { SERVER, INFLUX } = process.env;
const CHANNELS = Number(process.env.CHANNELS);
const LOOK_MS = Number(process.env.LOOK_MS);
const POLL_MS = Number(process.env.POLL_MS ?? 1000);

// A wall of screens: a plot is never lower than it can be read, and what is out of sight is not drawn.
const browser = await Browser.start({ viewport: { width: 1400, height: 4600 } });
const { page } = browser;
try {
  console.log(JSON.stringify(await (SERVER ? live() : polled())));
} finally {
  await browser.end();
}

/** The page of `weir monitor serve`: its canvas is read back in each frame. */
async function live() {
  const get = async path => (await fetch(`http://${SERVER}${path}`)).json();
  let channels = [];
  for (let tries = 0; channels.length < CHANNELS && tries < 200; tries += 1) {
    channels = await get('/channels').catch(() => []);
    await new Promise(turned => setTimeout(turned, 50));
  }
  if (channels.length < CHANNELS) throw new Error(`only ${channels.length} channels`);
  const ids = channels.map(({ station, stream, name }) => [station, stream, name].map(encodeURIComponent).join('/'));
  await page.goto(`http://${SERVER}/#/?${new URLSearchParams({ signals: ids.join(','), span: 10_000 })}`);
  await page.waitForFunction(
    count => globalThis.weir?.isDrawn() && document.querySelectorAll('.plot canvas').length === count,
    CHANNELS,
  );
  // The scale is that of both levels, and the clock has settled.
  await page.waitForTimeout(3000);
  const seen = await page.evaluate(
    look =>
      new Promise(done => {
        const canvas = document.querySelector('.plot canvas');
        const pen = canvas.getContext('2d');
        const probe = document.createElement('canvas').getContext('2d');
        const rgb = name => {
          probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
          probe.fillRect(0, 0, 1, 1);
          return [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3);
        };
        const ground = rgb('panel');
        const line = rgb('part-0').map((value, part) => value - ground[part]);
        const length = line.reduce((sum, value) => sum + value * value, 0);
        const wide = 40;
        /** Whether the newest column of the curve has something of the upper half, and of the lower. */
        const newest = () => {
          const { width, height } = canvas;
          const { data } = pen.getImageData(width - wide, 0, wide, height);
          const at = (x, y) => {
            const pixel = 4 * (y * wide + x);
            // A level line may be between two rows: a third of the way from the ground to its colour is enough.
            const share = line.reduce((sum, value, part) => sum + value * (data[pixel + part] - ground[part]), 0);
            return share > 0.35 * length;
          };
          for (let x = wide - 1; x >= 0; x -= 1) {
            let [up, down] = [false, false];
            // Below the bar of gaps.
            for (let y = 4; y < height; y += 1) {
              if (!at(x, y)) continue;
              if (y < height / 2) up = true;
              else down = true;
            }
            if (up || down) return { up, down };
          }
          return undefined;
        };
        let level;
        let isLevel = false;
        let last;
        const [steps, frames, begin] = [[], [], performance.now()];
        // Asked for after the page has asked for its own: in each frame it runs when the page has drawn.
        const frame = now => {
          if (last !== undefined) frames.push(now - last);
          last = now;
          const found = newest();
          // A millisecond is counted whole.
          const time = Date.now() + 1;
          if (found && found.up !== found.down && (level === undefined || found.up === level)) {
            [level, isLevel] = [found.up, true];
          } else if (found && isLevel) {
            // The column of a step has both, until there is a newer one.
            [level, isLevel] = [!level, false];
            steps.push({ time, up: level });
          }
          if (now - begin < look) requestAnimationFrame(frame);
          else done({ steps, frames });
        };
        requestAnimationFrame(frame);
      }),
    LOOK_MS,
  );
  const [from, to] = [seen.steps[0].time - 1000, seen.steps.at(-1).time];
  const key = channels[0].key;
  const { rows } = await get(`/history?key=${key}&from=${from}&to=${to}&columns=100000`);
  // Time, index, samples, least, greatest, first, last: of a bucket in which it steps, the beginning is taken.
  const steps = [];
  let before;
  for (const [time, , , least, greatest, first, last] of rows) {
    if (before !== undefined && (greatest - least > 1 || Math.abs(first - before) > 1))
      steps.push({ time, up: last > 0 });
    before = last;
  }
  const delays = seen.steps.map(({ time, up }) => {
    const step = steps.findLast(step => step.up === up && step.time <= time);
    return step ? time - step.time : Number.NaN;
  });
  const missed = steps.filter(({ time }) => time > seen.steps[0].time).length - (seen.steps.length - 1);
  seen.frames.sort((a, b) => a - b);
  const sight = await page.evaluate(
    () =>
      [...document.querySelectorAll('.plot canvas')].filter(canvas => {
        const { top, bottom } = canvas.getBoundingClientRect();
        return bottom > 0 && top < innerHeight;
      }).length,
  );
  return { delays, missed, sight, frame_ms: seen.frames[seen.frames.length >> 1] };
}

/** A page as one writes it for InfluxDB: it asks for what is new each second, and draws it. */
async function polled() {
  await page.goto(`http://${INFLUX}/ping`).catch(() => {});
  await page.goto(`http://${INFLUX}/query?q=SHOW+DATABASES`);
  const delays = await page.evaluate(
    ([channels, look, every]) =>
      new Promise((done, failed) => {
        document.body.textContent = '';
        const pens = Array.from({ length: channels }, () => {
          const canvas = document.createElement('canvas');
          [canvas.width, canvas.height] = [1300, 60];
          document.body.append(canvas);
          return canvas.getContext('2d');
        });
        const points = pens.map(() => []);
        const [delays, begin] = [[], performance.now()];
        let newest = Date.now() - 1000;
        const draw = () => {
          const end = Date.now();
          pens.forEach((pen, number) => {
            pen.clearRect(0, 0, 1300, 60);
            pen.beginPath();
            for (const [time, value] of points[number]) {
              pen.lineTo(1300 - ((end - time) / 10_000) * 1300, 30 - value * 25);
            }
            pen.stroke();
          });
        };
        const ask = async () => {
          // Buckets of 10 ms, as wide as a column; those of the last second again, for what came late.
          const query = `SELECT last("value") FROM "signal" WHERE time > ${Math.floor(newest - 1000)}ms GROUP BY time(10ms), "channel" fill(none)`;
          const answer = await fetch(`/query?${new URLSearchParams({ db: 'signals', epoch: 'ms', q: query })}`);
          const { results } = await answer.json();
          const fresh = [];
          for (const { tags, values } of results[0].series ?? []) {
            const known = points[Number(tags.channel)];
            const last = known.at(-1)?.[0] ?? Number.NEGATIVE_INFINITY;
            for (const [time, value] of values) {
              if (time <= last) continue;
              known.push([time, value]);
              if (tags.channel === '0') fresh.push(time);
              newest = Math.max(newest, time);
            }
            while (known.length > 1000) known.shift();
          }
          requestAnimationFrame(() => {
            draw();
            const now = Date.now() + 1;
            // The first seconds fill it.
            if (performance.now() - begin > 3000) delays.push(...fresh.map(time => now - time));
          });
        };
        const timer = setInterval(() => ask().catch(failed), every);
        setTimeout(() => {
          clearInterval(timer);
          done(delays);
        }, look + 3000);
      }),
    [CHANNELS, LOOK_MS, POLL_MS],
  );
  return { delays };
}
