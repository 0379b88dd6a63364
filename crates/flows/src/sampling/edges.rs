//! What is on its way at an instant, and how much of it is left open by a sum over time.
//!
//! The pool tells what passed between two samples that came, but only once the second one is here; and it is handed out over the
//! samples behind that ([`super::MEMORY`]). So a sum lags behind the truth, by as much as gaps are long and uneven.

use serde::{Deserialize, Serialize};

use super::MEMORY;
use crate::agents::Nanos;

/// How much the pool grew from one arrival to the next, over the configured rate. Samples that come at one instant are one arrival:
/// what passed before each of them was on its way until then, and an agent may hand it out among them as it likes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gaps {
    /// A sample.
    pub mean: f64,
    /// An arrival.
    pub arrival: f64,
    /// The mean of its square.
    pub second: f64,
    /// That of its third power.
    pub third: f64,
    /// By how much arrivals grow more or less than by the mean of so many samples: variance a sample.
    pub uneven: f64,
}

/// What gaps are learnt from: sums over arrivals, of which older ones count less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Arrivals {
    /// When the one that goes on came, its samples, and what they grew by.
    now: Nanos,
    held: f32,
    grown: f32,
    /// How many there were.
    arrivals: f32,
    samples: f32,
    /// The growth, its square and its third power.
    first: f32,
    second: f32,
    third: f32,
    /// The square of what it was off by.
    off: f32,
}

impl Arrivals {
    /// As if so many packets had come that were chosen at random, each alone.
    pub(super) fn of_chance(samples: f32) -> Self {
        let [arrivals, first, off] = [samples; 3];
        Self { arrivals, samples, first, second: 2.0 * samples, third: 6.0 * samples, off, ..Self::default() }
    }

    /// A sample came.
    #[inline]
    pub(super) fn enter(&mut self, grown: f32, now: Nanos) {
        if now != self.now {
            self.end();
            self.now = now;
        }
        self.held += 1.0;
        self.grown += grown;
    }

    /// The arrival is complete.
    fn end(&mut self) {
        let Self { held, grown, .. } = *self;
        if held == 0.0 {
            return;
        }
        let off = grown - held * self.first / self.samples.max(1.0);
        let kept = (1.0 - held / MEMORY_OF_GAPS).max(0.0);
        let sums = [
            (&mut self.arrivals, 1.0),
            (&mut self.samples, held),
            (&mut self.first, grown),
            (&mut self.second, grown * grown),
            (&mut self.third, grown * grown * grown),
            (&mut self.off, off * off),
        ];
        sums.into_iter().for_each(|(sum, one)| *sum = *sum * kept + one);
        (self.held, self.grown) = (0.0, 0.0);
    }

    pub(super) fn gaps(&self) -> Gaps {
        let [arrivals, samples, first, second, third, off] =
            [self.arrivals, self.samples, self.first, self.second, self.third, self.off].map(f64::from);
        if arrivals <= 0.0 || samples <= 0.0 {
            return Gaps::default();
        }
        let arrival = first / arrivals;
        Gaps {
            mean: first / samples,
            arrival,
            second: second / arrivals,
            third: third / arrivals,
            uneven: off / samples,
        }
    }
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
    /// are the variance of the age of a renewal process, and c/2 times that of its steps, a sample. With it, each has a factor, taken
    /// at the length of the gaps that matter: the mean weighted by the square.
    pub fn variance(&self, samples: f64) -> f64 {
        if self.mean <= 0.0 || self.arrival <= 0.0 || samples <= 0.0 {
            return 0.0;
        }
        let (t, c) = (samples / 2.0, f64::from(MEMORY));
        let x = self.typical() / t;
        let age = self.third / (3.0 * self.arrival) - (self.second / (2.0 * self.arrival)).powi(2);
        // What is calculated for short gaps would be lost in rounding.
        let seen = match x < 1e-3 {
            true => 1.0,
            false => 3.0 * (x - 1.5 + 2.0 * (-x).exp() - (-2.0 * x).exp() / 2.0) / x.powi(3),
        };
        let kept = c / 2.0 * self.uneven;
        let s = if x > 0.0 { -(-x).exp_m1() / x } else { 1.0 };
        let handed_out = t / (t + c) * (s * s + (1.0 - s).powi(2) * t / c);
        age.max(0.0) * seen + kept.max(0.0) * handed_out
    }

    /// The length of gaps that matter, in those of samples.
    pub fn typical(&self) -> f64 {
        if self.second > 0.0 && self.mean > 0.0 { self.third / self.second / self.mean } else { 0.0 }
    }
}

/// Samples over which gaps are learnt: they are rare, and the long ones matter.
const MEMORY_OF_GAPS: f32 = 16_384.0;

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
        let (mean, second, third) = (mean(1), mean(2), mean(3));
        let gaps = Gaps { mean, arrival: mean, second, third, uneven: second - mean * mean };
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

    /// Agents that send ten times a second: what passed between is the same each time, how many samples came of it is chance, and
    /// whether the pool stands in each where it was, or is handed out evenly among them, changes nothing.
    #[test]
    fn samples_that_come_together_are_one_arrival() {
        let mut source = Source::drawn();
        let [mut true_pool, mut even] = [Arrivals::of_chance(8.0); 2];
        for now in 1..20_000 {
            let (mut at, mut passed) = (0.0, Vec::new());
            loop {
                at += source.exponential(1.0);
                if at > 10.0 {
                    break;
                }
                passed.push(at as f32);
            }
            for number in 0..passed.len() {
                let before = if number == 0 { 0.0 } else { passed[number - 1] };
                let rest = if number + 1 == passed.len() { 10.0 - passed[number] } else { 0.0 };
                true_pool.enter(passed[number] - before + rest, now);
                even.enter(10.0 / passed.len() as f32, now);
            }
        }
        let [a, b] = [true_pool, even].map(|arrivals| arrivals.gaps());
        assert!((a.variance(400.0) / b.variance(400.0) - 1.0).abs() < 0.01, "{a:?} {b:?}");
        // As uneven as if each came alone, and older by what waits.
        assert!((a.uneven - 1.0).abs() < 0.25 && (a.arrival - 10.0).abs() < 0.2, "{a:?}");
        let alone = Gaps { mean: 1.0, arrival: 1.0, second: 2.0, third: 6.0, uneven: 1.0 };
        let more = Gaps { uneven: 1.0, ..a }.variance(400.0) - alone.variance(400.0);
        assert!((5.0..10.0).contains(&more), "{more}: a tenth of a second has a variance of 100/12");
    }

    #[test]
    fn what_never_was_leaves_nothing_open() {
        assert_eq!(Gaps::default().variance(100.0), 0.0);
        assert_eq!(Gaps { mean: 1.0, arrival: 1.0, second: 2.0, third: 6.0, uneven: 1.0 }.variance(0.0), 0.0);
    }
}
