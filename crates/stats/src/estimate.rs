//! The reported form of a statistic.

use serde::{Deserialize, Serialize};

use crate::{binomial, intervals};

/// An estimated value, its 95 % interval, and the data for other levels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Number of independent observations (messages, or batches).
    pub n: u64,
    /// The method of the interval.
    pub method: Method,
}

/// The method of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Student's t over the means of consecutive batches of one run.
    BatchMeans,
    /// Student's t over repeats of the cell.
    Repeats,
    /// Wilson's score interval of independent successes.
    Binomial,
    /// Order statistics of the sample.
    OrderStatistics,
    /// A value from several estimates, with the interval from theirs.
    Ratio,
}

/// Quantiles of a sample; those that it does not support are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Sample size.
    pub n: u64,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Largest value.
    pub max: Option<f64>,
    /// Quantile (0 to 1) and value, ascending.
    pub values: Vec<(f64, f64)>,
}

impl Quantiles {
    /// The value of quantile `q`, if the sample supports it and it was recorded.
    pub fn get(&self, q: f64) -> Option<f64> {
        self.values.iter().find(|(key, _)| (key - q).abs() < 1e-9).map(|&(_, value)| value)
    }
}

impl Estimate {
    /// The interval at another level of confidence (0.99 for 99 %).
    ///
    /// Exact for Student's t and for shares (of 1). The other methods keep only their 95 % ends: those are scaled like
    /// the normal distribution, an approximation. A lower end that was limited to 0 stays there.
    pub fn interval(&self, confidence: f64) -> (f64, f64) {
        match self.method {
            Method::BatchMeans | Method::Repeats => {
                let freedom = self.n.saturating_sub(1).max(1) as f64;
                let scale = intervals::student(confidence, freedom) / intervals::student(0.95, freedom);
                // The lower end may have been limited to 0; the upper one gives the half width.
                let half = (self.high - self.value) * scale;
                let low = self.value - half;
                // Batches hold delays and counts: their means are never negative.
                let low = if self.method == Method::BatchMeans { low.max(0.0) } else { self.cut_off(low) };
                (low, self.value + half)
            }
            Method::Binomial => {
                let successes = (self.value * self.n as f64).round();
                let exact = (0.0..=self.n as f64).contains(&successes)
                    && binomial::share(successes as u64, self.n)
                        .is_some_and(|e| (e.low - self.low).abs() < 1e-6 && (e.high - self.high).abs() < 1e-6);
                if exact {
                    binomial::wilson(successes as u64, self.n, confidence)
                } else {
                    self.scaled_normally(confidence)
                }
            }
            Method::OrderStatistics | Method::Ratio => self.scaled_normally(confidence),
        }
    }

    /// The same estimate in another unit: all values times `factor`, which is positive.
    pub fn times(self, factor: f64) -> Estimate {
        Estimate { value: self.value * factor, low: self.low * factor, high: self.high * factor, ..self }
    }

    fn scaled_normally(&self, confidence: f64) -> (f64, f64) {
        let scale = intervals::normal(confidence) / intervals::normal(0.95);
        let low = self.value - (self.value - self.low) * scale;
        let high = self.value + (self.high - self.value) * scale;
        (self.cut_off(low), high)
    }

    /// A lower end of 0 means that less is impossible.
    fn cut_off(&self, low: f64) -> f64 {
        if self.low == 0.0 { low.max(0.0) } else { low }
    }
}
