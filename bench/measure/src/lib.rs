//! What benchmarks share: on which processor who runs and what it takes, whether the machine was theirs alone, goals met
//! and missed, where the programs are that they compare, and how a benchmark goes from its command line to its report.

pub mod machine;
mod programs;
mod report;
mod session;

pub use machine::Quiet;
pub use programs::{build_weir, peer, peers, say};
pub use report::{Report, median};
pub use session::{Programs, Scale, Scene, run};
