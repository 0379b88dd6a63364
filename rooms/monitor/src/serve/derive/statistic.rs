//! Statistics over the last samples.

use std::collections::VecDeque;

use weir_wire::signal::Cause;

/// What is made of the samples of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// Their mean.
    Mean,
    /// The root of the mean of their squares.
    Rms,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// Their standard deviation, of a sample (n - 1).
    Std,
}

/// A window that moves over samples.
#[derive(Clone, Debug)]
pub(super) struct Moving {
    statistic: Statistic,
    length: usize,
    window: VecDeque<f64>,
    /// Of least or greatest: candidates with their numbers, each better than what is behind it.
    best: VecDeque<(u64, f64)>,
    sum: f64,
    squares: f64,
    number: u64,
    /// Why it is not full: what the last gap was of; nothing was lost while it is filled for the first time.
    why: Cause,
}

impl Moving {
    /// Over so many samples, at least one.
    pub(super) fn new(statistic: Statistic, length: usize) -> Self {
        let length = length.max(1);
        let (window, best) = (VecDeque::with_capacity(length), VecDeque::new());
        Self { statistic, length, window, best, sum: 0.0, squares: 0.0, number: 0, why: Cause::Unselected }
    }

    /// Begins anew: behind a gap nothing before it counts.
    pub(super) fn clear(&mut self, why: Cause) {
        *self = Self { why, ..Self::new(self.statistic, self.length) };
    }

    /// The statistic once the window is full, or why it is not.
    pub(super) fn push(&mut self, value: f64) -> Result<f64, Cause> {
        if self.window.len() == self.length
            && let Some(old) = self.window.pop_front()
        {
            self.sum -= old;
            self.squares -= old * old;
        }
        self.window.push_back(value);
        self.sum += value;
        self.squares += value * value;
        self.number += 1;
        // What rounding leaves behind does not add up.
        if self.number.is_multiple_of(self.length as u64) || !self.sum.is_finite() {
            self.sum = self.window.iter().sum();
            self.squares = self.window.iter().map(|value| value * value).sum();
        }
        self.keep_best(value);
        if self.window.len() == self.length { Ok(self.value()) } else { Err(self.why) }
    }

    fn keep_best(&mut self, value: f64) {
        let beats: fn(f64, f64) -> bool = match self.statistic {
            Statistic::Min => |new, old| new <= old,
            Statistic::Max => |new, old| new >= old,
            _ => return,
        };
        while self.best.back().is_some_and(|&(_, old)| beats(value, old) || old.is_nan()) {
            self.best.pop_back();
        }
        self.best.push_back((self.number, value));
        while self.best.front().is_some_and(|&(number, _)| number + self.length as u64 <= self.number) {
            self.best.pop_front();
        }
    }

    fn value(&self) -> f64 {
        let count = self.window.len() as f64;
        match self.statistic {
            Statistic::Mean => self.sum / count,
            Statistic::Rms => (self.squares / count).max(0.0).sqrt(),
            Statistic::Min | Statistic::Max => self.best.front().map_or(f64::NAN, |&(_, best)| best),
            Statistic::Std => {
                // By differences: squares of large values have no digits left for their spread.
                let mean = self.sum / count;
                let spread: f64 = self.window.iter().map(|value| (value - mean).powi(2)).sum();
                (spread / (count - 1.0).max(1.0)).sqrt()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn windows_are_what_they_hold(values in proptest::collection::vec(-1e6..1e6_f64, 1..200), length in 1..20_usize) {
            use Statistic::{Max, Mean, Min, Rms, Std};
            for statistic in [Mean, Rms, Min, Max, Std] {
                let mut moving = Moving::new(statistic, length);
                for (index, &value) in values.iter().enumerate() {
                    let found = moving.push(value);
                    let Some(window) = (index + 1).checked_sub(length).map(|from| &values[from..=index]) else {
                        prop_assert_eq!(found, Err(Cause::Unselected));
                        continue;
                    };
                    let count = length as f64;
                    let mean = window.iter().sum::<f64>() / count;
                    let expected = match statistic {
                        Mean => mean,
                        Rms => (window.iter().map(|x| x * x).sum::<f64>() / count).sqrt(),
                        Min => window.iter().copied().fold(f64::INFINITY, f64::min),
                        Max => window.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                        Std => (window.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (count - 1.0).max(1.0)).sqrt(),
                    };
                    prop_assert!((found.unwrap() - expected).abs() <= 1e-2, "{statistic:?} {found:?} {expected}");
                }
            }
        }
    }
}
