//! Totals of data sources to rates, each with its interval and its age; where there is none, with a reason.
//!
//! ```text
//! counter sample -> Counters: a Block a record -> each field's value, and its rate or the reason why it has none
//!                                                     ^
//!                        Metric: its name, unit and how it is computed: one table
//! ```
//!
//! Totals survive loss: what a lost datagram would have told, the next one tells, over a longer interval. A rate is never made up:
//! after a restart, a reset, a jump, or from totals that may have wrapped more than once, there is none, and why is counted.

mod block;
mod metric;
mod page;
mod source;
#[cfg(test)]
mod tests;

pub use block::{Block, Reason, Reasons};
pub use metric::{Form, How, Metric, Number, Unit};
pub use page::page;
pub use source::{Counters, Missed, Reading, stale_after};
