//! Comparison of two measurements of the same quantities.
//!
//! A difference is tested against "no larger than `least`" rather than 0: two runs are never exactly equal, and with
//! enough data any small difference is significant. [`holm`] limits the false alarms of many tests together.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::intervals;

/// A difference of two means with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The second minus the first.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
    /// Degrees of freedom of the standard error.
    pub freedom: f64,
}

/// The result of [`holm`] for one of several tests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Whether its hypothesis is rejected.
    pub rejected: bool,
    /// The rate of false alarms for this test: an interval at confidence 1 - `level` excludes the hypothesis if, and
    /// only if, it is rejected.
    pub level: f64,
}

/// The mean of the differences of pairs (Student's paired t). Their standard deviation is taken to be at least `least`: a few
/// equal differences are no proof of a certain one.
///
/// `None` with fewer than two pairs, slices of different length, or values that are not finite. It assumes that the
/// differences are near normal; those of equal runs are at least symmetric, which makes the test conservative.
pub fn paired(a: &[f64], b: &[f64], least: f64) -> Option<Difference> {
    if a.len() != b.len() || a.len() < 2 || a.iter().chain(b).any(|value| !value.is_finite()) {
        return None;
    }
    let n = a.len() as f64;
    let differences = || a.iter().zip(b).map(|(a, b)| b - a);
    let value = differences().sum::<f64>() / n;
    let variance = differences().map(|d| (d - value).powi(2)).sum::<f64>() / (n - 1.0);
    Some(Difference { value, error: variance.sqrt().max(least) / n.sqrt(), freedom: n - 1.0 })
}

impl Difference {
    /// The probability of a difference at least as large if the true one is at most `least`, in either direction.
    pub fn p_value(&self, least: f64) -> f64 {
        let beyond = self.value.abs() - least;
        if beyond <= 0.0 {
            return 1.0;
        }
        // No variation at all: any difference is certain.
        let tail = |t: StudentsT| if self.error > 0.0 { t.sf(beyond / self.error) } else { 0.0 };
        StudentsT::new(0.0, 1.0, self.freedom).map_or(1.0, |t| (2.0 * tail(t)).min(1.0))
    }

    /// The interval at a level of confidence (0.95 for 95 %).
    pub fn interval(&self, confidence: f64) -> (f64, f64) {
        let half = if self.error > 0.0 { intervals::student(confidence, self.freedom) * self.error } else { 0.0 };
        (self.value - half, self.value + half)
    }
}

/// Which of several hypotheses to reject so that the chance of rejecting any true one is at most `rate`, however the
/// tests depend on one another (Holm, "A simple sequentially rejective multiple test procedure", 1979).
pub fn holm(p_values: &[f64], rate: f64) -> Vec<Decision> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut decisions = vec![Decision { rejected: false, level: rate }; p_values.len()];
    let mut stopped_at = None;
    for (rank, &place) in order.iter().enumerate() {
        let level = stopped_at.unwrap_or(rate / (p_values.len() - rank) as f64);
        let rejected = stopped_at.is_none() && p_values[place] <= level;
        if !rejected {
            stopped_at = Some(level);
        }
        decisions[place] = Decision { rejected, level };
    }
    decisions
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_paired_test_as_in_a_textbook() {
        // "Student", "The probable error of a mean", 1908: additional hours of sleep by two drugs in ten patients.
        // t = 4.0621 with 9 degrees of freedom, two-sided p = 0.002833; 95 % interval 0.70 to 2.46.
        let a = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let b = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let difference = paired(&a, &b, 0.0).unwrap();
        assert!((difference.value - 1.58).abs() < 1e-9 && difference.freedom == 9.0);
        assert!((difference.value / difference.error - 4.0621).abs() < 1e-4);
        assert!((difference.p_value(0.0) - 0.002_833).abs() < 1e-6, "{}", difference.p_value(0.0));
        let (low, high) = difference.interval(0.95);
        assert!((low - 0.700_11).abs() < 1e-4 && (high - 2.459_89).abs() < 1e-4, "{low} {high}");
    }

    #[test]
    fn holm_as_by_hand() {
        let decided = holm(&[0.01, 0.04, 0.03, 0.005], 0.05);
        let rejected: Vec<bool> = decided.iter().map(|decision| decision.rejected).collect();
        assert_eq!(rejected, [true, false, false, true]);
        let levels: Vec<f64> = decided.iter().map(|decision| decision.level).collect();
        assert_eq!(levels, [0.05 / 3.0, 0.05 / 2.0, 0.05 / 2.0, 0.05 / 4.0]);
        assert!(holm(&[], 0.05).is_empty());
    }

    #[test]
    fn equal_and_certain_differences() {
        let same = paired(&[3.0, 4.0], &[3.0, 4.0], 0.0).unwrap();
        assert_eq!((same.p_value(0.0), same.interval(0.95)), (1.0, (0.0, 0.0)));
        let certain = paired(&[3.0, 4.0, 5.0], &[4.0, 5.0, 6.0], 0.0).unwrap();
        assert_eq!((certain.p_value(0.0), certain.p_value(1.0)), (0.0, 1.0));
        // One message more in each of three repeats is not certain.
        assert!(paired(&[3.0, 4.0, 5.0], &[4.0, 5.0, 6.0], 1.0).unwrap().p_value(0.0) > 0.05);
        assert_eq!(paired(&[1.0], &[2.0], 0.0), None);
        assert_eq!(paired(&[1.0, 2.0], &[2.0], 0.0), None);
        assert_eq!(paired(&[1.0, 2.0], &[2.0, f64::NAN], 0.0), None);
    }

    proptest! {
        #[test]
        fn an_interval_excludes_what_is_rejected(
            value in -10.0f64..10.0, error in 0.01f64..5.0, freedom in 1.0f64..60.0, least in 0.0f64..2.0,
            level in 0.001f64..0.2,
        ) {
            let difference = Difference { value, error, freedom };
            let (low, high) = difference.interval(1.0 - level);
            let excluded = low > least || high < -least;
            let margin = (difference.p_value(least) / level - 1.0).abs();
            prop_assume!(margin > 1e-6);
            prop_assert_eq!(excluded, difference.p_value(least) < level);
        }

        #[test]
        fn exchanging_the_two_changes_the_sign_only(
            a in proptest::collection::vec(-1e3f64..1e3, 2..20), shift in -5.0f64..5.0,
        ) {
            let b: Vec<f64> = a.iter().rev().map(|value| value * 0.9 + shift).collect();
            let (there, back) = (paired(&a, &b, 0.0).unwrap(), paired(&b, &a, 0.0).unwrap());
            prop_assert!((there.value + back.value).abs() < 1e-9);
            prop_assert!((there.p_value(0.1) - back.p_value(0.1)).abs() < 1e-9);
        }

        #[test]
        fn holm_rejects_all_that_bonferroni_does_and_nothing_above_the_rate(
            p in proptest::collection::vec(0.0f64..1.0, 1..30), rate in 0.01f64..0.2,
        ) {
            for (p_value, decision) in p.iter().zip(holm(&p, rate)) {
                prop_assert!(decision.rejected || *p_value > rate / p.len() as f64);
                prop_assert!(!decision.rejected || *p_value <= rate);
                prop_assert_eq!(decision.rejected, *p_value <= decision.level);
            }
        }
    }
}
