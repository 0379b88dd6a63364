//! What the weights of a source leave open of a sum over time, from what they leave open at an instant
//! ([`super::Sampler::edge_variance`]).
//!
//! What is on its way at one instant is still so in part at the next: a gap is handed out over [`MEMORY`] samples. So a sum over a
//! short time leaves less open than both of its ends do.

use super::MEMORY;

/// Variance of a sum from one instant to another, between which so many samples came.
pub fn between(first: f64, last: f64, samples: f64) -> f64 {
    (first + last) * (1.0 - (1.0 - 1.0 / f64::from(MEMORY)).powf(samples))
}

/// Variance of a sum up to now that is smoothed exponentially, so that it is worth so many samples of equal weight, where one of
/// now counts whole.
///
/// It is that of what is open now less its smoothed mean, whose correlation sinks by 1/e in [`MEMORY`] samples. The time constant
/// is that of half the samples.
pub fn smoothed(now: f64, samples: f64) -> f64 {
    now * samples / (samples + 2.0 * f64::from(MEMORY))
}
