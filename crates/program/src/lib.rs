//! What every program of Weir needs, whether it ends by itself or runs as a service: a clock, an orderly end, signals,
//! output that never panics, a configuration whose mistakes are one line each, and accounts.

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
