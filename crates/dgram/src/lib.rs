//! The datagram engine: UDP sockets that receive and send in batches, with what the kernel offers to make them cheap.
//!
//! ```text
//! Options -> Socket -> Inbox::receive   recvmmsg: datagrams, or runs of them joined by the kernel (UDP_GRO)
//!                   -> Socket::send     sendmmsg: datagrams, or runs that the kernel cuts (UDP_SEGMENT)
//!                   -> next_error, memory, granted: what became of the rest
//! Socket::steer                         which of several sockets at one address gets a datagram
//! interfaces::restore                   what was bound to an interface or joined on it, once it was made anew
//! RawSender                             finished IP packets, for source addresses that are not ours
//! ```
//!
//! Everything is non-blocking; waiting is the caller's. Nothing is allocated or locked per datagram. Where the kernel
//! or the path refuses an offload, datagrams go out one by one and [`Socket::granted`] says why.

pub mod control;
pub mod interfaces;

mod address;
mod buffers;
mod error;
mod errors;
mod inbox;
mod memory;
mod multicast;
mod offload;
mod options;
mod outgoing;
mod raw;
mod socket;
mod steering;
mod sys;

pub use address::Address;
pub use buffers::Buffer;
pub use error::{Error, reason};
pub use errors::{Origin, QUOTED, Reported};
pub use inbox::{Inbox, Received};
pub use memory::Memory;
pub use multicast::Membership;
pub use offload::Offload;
pub use options::Options;
pub use outgoing::{MAX_PIECES, MAX_RUN_BYTES, MAX_SEGMENTS, Outgoing, SendProgress};
pub use raw::RawSender;
pub use socket::{Granted, Socket};
pub use steering::Steering;
