//! How much comes of a class, by bursts: what was taken since the datagrams before, over just that time.
//!
//! The burst in which a flood begins was taken since before it began: it only says that it is as much as that at least. From the next one
//! on the rate is known.

use crate::estimate;
use crate::model::Rate;

/// The last bursts in which anything of the class came.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    /// The oldest first.
    bursts: Vec<Burst>,
    /// When the flood was first too much; bursts that began before say the least that it is. 0: there is none.
    from: u64,
}

#[derive(Clone, Copy, Debug)]
struct Burst {
    since: u64,
    until: u64,
    packets: Sum,
    bits: Sum,
}

/// Of weights, and of their squares.
#[derive(Clone, Copy, Debug, Default)]
struct Sum(f64, f64);

/// As many as begin in a second and a half, at 100 ms each.
const BURSTS: usize = 16;

/// What a rate is of, at least, ns.
const SECOND: u64 = 1_000_000_000;

impl Rates {
    pub(super) fn clear(&mut self) {
        self.bursts.clear();
        self.from = 0;
    }

    /// A sample came, of a burst that was taken since then.
    #[inline]
    pub(super) fn add(&mut self, (since, now): (u64, u64), frames: f64, bits: f64) {
        if self.bursts.last().is_none_or(|last| last.since != since) {
            if self.bursts.len() == BURSTS {
                self.bursts.remove(0);
            }
            self.bursts.push(Burst { since, until: now, packets: Sum::default(), bits: Sum::default() });
        }
        if let Some(last) = self.bursts.last_mut() {
            last.until = now;
            last.packets.add(frames);
            last.bits.add(bits);
        }
    }

    /// A flood was first too much then.
    pub(super) fn begin(&mut self, first_excess: u64) {
        self.bursts.retain(|burst| burst.until >= first_excess);
        self.from = first_excess;
    }

    /// The flood is over.
    pub(super) fn end(&mut self) {
        self.from = 0;
    }

    /// Packets and bits a second, of the last second or the last burst. `complete`: when the burst began that is not over.
    pub(super) fn told(&self, complete: u64) -> (Rate, Rate) {
        let (mut packets, mut bits, mut start) = (Sum::default(), Sum::default(), complete);
        let closed = self.bursts.iter().rev().filter(|burst| self.from <= burst.since && burst.since < complete);
        for burst in closed.take_while(|burst| complete < burst.until + SECOND) {
            if complete >= start + SECOND {
                break;
            }
            packets.join(burst.packets);
            bits.join(burst.bits);
            start = burst.since;
        }
        if start < complete {
            let seconds = (complete - start) as f64 / 1e9;
            return (packets.rate(seconds), bits.rate(seconds));
        }
        match (self.bursts.first(), self.bursts.last()) {
            (Some(first), Some(last)) if complete < self.from.max(first.since) + SECOND => {
                let seconds = (last.until.saturating_sub(first.since) as f64 / 1e9).max(1e-3);
                for burst in &self.bursts {
                    packets.join(burst.packets);
                    bits.join(burst.bits);
                }
                let at_least = |sum: Sum| Rate { high: None, ..sum.rate(seconds) };
                (at_least(packets), at_least(bits))
            }
            _ => Default::default(),
        }
    }
}

impl Sum {
    fn add(&mut self, one: f64) {
        self.join(Self(one, one * one));
    }

    fn join(&mut self, other: Self) {
        (self.0, self.1) = (self.0 + other.0, self.1 + other.1);
    }

    fn rate(self, seconds: f64) -> Rate {
        estimate::rate(self.0, self.1, seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 samples/s of 1,000 packets in a burst each `period`, from `from` on.
    fn fed(rates: &mut Rates, from: u64, period: u64, bursts: u64) {
        for burst in 0..bursts {
            let since = from + burst * period;
            (0..period / 1_000_000).for_each(|_| rates.add((since, since + period), 1_000.0, 8e6));
        }
    }

    #[test]
    fn a_burst_was_taken_since_the_datagram_before() {
        for period in [SECOND / 10, SECOND, 5 * SECOND] {
            let mut rates = Rates::default();
            fed(&mut rates, SECOND, period, 40);
            let complete = SECOND + 39 * period;
            let (packets, bits) = rates.told(complete);
            assert!((packets.value / 1e6 - 1.0).abs() < 0.01 && packets.low < 1e6, "{period}: {packets:?}");
            assert!((bits.value / 8e9 - 1.0).abs() < 0.01 && packets.high.is_some_and(|high| high > 1e6));
            assert_eq!(rates.told(complete + period + 2 * SECOND).0, Rate::default(), "none came of late");
        }
    }

    #[test]
    fn the_burst_in_which_a_flood_begins_says_at_least() {
        let mut rates = Rates::default();
        fed(&mut rates, SECOND, SECOND, 1);
        rates.begin(2 * SECOND);
        let (packets, _) = rates.told(SECOND);
        assert!(packets.high.is_none() && (packets.value / 1e6 - 1.0).abs() < 0.01, "{packets:?}");
        (0..2_000).for_each(|_| rates.add((2 * SECOND, 3 * SECOND), 1_000.0, 8e6));
        assert!(rates.told(2 * SECOND).0.high.is_none(), "that burst may go on");
        let (packets, _) = rates.told(3 * SECOND);
        assert!(packets.high.is_some() && (packets.value / 2e6 - 1.0).abs() < 0.01, "{packets:?}");
    }
}
