//! Statistics with their n: delay recorders, quantiles that the sample supports, intervals, tests.
//!
//! [`Distribution`] and [`DelayRecorder`] record samples while a cell runs, without allocating; their results are
//! [`Quantiles`] and [`Estimate`]s in the units of the report. [`intervals`] and [`binomial`] are the arithmetic,
//! [`paired`] compares two runs.

pub mod binomial;
mod delays;
mod estimate;
mod histogram;
pub mod intervals;
pub mod paired;

pub use delays::{DelayRecorder, Distribution, supported};
pub use estimate::{Estimate, Method, Quantiles};
