//! Intervals of means, rates and ratios.
//!
//! Each states its assumptions. In general, Student's t needs means that are near normal. Batches and repeats of a
//! heavy-tailed delay (TCP in its last seconds) are not, so a 95 % interval from few of them covers less.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::{Estimate, Method};

/// Min number of batches after merging neighbours.
const FEWEST_BATCHES: usize = 8;

/// The ratio of the totals of `sums` and `weights` over consecutive batches of a run, with its 95 % interval.
///
/// With the delays of each batch summed and counted this is the mean delay; with counts over batch lengths, a rate.
/// Batches may be empty. The interval is the one of a ratio estimator (Cochran, "Sampling techniques", 6.3) with
/// Student's t.
///
/// Batches of one run are not quite independent. As long as the correlation of neighbours is significantly positive
/// (one-sided 5 %), neighbours are merged, down to 8 batches; if it remains even then, the interval is widened by
/// sqrt((1 + r) / (1 - r)), as for a first-order autoregression. `n` of the estimate is the batches left.
///
/// How often a 95 % interval then covers the mean of a first-order autoregression of correlation 0.9 (simulated in the
/// tests): 95 % with batches of 200 samples, 93 % with 50, but only 83 % with batches of 5, shorter than the correlation.
///
/// `None`: fewer than two batches of positive weight, or slices of different length.
pub fn batch_means(sums: &[f64], weights: &[f64]) -> Option<Estimate> {
    if sums.len() != weights.len() || weights.iter().filter(|&&w| w > 0.0).count() < 2 {
        return None;
    }
    let (mut sums, mut weights) = (sums.to_vec(), weights.to_vec());
    let total: f64 = weights.iter().sum();
    let value = sums.iter().sum::<f64>() / total;
    loop {
        let n = sums.len() as f64;
        let errors: Vec<f64> = sums.iter().zip(&weights).map(|(s, w)| s - value * w).collect();
        let squares: f64 = errors.iter().map(|e| e * e).sum();
        let lagged: f64 = errors.windows(2).map(|pair| pair[0] * pair[1]).sum();
        // Sample correlations are biased by about -1/n.
        let r = if squares > 0.0 { lagged / squares + 1.0 / n } else { 0.0 };
        let significant = r > normal(0.90) / n.sqrt();
        if significant && sums.len() >= 2 * FEWEST_BATCHES {
            sums = merge_neighbours(&sums);
            weights = merge_neighbours(&weights);
            continue;
        }
        let inflation = if significant { (1.0 + r.min(0.9)) / (1.0 - r.min(0.9)) } else { 1.0 };
        let error = (n / (n - 1.0) * squares * inflation).sqrt() / total;
        return finite(value, student(0.95, n - 1.0) * error, sums.len() as u64, Method::BatchMeans);
    }
}

/// The mean over independent repeats with its 95 % interval. `None`: fewer than two, or a NaN.
pub fn repeats(values: &[f64]) -> Option<Estimate> {
    let n = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    finite(mean, student(0.95, n - 1.0) * (variance / n).sqrt(), values.len() as u64, Method::Repeats)
}

/// The mean over repeats of one run each, with the 95 % interval from the batches or trials within them; and the ratio
/// of the repeats' actual variation to that. `None`: fewer than two, or one is not a mean over batches or a share.
///
/// The variance of each repeat's mean, from its own batches, averages to W; the means of k repeats vary by B. Where nothing
/// but the variation within repeats sets them apart, B / W follows F and the mean has the variance W / k, with the degrees of
/// freedom of Satterthwaite ("An approximate distribution of estimates of variance components", 1946); where repeats
/// differ besides, B / W grows, and only B / k with k - 1 degrees holds (a one-way random effects model; Scheffe, "The
/// analysis of variance", chapter 7).
pub fn pooled(repeats: &[Estimate]) -> Option<(Estimate, f64)> {
    let k = repeats.len() as f64;
    let method = repeats.first()?.method;
    let unlike = |repeat: &Estimate| repeat.method != method || repeat.n < 2;
    if repeats.len() < 2 || !matches!(method, Method::BatchMeans | Method::Binomial) || repeats.iter().any(unlike) {
        return None;
    }
    let mean = repeats.iter().map(|repeat| repeat.value).sum::<f64>() / k;
    let between = repeats.iter().map(|repeat| (repeat.value - mean).powi(2)).sum::<f64>() / (k - 1.0);
    let (mut sum, mut weighted) = (0.0, 0.0);
    for repeat in repeats {
        let freedom = (repeat.n - 1) as f64;
        // The lower end of a mean may have been limited to 0, and the ends of a share are asymmetric near 0 and 1.
        let half = (repeat.high - repeat.value).max(repeat.value - repeat.low);
        let variance = (half / student(0.95, freedom)).powi(2);
        (sum, weighted) = (sum + variance, weighted + variance * variance / freedom);
    }
    let freedom = (sum * sum / weighted).floor().max(1.0);
    let method = if method == Method::Binomial { Method::Repeats } else { method };
    let estimate = finite(mean, student(0.95, freedom) * sum.sqrt() / k, freedom as u64 + 1, method)?;
    Some((estimate, between * k / sum))
}

/// The interval of a ratio, from value, lower and upper end of two independent, non-negative quantities at one level.
///
/// The method of variance estimates recovery (Donner and Zou, "Closed-form confidence intervals for functions of the
/// normal mean and standard deviation", 2012); for symmetric intervals it is Fieller's. The upper end is infinite where
/// the divisor's interval reaches 0. `None` if the divisor is not positive.
pub fn ratio_interval(over: (f64, f64, f64), under: (f64, f64, f64)) -> Option<(f64, f64, f64)> {
    let ((a, a_low, a_high), (b, b_low, b_high)) = (over, under);
    if !(b > 0.0 && a >= 0.0) {
        return None;
    }
    let product = a * b;
    // A wide upper half (more than the value itself) leaves the formula's range; the end is then the plain quotient.
    let low = if b_high < 2.0 * b {
        let root = product * product - a_low * b_high * (2.0 * a - a_low) * (2.0 * b - b_high);
        (product - root.max(0.0).sqrt()) / (b_high * (2.0 * b - b_high))
    } else {
        a_low / b_high
    };
    let high = if b_low > 0.0 {
        let root = product * product - a_high * b_low * (2.0 * a - a_high) * (2.0 * b - b_low);
        (product + root.max(0.0).sqrt()) / (b_low * (2.0 * b - b_low))
    } else {
        f64::INFINITY
    };
    Some((a / b, low.max(0.0).min(a / b), high.max(a / b)))
}

/// The two-sided quantile of Student's t: half width of an interval in standard errors.
pub fn student(confidence: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(0.5 + confidence / 2.0))
}

/// The two-sided quantile of the standard normal distribution.
pub fn normal(confidence: f64) -> f64 {
    Normal::standard().inverse_cdf(0.5 + confidence / 2.0)
}

fn finite(value: f64, half: f64, n: u64, method: Method) -> Option<Estimate> {
    let estimate = Estimate { value, low: value - half, high: value + half, n, method };
    (value.is_finite() && half.is_finite()).then_some(estimate)
}

/// Sums of neighbours; an odd one at the end joins the pair before it.
fn merge_neighbours(values: &[f64]) -> Vec<f64> {
    let mut merged: Vec<f64> = values.chunks_exact(2).map(|pair| pair[0] + pair[1]).collect();
    if let ([odd], Some(last)) = (values.chunks_exact(2).remainder(), merged.last_mut()) {
        *last += odd;
    }
    merged
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_testbed::random::Source;

    use super::*;

    fn covers(e: &Estimate, truth: f64) -> bool {
        e.low <= truth && truth <= e.high
    }

    /// Share of 2,000 runs whose batch-means interval covers the mean of a first-order autoregression of mean 10.
    fn coverage(correlation: f64, per_batch: usize) -> f64 {
        let mut source = Source(20);
        let mut hits = 0;
        for _ in 0..2000 {
            let mut x = source.normal();
            let sums: Vec<f64> = (0..32)
                .map(|_| {
                    (0..per_batch)
                        .map(|_| {
                            x = correlation * x + (1.0 - correlation * correlation).sqrt() * source.normal();
                            10.0 + x
                        })
                        .sum()
                })
                .collect();
            hits += usize::from(covers(&batch_means(&sums, &vec![per_batch as f64; 32]).unwrap(), 10.0));
        }
        hits as f64 / 2000.0
    }

    #[test]
    fn shares_of_repeats_are_one_share_where_they_differ_by_chance() {
        let shares = [797, 806, 801, 795].map(|successes| crate::binomial::share(successes, 1_000).unwrap());
        let (joint, factor) = pooled(&shares).unwrap();
        let of_all = crate::binomial::share(3_199, 4_000).unwrap();
        assert!((joint.value - of_all.value).abs() < 1e-9 && factor < 1.0, "{joint:?} {factor}");
        assert!((joint.low - of_all.low).abs() < 1e-3 && (joint.high - of_all.high).abs() < 1e-3, "{joint:?}");
        let unlike = [700, 800, 900, 800].map(|successes| crate::binomial::share(successes, 1_000).unwrap());
        assert!(pooled(&unlike).unwrap().1 > 10.0);
        assert_eq!(pooled(&[shares[0], Estimate { method: Method::Ratio, ..shares[1] }]), None);
    }

    #[test]
    fn independent_samples_are_covered() {
        let share = coverage(0.0, 10);
        assert!((0.93..=0.97).contains(&share), "{share}");
    }

    #[test]
    fn correlated_samples_are_covered_once_batches_are_long() {
        // r = 0.9 has a correlation time of 10 samples. Batches of 50 samples keep a correlation of about 0.1 between
        // neighbours, of which the guard sees a part; batches of 5 samples, of 0.7.
        let (long, middle, short) = (coverage(0.9, 200), coverage(0.9, 50), coverage(0.9, 5));
        assert!((0.93..=0.97).contains(&long), "{long}");
        assert!((0.90..=0.97).contains(&middle), "{middle}");
        assert!((0.80..=0.87).contains(&short), "{short}");
    }

    #[test]
    fn empty_and_unequal_batches_count_by_weight() {
        let e = batch_means(&[10.0, 0.0, 20.0, 60.0], &[1.0, 0.0, 2.0, 3.0]).unwrap();
        assert_eq!((e.value, e.n), (15.0, 4));
        assert!(e.low < 15.0 && 15.0 < e.high);
        assert_eq!(batch_means(&[10.0, 0.0], &[1.0, 0.0]), None);
        assert_eq!(batch_means(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(batch_means(&[], &[]), None);
        let equal = batch_means(&[5.0; 32], &[1.0; 32]).unwrap();
        assert_eq!((equal.low, equal.high), (5.0, 5.0));
    }

    #[test]
    fn quantiles_as_in_tables() {
        for (freedom, expected) in [(1.0, 12.706), (4.0, 2.776), (31.0, 2.040), (100.0, 1.984)] {
            assert!((student(0.95, freedom) - expected).abs() < 5e-4);
        }
        assert!((student(0.99, 4.0) - 4.604).abs() < 5e-4);
        assert!((normal(0.95) - 1.959_964).abs() < 1e-6);
    }

    #[test]
    fn repeats_as_by_hand() {
        let e = repeats(&[1.0, 2.0, 3.0]).unwrap();
        assert!((e.value - 2.0).abs() < 1e-12 && (e.high - 2.0 - 4.302_65 / 3f64.sqrt()).abs() < 1e-4, "{e:?}");
        assert_eq!(repeats(&[1.0]), None);
        assert_eq!(repeats(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn another_level_is_what_it_would_have_been() {
        let e = repeats(&[1.0, 2.0, 3.0, 7.0]).unwrap();
        let (low, high) = e.interval(0.99);
        let half = (e.high - e.value) * student(0.99, 3.0) / student(0.95, 3.0);
        assert!((low - (e.value - half)).abs() < 1e-9 && (high - (e.value + half)).abs() < 1e-9);
        let share = super::super::binomial::share(3, 50).unwrap();
        assert_eq!(share.interval(0.99), super::super::binomial::wilson(3, 50, 0.99));
        let same = share.interval(0.95);
        assert!((same.0 - share.low).abs() < 1e-9 && (same.1 - share.high).abs() < 1e-9);
    }

    #[test]
    fn ratio_of_independent_means_is_covered() {
        let mut source = Source(7);
        let mut hits = 0;
        for _ in 0..2000 {
            let mut sample = |mean: f64| repeats(&(0..10).map(|_| mean + source.normal()).collect::<Vec<_>>()).unwrap();
            let (over, under) = (sample(20.0), sample(10.0));
            let ends = |e: Estimate| (e.value, e.low, e.high);
            let (_, low, high) = ratio_interval(ends(over), ends(under)).unwrap();
            hits += usize::from((low..=high).contains(&2.0));
        }
        let share = hits as f64 / 2000.0;
        assert!((0.93..=0.975).contains(&share), "{share}");
    }

    #[test]
    fn ratio_at_the_edge() {
        assert_eq!(ratio_interval((1.0, 0.5, 1.5), (0.0, 0.0, 1.0)), None);
        assert_eq!(ratio_interval((1.0, 0.5, 1.5), (1.0, 0.0, 2.5)).unwrap().2, f64::INFINITY);
        assert_eq!(ratio_interval((0.0, 0.0, 0.0), (2.0, 2.0, 2.0)), Some((0.0, 0.0, 0.0)));
    }

    proptest! {
        #[test]
        fn more_confidence_is_wider(values in proptest::collection::vec(0.0f64..1e6, 3..40), level in 0.5f64..0.9999) {
            let e = repeats(&values).unwrap();
            let (inner, outer) = (e.interval(level), e.interval(level + 5e-5));
            prop_assert!(outer.0 <= inner.0 && inner.1 <= outer.1);
        }

        #[test]
        fn ratio_contains_its_value(a in 0.0f64..1e3, b in 0.1f64..1e3, x in 0.0f64..2.0, y in 0.0f64..3.0) {
            let over = (a, (a - a * x).max(0.0), a + a * x);
            let under = (b, (b - b * y).max(0.0), b + b * y);
            let (value, low, high) = ratio_interval(over, under).unwrap();
            prop_assert!(low <= value && value <= high);
        }
    }
}
