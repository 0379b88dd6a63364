//! The account: one ledger a receiver, closed by place.
//!
//! ```text
//! follow: readings of counters and trace, at the start, while it goes on, at the end
//!    -> evidence: differences, sockets, sessions
//!    -> receivers: who has a ledger
//!    -> ledger (a pure function; senders, tally, apportion, level are its parts)
//!    -> book: the account as JSON, as statement for people
//! ```

pub mod book;

mod apportion;
mod evidence;
mod follow;
pub mod join;
mod ledger;
mod level;
mod own;
mod receivers;
mod senders;
mod session;
mod tally;
mod tracing;

pub(crate) use evidence::difference;
pub use follow::{EACH, FollowOptions, Following, Sessions};
pub use own::{OwnTraffic, with_account};
pub use session::{ReceivedSession, SentSession, before_the_session};

#[cfg(test)]
mod tests;
