//! Estimates against the truth, over thousands of windows with a known sequence of faults; and the answers to single cases.

mod cases;
pub(crate) mod fabric;
mod simulation;
