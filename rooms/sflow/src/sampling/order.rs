//! Whether the samples of a data source are of one hand: an agent numbers each of them once, and its pool goes on.
//!
//! Somebody else who writes samples into an agent's stream has to number them, too. Then the agent's own come with numbers that have been
//! there, or numbers and pool go on where they were before he leapt ahead. What begins anew, and stays there, was begun anew by the agent.
//! Only of sources that have counted for some time is anything said: there are agents that number their samples all alike.

use crate::agents::{Nanos, Step};

/// Of one data source.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order {
    /// Whether it numbers its samples, and has a pool.
    numbers: Habit,
    pools: Habit,
    is_broken: bool,
}

/// Something that goes on, and where it was before it last went elsewhere.
#[derive(Clone, Copy, Debug, Default)]
struct Habit {
    /// How often in a row it went on as it should, up to [`OFTEN`], and since when, ms.
    times: u8,
    since: u32,
    /// Whether it did so for long, at any time.
    is_known: bool,
    has_former: bool,
    /// Where it was, and until when, ms.
    former: (u32, u32),
}

/// A sample, and what it is by its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampled {
    /// What its number says.
    pub(super) step: Step,
    /// Whether its datagram was overtaken.
    pub(super) late: bool,
    /// Its number, and the highest before.
    pub(super) number: (u32, u32),
    /// Its pool, and the last one before.
    pub(super) pool: (u32, u32),
    /// Packets that a sample stands for, by the agent's configuration.
    pub(super) rate: u32,
    /// When it came.
    pub(super) now: Nanos,
}

impl Order {
    /// A sample came; whether it shows that there are two hands. Not to be told of the first one.
    #[inline]
    pub(super) fn take(&mut self, sampled: &Sampled) -> bool {
        let was_broken = std::mem::take(&mut self.is_broken);
        self.judge(sampled);
        let is_broken = self.is_broken;
        self.is_broken |= was_broken;
        is_broken
    }

    #[inline]
    fn judge(&mut self, sampled: &Sampled) {
        let made = match sampled.step {
            Step::Next => 1,
            Step::Lost(lost) => lost.saturating_add(1),
            _ => return self.backward(sampled),
        };
        if sampled.late {
            return;
        }
        let Sampled { number, pool, rate, now, .. } = *sampled;
        if made > LEAP {
            self.is_broken |= self.numbers.leap(number, NEAR, now);
        } else {
            self.numbers.go_on(now);
        }
        let (growth, most) =
            (pool.0.wrapping_sub(pool.1), FEW.saturating_add(made).saturating_mul(UNLIKELY * rate.min(1 << 24)));
        if growth > most {
            self.is_broken |= self.pools.leap(pool, most, now);
        } else if growth > 0 {
            self.pools.go_on(now);
        } else {
            self.pools.falter();
        }
    }

    /// Whether two hands were found since this was asked for last.
    #[inline]
    pub(super) fn take_broken(&mut self) -> bool {
        std::mem::take(&mut self.is_broken)
    }

    #[cold]
    fn backward(&mut self, sampled: &Sampled) {
        match sampled.step {
            // In another datagram than before.
            Step::Duplicate if self.numbers.is_known => self.is_broken = true,
            Step::Stale | Step::Jump if !sampled.late => {
                self.is_broken |= self.numbers.leap(sampled.number, NEAR, sampled.now);
                self.numbers.falter();
            }
            _ if sampled.late => {}
            _ => self.numbers.falter(),
        }
    }
}

impl Habit {
    #[inline]
    fn go_on(&mut self, now: Nanos) {
        let now = millis(now);
        if self.times == 0 {
            self.since = now;
        }
        self.times = self.times.saturating_add(1).min(OFTEN);
        self.is_known |= self.times == OFTEN && now.wrapping_sub(self.since) >= LONG;
    }

    fn falter(&mut self) {
        self.times = 0;
    }

    /// It went elsewhere; whether that is where it was before it last did.
    #[cold]
    fn leap(&mut self, (value, before): (u32, u32), most: u32, now: Nanos) -> bool {
        let is_ahead = |of: u32, other: u32| of.wrapping_sub(other) as i32 > 0;
        let (now, (former, at)) = (millis(now), self.former);
        // Whoever loses much leaps ahead twice, but never past where he was.
        let past = is_ahead(former, before) || is_ahead(before, value);
        let is_near = now.wrapping_sub(at) <= MEMORY && (1..=most).contains(&value.wrapping_sub(former));
        let is_back = self.has_former && past && is_near;
        (self.has_former, self.former) = (true, (before, now));
        is_back && self.is_known
    }
}

/// How often in a row, and for how long, ms, something must have gone on for it to be known that it does.
const OFTEN: u8 = 64;
const LONG: u32 = 30_000;

/// Samples missing at once that are a leap.
const LEAP: u32 = 64;

/// How far numbers may have gone on meanwhile.
const NEAR: u32 = 4_096;

/// How many times more than configured the pool never grows by chance, over some samples besides.
const UNLIKELY: u32 = 16;
const FEW: u32 = 4;

/// For how long it is remembered where numbers and pool were, ms.
const MEMORY: u32 = 60_000;

/// Modulo 2^32: there are many sources, and each has two of them.
fn millis(now: Nanos) -> u32 {
    (now / 1_000_000) as u32
}
