//! Rates from samples, with the interval in which the true one is.
//!
//! Samples of weight w come at random (Poisson): a sum of weights has the sum of their squares as its variance, and is worth
//! (sum)^2/(sum of squares) samples of equal weight. The interval of so many is exact but for its approximation of chi-square quantiles
//! (Wilson and Hilferty, "The distribution of chi-square", 1931).

use crate::model::Rate;

/// Two-sided quantile of the normal distribution for 95 %.
const Z95: f64 = 1.96;

/// The rate of a sum of weights over so many seconds, with its 95 % interval.
pub(crate) fn rate(sum: f64, squares: f64, seconds: f64) -> Rate {
    if sum <= 0.0 || squares <= 0.0 || seconds <= 0.0 {
        return Rate::default();
    }
    let samples = (sum * sum / squares).min(1e12);
    let (low, high) = poisson(samples, Z95);
    let one = sum / samples / seconds;
    Rate { value: sum / seconds, low: low * one, high: Some(high * one) }
}

/// The interval of the mean of which so many events are the outcome.
fn poisson(events: f64, z: f64) -> (f64, f64) {
    let end = |n: f64, z: f64| n * (1.0 - 1.0 / (9.0 * n) + z / (3.0 * n.sqrt())).max(0.0).powi(3);
    (end(events, -z).min(events), end(events + 1.0, z))
}

#[cfg(test)]
mod tests {
    use weir_testbed::random::Source;

    use super::*;

    #[test]
    fn as_in_tables() {
        // Exact 95 % limits of a Poisson mean: 1: 0.0253 to 5.572; 10: 4.795 to 18.39; 100: 81.36 to 121.6.
        for (events, low, high) in [(1.0, 0.0253, 5.572), (10.0, 4.795, 18.39), (100.0, 81.36, 121.6)] {
            let found = poisson(events, Z95);
            assert!((found.0 - low).abs() < 0.05 && (found.1 / high - 1.0).abs() < 0.01, "{events}: {found:?}");
        }
        assert_eq!(rate(0.0, 0.0, 1.0), Rate::default());
    }

    #[test]
    fn the_true_rate_is_within() {
        let mut source = Source::drawn();
        // 20 samples a second of packets that count 100, and 5 that count 1,000.
        let hits = (0..4000).filter(|_| {
            let (a, b) = (source.poisson(20.0), source.poisson(5.0));
            let found = rate(a * 100.0 + b * 1000.0, a * 1e4 + b * 1e6, 1.0);
            found.low <= 7000.0 && found.high.is_some_and(|high| 7000.0 <= high)
        });
        let share = hits.count() as f64 / 4000.0;
        // 94.5 %, with a deviation of 0.36 %.
        assert!((0.92..=0.97).contains(&share), "{share}");
    }
}
