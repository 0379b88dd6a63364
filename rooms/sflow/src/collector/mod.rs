//! From sockets to shards: the tee's data path, tapped.
//!
//! ```text
//! listener sockets, one a worker  -> the tee's worker -> lanes, where something is forwarded
//! (SO_REUSEPORT; the kernel picks       |
//!  by the agent's address)              v tap: the batch, once sent on
//!                                  datagrams by shard -> shard: locked once a batch
//! ```
//!
//! An agent belongs to one shard, by a hash of its address, whatever port or relay its datagrams come from. The kernel picks
//! the socket by the same hash, so that nearly always a worker locks its own shard alone. Correctness does not rest on that:
//! a run that a sender on this machine joined (UDP_SEGMENT) is delivered whole to the socket of its first datagram, and a
//! socket that a service manager passed exists once. What belongs to another shard is handed to that shard.
//!
//! Sockets do not join datagrams themselves (UDP_GRO): a run may hold several agents, and has but one address.

mod cells;
mod tap;

pub use cells::{Cells, Intake};
pub use tap::Collector;

use weir_dgram::Steering;

/// By the agent's address, as a datagram of version 5 has it: its type at offset 4, the address from 8 on. Datagrams of no
/// known type go to the first worker, where they are found malformed.
pub const STEERING: Steering = Steering { selector: 4, layouts: &[(1, &[8]), (2, &[8, 12, 16, 20])] };
