//! What benchmarks share: on which processor who runs and what it takes, whether the machine was theirs alone, goals met
//! and missed, and where the programs are that they compare.

pub mod machine;
mod programs;
mod report;

pub use machine::Quiet;
pub use programs::{build_weir, peer, peers, say};
pub use report::{Report, median};
