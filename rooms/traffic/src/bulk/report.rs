//! The result of a bulk transfer, from both ends.

use std::time::Duration;

use weir_kernel::tcp::TcpInfo;

use crate::{ErrorCount, Window};

/// A bulk transfer, whichever engine made it.
#[derive(Clone, Debug, Default)]
pub struct BulkReport {
    /// The engine, with its version, and its command line if it is a separate program.
    pub engine: String,
    /// Requested connections.
    pub streams: u32,
    /// Established connections.
    pub connected: u32,
    /// Set-up time of the slowest one. `None`: none was established (the transfer is 0 and valid), or the engine does
    /// not report it.
    pub connect: Option<Duration>,
    /// The measured window: from the end of the warm-up to the planned end of sending. `None`: nothing was sent.
    pub window: Option<Window>,
    /// Its used part: to its end, or to the stop or error that ended it earlier.
    pub used: Duration,
    /// Payload bytes handed to the kernel, warm-up included.
    pub sent_bytes: u64,
    /// Payload bytes received within the window.
    pub received_bytes: u64,
    /// Bytes received in each of the window's batches of equal length; if it ended early, those entirely in its used
    /// part.
    pub batches: Vec<u64>,
    /// Length of a batch.
    pub batch: Duration,
    /// Retransmitted segments (QUIC: packets), over all connections. `None`: the transport does not retransmit or does
    /// not report it.
    pub retransmits: Option<u64>,
    /// The connections' states over time, in order of time.
    pub samples: Vec<Sample>,
    /// TCP: every established connection, when the transfer ended; empty: the engine does not report it.
    pub at_end: Vec<TcpInfo>,
    /// The result of a transfer by datagrams.
    pub datagrams: Option<Datagrams>,
    /// Errors, by operation and kind.
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
    /// Retransmitted segments so far.
    pub retransmits: u64,
    /// Delivery rate as the sender estimates it, bits/s. `None`: not reported.
    pub delivery_rate: Option<u64>,
    /// Bytes in flight. `None`: not reported.
    pub in_flight: Option<u64>,
}

/// Datagrams of a transfer, as its own engine counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Datagrams {
    /// Sent.
    pub sent: u64,
    /// Received.
    pub received: u64,
    /// Received after a later one.
    pub out_of_order: u64,
    /// Jitter by RFC 3550, section 6.4.1, us.
    pub jitter_us: Option<f64>,
}
