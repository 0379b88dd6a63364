//! The tee's data path, for rooms that forward what they receive: every datagram, whole, to every destination that a rule names.
//!
//! ```text
//! listener sockets -> worker: receive batch -> rules -> lanes -> destination sockets
//!   (SO_REUSEPORT,      recvmmsg, GRO runs      by source  one a destination: joined runs (GSO),
//!    one a worker)      left whole              and        sendmmsg from the receive buffers;
//!                                               listener   what does not go out at once waits, bounded
//! ```
//!
//! Workers are plain threads. Whoever holds them opens every socket and hands them a finished plan, so that bad settings
//! change nothing.

mod balance;
pub mod counters;
pub mod drops;
pub mod health;
pub mod ledger;
mod limit;
mod matcher;
pub mod plan;
pub mod settings;
pub mod sockets;
mod statement;
pub mod worker;
