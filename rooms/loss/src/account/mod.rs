//! The account: one ledger a receiver, closed by place.
//!
//! ```text
//! follow: readings of counters and trace, at the start, while it goes on, at the end
//!    -> evidence: differences, sockets, sessions
//!    -> receivers: who has a ledger
//!    -> ledger (a pure function; senders, tally, counted, level are its parts)
//!    -> book: the account as JSON, as statement for people
//! ```

pub mod book;

mod apportion;
mod beside;
mod counted;
mod evidence;
mod follow;
pub mod join;
mod ledger;
mod level;
mod receivers;
pub mod remarks;
mod senders;
mod session;
mod tally;
mod tracing;

pub use beside::{Beside, with_account};
pub use follow::{Following, Sessions, Settings};
pub use session::{ReceivedSession, SentSession};

#[cfg(test)]
mod tests;
