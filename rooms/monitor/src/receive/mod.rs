//! What a receiver makes of datagrams: streams with names, every sample once and in order, what is missing as gaps.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use weir_wire::signal::{Block, Channel, Clock};

/// Where a receiver's findings go: history, recorder, outputs. Called on the receiving thread, in batches: it neither waits nor locks for
/// each block.
pub trait Sink {
    /// A channel is known, or what is known of it has changed. Comes before its first block; metadata that comes after blocks makes the
    /// blocks wait (bounded), or names the channel by its number.
    fn channel(&mut self, stream: &Arc<Stream>, channel: &Arc<Channel>);

    /// The next samples of a channel, or a gap: begins where the last one ended.
    fn block(&mut self, stream: &Arc<Stream>, block: &Block<'_>);

    /// Something has become of a stream.
    fn stream(&mut self, stream: &Arc<Stream>, news: News);

    /// A batch has been handed out.
    fn flush(&mut self) {}
}

/// One session of a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Random at each start of the sender.
    pub session: u64,
    /// The station, as its metadata has it; empty until it came.
    pub station: String,
    /// Which of its streams.
    pub name: String,
    /// Where its first datagram came from.
    pub source: SocketAddr,
    /// What its times are worth.
    pub clock: Clock,
}

/// What has become of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum News {
    /// Its first datagram is here.
    Begun,
    /// It follows another session of the same station and stream, which has ended or is silent.
    Restarted,
    /// Another session of the same station and stream is heard at the same time.
    Twin,
    /// It has said nothing for longer than its heartbeats are apart.
    Silent,
    /// It is heard again.
    Back,
    /// It has said that it ends, and everything before is here, or declared lost.
    Ended,
}

/// `magnetics/display`.
impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.station, self.name)
    }
}
