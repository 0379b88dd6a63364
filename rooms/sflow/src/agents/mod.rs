//! Who sends: identities, the streams behind them, and what of each stream is missing.
//!
//! ```text
//! (agent address, sub-agent) -> newcomers: on credit, else on probation -> Agent
//!    Agent -> streams: by sequence and uptime -> Sequence: next, lost, late, duplicate
//!         |   those that come from where the agent is not have streams of their own, as far as anybody knows where it is
//!         \-> strangers: continue no stream; two that continue one another are another stream, or the same begun again: then that is silent
//!    (stream, data source) -> whatever is kept of it
//! ```
//!
//! Everything here is told the time, and does no I/O. Each table has a limit, and counts what it refused or gave up.

mod agent;
mod newcomers;
mod pauses;
mod sequence;
mod slots;
mod stream;
mod table;
#[cfg(test)]
mod tests;

pub use agent::{Agent, AgentLedger};
pub use newcomers::Newcomers;
pub(crate) use pauses::Pauses;
pub use sequence::{Ledger, Sequence, Step};
pub use stream::{Moment, SILENCE, Stream, StreamId};
pub use table::{Agents, Identity, Limits, Placed, Source, SourceId, Totals, Verdict};

/// Nanoseconds on a clock that only goes forward; in tests a virtual one.
pub type Nanos = u64;

/// A second.
pub const SECOND: Nanos = 1_000_000_000;
