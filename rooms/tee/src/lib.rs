//! Copies every datagram, whole, to every destination that a rule names.
//!
//! ```text
//! listener sockets -> worker: receive batch -> rules -> lanes -> destination sockets
//!   (SO_REUSEPORT,      recvmmsg, GRO runs      by source  one a destination: joined runs (GSO),
//!    one a worker)      left whole              and        sendmmsg from the receive buffers;
//!                                               listener   what does not go out at once waits, bounded
//! ```
//!
//! Workers are plain threads; beside them a control thread loads files, resolves names, watches health and serves
//! `/metrics`. It opens every socket and hands workers a finished plan, so that a bad file changes nothing.

mod balance;
pub mod config;
pub mod control;
pub mod counters;
mod drops;
#[cfg(test)]
mod fixture;
#[doc(hidden)]
pub mod foreign;
#[cfg(test)]
mod growth;
mod health;
pub mod ledger;
mod limit;
mod losses;
mod matcher;
pub mod metrics;
pub mod plan;
mod screen;
pub mod settings;
pub mod sockets;
mod statement;
pub mod worker;
