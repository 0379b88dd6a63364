//! What an interface's counters say of the time since each of their last readings.
//!
//! One interval between two readings may be too short to say anything, since agents read counters from a copy that is renewed now and
//! then; several of them together are not, however short each is.

use std::collections::VecDeque;

use super::Counts;

/// The last readings of an interface's counters, without a gap.
#[derive(Debug, Default)]
pub(super) struct Readings {
    /// The oldest first.
    all: VecDeque<Reading>,
}

/// Totals since the oldest one.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    at: u64,
    packets: [f64; 2],
    bits: [f64; 2],
}

/// What was counted from one of the readings to the newest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// When the earlier one came, ns.
    pub(super) from: u64,
    /// Packets, in and out.
    pub(super) packets: [f64; 2],
    /// Bits, in and out.
    pub(super) bits: [f64; 2],
}

/// Readings that are remembered.
const READINGS: usize = 32;
/// For how long, ns: samples are not known for longer.
const OLDEST: u64 = 60 * SECOND;
/// Readings before which nobody knows how often the copy is renewed.
const FEW: usize = 6;
/// How much later than the reading before an interval may begin, ns, and how much earlier: datagrams wait on their way.
const LATER: u64 = SECOND / 2;
const EARLIER: u64 = 10 * SECOND;
const SECOND: u64 = 1_000_000_000;

impl Readings {
    /// Counters came.
    pub(super) fn take(&mut self, counts: &Counts) {
        let continues = |last: &Reading| (last.at.saturating_sub(EARLIER)..=last.at + LATER).contains(&counts.from);
        let last = match self.all.back().filter(|last| continues(last)) {
            Some(last) => *last,
            None => {
                self.all.clear();
                let first = Reading { at: counts.from, ..Reading::default() };
                self.all.push_back(first);
                first
            }
        };
        let seconds = counts.to.saturating_sub(counts.from) as f64 / 1e9;
        let sum = |before: [f64; 2], rates: [f64; 2]| [0, 1].map(|way| before[way] + rates[way] * seconds);
        let (packets, bits) = (sum(last.packets, counts.packets), sum(last.bits, counts.bits));
        self.all.push_back(Reading { at: counts.to.max(last.at), packets, bits });
        while self.all.len() > READINGS || self.all.len() > 2 && counts.to.saturating_sub(self.all[0].at) > OLDEST {
            self.all.pop_front();
        }
    }

    /// How old counters may be when they are sent, ns: no older than `most`, nor than one interval if they have grown in each of the last
    /// ones. Where they stood still at times, the copy may be renewed that seldom.
    pub(super) fn lag(&self, most: u64) -> u64 {
        if self.all.len() < FEW {
            return most;
        }
        let (mut interval, mut still, mut longest) = (0, 0, 0);
        for (before, after) in self.all.iter().zip(self.all.iter().skip(1)) {
            interval = interval.max(after.at - before.at);
            still = if before.packets == after.packets { still + 1 } else { 0 };
            longest = still.max(longest);
        }
        interval.saturating_mul(1 + longest).min(most)
    }

    /// From each of them to the newest, the shortest first.
    pub(super) fn stretches(&self) -> impl Iterator<Item = Stretch> {
        let last = self.all.back().copied().unwrap_or_default();
        self.all.iter().rev().skip(1).map(move |first| {
            let grown = |before: [f64; 2], after: [f64; 2]| [0, 1].map(|way| after[way] - before[way]);
            Stretch { from: first.at, packets: grown(first.packets, last.packets), bits: grown(first.bits, last.bits) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Point, Stream};

    fn counts((from, to): (u64, u64), packets: f64) -> Counts {
        let point = Point { agent: "10.0.0.1".parse().unwrap(), index: 1 };
        let (from, to) = (from * SECOND, to * SECOND);
        Counts { point, stream: Stream::default(), from, to, packets: [packets; 2], bits: [0.0; 2], speed: None }
    }

    #[test]
    fn intervals_add_up_until_there_is_a_gap() {
        let mut readings = Readings::default();
        (0..5).for_each(|second| readings.take(&counts((second, second + 1), 100.0 + second as f64)));
        let told: Vec<_> = readings.stretches().map(|one| (one.from / SECOND, one.packets[0])).collect();
        assert_eq!(told, [(4, 104.0), (3, 207.0), (2, 309.0), (1, 410.0), (0, 510.0)]);
        // A restart: what was counted from 5 to 7 nobody knows.
        readings.take(&counts((7, 8), 1.0));
        assert_eq!(readings.stretches().count(), 1);
    }

    #[test]
    fn counters_are_as_old_as_their_copy() {
        let lag = |packets: fn(u64) -> f64| {
            let mut readings = Readings::default();
            (0..20).for_each(|second| readings.take(&counts((second, second + 1), packets(second))));
            readings.lag(5 * SECOND) / SECOND
        };
        assert_eq!(lag(|_| 100.0), 1);
        assert_eq!(lag(|second| if second % 3 == 0 { 300.0 } else { 0.0 }), 3);
        assert_eq!(lag(|_| 0.0), 5, "nobody knows");
        let mut readings = Readings::default();
        readings.take(&counts((0, 1), 100.0));
        assert_eq!(readings.lag(5 * SECOND), 5 * SECOND);
    }

    #[test]
    fn readings_are_bounded() {
        let mut readings = Readings::default();
        (0..1_000).for_each(|second| readings.take(&counts((second, second + 1), 1.0)));
        assert_eq!(readings.all.len(), READINGS);
        (50..100).for_each(|twenty| readings.take(&counts((twenty * 20, twenty * 20 + 20), 1.0)));
        assert_eq!(readings.all.len(), 4);
    }
}
