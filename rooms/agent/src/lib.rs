//! An sFlow agent: tells collectors what this machine's interfaces carry, what the machine does, and what it drops.
//!
//! ```text
//! start, privileged   packets: filter at a packet socket, program at kfree_skb -> privileges given up
//! ten times a second  ring of packets -> flow samples (0:1), discarded packets (0:5)  \
//!                     interfaces and host that are due -> counter samples (0:2)        > outbox -> datagrams of
//!                     rates of a flood -> what is kept of the samples                 /   1,400 bytes -> collectors
//! ```
//!
//! All of it is the work of the control thread: the kernel chooses and counts packets by itself, and nobody is woken by
//! them. A sample is a tenth of a second old when it leaves.

mod collectors;
pub mod config;
pub mod control;
mod counters;
mod drops;
mod interfaces;
pub mod ledger;
mod length;
mod outbox;
mod reasons;
mod room;
mod sampling;
mod shedding;
mod state;
mod statement;
