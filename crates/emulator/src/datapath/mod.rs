//! Real frames between two interfaces, by packet sockets, in real time.
//!
//! ```text
//!  host a          emulator's namespace                          host b
//!  veth ---- Port a ==> parse -> model -> queue ==> Port b ---- veth      (forward)
//!  veth ---- Port a <== queue <- model <- parse <== Port b ---- veth      (backward)
//! ```
//! A [`Port`] is a packet socket on one interface; an [`Emulator`] is one thread that drives any number of links, each
//! between two ports. Frames are copied out of the kernel at once, so that the socket buffer only bridges the thread's
//! own scheduling; packets wait for their release in slots of the thread's pool.
//!
//! Time is logical: a packet's release is the kernel's arrival stamp plus the model's delay. Lateness of the thread
//! delays single packets but never adds up along a path, and is recorded.
//!
//! Hosts keep their segmentation offloads: a super-packet crosses the emulator as one frame,
//! yet every decision is made for each of its segments. What survives leaves in runs of adjacent segments, each a
//! super-packet of its own whose headers are fixed up (see `cut`). A run leaves when its last segment is released: no
//! segment is ever early, and none is held back for its companions by more than [`EmulatorSettings::run_span`]. Lateness counts
//! from the release of a run's *first* packet, so this holding back shows in the histogram.

mod clock;
mod cut;
mod emulator;
#[doc(hidden)]
pub mod foreign;
mod frame;
mod lateness;
mod links;
mod pipeline;
mod pool;
mod port;
mod queue;
mod sys;
mod worker;

use std::io;
use std::time::Duration;

pub use emulator::{Emulator, LinkId, LinkPorts};
pub use port::Port;

/// Settings of ports and of an emulator thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmulatorSettings {
    /// Frames in one system call, 1 to 64.
    pub batch: usize,
    /// Requested size of each port's socket buffer, bytes. Without CAP_NET_ADMIN in the initial user namespace the
    /// kernel limits it to `net.core.rmem_max`; see [`Port::receive_buffer`] for the effective size.
    pub receive_buffer: usize,
    /// Max memory of one thread's waiting packets, bytes.
    pub pool_bytes: usize,
    /// Max difference between the releases of segments in one run.
    pub run_span: Duration,
}

impl Default for EmulatorSettings {
    fn default() -> Self {
        Self { batch: 64, receive_buffer: 64 << 20, pool_bytes: 1 << 30, run_span: Duration::from_micros(200) }
    }
}

/// Errors of setting up or reading links. Carrying frames does not fail; it counts (see [`crate::ledger`]).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket could not be created.
    #[error("open packet socket on interface {ifindex}: {source}{hint}")]
    Open {
        /// The interface's index in its namespace.
        ifindex: u32,
        /// The kernel's error.
        source: io::Error,
        /// A hint; may be empty.
        hint: &'static str,
    },
    /// A socket option was refused.
    #[error("set {option} on the packet socket of interface {ifindex}: {source}")]
    Option {
        /// The interface's index in its namespace.
        ifindex: u32,
        /// The option's name.
        option: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The thread or its descriptors could not be created.
    #[error("start emulator thread: {operation}: {source}")]
    Spawn {
        /// The operation.
        operation: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A port could not be watched.
    #[error("attach link {link}: watch its ports: {source}")]
    Attach {
        /// The link's name.
        link: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// No such link is attached.
    #[error("link {0:?} is not attached to this emulator")]
    UnknownLink(LinkId),
    /// The thread has ended, which only a bug can cause.
    #[error("the emulator thread has ended, a bug in Weir: {0}")]
    Stopped(String),
}
