//! What one worker makes of each datagram, hot and without a runtime: agents, sampling, counters, flows, thresholds.
//!
//! ```text
//! datagram -> Shard: agents -> sampling -> flows ----> thresholds -> Crossings
//!                         \-> counters ---------------^
//! ```

pub mod agents;
pub mod counters;
pub mod events;
pub mod fate;
pub mod flows;
pub mod names;
pub mod sampling;
pub mod shard;
mod sys;
pub mod thresholds;

weir_program::values! { flows::Definition = "table", thresholds::Threshold = "table" }
