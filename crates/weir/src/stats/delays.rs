//! Recorders of delays and other durations.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::{Estimate, Method, Quantiles, binomial, intervals};

/// Quantiles that are reported, where the sample supports them.
const REPORTED: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999];

/// Batches that a sending window is cut into; twice halved without remainder.
const BATCHES: usize = 32;

/// Longest duration that the histogram tells apart, ns: 4 h. Mean and maximum are exact beyond it, too.
const LONGEST: u64 = 4 * 3600 * 1_000_000_000;

/// A sample of durations: exact count, sum, minimum and maximum, quantiles to three digits. Recording allocates nothing.
#[derive(Clone, Debug)]
pub struct Distribution {
    histogram: Histogram<u64>,
    n: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self::new()
    }
}

impl Distribution {
    /// An empty sample.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST, 3).expect("constant bounds are valid");
        Self {
            histogram,
            n: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// Adds a duration, ns.
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
        self.n += 1;
        self.sum += u128::from(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Adds another sample.
    pub fn merge(&mut self, other: &Distribution) {
        // Cannot fail: all have the same bounds.
        let _ = self.histogram.add(&other.histogram);
        self.n += other.n;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Sample size.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Sum, ns.
    pub fn sum_ns(&self) -> u128 {
        self.sum
    }

    /// Arithmetic mean, us; `None` for an empty sample, as with those below.
    pub fn mean_us(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum as f64 / self.n as f64 / 1e3)
    }

    /// Smallest, us.
    pub fn min_us(&self) -> Option<f64> {
        (self.n > 0).then(|| self.min as f64 / 1e3)
    }

    /// Largest, us.
    pub fn max_us(&self) -> Option<f64> {
        (self.n > 0).then(|| self.max as f64 / 1e3)
    }

    /// Quantile `q` with a 95 % interval by order statistics, us; `None` if the sample [does not support it](supported).
    ///
    /// The interval holds for independent samples. Delays of one TCP connection are not: there it is too narrow.
    pub fn quantile_us(&self, q: f64) -> Option<Estimate> {
        if !supported(self.n, q) {
            return None;
        }
        let (low, high) = binomial::quantile_ranks(self.n, q, 0.95)?;
        let value = self.of_rank((q * self.n as f64).ceil() as u64);
        let (low, high) = (self.of_rank(low).min(value), self.of_rank(high).max(value));
        Some(Estimate {
            value,
            low,
            high,
            n: self.n,
            method: Method::OrderStatistics,
        })
    }

    /// Everything, us: count, mean, maximum, and those of the quantiles 0.5, 0.9, 0.95, 0.99, 0.999 and 0.9999 that the
    /// sample [supports](supported).
    pub fn quantiles_us(&self) -> Quantiles {
        let values = REPORTED
            .iter()
            .filter_map(|&q| Some((q, self.quantile_us(q)?.value)))
            .collect();
        Quantiles {
            n: self.n,
            mean: self.mean_us(),
            max: self.max_us(),
            values,
        }
    }

    /// The sample of this rank (1: the smallest), us.
    fn of_rank(&self, rank: u64) -> f64 {
        let rank = rank.clamp(1, self.n);
        if rank == self.n {
            return self.max as f64 / 1e3;
        }
        // Half a rank less keeps rounding from reaching the next one.
        let ns = self.histogram.value_at_quantile((rank as f64 - 0.5) / self.n as f64);
        ns.clamp(self.min, self.max) as f64 / 1e3
    }
}

/// Whether `n` samples support quantile `q`.
///
/// The largest of n samples bounds quantile q from above with confidence 1 - q^n; 95 % need n >= ln 0.05 / ln q:
/// 29 for p90, 59 for p95, 299 for p99, 2,995 for p99.9, 29,956 for p99.99. Below 0.5 the same holds of the smallest,
/// and no quantile has a two-sided interval with fewer than 6.
pub fn supported(n: u64, q: f64) -> bool {
    let extreme = q.max(1.0 - q);
    extreme < 1.0 && n >= 6 && n as f64 >= 0.05f64.ln() / extreme.ln()
}

/// Delays of the messages of a cell, and when they came.
///
/// The sending window is cut into 32 batches of equal time, for the intervals of mean and throughput. What comes after
/// the window (the drain) counts among the delays, as part of the last batch, but not in the throughput.
#[derive(Clone, Debug)]
pub struct DelayRecorder {
    all: Distribution,
    window: Duration,
    in_window: u64,
    /// Of each batch: sum of the delays (ns), their number, and arrivals within the window.
    batches: [Batch; BATCHES],
}

#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    sum: u128,
    n: u64,
    arrivals: u64,
}

impl DelayRecorder {
    /// A recorder for a sending window of this length.
    pub fn new(window: Duration) -> Self {
        Self {
            all: Distribution::new(),
            window,
            in_window: 0,
            batches: [Batch::default(); BATCHES],
        }
    }

    /// Adds a message that arrived `at` this time after the start of sending, `delay_ns` after it was sent.
    pub fn record(&mut self, at: Duration, delay_ns: u64) {
        self.all.record(delay_ns);
        let late = at >= self.window;
        let index = if late {
            BATCHES - 1
        } else {
            (at.as_nanos() * BATCHES as u128 / self.window.as_nanos()) as usize
        };
        let batch = &mut self.batches[index];
        batch.sum += u128::from(delay_ns);
        batch.n += 1;
        batch.arrivals += u64::from(!late);
        self.in_window += u64::from(!late);
    }

    /// The delays without their times.
    pub fn delays(&self) -> &Distribution {
        &self.all
    }

    /// Messages, those of the drain included.
    pub fn n(&self) -> u64 {
        self.all.n
    }

    /// Messages that arrived within the sending window.
    pub fn in_window(&self) -> u64 {
        self.in_window
    }

    /// Mean delay, us, with a 95 % interval over the batches ([`intervals::batch_means`]), cut off at 0. `None` without
    /// messages in at least two of them; [`Distribution::mean_us`] is there from the first one.
    pub fn mean_us(&self) -> Option<Estimate> {
        let sums: Vec<f64> = self.batches.iter().map(|b| b.sum as f64 / 1e3).collect();
        let counts: Vec<f64> = self.batches.iter().map(|b| b.n as f64).collect();
        let estimate = intervals::batch_means(&sums, &counts)?;
        Some(Estimate {
            low: estimate.low.max(0.0),
            ..estimate
        })
    }

    /// Messages received within the sending window over its length, 1/s, with a 95 % interval over the batches, cut
    /// off at 0. `None` if the window has no length.
    pub fn per_second(&self) -> Option<Estimate> {
        let arrivals: Vec<f64> = self.batches.iter().map(|b| b.arrivals as f64).collect();
        let estimate = intervals::batch_means(&arrivals, &[self.window.as_secs_f64() / BATCHES as f64; BATCHES])?;
        Some(Estimate {
            low: estimate.low.max(0.0),
            ..estimate
        })
    }
}
