//! Intervals of means, rates and ratios.
//!
//! What they assume is said with each. In general: Student's t needs means that are near normal. Batches and repeats of
//! a heavy-tailed delay (TCP in its last seconds) are not, so that a 95 % interval from few of them covers less.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::{Estimate, Method};

/// Fewest batches that neighbouring ones are merged into.
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
/// `None` with fewer than two batches of positive weight, and if the slices differ in length.
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
        let inflation = if significant {
            (1.0 + r.min(0.9)) / (1.0 - r.min(0.9))
        } else {
            1.0
        };
        let error = (n / (n - 1.0) * squares * inflation).sqrt() / total;
        return finite(
            value,
            student(0.95, n - 1.0) * error,
            sums.len() as u64,
            Method::BatchMeans,
        );
    }
}

/// The mean over independent repeats with its 95 % interval; `None` with fewer than two, or with a NaN.
pub fn repeats(values: &[f64]) -> Option<Estimate> {
    let n = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    finite(
        mean,
        student(0.95, n - 1.0) * (variance / n).sqrt(),
        values.len() as u64,
        Method::Repeats,
    )
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

/// The ratio of two independent, non-negative estimates with its 95 % interval ([`ratio_interval`]).
///
/// For another level take both intervals at that level; [`Estimate::interval`] of a ratio is only near it. `None` if
/// the divisor is not positive or its interval reaches 0.
pub fn ratio(over: &Estimate, under: &Estimate) -> Option<Estimate> {
    let ends = |e: &Estimate| (e.value, e.low, e.high);
    let (value, low, high) = ratio_interval(ends(over), ends(under))?;
    let n = over.n.min(under.n);
    high.is_finite().then_some(Estimate {
        value,
        low,
        high,
        n,
        method: Method::Ratio,
    })
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
    let estimate = Estimate {
        value,
        low: value - half,
        high: value + half,
        n,
        method,
    };
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
