//! Counts of independent successes: shares, and ranks of order statistics.

use statrs::function::gamma::ln_gamma;

use crate::{Estimate, Method, intervals};

/// The share of successes with its 95 % interval. `None`: no trials, or more successes than trials.
///
/// For independent trials (UDP messages under independent loss); too narrow where losses come in bursts.
pub fn share(successes: u64, trials: u64) -> Option<Estimate> {
    if trials == 0 || successes > trials {
        return None;
    }
    let (low, high) = wilson(successes, trials, 0.95);
    Some(Estimate { value: successes as f64 / trials as f64, low, high, n: trials, method: Method::Binomial })
}

/// Wilson's score interval of a share at `confidence` (0.95 for 95 %), which covers 93 to 97 % at 95 (Brown, Cai and
/// DasGupta, "Interval estimation for a binomial proportion", 2001). (0, 1) without trials.
pub fn wilson(successes: u64, trials: u64, confidence: f64) -> (f64, f64) {
    let (k, n, z) = (successes.min(trials) as f64, trials as f64, intervals::normal(confidence));
    let (middle, all) = (k + z * z / 2.0, n + z * z);
    let half = z * (k * (n - k) / n.max(1.0) + z * z / 4.0).sqrt();
    (((middle - half) / all).max(0.0), ((middle + half) / all).min(1.0))
}

/// Ranks (1 to `n`) of the order statistics that enclose quantile `q` of the population with `confidence`.
///
/// `None`: no pair of them does. If the sample is too small for equal tails, the upper (for q < 0.5 the lower) end is
/// the extreme, and the other tail gets the rest of the error.
pub fn quantile_ranks(n: u64, q: f64, confidence: f64) -> Option<(u64, u64)> {
    if n == 0 || !(q > 0.0 && q < 1.0) {
        return None;
    }
    if q < 0.5 {
        let (low, high) = quantile_ranks(n, 1.0 - q, confidence)?;
        return Some((n + 1 - high, n + 1 - low));
    }
    let error = 1.0 - confidence;
    // x(r) lies above the quantile if fewer than r samples lie below it, and below if at least r do.
    let below = |r: u64| 1.0 - cdf(Some(r - 1), n, q);
    let above = |r: u64| cdf(Some(r - 1), n, q);
    let high = first(1, n, |r| below(r) <= error / 2.0);
    let left = (error - below(high)).min(if below(high) > error / 2.0 { error } else { error / 2.0 });
    if left <= 0.0 || above(1) > left {
        return None;
    }
    let low = first(1, n, |r| above(r + 1) > left);
    Some((low, high))
}

/// Probability of at most `k` successes (`None`: fewer than none) in `n` trials, 0 < p < 1: the sum of the tail that does not
/// hold the mean, outwards until nothing more is added.
fn cdf(k: Option<u64>, n: u64, p: f64) -> f64 {
    let Some(k) = k else { return 0.0 };
    if k >= n {
        return 1.0;
    }
    let odds = p / (1.0 - p);
    let is_below = (k as f64) < n as f64 * p;
    let (mut at, mut sum) = (if is_below { k } else { k + 1 }, 0.0);
    let mut mass = ln_mass(at, n, p).exp();
    while sum + mass > sum {
        sum += mass;
        if is_below {
            mass *= at as f64 / ((n - at + 1) as f64 * odds);
            at = at.saturating_sub(1);
        } else {
            mass *= (n - at) as f64 * odds / (at + 1) as f64;
            at += 1;
        }
    }
    if is_below { sum } else { 1.0 - sum }
}

/// Logarithm of the probability of `k` successes in `n` trials, 0 < p < 1.
fn ln_mass(k: u64, n: u64, p: f64) -> f64 {
    let (k, n) = (k as f64, n as f64);
    ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0) + k * p.ln() + (n - k) * (-p).ln_1p()
}

/// The first number of `low..high` for which `holds`, which must stay true once it is; `high` if there is none.
fn first(mut low: u64, mut high: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wilson_as_in_tables() {
        // R: prop.test(k, n, correct = FALSE)$conf.int
        for (k, n, low, high) in [
            (0, 10, 0.0, 0.277_532_8),
            (1, 10, 0.017_876_21, 0.404_150_2),
            (5, 10, 0.236_593_1, 0.763_406_9),
            (10, 10, 0.722_467_2, 1.0),
            (81, 263, 0.255_289, 0.366_230_7),
        ] {
            let e = share(k, n).unwrap();
            assert!((e.low - low).abs() < 1e-4 && (e.high - high).abs() < 1e-4, "{k}/{n}: {e:?}");
        }
        assert_eq!(wilson(0, 0, 0.95), (0.0, 1.0));
    }

    #[test]
    fn shares_that_do_not_exist() {
        assert_eq!(share(0, 0), None);
        assert_eq!(share(3, 2), None);
    }

    #[test]
    fn sums_as_in_tables() {
        // R: pbinom(k, n, p); of many trials nearly normal.
        for (k, n, p, expected) in
            [(0, 1, 0.5, 0.5), (2, 10, 0.5, 0.054_687_5), (8, 10, 0.5, 0.989_257_8), (0, 300, 0.01, 0.049_040_894)]
        {
            assert!((cdf(Some(k), n, p) - expected).abs() < 1e-6, "{k}/{n} at {p}: {}", cdf(Some(k), n, p));
        }
        assert!((cdf(Some(500_000_000 - 1), 1_000_000_000, 0.5) - 0.5).abs() < 1e-4);
        assert_eq!((cdf(None, 10, 0.5), cdf(Some(10), 10, 0.5)), (0.0, 1.0));
    }

    #[test]
    fn ranks_as_in_tables() {
        // 95 % interval of the median: Conover, "Practical nonparametric statistics".
        assert_eq!(quantile_ranks(5, 0.5, 0.95), None);
        assert_eq!(quantile_ranks(6, 0.5, 0.95), Some((1, 6)));
        assert_eq!(quantile_ranks(20, 0.5, 0.95), Some((6, 15)));
        assert_eq!(quantile_ranks(100, 0.5, 0.95), Some((40, 61)));
        assert_eq!(quantile_ranks(298, 0.99, 0.95), None);
        assert_eq!(quantile_ranks(299, 0.99, 0.95).map(|r| r.1), Some(299));
        assert_eq!(quantile_ranks(299, 0.01, 0.95).map(|r| r.0), Some(1));
    }

    proptest! {
        #[test]
        fn ranks_cover(n in 6u64..5000, q in 0.5f64..0.999) {
            if let Some((low, high)) = quantile_ranks(n, q, 0.95) {
                prop_assert!(1 <= low && low < high && high <= n);
                let covered = cdf(Some(high - 1), n, q) - cdf(low.checked_sub(1), n, q);
                prop_assert!(covered >= 0.95 - 1e-9, "{covered}");
            } else {
                prop_assert!(q.powf(n as f64) > 0.05 - 1e-9);
            }
        }
    }
}
