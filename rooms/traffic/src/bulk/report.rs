//! What a bulk transfer has seen, at both ends.

use std::time::Duration;

use weir_kernel::tcp::TcpInfo;

use crate::{ErrorCount, Window};

/// A bulk transfer, whichever engine made it.
#[derive(Clone, Debug, Default)]
pub struct BulkReport {
    /// What moved the bytes, with its version and command line where it is a program of its own.
    pub engine: String,
    /// Connections asked for.
    pub streams: u32,
    /// Connections that came up.
    pub connected: u32,
    /// How long the slowest of them took; `None`: none came up (the transfer is 0 and valid), or the engine does not
    /// tell.
    pub connect: Option<Duration>,
    /// The measured window: from the end of the warm-up to the planned end of sending. `None`: nothing was sent.
    pub window: Option<Window>,
    /// Its used part: to its end, or to the stop or the error that ended it before.
    pub used: Duration,
    /// Payload bytes handed to the kernel, warm-up included.
    pub sent_bytes: u64,
    /// Payload bytes received within the window.
    pub received_bytes: u64,
    /// The window cut into batches of equal length, and the bytes received in each; of a transfer that ended early
    /// those that lie wholly in its used part.
    pub batches: Vec<u64>,
    /// Length of a batch.
    pub batch: Duration,
    /// Segments (QUIC: packets) sent again, over all connections; `None`: the transport resends nothing or does not
    /// tell.
    pub retransmits: Option<u64>,
    /// The connections' states over time, in order of time.
    pub samples: Vec<Sample>,
    /// TCP: every connection that came up, when the transfer ended; empty: the engine does not tell.
    pub at_end: Vec<TcpInfo>,
    /// Of a transfer by datagrams.
    pub datagrams: Option<Datagrams>,
    /// What went wrong, by operation and kind.
    pub errors: Vec<ErrorCount>,
    /// Whether a stop ended it early.
    pub stopped: bool,
}

/// The state of one connection at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Since the start of sending.
    pub at: Duration,
    /// Which connection, from 0.
    pub stream: u32,
    /// Congestion window, bytes.
    pub congestion_window: u64,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Segments sent again so far.
    pub retransmits: u64,
    /// Delivery rate as the sender estimates it, bits/s; `None`: the engine does not tell.
    pub delivery_rate: Option<u64>,
    /// Bytes in flight; `None`: the engine does not tell.
    pub in_flight: Option<u64>,
}

/// Datagrams of a transfer, as its own engine counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Datagrams {
    /// Sent.
    pub sent: u64,
    /// Received.
    pub received: u64,
    /// Of these behind a later one.
    pub out_of_order: u64,
    /// Jitter by RFC 3550, section 6.4.1, us.
    pub jitter_us: Option<f64>,
}
