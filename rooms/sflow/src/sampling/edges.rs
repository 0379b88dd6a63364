//! What is on its way at an instant, and how much of it is left open by a sum over time.
//!
//! The pool tells what passed between two samples that came, but only once the second one is here; and it is handed out over the
//! samples behind that ([`super::MEMORY`]). So a sum lags behind the truth, by as much as gaps are long and uneven.

use super::MEMORY;

/// How much the pool grew from one sample that came to the next: means of powers of that, over the configured rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gaps {
    /// Of the growth.
    pub mean: f64,
    /// Of its square.
    pub second: f64,
    /// Of its third power.
    pub third: f64,
}

impl Gaps {
    /// Variance of a sum up to now that is smoothed exponentially, so that it is worth so many samples of equal weight, where
    /// one of now counts whole; in squares of the configured rate.
    ///
    /// Let samples come one a unit of time, the time constant be T, half of their number, and c = [`MEMORY`]. The sum of what passed
    /// less the sum of what was handed out, X, follows dX/dt = -X/T + (what passes - what is handed out):
    ///
    /// - In a gap all that passes is missing. After u, X = T (1 - exp(-u/T)).
    /// - At the end of a gap of length l the missing part is X = l s, with x = l/T, s = (1 - exp(-x))/x. What it was longer than others
    ///   is handed out as exp(-v/c)/c, so that after v, X = l [A exp(-v/T) + B exp(-v/c)], B = T/(T - c), A = s - B.
    ///
    /// The variance is the integral of X^2 over both, summed over the gaps (Campbell's theorem). Without smoothing, T being large, they
    /// are the variance of the age of a renewal process, and c/2 times that of its steps. With it, each has a factor, taken at the
    /// length of the gaps that matter: the mean weighted by the square.
    pub fn variance(&self, samples: f64) -> f64 {
        if self.mean <= 0.0 || samples <= 0.0 {
            return 0.0;
        }
        let (t, c) = (samples / 2.0, f64::from(MEMORY));
        let x = self.typical() / t;
        let age = self.third / (3.0 * self.mean) - (self.second / (2.0 * self.mean)).powi(2);
        // What is calculated for short gaps would be lost in rounding.
        let seen = match x < 1e-3 {
            true => 1.0,
            false => 3.0 * (x - 1.5 + 2.0 * (-x).exp() - (-2.0 * x).exp() / 2.0) / x.powi(3),
        };
        let kept = c / 2.0 * (self.second - self.mean * self.mean);
        let s = if x > 0.0 { -(-x).exp_m1() / x } else { 1.0 };
        let handed_out = t / (t + c) * (s * s + (1.0 - s).powi(2) * t / c);
        age.max(0.0) * seen + kept.max(0.0) * handed_out
    }

    /// The length of gaps that matter, in mean ones.
    pub fn typical(&self) -> f64 {
        if self.second > 0.0 && self.mean > 0.0 { self.third / self.second / self.mean } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use weir_testbed::random::Source;

    use super::*;

    /// Gaps of this share of samples are `long` mean ones, of the others even between 0 and 2.
    fn gaps(source: &mut Source, share: f64, long: f64) -> f64 {
        if source.uniform() < share { long } else { 2.0 * source.uniform() }
    }

    /// What a smoothed sum lags behind the truth, in the long run: its variance, by going from sample to sample.
    fn lag(source: &mut Source, samples: f64, mut gap: impl FnMut(&mut Source) -> f64) -> (Gaps, f64) {
        let powers: Vec<f64> = (0..400_000).map(|_| gap(source)).collect();
        let mean = |power: i32| powers.iter().map(|gap| gap.powi(power)).sum::<f64>() / powers.len() as f64;
        let gaps = Gaps { mean: mean(1), second: mean(2), third: mean(3) };
        let t = samples / 2.0;
        let (mut lag, mut growth, mut time, mut sum, mut squares) = (0.0, gaps.mean, 0.0, 0.0, 0.0);
        for gap in powers {
            // Simpson's rule in steps that are short.
            let length = gap / gaps.mean;
            let at = |v: f64| lag * (-v / t).exp() - gaps.mean * t * (-v / t).exp_m1();
            let steps = (length / t * 4.0).ceil().max(1.0);
            let step = length / steps;
            for number in 0..steps as u32 {
                let points = [0.0, 0.5, 1.0].map(|part| at((f64::from(number) + part) * step));
                let simpson = |power: i32| {
                    let [a, b, c] = points.map(|point| point.powi(power));
                    (a + 4.0 * b + c) / 6.0 * step
                };
                (sum, squares) = (sum + simpson(1), squares + simpson(2));
            }
            time += length;
            growth += (gap - growth) / f64::from(MEMORY);
            lag = at(length) - growth;
        }
        (gaps, squares / time - (sum / time).powi(2))
    }

    #[test]
    fn the_variance_is_that_of_sums_that_lag() {
        let mut source = Source::drawn();
        // Even gaps; those of lost datagrams; bursts, shorter and longer than the smoothing.
        for (samples, share, long) in
            [(100.0, 0.0, 0.0), (1000.0, 0.05, 6.0), (1000.0, 0.01, 60.0), (100.0, 0.01, 60.0), (300.0, 0.003, 200.0)]
        {
            let (gaps, lag) = lag(&mut source, samples, |source| gaps(source, share, long));
            let variance = gaps.variance(samples);
            // Where gaps are as long as the time constant, one length stands for all: a variance within a quarter is a half
            // width within an eighth.
            assert!((variance / lag - 1.0).abs() < 0.25, "{samples} {share} {long}: {variance}, simulated {lag}");
        }
    }

    #[test]
    fn what_never_was_leaves_nothing_open() {
        assert_eq!(Gaps::default().variance(100.0), 0.0);
        assert_eq!(Gaps { mean: 1.0, second: 2.0, third: 6.0 }.variance(0.0), 0.0);
    }
}
