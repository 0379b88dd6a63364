//! The settings, and which are valid.

use std::sync::Arc;
use std::time::Duration;

use super::loss::LossProcess;
use super::{Alterations, Loss, Probability, QueueLimit, Rate, Reorder, Trace, Variation};

/// The impairments of one direction of a link. The default has none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Impairments {
    /// Planned loss.
    pub loss: Loss,
    /// One-way delay added to every packet.
    pub delay: Duration,
    /// Random addition to the delay.
    pub variation: Option<Variation>,
    /// Shaper; `None` is unlimited.
    pub rate: Option<Rate>,
    /// Recorded capacity, instead of a rate. It begins at time 0 of the [`Plan`]; every packet waits for an opportunity
    /// later than its arrival, and is released at the one that delivers its last byte.
    pub trace: Option<Arc<Trace>>,
    /// Limit of the shaper's queue, for a rate or a trace; without either it never fills.
    pub queue: QueueLimit,
    /// Share of packets that are delivered twice. The copy takes its place in queue and rate right after the original,
    /// with its own delay variation and reordering; it is not made if the queue has no room for it.
    pub duplicate: Probability,
    /// Share of packets that are altered in each way.
    pub alterations: Alterations<Probability>,
    /// Share of packets that are held back so that later ones overtake them.
    pub reorder: Option<Reorder>,
}

/// An invalid setting. Keys are those of [`Impairments`], dotted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidImpairment {
    /// A probability below 0, above 1 or not a number.
    #[error("{key} of {} %: must be between 0 % and 100 %", .value * 100.0)]
    Probability {
        /// The setting.
        key: &'static str,
        /// Its value, as a share.
        value: Probability,
    },
    /// A delay of more than a day.
    #[error("{key} of {value:?}: must be at most {MAX_DELAY:?} (a day)")]
    Delay {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: Duration,
    },
    /// A rate of 0.
    #[error("rate of 0 bit/s: must be at least 1 bit/s (leave it out for no limit)")]
    Rate,
    /// Both a rate and a trace.
    #[error("rate and trace are both set: a trace replaces the rate. Remove one.")]
    RateAndTrace,
    /// A setting of a step.
    #[error("steps[{index}]: {invalid}")]
    Step {
        /// Which step, from 0.
        index: usize,
        /// Its error.
        invalid: Box<InvalidImpairment>,
    },
    /// A step that does not come after the one before it, or after time 0.
    #[error("steps[{index}] at {after:?}: must come after {before:?} (steps are in order, the first is after 0s)")]
    StepTime {
        /// Which step, from 0.
        index: usize,
        /// Its time.
        after: Duration,
        /// The time of the one before it.
        before: Duration,
    },
    /// A plan that would start again before its end.
    #[error("repeat after {repeat:?}: must come after the last step, at {last:?}")]
    Repeat {
        /// The time at which it starts again.
        repeat: Duration,
        /// The time of the last step.
        last: Duration,
    },
}

impl Impairments {
    /// Checks every setting.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn validate(&self) -> Result<(), InvalidImpairment> {
        self.loss.validate()?;
        probability("duplicate", self.duplicate)?;
        self.alterations.iter().try_for_each(|(kind, share)| probability(kind.key(), *share))?;
        delay("delay", self.delay)?;
        self.variation.as_ref().map_or(Ok(()), |variation| variation.distribution.validate())?;
        if let Some(reorder) = self.reorder {
            probability("reorder.probability", reorder.probability)?;
            delay("reorder.by", reorder.by)?;
        }
        match self.rate {
            Some(rate) if rate.bits_per_second == 0 => Err(InvalidImpairment::Rate),
            Some(_) if self.trace.is_some() => Err(InvalidImpairment::RateAndTrace),
            _ => Ok(()),
        }
    }

    /// Whether packets pass unchanged: no impairment can ever have an effect.
    pub fn is_transparent(&self) -> bool {
        LossProcess::new(&self.loss).is_none()
            && self.delay.is_zero()
            && self.variation.as_ref().is_none_or(|variation| variation.distribution.is_zero())
            && self.rate.is_none()
            && self.trace.is_none()
            && self.duplicate == 0.0
            && self.alterations == Alterations::default()
            && self.reorder.is_none_or(|reorder| reorder.probability == 0.0 || reorder.by.is_zero())
    }
}

/// Max delay.
const MAX_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) fn probability(key: &'static str, value: Probability) -> Result<(), InvalidImpairment> {
    // NaN is not in any range.
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(InvalidImpairment::Probability { key, value }) }
}

pub(super) fn delay(key: &'static str, value: Duration) -> Result<(), InvalidImpairment> {
    if value <= MAX_DELAY { Ok(()) } else { Err(InvalidImpairment::Delay { key, value }) }
}

#[cfg(test)]
mod tests {
    use super::super::{Alteration, Distribution, Order};
    use super::*;

    #[test]
    fn nonsense_is_named_with_its_bound() {
        let nothing = Impairments::default();
        let chain = |to_bad, bad| Loss::GilbertElliott { to_bad, to_good: 0.5, good: 0.0, bad };
        let second = Duration::from_secs(1);
        let trace = Trace::parse("1").ok().map(Arc::new);
        let spread = Distribution::Normal(second, second * 100_000);
        let nonsense = [
            Impairments { loss: Loss::Bernoulli(1.2), ..nothing.clone() },
            Impairments { loss: Loss::Bernoulli(f64::NAN), ..nothing.clone() },
            Impairments { loss: chain(-0.1, 1.0), ..nothing.clone() },
            Impairments { loss: chain(0.1, f64::INFINITY), ..nothing.clone() },
            Impairments { duplicate: 2.0, ..nothing.clone() },
            Impairments { alterations: Alterations::only(Alteration::Corrupt, -0.01), ..nothing.clone() },
            Impairments { reorder: Some(Reorder { probability: 1.01, by: second }), ..nothing.clone() },
            Impairments { delay: second * 86_401, ..nothing.clone() },
            Impairments { variation: Some(Variation { distribution: spread, order: Order::Keep }), ..nothing.clone() },
            Impairments { rate: Some(Rate { bits_per_second: 0, burst_bytes: 1 }), ..nothing.clone() },
            Impairments { rate: Some(Rate { bits_per_second: 1, burst_bytes: 1 }), trace, ..nothing },
        ];
        let message = |impairments: &Impairments| match impairments.validate() {
            Ok(()) => panic!("accepted: {impairments:?}"),
            Err(error) => error.to_string(),
        };
        insta::assert_snapshot!(nonsense.iter().map(message).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn bounds_themselves_are_fine() {
        let sense = Impairments {
            loss: Loss::Bernoulli(1.0),
            delay: MAX_DELAY,
            rate: Some(Rate { bits_per_second: 1, burst_bytes: 0 }),
            queue: QueueLimit::Packets(0),
            duplicate: 1.0,
            alterations: Alterations::only(Alteration::Corrupt, 0.0),
            ..Impairments::default()
        };
        assert_eq!(sense.validate(), Ok(()));
    }

    #[test]
    fn transparent_is_what_can_have_no_effect() {
        let nothing = Impairments::default();
        let reorder = |probability, by| Some(Reorder { probability, by: Duration::from_nanos(by) });
        for transparent in [
            nothing.clone(),
            Impairments { loss: Loss::Bernoulli(0.0), ..nothing.clone() },
            Impairments { reorder: reorder(0.5, 0), ..nothing.clone() },
            Impairments { reorder: reorder(0.0, 5), ..nothing.clone() },
            Impairments { queue: QueueLimit::Packets(0), ..nothing.clone() },
        ] {
            assert!(transparent.is_transparent(), "{transparent:?}");
        }
        for effective in [
            Impairments { loss: Loss::List(vec![0]), ..nothing.clone() },
            Impairments { delay: Duration::from_nanos(1), ..nothing.clone() },
            Impairments { rate: Some(Rate { bits_per_second: u64::MAX, burst_bytes: 0 }), ..nothing.clone() },
            Impairments { trace: Trace::parse("1").ok().map(Arc::new), ..nothing.clone() },
            Impairments { duplicate: 0.1, ..nothing.clone() },
            Impairments { alterations: Alterations::only(Alteration::Corrupt, 0.1), ..nothing.clone() },
            Impairments { reorder: reorder(0.1, 1), ..nothing },
        ] {
            assert!(!effective.is_transparent(), "{effective:?}");
        }
    }
}
