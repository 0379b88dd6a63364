//! Recorders of delays and other durations.

use std::time::Duration;

use hdrhistogram::Histogram as Recorded;

use crate::histogram::Histogram;
use crate::{Estimate, Method, Quantiles, binomial, intervals};

/// Quantiles to report, if the sample supports them.
const REPORTED: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999];

/// Number of batches of a sending window; can be halved twice.
const BATCHES: usize = 32;

/// A sample of durations: exact count, sum, minimum and maximum, quantiles to three digits. Recording allocates only
/// for the first duration of a size.
#[derive(Clone, Debug)]
pub struct Distribution {
    histogram: Histogram,
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

/// The sum is that of the histogram's buckets, to its precision.
impl From<&Recorded<u64>> for Distribution {
    fn from(recorded: &Recorded<u64>) -> Self {
        let mut all = Self::new();
        for bucket in recorded.iter_recorded() {
            let ns = bucket.value_iterated_to().min(recorded.max());
            all.histogram.record(ns, bucket.count_at_value());
            all.n += bucket.count_at_value();
            all.sum += u128::from(ns) * u128::from(bucket.count_at_value());
        }
        if all.n > 0 {
            (all.min, all.max) = (recorded.min(), recorded.max());
        }
        all
    }
}

impl Distribution {
    /// An empty sample.
    pub fn new() -> Self {
        Self::of(Histogram::FINE)
    }

    /// An empty sample whose quantiles have two digits, in a tenth of the memory.
    pub fn coarse() -> Self {
        Self::of(Histogram::COARSE)
    }

    fn of(bits: u32) -> Self {
        Self { histogram: Histogram::new(bits), n: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Adds a duration, ns.
    pub fn record(&mut self, ns: u64) {
        self.histogram.record(ns, 1);
        self.n += 1;
        self.sum += u128::from(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Adds another sample.
    pub fn merge(&mut self, other: &Distribution) {
        self.histogram.add(&other.histogram);
        self.n += other.n;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The durations added since `earlier`, a clone of this sample. Minimum and maximum are exact to three digits.
    pub fn since(&self, earlier: &Distribution) -> Distribution {
        let mut added = self.clone();
        added.histogram.subtract(&earlier.histogram);
        added.n -= earlier.n;
        added.sum -= earlier.sum;
        let empty = added.n == 0;
        // A new extreme was added since; otherwise it is known to the histogram's precision.
        added.min = if empty {
            u64::MAX
        } else if self.min < earlier.min {
            self.min
        } else {
            added.histogram.min()
        };
        added.max = if empty {
            0
        } else if self.max > earlier.max {
            self.max
        } else {
            added.histogram.max()
        };
        added
    }

    /// Sample size.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Sum, ns.
    pub fn sum_ns(&self) -> u128 {
        self.sum
    }

    /// Arithmetic mean, us. `None`: an empty sample, also for those below.
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
        Some(Estimate { value, low, high, n: self.n, method: Method::OrderStatistics })
    }

    /// All results, us: count, mean, maximum, and those of the quantiles 0.5, 0.9, 0.95, 0.99, 0.999 and 0.9999 that
    /// the sample [supports](supported).
    pub fn quantiles_us(&self) -> Quantiles {
        let values = REPORTED.iter().filter_map(|&q| Some((q, self.quantile_us(q)?.value))).collect();
        Quantiles { n: self.n, mean: self.mean_us(), max: self.max_us(), values }
    }

    /// The sample of this rank (1: the smallest), us.
    fn of_rank(&self, rank: u64) -> f64 {
        let rank = rank.clamp(1, self.n);
        if rank == self.n {
            return self.max as f64 / 1e3;
        }
        let ns = self.histogram.of_rank(rank);
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

/// Delays of the messages of a cell, and their arrivals.
///
/// The sending window is divided into 32 batches of equal time, for the intervals of mean and throughput. Arrivals
/// after the window (the drain) count for the delays, in the last batch, but not for the throughput.
#[derive(Clone, Debug)]
pub struct DelayRecorder {
    all: Distribution,
    window: Duration,
    in_window: u64,
    /// Arrival of the message with the largest delay.
    worst_at: Duration,
    /// Per batch: sum of the delays (ns), their number, and arrivals within the window.
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
        Self::of(window, Distribution::new())
    }

    /// A recorder whose quantiles have two digits, in a tenth of the memory.
    pub fn coarse(window: Duration) -> Self {
        Self::of(window, Distribution::coarse())
    }

    fn of(window: Duration, all: Distribution) -> Self {
        Self { all, window, in_window: 0, worst_at: Duration::ZERO, batches: [Batch::default(); BATCHES] }
    }

    /// Adds a message that arrived at the time `at` after the start of sending, `delay_ns` after it was sent.
    pub fn record(&mut self, at: Duration, delay_ns: u64) {
        if delay_ns > self.all.max || self.all.n == 0 {
            self.worst_at = at;
        }
        self.all.record(delay_ns);
        let late = at >= self.window;
        let index =
            if late { BATCHES - 1 } else { (at.as_nanos() * BATCHES as u128 / self.window.as_nanos()) as usize };
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

    /// Arrival of the message with the max delay, after the start of sending; the first of several. `None`: no
    /// messages.
    pub fn worst_at(&self) -> Option<Duration> {
        (self.all.n > 0).then_some(self.worst_at)
    }

    /// Messages, including those of the drain.
    pub fn n(&self) -> u64 {
        self.all.n
    }

    /// Messages that arrived within the sending window.
    pub fn in_window(&self) -> u64 {
        self.in_window
    }

    /// Mean delay, us, with a 95 % interval over the batches ([`intervals::batch_means`]), limited to 0. `None`:
    /// messages in fewer than two batches; [`Distribution::mean_us`] exists from the first message on.
    pub fn mean_us(&self) -> Option<Estimate> {
        let sums: Vec<f64> = self.batches.iter().map(|b| b.sum as f64 / 1e3).collect();
        let counts: Vec<f64> = self.batches.iter().map(|b| b.n as f64).collect();
        let estimate = intervals::batch_means(&sums, &counts)?;
        Some(Estimate { low: estimate.low.max(0.0), ..estimate })
    }

    /// Messages received within the sending window over its length, 1/s, with a 95 % interval over the batches, limited
    /// to 0. `None`: the window has no length.
    pub fn per_second(&self) -> Option<Estimate> {
        let arrivals: Vec<f64> = self.batches.iter().map(|b| b.arrivals as f64).collect();
        let estimate = intervals::batch_means(&arrivals, &[self.window.as_secs_f64() / BATCHES as f64; BATCHES])?;
        Some(Estimate { low: estimate.low.max(0.0), ..estimate })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantiles_start_where_the_sample_supports_them() {
        for (q, least) in [(0.5, 6), (0.9, 29), (0.95, 59), (0.99, 299), (0.999, 2995), (0.9999, 29_956), (0.01, 299)] {
            assert!(supported(least, q) && !supported(least - 1, q), "{q}");
            assert!(binomial::quantile_ranks(least, q, 0.95).is_some(), "{q}");
        }
        assert!(!supported(1_000_000, 1.0) && !supported(1_000_000, 0.0));
    }

    #[test]
    fn an_empty_recorder_knows_nothing() {
        let empty = DelayRecorder::new(Duration::from_secs(1));
        assert_eq!((empty.mean_us(), empty.delays().max_us(), empty.delays().min_us()), (None, None, None));
        assert_eq!(empty.delays().quantiles_us(), Quantiles::default());
        assert_eq!(empty.per_second().map(|e| (e.value, e.low, e.high)), Some((0.0, 0.0, 0.0)));
        assert_eq!(DelayRecorder::new(Duration::ZERO).per_second(), None);
    }

    #[test]
    fn the_drain_delays_but_does_not_carry() {
        let mut recorder = DelayRecorder::new(Duration::from_secs(10));
        for i in 0..1000u64 {
            recorder.record(Duration::from_millis(i * 10), 100_000);
        }
        recorder.record(Duration::from_secs(10), 5_000_000_000);
        assert_eq!((recorder.n(), recorder.in_window()), (1001, 1000));
        let rate = recorder.per_second().unwrap();
        assert!((rate.value - 100.0).abs() < 1e-9 && rate.low > 99.0 && rate.high < 101.0, "{rate:?}");
        assert_eq!(recorder.delays().max_us(), Some(5e6));
        let mean = recorder.mean_us().unwrap();
        assert!((mean.value - (1000.0 * 100.0 + 5e6) / 1001.0).abs() < 1e-9);
        assert!(mean.low <= 100.0, "one late message in one batch must not make the mean look certain: {mean:?}");
    }

    #[test]
    fn a_throughput_of_independent_losses_agrees_with_the_binomial_interval() {
        let mut recorder = DelayRecorder::new(Duration::from_secs(60));
        let mut state = 1u64;
        let mut kept = 0;
        for i in 0..6000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if (state >> 40) as f64 / (1u64 << 24) as f64 >= 0.2 {
                recorder.record(Duration::from_millis(i * 10), 160_000);
                kept += 1;
            }
        }
        let (rate, share) = (recorder.per_second().unwrap(), binomial::share(kept, 6000).unwrap());
        assert!((rate.value / 100.0 - share.value).abs() < 1e-9);
        let widths = (rate.high - rate.low) / 100.0 / (share.high - share.low);
        assert!((0.6..1.6).contains(&widths), "{widths}");
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_sample(mut sample in proptest::collection::vec(1u64..10_000_000_000, 30..400)) {
            let mut recorder = Distribution::new();
            sample.iter().for_each(|&ns| recorder.record(ns));
            sample.sort_unstable();
            let n = sample.len();
            prop_assert_eq!(recorder.max_us(), Some(sample[n - 1] as f64 / 1e3));
            prop_assert_eq!(recorder.sum_ns(), sample.iter().map(|&ns| u128::from(ns)).sum::<u128>());
            for q in [0.5, 0.9] {
                let exact = sample[(q * n as f64).ceil() as usize - 1] as f64 / 1e3;
                let e = recorder.quantile_us(q).unwrap();
                prop_assert!((e.value / exact - 1.0).abs() < 2e-3, "{} {}", e.value, exact);
                prop_assert!(e.low <= e.value && e.value <= e.high);
            }
        }

        #[test]
        fn what_was_added_is_told_from_what_was_there(
            before in proptest::collection::vec(1u64..10_000_000_000, 0..50),
            after in proptest::collection::vec(1u64..10_000_000_000, 0..50),
        ) {
            let mut all = Distribution::new();
            before.iter().for_each(|&ns| all.record(ns));
            let earlier = all.clone();
            after.iter().for_each(|&ns| all.record(ns));
            let added = all.since(&earlier);
            let mut alone = Distribution::new();
            after.iter().for_each(|&ns| alone.record(ns));
            prop_assert_eq!((added.n(), added.sum_ns()), (alone.n(), alone.sum_ns()));
            for (found, exact) in [(added.min_us(), alone.min_us()), (added.max_us(), alone.max_us())] {
                prop_assert!(found.zip(exact).is_none_or(|(found, exact)| (found / exact - 1.0).abs() < 2e-3));
                prop_assert_eq!(found.is_some(), exact.is_some());
            }
        }

        #[test]
        fn nothing_overflows(samples in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..50)) {
            let mut recorder = DelayRecorder::new(Duration::from_secs(60));
            for &(at, ns) in &samples {
                recorder.record(Duration::from_nanos(at), ns);
            }
            prop_assert_eq!(recorder.n(), samples.len() as u64);
            prop_assert!(recorder.delays().quantiles_us().max.is_some());
        }
    }
}
