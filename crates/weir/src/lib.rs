//! The program behind the `weir` command: rooms, and what they share.
//!
//! Imports go down only: `lab` -> `traffic` -> `service`, `report`, `stats`, `units`.

pub mod cli;
#[doc(hidden)]
pub mod foreign;
pub mod lab;
pub mod loss;
pub mod report;
pub mod service;
pub mod stats;
pub mod tee;
pub mod traffic;
pub mod units;
