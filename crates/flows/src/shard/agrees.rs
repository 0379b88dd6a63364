//! Whether samples tell of as much as the counters of their interface.
//!
//! Direction by direction, of the counter samples k-3 to k: samples that came between k-2 and k-1 tell of no more than counters grew by between k-3
//! and k, and those between k-3 and k of no less than between k-2 and k-1. So counters may be read from a copy that is as old as a polling interval,
//! and datagrams may be out of order. That samples tell of less is looked for over more intervals, too, with one more at either end: two samplers of
//! which every number is taken for one's tell of half or more.

use crate::agents::{Nanos, SECOND, SILENCE};
use crate::counters::Counters;

/// Of one interface.
#[derive(Debug, Default)]
pub(crate) struct Agrees {
    /// What samples told of since counters came, in and out.
    sampled: [Told; 2],
    /// What was told and counted before. Apart: a sample does not touch it.
    ways: Option<Box<[Way; 2]>>,
    /// When counters last came.
    read: Nanos,
    /// When samples last told of more than counters, and of less.
    found: [Nanos; 2],
    /// When each was last told.
    told: [Nanos; 2],
}

/// One direction. The latest first.
#[derive(Debug, Default)]
struct Way {
    told: [Told; LONGEST + 2],
    read: [Option<Read>; LONGEST + 2],
}

/// Sums of what samples stand for, packets and octets, and of their squares.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    sums: [f64; 2],
    squares: [f64; 2],
}

/// Totals of packets (unicast, multicast and broadcast ones) and octets.
#[derive(Clone, Copy, Debug)]
struct Read {
    packets: [u32; 3],
    octets: u64,
}

impl Agrees {
    /// A packet was sampled as it went in or out, if that is known. Whether samples of late differ from what was counted.
    #[inline]
    pub(super) fn sample(&mut self, way: Option<usize>, frames: f64, length: u32, now: Nanos) -> bool {
        if let Some(Told { sums, squares }) = way.map(|way| &mut self.sampled[way]) {
            for (at, amount) in [frames, frames * f64::from(length)].into_iter().enumerate() {
                sums[at] += amount;
                squares[at] += amount * amount;
            }
        }
        self.differs(now).contains(&true)
    }

    /// Counters came.
    pub(super) fn counters(&mut self, counters: &Counters, now: Nanos) {
        let Some(interface) = counters.blocks().iter().find(|block| block.structure.name == "if_counters") else {
            return;
        };
        self.read = now;
        let sampled = std::mem::take(&mut self.sampled);
        let ways = self.ways.get_or_insert_default().iter_mut();
        for ((way, first), sampled) in ways.zip(FIRST).zip(sampled) {
            let packets = [1, 2, 3].map(|field| interface.bits(first + field).unwrap_or(0) as u32);
            let read = interface.bits(first).map(|octets| Read { packets, octets });
            for (found, is_found) in self.found.iter_mut().zip(way.compare(sampled, read)) {
                *found = if is_found { now } else { *found };
            }
        }
    }

    /// Whether counters have come.
    pub(super) fn has_counters(&self) -> bool {
        self.read != 0
    }

    /// Whether they have come of late.
    pub(super) fn is_counted(&self, now: Nanos) -> bool {
        self.read != 0 && now <= self.read + SILENCE
    }

    /// Whether samples told of more than counters of late, and of less.
    pub(super) fn differs(&self, now: Nanos) -> [bool; 2] {
        self.found.map(|found| found != 0 && now < found + FOR)
    }

    /// Whether it is time to tell of either.
    pub(super) fn due(&mut self, now: Nanos, settle: Nanos) -> [bool; 2] {
        let mut due = self.differs(now);
        for (told, due) in self.told.iter_mut().zip(&mut due) {
            *due &= *told == 0 || now >= *told + settle;
            *told = if *due { now } else { *told };
        }
        due
    }
}

impl Way {
    /// Whether samples, these among them, told of more, and of less.
    fn compare(&mut self, sampled: Told, read: Option<Read>) -> [bool; 2] {
        self.told[0] = sampled;
        let grown = |from: Option<Read>, to: Option<Read>| Some(to?.since(&from?));
        // Of both: interfaces count packets before they are cut into frames (segmentation offload), and octets alone may lack headers.
        let exceeds = |intervals: usize| {
            let told = self.told[1..=intervals].iter().fold(Told::default(), Told::and);
            grown(self.read[intervals + 1], read).is_some_and(|grown| (0..2).all(|at| told.low(at) > SLACK * grown[at]))
        };
        let falls_short = |intervals: usize| {
            let told = self.told[..intervals + 2].iter().fold(Told::default(), Told::and);
            // Octets that went back began again: nobody knows by how much they have grown.
            let all = read.and(self.read[intervals + 1]).and(grown(self.read[intervals], self.read[0]));
            let grown = all.filter(|grown| grown[1] < BACK).unwrap_or_default();
            (0..2).any(|at| told.sums[at] > 0.0 && told.high(at) * SLACK < grown[at])
        };
        let found = [(1..=LONGEST).any(exceeds), (1..=LONGEST).any(falls_short)];
        self.told.rotate_right(1);
        self.read.rotate_right(1);
        self.read[0] = read;
        found
    }
}

impl Told {
    fn and(self, other: &Self) -> Self {
        let add = |one: [f64; 2], other: [f64; 2]| [one[0] + other[0], one[1] + other[1]];
        Self { sums: add(self.sums, other.sums), squares: add(self.squares, other.squares) }
    }

    fn low(&self, at: usize) -> f64 {
        self.sums[at] - DEVIATIONS * self.squares[at].sqrt()
    }

    fn high(&self, at: usize) -> f64 {
        self.sums[at] + DEVIATIONS * self.squares[at].sqrt()
    }
}

impl Read {
    /// Packets and octets since an earlier one. What went back began again: it has grown by more than anything.
    fn since(&self, earlier: &Self) -> [f64; 2] {
        let packets = self.packets.iter().zip(earlier.packets).map(|(now, then)| f64::from(now.wrapping_sub(then)));
        [packets.sum(), self.octets.wrapping_sub(earlier.octets) as f64]
    }
}

/// Where octets in and out stand in `if_counters`, with packets behind them.
const FIRST: [usize; 2] = [5, 12];
/// Deviations that chance does not come to.
const DEVIATIONS: f64 = 4.0;
/// What check sequences, preambles and what an interface does not count come to.
const SLACK: f64 = 1.1;
/// Polling intervals over which samples may tell of neither more nor less: of two in one way less than five eighths are told, and 8/6, the slack and the
/// deviations of 3,000 samples make 1.6 of it.
const LONGEST: usize = 6;
/// More octets than any interface has counted.
const BACK: f64 = (1_u64 << 63) as f64;
/// For how long what was found holds, ns: interfaces are mostly polled more often.
const FOR: Nanos = 60 * SECOND;

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether samples tell of more than counters, of an interface that counts so many packets and octets between two readings.
    fn exceeds(told: (u32, u32), counted: [u32; 2]) -> bool {
        let (mut agrees, mut way) = (Agrees::default(), Way::default());
        (1..12_u32).any(|reading| {
            for _ in 0..200 {
                agrees.sample(Some(0), f64::from(told.0) / 200.0, told.1, 0);
            }
            let [packets, octets] = counted.map(|each| each * reading);
            let read = Read { packets: [packets, 0, 0], octets: octets.into() };
            way.compare(std::mem::take(&mut agrees.sampled[0]), Some(read))[0]
        })
    }

    #[test]
    fn frames_of_packets_that_are_cut_after_counting_are_no_more() {
        // 1,000 packets of 64 kB leave as 44,000 frames, with 66 octets of headers each.
        assert!(!exceeds((44_000, 1514), [1_000, 44_000 * 1448 + 66_000]));
        // Samples of six intervals are compared with the counters of eight.
        assert!(exceeds((2 * 44_000, 1514), [1_000, 44_000 * 1448 + 66_000]));
        assert!(!exceeds((1_400, 1514), [1_000, 1_514_000]) && exceeds((2_000, 1514), [1_000, 1_514_000]));
    }
}
