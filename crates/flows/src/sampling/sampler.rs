//! The effective sampling rate of one data source.

use serde::{Deserialize, Serialize};

use super::edges::{Arrivals, Gaps};
use crate::agents::{Ledger, Moment, Nanos, SECOND, Sequence, Step};

/// Samples over which the rate is smoothed.
pub const MEMORY: f32 = 128.0;
/// Samples that the configured rate counts for at the beginning.
const PRIOR: f32 = 8.0;
/// Samples in a row in which the pool did not grow, after which it is not believed.
const STANDSTILL: u8 = 32;
/// Samples in a row in which the pool grew by exactly the configured rate times their number, after which it is taken for no count.
const SYNTHETIC: u8 = 16;
/// Packets a second that no line carries: 800 Gbit/s of the shortest frames, each with preamble and gap 672 bits.
const FASTEST: u64 = 1_200_000_000;
/// By how much closer to one another samples may come than they were taken, ns: a shorter wait than most agents' for a full datagram.
const WAITED: Nanos = SECOND / 10;
/// By how much more or less than the pool's growth the configured rate is not believed at all.
const WRONG: f32 = 8.0;
/// Samples so few that they come closer or further apart than that by chance, one time in a hundred: for them it is the square.
const FEW: f32 = 4.0;

/// What a weight rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Estimator {
    /// The growth of the pool over the samples that came.
    Pool,
    /// The configured rate, times samples made over samples that came, by their sequence numbers: the pool does not grow.
    Sequence,
    /// The configured rate: there is nothing else yet.
    Nominal,
}

/// For how many packets a sample stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight {
    /// Packets.
    pub frames: f64,
    /// Packets that passed since the sample before; 0 where they were counted with a later one that came earlier. `None`: nobody knows.
    pub passed: Option<u32>,
}

/// The samples of one data source.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sampler {
    sequence: Sequence,
    nominal: u32,
    pool: u32,
    drops: u32,
    epoch: u16,
    /// When the last sample came.
    #[serde(skip)]
    last: Nanos,
    /// Samples in a row without growth.
    still: u8,
    /// Samples in a row with a growth that an agent made up.
    exact: u8,
    grown: bool,
    /// Samples in both means, up to [`MEMORY`].
    memory: f32,
    /// Mean growth of the pool from one sample that came to the next.
    growth: f32,
    /// How uneven they come, and in units of how many packets: of the configured rate, as long as that can be right.
    arrivals: Arrivals,
    unit: f32,
    /// Mean number of samples made from one that came to the next.
    made: f32,
    /// Whether it is known from before this program began, and no sample has come since.
    #[serde(skip, default = "known_again")]
    is_restored: bool,
    /// Samples that the agent lost for want of resources, as far as it tells.
    dropped: u64,
}

/// What is read was kept by another run of this program.
fn known_again() -> bool {
    true
}

impl Sampler {
    /// What a sample stands for, that came with a datagram of this moment. `None`: it has been here before, or nobody knows.
    #[inline]
    pub fn sample(&mut self, moment: &Moment, number: u32, rate: u32, pool: u32, drops: u32) -> Option<Weight> {
        if moment.epoch != self.epoch {
            self.epoch = moment.epoch;
            self.begin_again(number, rate, pool, drops);
            return Some(self.weigh(None));
        }
        let again = self.sequence.ahead(number) == Some(0);
        let passed = moment.now.saturating_sub(self.last);
        self.last = self.last.max(moment.now);
        let made = match self.sequence.advance(number) {
            Step::Duplicate | Step::Stale if moment.late => return None,
            // Datagrams have no duplicates here: the agent does not count its samples.
            Step::Duplicate if again => 1,
            Step::Duplicate | Step::Stale => {
                self.sequence.restart(number);
                self.baseline(rate, pool, drops);
                return Some(self.weigh(None));
            }
            Step::First | Step::Jump => {
                self.baseline(rate, pool, drops);
                return Some(self.weigh(None));
            }
            // What it stands for was counted with the one that overtook it.
            Step::Late => {
                self.enter(0, 0, moment);
                return Some(self.weigh(Some(0)));
            }
            Step::Next => 1,
            Step::Lost(lost) => lost + 1,
        };
        self.change_rate(rate);
        let grown = pool.wrapping_sub(self.pool);
        let dropped = drops.wrapping_sub(self.drops);
        (self.pool, self.drops) = (pool, drops);
        // A total that went back began again.
        let dropped = if dropped > u32::MAX / 2 { 0 } else { dropped };
        self.dropped += u64::from(dropped);
        if std::mem::take(&mut self.is_restored) {
            // What passed meanwhile is not of now, and nobody saw it: the samples behind it stand for none of it.
            return Some(self.weigh(None));
        }
        // Whether it went back, too.
        let most = FASTEST.saturating_mul(passed.saturating_add(WAITED)) / SECOND;
        if u64::from(grown) > most.min(1 << 31) {
            self.begin_means();
            return Some(self.weigh(None));
        }
        self.judge(grown, made);
        self.enter(grown, made, moment);
        Some(self.weigh(Some(grown)))
    }

    /// After a restart nothing is known but what has been counted.
    fn begin_again(&mut self, number: u32, rate: u32, pool: u32, drops: u32) {
        self.sequence.restart(number);
        let sequence = std::mem::take(&mut self.sequence);
        *self = Self { sequence, epoch: self.epoch, dropped: self.dropped, ..Self::default() };
        self.baseline(rate, pool, drops);
    }

    /// Nothing is known of the pool but the configured rate.
    fn begin_means(&mut self) {
        (self.growth, self.made, self.memory) = (self.nominal as f32, 1.0, PRIOR);
        (self.unit, self.arrivals) = (self.growth, Arrivals::of_chance(PRIOR));
        (self.exact, self.grown) = (0, false);
    }

    fn baseline(&mut self, rate: u32, pool: u32, drops: u32) {
        (self.pool, self.drops) = (pool, drops);
        self.is_restored = false;
        self.change_rate(rate);
    }

    /// The mean growth changes with the configured rate, at once.
    fn change_rate(&mut self, rate: u32) {
        let rate = rate.max(1);
        if rate == self.nominal {
            return;
        }
        let before = std::mem::replace(&mut self.nominal, rate);
        if before == 0 {
            self.begin_means();
        } else {
            let more = rate as f32 / before as f32;
            (self.growth, self.unit) = (self.growth * more, self.unit * more);
            self.exact = 0;
        }
    }

    /// Whether the pool counts packets.
    fn judge(&mut self, grown: u32, made: u32) {
        let made_up = u64::from(grown) == u64::from(self.nominal) * u64::from(made);
        self.exact = if made_up { self.exact.saturating_add(1) } else { 0 };
        if grown == 0 {
            self.still = self.still.saturating_add(1);
            return;
        }
        if !self.grown || self.still >= STANDSTILL {
            // Its growth meanwhile is in this one, or in none.
            self.grown = true;
            (self.growth, self.memory) = (self.unit * self.made, PRIOR);
        }
        self.still = 0;
    }

    fn enter(&mut self, grown: u32, made: u32, moment: &Moment) {
        self.memory = (self.memory + 1.0).min(MEMORY);
        let gain = 1.0 / self.memory;
        self.growth += gain * (grown as f32 - self.growth);
        self.made += gain * (made as f32 - self.made);
        if self.grown && self.memory <= 2.0 * PRIOR && self.unit == self.nominal as f32 {
            self.doubt_rate();
        }
        self.arrivals.enter(if self.grown { grown as f32 / self.unit } else { made as f32 }, moment.now);
    }

    /// A pool that moves counts, and a configured rate that is far from it says nothing.
    #[cold]
    fn doubt_rate(&mut self) {
        let (prior, came) = (self.unit, self.memory - PRIOR);
        let growth = (self.growth * self.memory - prior * PRIOR) / came;
        let wrong = if came < FEW { WRONG * WRONG } else { WRONG };
        if growth > wrong * prior * self.made || growth * wrong < prior {
            (self.growth, self.memory, self.unit) = (growth, came, growth.max(1.0));
            self.arrivals = Arrivals::of_chance(PRIOR);
        }
    }

    #[inline]
    fn weigh(&self, passed: Option<u32>) -> Weight {
        Weight { frames: self.effective_rate(), passed }
    }

    /// What weights rest on now.
    pub fn estimator(&self) -> Estimator {
        if self.grown && self.still < STANDSTILL {
            Estimator::Pool
        } else if self.memory > PRIOR {
            Estimator::Sequence
        } else {
            Estimator::Nominal
        }
    }

    /// Packets that a sample stands for that comes now.
    pub fn effective_rate(&self) -> f64 {
        match self.estimator() {
            Estimator::Pool => f64::from(self.growth),
            Estimator::Sequence => f64::from(self.nominal) * f64::from(self.made),
            Estimator::Nominal => f64::from(self.nominal),
        }
    }

    /// Packets out of which the agent says that it chooses one.
    pub fn nominal_rate(&self) -> u32 {
        self.nominal
    }

    /// Whether the pool is a count of packets, and not the configured rate times the number of samples (Open vSwitch).
    /// Sums of weights are then exact, and only shares of them are estimated.
    pub fn counts_packets(&self) -> bool {
        self.estimator() == Estimator::Pool && self.exact < SYNTHETIC
    }

    /// How uneven the gaps between samples are, over so many of them that rare ones are among them. Their mean is of the same
    /// samples: that of the last [`MEMORY`] is large when a gap has just ended, which is no time to find gaps even.
    pub fn gaps(&self) -> Gaps {
        self.arrivals.gaps()
    }

    /// What came of its sequence.
    pub fn ledger(&self) -> &Ledger {
        self.sequence.ledger()
    }

    /// Samples that the agent lost for want of resources, as far as it tells.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
