//! Which settings make sense.

use std::time::Duration;

use super::{Distribution, Impairments, Loss, Probability};

/// A setting that makes no sense. Keys are those of [`Impairments`], dotted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidImpairment {
    /// A probability below 0, above 1 or not a number.
    #[error("{key} of {} %: must be between 0 % and 100 %", .value * 100.0)]
    Probability {
        /// The setting.
        key: &'static str,
        /// What it was set to, as a share.
        value: Probability,
    },
    /// A delay of more than a day.
    #[error("{key} of {value:?}: must be at most {MAX_DELAY:?} (a day)")]
    Delay {
        /// The setting.
        key: &'static str,
        /// What it was set to.
        value: Duration,
    },
    /// A rate of 0.
    #[error("rate of 0 bit/s: must be at least 1 bit/s (leave it out for no limit, or lose 100 % for no passage)")]
    Rate,
}

impl Impairments {
    /// Checks every setting.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn validate(&self) -> Result<(), InvalidImpairment> {
        self.loss.validate()?;
        probability("duplicate", self.duplicate)?;
        probability("corrupt", self.corrupt)?;
        delay("delay", self.delay)?;
        match self.variation.as_ref().map(|variation| variation.distribution) {
            None => {}
            Some(Distribution::Uniform(most)) => delay("variation.uniform", most)?,
            Some(Distribution::Exponential(mean)) => delay("variation.exponential", mean)?,
            Some(Distribution::Normal(mean, deviation)) => {
                delay("variation.normal.mean", mean)?;
                delay("variation.normal.deviation", deviation)?;
            }
        }
        if let Some(reorder) = self.reorder {
            probability("reorder.probability", reorder.probability)?;
            delay("reorder.by", reorder.by)?;
        }
        match self.rate {
            Some(rate) if rate.bits_per_second == 0 => Err(InvalidImpairment::Rate),
            _ => Ok(()),
        }
    }

    /// Whether packets pass as if there were nothing: no impairment can ever have an effect.
    pub fn is_transparent(&self) -> bool {
        self.loss.is_never()
            && self.delay.is_zero()
            && self
                .variation
                .as_ref()
                .is_none_or(|variation| variation.distribution.is_zero())
            && self.rate.is_none()
            && self.duplicate == 0.0
            && self.corrupt == 0.0
            && self
                .reorder
                .is_none_or(|reorder| reorder.probability == 0.0 || reorder.by.is_zero())
    }
}

impl Loss {
    fn validate(&self) -> Result<(), InvalidImpairment> {
        match *self {
            Loss::None | Loss::List(_) => Ok(()),
            Loss::Bernoulli(share) => probability("loss", share),
            Loss::GilbertElliott {
                to_bad,
                to_good,
                good,
                bad,
            } => {
                probability("loss.to_bad", to_bad)?;
                probability("loss.to_good", to_good)?;
                probability("loss.good", good)?;
                probability("loss.bad", bad)
            }
        }
    }

    fn is_never(&self) -> bool {
        match self {
            Loss::None => true,
            Loss::Bernoulli(share) => *share == 0.0,
            Loss::GilbertElliott { good, bad, .. } => *good == 0.0 && *bad == 0.0,
            Loss::List(indexes) => indexes.is_empty(),
        }
    }
}

/// Longest delay that can be set.
const MAX_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

fn probability(key: &'static str, value: Probability) -> Result<(), InvalidImpairment> {
    // Not a number is in no range.
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(InvalidImpairment::Probability { key, value })
    }
}

fn delay(key: &'static str, value: Duration) -> Result<(), InvalidImpairment> {
    if value <= MAX_DELAY {
        Ok(())
    } else {
        Err(InvalidImpairment::Delay { key, value })
    }
}
