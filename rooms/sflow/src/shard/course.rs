//! How an agent's clock has gone beside ours, and which number had come when: a datagram that was sent after those that it is numbered
//! before is somebody else's, or they are.
//!
//! A datagram takes some time to us. The one that took least says how far the agent's clock is from ours; by that line each other one was
//! sent no later than `arrival - (line - its own difference)`. Whoever is overtaken on the way, or waits here because nobody reads, was sent
//! before what it is numbered before all the same. Whoever sends in an agent's name, ahead of it, makes what the agent sends then look sent
//! too late, whatever he says of the time: the line can only be raised, and by so much as his clock is ahead the finding is late.

use std::collections::VecDeque;

use crate::agents::{Nanos, SECOND};

/// Of one stream.
#[derive(Clone, Debug)]
pub(super) struct Course {
    /// An uptime, ms, and when it came: others are held against it.
    start: (u32, Nanos),
    /// By how many ms uptimes were ahead of that in each of the last windows, at most, and by how many datagrams that is known.
    best: [(i64, u32); WINDOWS],
    /// Number of the newest window.
    window: u64,
    /// In what steps uptimes go, ms; 0: not with the time.
    granule: u32,
    /// That of the datagram which is furthest, ms.
    uptime: u32,
    /// Numbers that had come, and when; ascending.
    marks: VecDeque<(u32, Nanos)>,
}

impl Course {
    /// Of a stream whose first datagram comes now.
    pub(super) fn new(number: u32, uptime: u32, now: Nanos) -> Self {
        let mut marks = VecDeque::with_capacity(MARKS + 1);
        marks.push_back((number, now));
        let mut best = [NOTHING; WINDOWS];
        best[0] = (0, 1);
        Self { start: (uptime, now), best, window: now / WINDOW, granule: 0, uptime, marks }
    }

    /// A datagram came that is further than all before. `granule`: in what steps uptimes go, ms; 0: not with the time. `pause`: how long its
    /// stream is silent at times.
    #[inline]
    pub(super) fn forward(&mut self, (number, uptime): (u32, u32), (granule, pause): (u32, Nanos), now: Nanos) {
        (self.granule, self.uptime) = (granule, uptime);
        if now / WINDOW != self.window {
            self.begin_window(uptime, now);
        }
        let ahead = self.ahead(uptime, now);
        let (best, count) = &mut self.best[0];
        (*best, *count) = ((*best).max(ahead), count.saturating_add(1));
        let apart = APART.max(2 * pause / MARKS as u64);
        if self.marks.back().is_none_or(|(_, at)| now.saturating_sub(*at) >= apart) {
            if self.marks.len() == MARKS {
                self.marks.pop_front();
            }
            self.marks.push_back((number, now));
        }
    }

    /// Whether a datagram that is numbered before others was sent after they had come.
    #[cold]
    pub(super) fn is_sent_later(&self, (number, uptime): (u32, u32), now: Nanos) -> bool {
        let (Some((line, _)), true) = (self.line(), self.granule > 0) else { return false };
        let waited = (line - self.ahead(uptime, now)).max(0) as u64 * MILLISECOND;
        let sent = now.saturating_sub(waited);
        let is_further = |(mark, _): &&(u32, Nanos)| mark.wrapping_sub(number) as i32 > 0;
        let further = self.marks.iter().find(is_further);
        further.is_some_and(|(_, came)| sent > came + UNEVEN + u64::from(self.granule) * MILLISECOND)
    }

    /// Whether a number is among those that are remembered, or behind them: of older ones nobody could tell whose they are.
    pub(super) fn covers(&self, number: u32) -> bool {
        self.marks.front().is_some_and(|(mark, _)| number.wrapping_sub(*mark) as i32 >= 0)
    }

    /// Whether an uptime is further ahead than the agent's clock can be, as it has gone so far.
    #[inline]
    pub(super) fn is_ahead(&self, uptime: u32, now: Nanos) -> bool {
        let line = self.line().filter(|line| self.is_known(line));
        line.is_some_and(|(line, _)| self.ahead(uptime, now) > line + AHEAD + i64::from(self.granule))
    }

    /// Whether a clock that has gone with ours so far goes back.
    pub(super) fn is_back(&self, uptime: u32) -> bool {
        let is_known = self.line().is_some_and(|line| self.is_known(&line));
        is_known && (uptime.wrapping_sub(self.uptime) as i32) < 0
    }

    fn is_known(&self, line: &(i64, u32)) -> bool {
        line.1 >= KNOWN && self.granule > 0
    }

    /// How much longer a datagram was on its way than others, ns. By the windows that have ended, and the one in which uptimes were ahead least:
    /// who wants to look late for long has to make all look so.
    pub(super) fn waited(&self, uptime: u32, now: Nanos) -> Nanos {
        let ended = self.best[1..].iter().filter(|(_, count)| *count >= ENOUGH).map(|(best, _)| *best);
        let line = ended.min().or((self.best[0].1 > 0).then_some(self.best[0].0));
        line.map_or(0, |line| (line - self.ahead(uptime, now)).max(0) as u64 * MILLISECOND)
    }

    /// By how many ms uptimes are ahead at most, and by how many datagrams of late that is known.
    fn line(&self) -> Option<(i64, u32)> {
        let known = self.best.iter().filter(|(_, count)| *count > 0);
        known.copied().reduce(|a, b| (a.0.max(b.0), a.1.saturating_add(b.1)))
    }

    /// By how many ms an uptime is ahead of the one that it is held against.
    fn ahead(&self, uptime: u32, now: Nanos) -> i64 {
        let (from, since) = self.start;
        i64::from(uptime.wrapping_sub(from) as i32) - (now.saturating_sub(since) / MILLISECOND) as i64
    }

    fn begin_window(&mut self, uptime: u32, now: Nanos) {
        let windows = (now / WINDOW).saturating_sub(self.window).min(WINDOWS as u64) as usize;
        self.window = now / WINDOW;
        self.best.rotate_right(windows % WINDOWS);
        self.best[..windows].fill(NOTHING);
        // What they are held against moves on with them: uptimes wrap.
        let moved = self.ahead(uptime, now);
        self.start = (uptime, now);
        self.best.iter_mut().for_each(|(best, _)| *best = best.saturating_sub(moved));
    }
}

const MILLISECOND: u64 = SECOND / 1000;

/// How long a window is, ns.
const WINDOW: u64 = 10 * SECOND;

/// Windows that are remembered.
const WINDOWS: usize = 6;

/// Of a window in which nothing came.
const NOTHING: (i64, u32) = (i64::MIN / 2, 0);

/// Numbers that are remembered, and how far apart they came at least, ns: together for longer than an uptime may be ahead of its stream's, and for two
/// of its pauses.
const MARKS: usize = 64;
const APART: u64 = SECOND / 5;

/// By how much datagrams may be sent in another order than they are numbered in, ns.
const UNEVEN: u64 = SECOND / 10;

/// By how much an uptime may be ahead of all before, ms.
const AHEAD: i64 = 1_000;

/// Datagrams of a window among which one did not wait.
const ENOUGH: u32 = 8;

/// Datagrams by which it is known how a clock goes.
const KNOWN: u32 = 32;

#[cfg(test)]
mod tests {
    use weir_testbed::random::Source;

    use super::*;

    /// An agent that sends ten datagrams a second, whose clock is fast or slow by so many parts in a million: each with when it comes.
    fn sent(random: &mut Source, drift: i64, mut delay: impl FnMut(&mut Source, u64) -> u64) -> Vec<(u64, u32, u32)> {
        let mut all: Vec<(u64, u32, u32)> = (0..2_000u64)
            .map(|number| {
                let ms = 100 * number;
                let uptime = (u32::MAX - 50_000).wrapping_add((ms as i64 + ms as i64 * drift / 1_000_000) as u32);
                (ms + delay(random, ms), number as u32, uptime)
            })
            .collect();
        all.sort_by_key(|one| one.0);
        all
    }

    /// Whether any of datagrams that come so is found to be sent later than it may be, or ahead.
    fn is_found(all: &[(u64, u32, u32)]) -> Option<u64> {
        let at = |ms: u64| SECOND * 1_000 + ms * MILLISECOND;
        let mut course = Course::new(all[0].1, all[0].2, at(all[0].0));
        let mut highest = all[0].1;
        for &(ms, number, uptime) in &all[1..] {
            if number > highest {
                if number > highest + 8 && course.is_ahead(uptime, at(ms)) {
                    return Some(ms);
                }
                highest = number;
                course.forward((number, uptime), (1, 100 * MILLISECOND), at(ms));
            } else if course.is_sent_later((number, uptime), at(ms)) {
                return Some(ms);
            }
        }
        None
    }

    #[test]
    fn nothing_that_a_network_or_a_standstill_does_looks_sent_later() {
        let mut random = Source::drawn();
        type Delay = fn(&mut Source, u64) -> u64;
        let even: Delay = |random, _| 10 + random.number(0..400);
        // A way of 20 ms and one of 900, by turns of a minute.
        let ways: Delay = |random, ms| (if ms / 60_000 % 2 == 0 { 20 } else { 900 }) + random.number(0..300);
        // Nobody reads for three seconds out of twenty: what came then is read at their end, in order.
        let standstill: Delay = |random, ms| 10 + random.number(0..50) + 3_000_u64.saturating_sub(ms % 20_000);
        for delay in [even, ways, standstill] {
            for drift in [-20_000, -100, 0, 100, 20_000] {
                let all = sent(&mut random, drift, delay);
                assert_eq!(is_found(&all), None, "drift {drift}");
                // A fifth is lost.
                let some: Vec<_> = all.into_iter().filter(|_| random.uniform() > 0.2).collect();
                assert_eq!(is_found(&some), None, "drift {drift}, losses");
            }
        }
    }

    #[test]
    fn who_is_ahead_of_the_agent_is_found_however_often_he_sends_and_whatever_he_says_of_the_time() {
        let mut random = Source::drawn();
        // By how many numbers, how often, ms, with what uptime.
        for (numbers, every, ahead) in [
            (2, 100, 0),
            (64, 10, 900),
            (63, 10, 900),
            (100, 100, 4_500),
            (100, 1_000, 4_500),
            (3_000, 50, 4_900),
            (500, 5, 0),
        ] {
            let mut all = sent(&mut random, 50, |random, _| 10 + random.number(0..20));
            let first = all[1_000];
            for turn in 0..10_000 / every {
                let ms = first.0 + 30 + turn * every;
                // Never a number of the agent's that has come, nor one that will come soon.
                let number = first.1 + numbers + turn as u32 * (1 + every as u32 / 100);
                all.push((ms, number, first.2.wrapping_add((ms - first.0) as u32 + ahead)));
            }
            all.sort_by_key(|one| one.0);
            let found = is_found(&all).map_or(u64::MAX, |ms| ms - first.0);
            assert!(found <= 1_500, "{numbers} ahead each {every} ms, clock {ahead} ms ahead: after {found} ms");
        }
    }
}
