//! A part of the analysis: some agents, and all that is known of them.

mod agrees;
mod allowed;
mod clock;
mod directory;
mod kept;
mod limits;
mod offenders;
mod part;
mod protecting;
mod readers;
mod statistics;
mod tally;
mod watching;
mod ways;

pub use clock::Now;
pub use kept::Kept;
pub use limits::Limits;
pub use offenders::Offenders;
pub use part::{SLICE, Shard, Source};
pub use statistics::{Statistics, Table};
pub use tally::Tally;
