// The right edge of a screen that follows: the time of the newest sample, which goes on evenly between arrivals, and when none come.

/** Arrivals that are looked back at, ms. */
const WINDOW = 2000;

/** How fast the edge is moved back when samples come later than it thinks: ms a second. */
const SLEW = 20;

export class Edge {
  /** What is added to this machine's clock. */
  private ahead: number | undefined;
  private least = Number.POSITIVE_INFINITY;
  private since = 0;

  /** Samples up to `end` are there at `now`. */
  arrive(end: number, now: number): void {
    const ahead = end - now;
    if (this.ahead === undefined || ahead > this.ahead || this.ahead - ahead > 10_000) {
      this.ahead = ahead;
      this.least = 0;
    }
    this.least = Math.min(this.least, this.ahead - ahead);
    if (now - this.since > WINDOW) {
      // What is late each time is no lateness: clocks differ.
      if (this.least > 1 && this.since > 0) this.ahead -= Math.min(this.least, (SLEW * WINDOW) / 1000);
      this.least = Number.POSITIVE_INFINITY;
      this.since = now;
    }
  }

  at(now: number): number | undefined {
    return this.ahead === undefined ? undefined : now + this.ahead;
  }
}
