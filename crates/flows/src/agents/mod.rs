//! Who sends: identities, the streams behind them, and what of each stream is missing.
//!
//! ```text
//! (agent address, sub-agent) -> Agent
//!    Agent -> streams: by the address and port that sends -> Sequence: next, lost, late, duplicate; its clock; its standing
//!    (stream, data source) -> whatever is kept of it
//! ```
//!
//! Everything here is told the time, and does no I/O. Each table has a limit, and counts what it refused or gave up.

mod agent;
mod exposure;
mod sequence;
mod slots;
mod standing;
mod stream;
mod table;
#[cfg(test)]
mod tests;

pub use agent::{Agent, AgentLedger};
pub use sequence::{Ledger, Sequence, Step};
pub use stream::{Moment, SILENCE, Stream, StreamId, Told};
pub use table::{Agents, Gone, Identity, Limits, Placed, Source, SourceId, Totals, Verdict};

/// Nanoseconds on a clock that only goes forward; in tests a virtual one.
pub type Nanos = u64;

/// A second.
pub const SECOND: Nanos = 1_000_000_000;
