//! Shared by all programs of Weir, services or not: a clock, an orderly end, signals, output that never panics, a
//! configuration with one-line errors, and ledgers.

pub mod clock;
pub mod config;
pub mod escape;
pub mod files;
pub mod ledger;
pub mod links;
pub mod output;
pub mod pulse;
pub mod signals;
pub mod stop;
mod target;

pub use target::Target;
