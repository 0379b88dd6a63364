//! Settings of a bulk transfer.

use std::net::SocketAddr;
use std::time::Duration;

use crate::{TrafficError, Transport};

/// Settings of both ends of a bulk transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkSettings {
    /// Transport protocol.
    pub transport: Transport,
    /// Address of the receiver. Port 0: the kernel chooses, see
    /// [`Receiver::local_addr`](super::Receiver::local_addr).
    pub to: SocketAddr,
    /// Number of connections, up to [`Self::MAX_STREAMS`].
    pub streams: u32,
    /// Congestion control by the kernel's name, e.g. `cubic` (TCP_CONGESTION); `None`: the host's default.
    pub congestion: Option<String>,
    /// Disables Nagle's algorithm (TCP_NODELAY).
    pub nodelay: bool,
    /// Bytes per write.
    pub block_bytes: usize,
    /// Length of the measured window.
    pub duration: Duration,
    /// How long to send before the window starts.
    pub warmup: Duration,
    /// Wanted length of a batch of received bytes, and time between two readings of the connections. The window is
    /// divided into whole batches.
    pub batch: Duration,
    /// Gives up connections that are not established by this time after the start.
    pub connect_timeout: Duration,
}

impl BulkSettings {
    /// Max connections of a transfer.
    pub const MAX_STREAMS: u32 = 1024;

    /// One TCP connection, blocks of 128 KiB for 10 s without warm-up, in batches of 100 ms.
    pub fn new(to: SocketAddr) -> Self {
        Self {
            transport: Transport::Tcp,
            to,
            streams: 1,
            congestion: None,
            nodelay: false,
            block_bytes: 128 * 1024,
            duration: Duration::from_secs(10),
            warmup: Duration::ZERO,
            batch: Duration::from_millis(100),
            connect_timeout: Duration::from_secs(30),
        }
    }

    /// Refuses invalid settings.
    pub fn validate(&self) -> Result<(), TrafficError> {
        if matches!(self.transport, Transport::Udp | Transport::QuicDatagram) {
            return Err(TrafficError::Refused(format!(
                "bulk traffic over {}: not supported. Send messages at the matching interval.",
                self.transport
            )));
        }
        if !(1..=Self::MAX_STREAMS).contains(&self.streams) {
            let (streams, max) = (self.streams, Self::MAX_STREAMS);
            return Err(TrafficError::Refused(format!("bulk traffic over {streams} connections: must be 1 to {max}")));
        }
        Ok(())
    }
}
