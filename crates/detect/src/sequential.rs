//! Whether a stream of samples still conforms to its threshold: a sequential test that decides as soon as it may.
//!
//! # What is tested
//!
//! Packets conform to a threshold of T a second and a burst of B if no stretch of time (s, t] has more than T (t - s) + B of them: they
//! pass a token bucket. Nothing else is supposed of them; they may come in any order, from any number of sources, as bursty as the bucket
//! lets them. One packet in w is sampled at random, and its sample counts w packets; w may differ from sample to sample, if only it is
//! settled before the packet is chosen, and is at most W. (Bits: a sample counts w times its bits, W bounds that product, and below
//! "packet" reads "bit"; lengths need not be alike.)
//!
//! # The test
//!
//! For each ratio r of a small grid there is a leaky bucket: a sample adds its w, the bucket leaks (r - 1)/ln r times T a second, never
//! below zero, and a flood is decided when it holds
//!
//! ```text
//! depth = (r - 1)/ln r B + W/ln r ln(1 + (r - 1) T / (W a))
//! ```
//!
//! where a is how many false alarms a second are permitted to it. It is Page's CUSUM, the likelihood ratio of a rate of r T against T,
//! with what it holds scaled by W/ln r: that keeps it in packets, so that W may change.
//!
//! # Why false alarms are as rare as that
//!
//! Let S be ln r/W times what the bucket holds, V what a token bucket would have queued of the same packets (V grows by 1 a packet, falls
//! by T a second, not below 0; packets conform: V <= B), c = (r - 1)/W, and D = S - c V.
//!
//! - A packet is sampled with probability 1/w. By convexity r^x <= 1 + (r - 1) x for x in 0..=1, so exp(D) grows by the mean factor
//!   exp(-c) (1 + (r^(w/W) - 1)/w) <= exp(-c) (1 + c) <= 1, whatever w is: sources with different sampling may be mixed.
//! - As time passes both S and V fall at the rate c T of D; D rises, by at most c T exp(D) <= c T a second in exp(D), only while S is 0 and
//!   V is not.
//!
//! So exp(D(t)) - c T t is a supermartingale that begins at 1 at most, before the first alarm and after each (S restarts at 0). At an alarm
//! S >= h = ln r/W depth and V <= B. By optional stopping the mean time to it is at least (exp(h - c B) - 1)/(c T), which is 1/a. This is the
//! bound of a Shiryaev-Roberts e-detector (Shin, Ramdas, Rinaldo, "E-detectors", 2023) that restarts c T times a second. When W is
//! raised S shrinks with it: |D| does not grow, exp(D) gains at most 1 where D < 0, as much as one restart. When it is lowered S is 0.
//!
//! # What is told late
//!
//! An agent may keep samples for a second before it sends them (sFlow version 5), and the analyser may stand still. What comes in a
//! datagram was sampled since the one before. So a bucket that is empty leaks below zero, by what it would have leaked since then: it
//! holds after each datagram the most over all stretches of time that begin with one, which is never more than the bucket above,
//! whose stretches begin at any time.
//!
//! Several tests share what is permitted (Bonferroni): they need not be independent.

use std::f32::consts::LOG2_E;

/// How much above the threshold floods may be for which there is a test of its own. Small ones take long to be told from chance, large ones
/// need few samples.
pub const RATIOS: [f32; 6] = [1.25, 1.6, 2.0, 3.0, 5.0, 20.0];

/// (r - 1)/ln r: what buckets leak, in thresholds (1/ln 2 is log2 e).
const LEAK: [f32; RATIOS.len()] = [1.120_355, 1.276_586, LOG2_E, 1.820_478, 2.485_34, 6.342_356];

/// 1/ln r.
const PER_LOG: [f32; RATIOS.len()] = [4.481_42, 2.127_643, LOG2_E, 0.910_239, 0.621_335, 0.333_808];

/// What may come of one kind in a second, on which tests rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// T: packets or bits a second.
    pub rate: f32,
    /// Its natural logarithm.
    pub ln_rate: f32,
    /// Whether it was learnt, and is more than what is given.
    pub is_learnt: bool,
}

impl Bar {
    /// Of a positive rate.
    pub fn new(rate: f64) -> Self {
        let rate = rate.max(1e-3);
        Self { rate: rate as f32, ln_rate: rate.ln() as f32, is_learnt: false }
    }
}

/// The most that a sample may count, W.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Most {
    /// Packets or bits; 0: nothing is known yet, and nothing counts.
    pub weight: f32,
    /// Its natural logarithm.
    pub ln: f32,
}

impl Most {
    /// Of a weight.
    pub fn new(weight: f32) -> Self {
        Self { weight, ln: weight.max(1e-3).ln() }
    }
}

/// What all tests share.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Confidence {
    /// ln(1/a): a false alarms a second are permitted to each test.
    pub ln_seconds: f32,
    /// B/T, in seconds.
    pub burst: f32,
}

/// Seconds of a year (365.25 days).
pub const YEAR: f64 = 31_557_600.0;

impl Confidence {
    /// So many false alarms a year among so many tests, each with all [`RATIOS`].
    pub fn new(false_alarms_a_year: f64, tests: f64, burst_seconds: f64) -> Self {
        let seconds = YEAR * tests.max(1.0) * RATIOS.len() as f64 / false_alarms_a_year.max(1e-6);
        Self { ln_seconds: seconds.ln() as f32, burst: burst_seconds as f32 }
    }
}

/// The test of one kind of traffic to one target: 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Test {
    /// When it last leaked, ns.
    last: u64,
    /// What each bucket holds, in packets or bits.
    held: [f32; RATIOS.len()],
    /// When each was last empty, ms of `last`'s clock, modulo 2^32.
    empty: [u32; RATIOS.len()],
    /// W of the present excursion.
    most: f32,
}

/// Where a test stands after a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// How full the fullest bucket is; 1: a flood.
    pub share: f32,
    /// Which: index in [`RATIOS`].
    pub ratio: usize,
}

impl Test {
    /// Takes a sample that counts `weight`, of which at most `most` is believed, and that was kept for at most so many ns.
    #[inline]
    pub fn sample(
        &mut self,
        (now, kept): (u64, u64),
        weight: f32,
        most: Most,
        bar: &Bar,
        confidence: &Confidence,
    ) -> Standing {
        self.leak(now, kept, bar);
        let busy = self.held.iter().fold(0.0, |a: f32, &b| a.max(b)) > 0.0;
        let most = if busy && self.most > most.weight { Most::new(self.most) } else { most };
        self.most = most.weight;
        let weight = weight.min(most.weight);
        let burst = confidence.burst * bar.rate;
        // ln(1 + (r - 1) x) <= ln r + ln x for x >= 1.
        let ln = (bar.ln_rate - most.ln + confidence.ln_seconds).max(0.0);
        let mut standing = Standing { share: 0.0, ratio: 0 };
        for at in 0..RATIOS.len() {
            let depth = LEAK[at] * burst + most.weight * (1.0 + ln * PER_LOG[at]);
            let held = (self.held[at] + weight).min(depth);
            self.held[at] = held;
            let share = held / depth.max(f32::MIN_POSITIVE);
            if share > standing.share {
                standing = Standing { share, ratio: at };
            }
        }
        standing
    }

    /// Where it stands, and the logarithm of the likelihood ratio there: by chance it gets so high less often than once in e to this.
    pub fn standing(&self, bar: &Bar, confidence: &Confidence) -> (Standing, f64) {
        let now = self.last;
        let mut test = *self;
        let standing = test.sample((now, 0), 0.0, Most::new(self.most), bar, confidence);
        let held = f64::from(self.held[standing.ratio]);
        let log = held / f64::from(self.most.max(f32::MIN_POSITIVE) * PER_LOG[standing.ratio]);
        (standing, log)
    }

    /// Whether no bucket holds anything.
    pub fn is_empty(&self) -> bool {
        self.held.iter().all(|held| *held <= 0.0)
    }

    /// Empties all buckets: what they held is another's.
    pub fn forget(&mut self) {
        (self.held, self.empty) = ([0.0; RATIOS.len()], [millis(self.last); RATIOS.len()]);
    }

    /// Lets time pass, in which nothing came of what was kept for so long.
    #[inline]
    fn leak(&mut self, now: u64, kept: u64, bar: &Bar) {
        let packets = |nanos: u64| nanos as f32 * 1e-9 * bar.rate;
        let (passed, kept) = (packets(now.saturating_sub(self.last)), packets(kept));
        self.last = self.last.max(now);
        let millis = millis(self.last);
        for ((held, empty), leak) in self.held.iter_mut().zip(&mut self.empty).zip(LEAK) {
            let left = *held - leak * passed;
            if left <= 0.0 {
                *empty = millis;
            }
            *held = left.max(-leak * kept);
        }
    }

    /// What the bucket that is emptied last holds at an instant, in units of the most that a sample counts: how much would be forgotten.
    pub fn left(&self, now: u64, bar: &Bar) -> f32 {
        let mut test = *self;
        test.leak(now, 0, bar);
        if test.most > 0.0 { test.held[0] / test.most } else { 0.0 }
    }

    /// When the excursion began that a standing tells of, ns; to the millisecond, and never later than its first sample.
    pub fn began(&self, standing: Standing) -> u64 {
        let ago = millis(self.last).wrapping_sub(self.empty[standing.ratio]);
        (self.last / MILLISECOND).saturating_sub(u64::from(ago)) * MILLISECOND
    }
}

fn millis(now: u64) -> u32 {
    (now / MILLISECOND) as u32
}

/// ns.
const MILLISECOND: u64 = 1_000_000;
