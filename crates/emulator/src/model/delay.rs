//! From the shaper to the far end: constant delay, its variation, and reordering.

use std::f64::consts::TAU;
use std::time::Duration;

use super::impairments::delay;
use super::random::{Chance, Purpose, StreamKey, unit};
use super::{Impairments, InvalidImpairment, Nanos, Probability};

/// Random addition to the delay.
#[derive(Clone, Debug, PartialEq)]
pub struct Variation {
    /// Shape of the addition.
    pub distribution: Distribution,
    /// Whether it may reorder packets.
    pub order: Order,
}

/// Distribution of an added delay; never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Uniform between 0 and this.
    Uniform(Duration),
    /// Mean and standard deviation, cut off at 0.
    Normal(Duration, Duration),
    /// Exponential, with this mean.
    Exponential(Duration),
}

/// Whether a direction keeps the order of its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// A packet never leaves before one that arrived earlier.
    #[default]
    Keep,
    /// A packet leaves when its own delay is over.
    Reorder,
}

/// Holds a share of the packets back for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Share of packets held back.
    pub probability: Probability,
    /// Their additional delay.
    pub by: Duration,
}

/// Computes when a packet that left the shaper reaches the far end.
#[derive(Clone, Debug)]
pub(super) struct Delay {
    constant: Nanos,
    variation: Option<Distribution>,
    /// A packet may not overtake those before it, except if `hold` selects it.
    in_order: bool,
    hold: Chance,
    hold_by: Nanos,
    /// Latest release so far, without time on hold.
    latest: Nanos,
}

/// A packet, or its copy by duplication: each has its own draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyKind {
    Original,
    Copy,
}

impl Delay {
    pub(super) fn new(impairments: &Impairments) -> Self {
        let variation = impairments.variation.as_ref().filter(|variation| !variation.distribution.is_zero());
        let reorder = impairments.reorder.filter(|reorder| !reorder.by.is_zero());
        Delay {
            constant: nanos(impairments.delay),
            variation: variation.map(|variation| variation.distribution),
            in_order: variation.is_none_or(|variation| variation.order == Order::Keep),
            hold: Chance::new(reorder.map_or(0.0, |reorder| reorder.probability)),
            hold_by: reorder.map_or(0, |reorder| nanos(reorder.by)),
            latest: 0,
        }
    }

    /// Uses the delays of `other` from now on, but still not before earlier releases.
    pub(super) fn change_to(&mut self, other: &Delay) {
        *self = Delay { latest: self.latest, ..other.clone() };
    }

    /// The constant part.
    pub(super) fn constant(&self) -> Nanos {
        self.constant
    }

    /// Whether every packet takes the same time.
    pub(super) fn is_constant(&self) -> bool {
        self.variation.is_none() && self.hold.is_never()
    }

    /// Whether releases never decrease.
    pub(super) fn keeps_order(&self) -> bool {
        self.in_order && self.hold.is_never()
    }

    /// When a packet without random draws reaches the far end.
    #[inline]
    pub(super) fn plain(&mut self, sent: Nanos) -> Nanos {
        self.ordered(sent.saturating_add(self.constant))
    }

    /// When the flow's packet `index` reaches the far end, having left the shaper at `sent`.
    #[inline]
    pub(super) fn release(&mut self, sent: Nanos, flow: StreamKey, index: u64, copy: CopyKind) -> Nanos {
        let added = self.variation.map_or(0, |distribution| distribution.sample(flow, index, copy));
        let release = self.ordered(sent.saturating_add(self.constant).saturating_add(added));
        let purpose = match copy {
            CopyKind::Original => Purpose::Reorder,
            CopyKind::Copy => Purpose::CopyReorder,
        };
        if self.hold.hits(flow, purpose, index) { release.saturating_add(self.hold_by) } else { release }
    }

    #[inline]
    fn ordered(&mut self, release: Nanos) -> Nanos {
        let ordered = if self.in_order { release.max(self.latest) } else { release };
        self.latest = self.latest.max(ordered);
        ordered
    }
}

impl Distribution {
    pub(super) fn validate(self) -> Result<(), InvalidImpairment> {
        match self {
            Distribution::Uniform(max) => delay("variation.uniform", max),
            Distribution::Exponential(mean) => delay("variation.exponential", mean),
            Distribution::Normal(mean, deviation) => {
                delay("variation.normal.mean", mean)?;
                delay("variation.normal.deviation", deviation)
            }
        }
    }

    /// Whether it adds nothing.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Distribution::Uniform(max) => max.is_zero(),
            Distribution::Normal(mean, deviation) => mean.is_zero() && deviation.is_zero(),
            Distribution::Exponential(mean) => mean.is_zero(),
        }
    }

    /// Its mean, to the nanosecond, without the time that packets wait for one another.
    pub(super) fn mean(self) -> Duration {
        match self {
            Distribution::Uniform(max) => max / 2,
            Distribution::Normal(mean, deviation) if deviation.is_zero() => mean,
            Distribution::Normal(mean, deviation) => {
                // Values below 0 become 0.
                let (mean, deviation) = (nanos(mean) as f64, nanos(deviation) as f64);
                let place = mean / deviation;
                let density = (-0.5 * place * place).exp() / TAU.sqrt();
                Duration::from_nanos((mean * normal_below(place) + deviation * density).round() as Nanos)
            }
            Distribution::Exponential(mean) => mean,
        }
    }

    /// The addition to the delay of the flow's packet `index`.
    fn sample(self, flow: StreamKey, index: u64, copy: CopyKind) -> Nanos {
        let (first, second) = match copy {
            CopyKind::Original => (Purpose::Variation, Purpose::VariationAngle),
            CopyKind::Copy => (Purpose::CopyVariation, Purpose::CopyVariationAngle),
        };
        let draw = flow.draw(first, index);
        match self {
            Distribution::Uniform(max) => {
                let values = u128::from(nanos(max)) + 1;
                ((u128::from(draw) * values) >> 64) as Nanos
            }
            Distribution::Normal(mean, deviation) => {
                // Box-Muller.
                let radius = (-2.0 * unit(draw).ln()).sqrt();
                let angle = TAU * unit(flow.draw(second, index));
                (nanos(mean) as f64 + nanos(deviation) as f64 * radius * angle.cos()).max(0.0) as Nanos
            }
            Distribution::Exponential(mean) => (nanos(mean) as f64 * -unit(draw).ln()) as Nanos,
        }
    }
}

/// The share of a standard normal distribution below `place`, which is at least 0: Abramowitz and Stegun, 7.1.26, to
/// 0.0000001.
fn normal_below(place: f64) -> f64 {
    const FACTORS: [f64; 5] = [0.254_829_592, -0.284_496_736, 1.421_413_741, -1.453_152_027, 1.061_405_429];
    let x = place / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let polynomial = FACTORS.iter().rev().fold(0.0, |sum: f64, factor: &f64| (sum + *factor) * t);
    1.0 - 0.5 * polynomial * (-x * x).exp()
}

/// In nanoseconds, saturating.
pub(super) fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}
