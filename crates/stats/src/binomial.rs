//! Counts of independent successes: shares, ranks of order statistics, and the exact test.

use statrs::function::gamma::ln_gamma;

use crate::{Estimate, Method, beta};

/// The share of successes with its exact 95 % interval. `None` without trials or with more successes than trials.
///
/// Exact for independent trials (UDP messages under independent loss); too narrow where losses come in bursts.
pub fn share(successes: u64, trials: u64) -> Option<Estimate> {
    if trials == 0 || successes > trials {
        return None;
    }
    let (low, high) = clopper_pearson(successes, trials, 0.95);
    Some(Estimate { value: successes as f64 / trials as f64, low, high, n: trials, method: Method::Binomial })
}

/// The Clopper-Pearson interval of a share at `confidence` (0.95 for 95 %). (0, 1) without trials.
///
/// Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial", 1934, in
/// its form by quantiles of the beta distribution.
pub fn clopper_pearson(successes: u64, trials: u64, confidence: f64) -> (f64, f64) {
    let (k, n, tail) = (successes.min(trials) as f64, trials as f64, (1.0 - confidence) / 2.0);
    let low = if k == 0.0 { 0.0 } else { beta::inverse(k, n - k + 1.0, tail, 0.0, k / n) };
    let high = if k == n { 1.0 } else { beta::inverse(k + 1.0, n - k, 1.0 - tail, k / n, 1.0) };
    (low, high)
}

/// Two-sided exact test of `successes` in `trials` against the share `p`: the probability, if `p` is true, of a count
/// that is no more likely than the one seen (R's `binom.test`).
pub fn test(successes: u64, trials: u64, p: f64) -> f64 {
    let (k, n) = (successes.min(trials), trials);
    if n == 0 || p.is_nan() {
        return 1.0;
    }
    if p <= 0.0 || p >= 1.0 {
        let certain = if p <= 0.0 { 0 } else { n };
        return if k == certain { 1.0 } else { 0.0 };
    }
    let seen = ln_mass(k, n, p) + 1e-7;
    let mode = (((n + 1) as f64 * p).floor() as u64).min(n);
    // The mass falls on both sides of the mode: on the far side search the first count as unlikely as the one seen.
    let total = if k == mode {
        1.0
    } else if k < mode {
        let far = first(mode, n + 1, |x| ln_mass(x, n, p) <= seen);
        cdf(Some(k), n, p) + if far > n { 0.0 } else { 1.0 - cdf(far.checked_sub(1), n, p) }
    } else {
        let above = first(0, mode + 1, |x| ln_mass(x, n, p) > seen);
        1.0 - cdf(k.checked_sub(1), n, p) + cdf(above.checked_sub(1), n, p)
    };
    total.clamp(0.0, 1.0)
}

/// Ranks (1 to `n`) of the order statistics that enclose quantile `q` of the population with `confidence`.
///
/// `None` if no pair of them does. Where the sample is too small for equal tails, the upper (for q < 0.5 the lower) end
/// is the extreme, and the other tail gets what is left of the error.
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

/// Probability of at most `k` successes (`None`: fewer than none) in `n` trials.
fn cdf(k: Option<u64>, n: u64, p: f64) -> f64 {
    match k {
        None => 0.0,
        Some(k) if k >= n => 1.0,
        Some(k) => beta::incomplete((n - k) as f64, k as f64 + 1.0, 1.0 - p),
    }
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
    fn clopper_pearson_as_in_tables() {
        // R: binom.test(k, n)$conf.int
        for (k, n, low, high) in [
            (0, 10, 0.0, 0.308_497_1),
            (1, 10, 0.002_528_579, 0.445_016_1),
            (5, 10, 0.187_086, 0.812_914),
            (10, 10, 0.691_502_9, 1.0),
            (81, 263, 0.252_661_4, 0.367_650_7),
        ] {
            let e = share(k, n).unwrap();
            assert!((e.low - low).abs() < 2e-4 && (e.high - high).abs() < 2e-4, "{k}/{n}: {e:?}");
        }
        // So many that the interval is the normal one: 272,000 +- 1.96 sqrt(n p q).
        let (low, high) = clopper_pearson(272_000, 2_290_695, 0.95);
        let (p, n) = (272_000.0 / 2_290_695.0, 2_290_695.0_f64);
        let half = 1.96 * (p * (1.0 - p) / n).sqrt();
        assert!((low - (p - half)).abs() < 1e-6 && (high - (p + half)).abs() < 1e-6, "{low} {high}");
        let exact = clopper_pearson(0, 10, 0.95).1;
        assert!((exact - (1.0 - 0.025f64.powf(0.1))).abs() < 1e-9, "{exact}");
    }

    #[test]
    fn shares_that_do_not_exist() {
        assert_eq!(share(0, 0), None);
        assert_eq!(share(3, 2), None);
    }

    #[test]
    fn test_as_summed_by_hand() {
        for (k, n, p) in
            [(2, 10, 0.5), (8, 10, 0.5), (5, 10, 0.5), (1, 7, 0.3), (6, 7, 0.3), (0, 20, 0.05), (9, 300, 0.01)]
        {
            let mass = |x: u64| ln_mass(x, n, p).exp();
            let by_hand: f64 = (0..=n).map(mass).filter(|&m| m <= mass(k) * (1.0 + 1e-7)).sum();
            assert!((test(k, n, p) - by_hand).abs() < 1e-9, "{k}/{n} at {p}: {} {by_hand}", test(k, n, p));
        }
        assert!((test(2, 10, 0.5) - 0.109_375).abs() < 1e-9);
        assert_eq!((test(0, 5, 0.0), test(1, 5, 0.0), test(5, 5, 1.0), test(0, 0, 0.5)), (1.0, 0.0, 1.0, 1.0));
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

        #[test]
        fn test_is_a_probability(k in 0u64..200, more in 0u64..20_000, p in 0.0f64..1.0) {
            let value = test(k, k + more, p);
            prop_assert!((0.0..=1.0).contains(&value));
        }
    }
}
