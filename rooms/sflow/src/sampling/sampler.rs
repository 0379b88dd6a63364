//! The effective sampling rate of one data source.

use serde::{Deserialize, Serialize};

use super::edges::{Arrivals, Gaps};
use super::order::{Order, Sampled};
use crate::agents::{Ledger, Moment, Sequence, Step};

/// Samples over which the rate is smoothed.
pub const MEMORY: f32 = 128.0;
/// Samples that the configured rate counts for at the beginning.
const PRIOR: f32 = 8.0;
/// Samples in a row in which the pool did not grow, after which it is not believed.
const STANDSTILL: u8 = 32;
/// Samples in a row in which the pool grew by exactly the configured rate times their number, after which it is taken for no count.
const SYNTHETIC: u8 = 16;
/// By how much more than the configured rate the pool may grow a sample: in floods agents thin out their samples.
const THINNED: u64 = 256;
/// By how much less than the configured rate the pool may grow a sample: what counts samples is no pool.
const UNDERCOUNT: f32 = 8.0;

/// Part of the samples that come in order where they count for the others, too.
const FEWEST: f64 = 0.1;

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
    /// What that rests on.
    pub estimator: Estimator,
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
    /// Samples in a row without growth.
    still: u8,
    /// Samples in a row with a growth that an agent made up.
    exact: u8,
    grown: bool,
    /// Samples in both means, up to [`MEMORY`].
    memory: f32,
    /// Mean growth of the pool from one sample that came to the next.
    growth: f32,
    /// How uneven they come.
    arrivals: Arrivals,
    /// Mean number of samples made from one that came to the next.
    made: f32,
    /// Part of the samples in these means that came in datagrams which were overtaken.
    #[serde(skip)]
    late: f32,
    #[serde(skip)]
    order: Order,
    /// Whether it is known from before this program began, and no sample has come since.
    #[serde(skip, default = "known_again")]
    is_restored: bool,
    report: Report,
}

/// What is read was kept by another run of this program.
fn known_again() -> bool {
    true
}

/// What was found about a data source's samples, as totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Samples weighed by [`Estimator::Pool`].
    pub by_pool: u64,
    /// Samples weighed by [`Estimator::Sequence`].
    pub by_sequence: u64,
    /// Samples weighed by [`Estimator::Nominal`].
    pub by_nominal: u64,
    /// Times that the pool went back, or on by more than can be.
    pub pool_resets: u32,
    /// Changes of the configured rate.
    pub rate_changes: u32,
    /// Samples that the agent lost for want of resources, as far as it tells.
    pub dropped: u64,
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
        let ahead = self.sequence.ahead(number);
        let again = ahead == Some(0);
        let step = self.sequence.advance(number);
        let mut is_anothers = false;
        if let Some(ahead) = ahead {
            let (number, pool) = ((number, number.wrapping_sub(ahead as u32)), (pool, self.pool));
            let (late, rate, now) = (moment.late, self.nominal, moment.now);
            is_anothers = self.order.take(&Sampled { step, late, number, pool, rate, now });
        }
        let made = match step {
            Step::Duplicate | Step::Stale if moment.late => return None,
            _ if is_anothers => {
                self.part(step, number);
                self.baseline(rate, pool, drops);
                return Some(self.weigh(None));
            }
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
        self.report.dropped += u64::from(dropped);
        if std::mem::take(&mut self.is_restored) {
            // What passed meanwhile is not of now, and nobody saw it: the samples behind it stand for none of it.
            return Some(self.weigh(None));
        }
        // All three are what others write.
        let most = u64::from(self.nominal).saturating_mul(THINNED * (u64::from(made) + u64::from(dropped) + 4));
        if u64::from(grown) > most.min(1 << 31) {
            self.report.pool_resets += 1;
            return Some(self.weigh(None));
        }
        self.judge(grown, made);
        self.enter(grown, made, moment);
        Some(self.weigh(Some(grown)))
    }

    /// Whether samples of two were among those that came since this was asked for last: somebody else takes part in the agent's stream.
    #[inline]
    pub(crate) fn take_broken(&mut self) -> bool {
        self.order.take_broken()
    }

    /// After a restart nothing is known but what has been counted.
    fn begin_again(&mut self, number: u32, rate: u32, pool: u32, drops: u32) {
        self.sequence.restart(number);
        let sequence = std::mem::take(&mut self.sequence);
        *self = Self { sequence, epoch: self.epoch, report: self.report, ..Self::default() };
        self.baseline(rate, pool, drops);
    }

    /// Somebody else has numbered or counted samples here: what the pool grew by of late may be his, and is nothing that the agent's stand for.
    #[cold]
    fn part(&mut self, step: Step, number: u32) {
        if matches!(step, Step::Duplicate | Step::Stale) {
            self.sequence.restart(number);
        }
        (self.growth, self.made, self.memory) = (self.nominal as f32, 1.0, PRIOR);
        self.arrivals = Arrivals::of_chance(PRIOR);
        self.exact = 0;
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
        if self.nominal == 0 {
            (self.growth, self.made, self.memory) = (rate as f32, 1.0, PRIOR);
            self.arrivals = Arrivals::of_chance(PRIOR);
        } else {
            self.growth *= rate as f32 / self.nominal as f32;
            self.report.rate_changes += 1;
            self.exact = 0;
        }
        self.nominal = rate;
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
            self.growth = self.nominal as f32 * self.made;
        }
        self.still = 0;
    }

    fn enter(&mut self, grown: u32, made: u32, moment: &Moment) {
        self.memory = (self.memory + 1.0).min(MEMORY);
        let gain = 1.0 / self.memory;
        self.growth += gain * (grown as f32 - self.growth);
        self.made += gain * (made as f32 - self.made);
        self.late += gain * (f32::from(u8::from(moment.late)) - self.late);
        self.arrivals.enter(if self.grown { grown as f32 / self.nominal as f32 } else { made as f32 }, moment.now);
    }

    #[inline]
    fn weigh(&mut self, passed: Option<u32>) -> Weight {
        let estimator = self.estimator();
        match estimator {
            Estimator::Pool => self.report.by_pool += 1,
            Estimator::Sequence => self.report.by_sequence += 1,
            Estimator::Nominal => self.report.by_nominal += 1,
        }
        Weight { frames: self.effective_rate(), estimator, passed }
    }

    /// What weights rest on now.
    pub fn estimator(&self) -> Estimator {
        let nominal = self.nominal as f32;
        if self.grown && self.still < STANDSTILL && self.growth * UNDERCOUNT >= nominal {
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

    /// The same where those in datagrams that were overtaken do not count: what they stand for is shared out among the others.
    pub fn in_order_rate(&self) -> f64 {
        self.effective_rate() / f64::from(1.0 - self.late).max(FEWEST)
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

    /// What was found.
    pub fn report(&self) -> &Report {
        &self.report
    }
}
