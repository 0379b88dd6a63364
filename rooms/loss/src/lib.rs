//! Where a datagram was lost, and what to change.
//!
//! ```text
//! subject ----> sources: trace (eBPF), kernel::counters (sock_diag, SNMP, softnet, qdisc, links ...)
//!                  |
//!                  v
//!               account: running balances -> one ledger a receiver, by place  ----> statement (people, JSON)
//!               watch:   the same live -> screen, JSON lines, metrics
//!               check:   the machine against a stated load -> findings -> apply, journal, undo
//! ```

pub mod account;
pub mod advice;
pub mod check;
#[doc(hidden)]
pub mod foreign;
pub mod metrics;
pub mod places;
mod reading;
pub mod samples;
pub mod statement;
pub mod subject;
pub mod watch;
