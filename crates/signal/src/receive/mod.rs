//! What a receiver makes of datagrams: streams with names, every sample once and in order, what is missing as gaps.
//!
//! ```text
//! sockets (receiver) -> sessions: which one, alive?, its name -> session: order of datagrams, holes
//!                                                                 -> channel: order of samples, gaps -> Sink
//! ```
//!
//! All but the sockets is pure: bytes and a [`Moment`] in, calls of a [`Sink`] out. Groups that carry the same (A/B) are merged by session
//! and number: the first copy counts.

mod channel;
mod counts;
mod follow;
mod host;
mod order;
mod receiver;
mod session;
mod sessions;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weir_wire::signal::{Block, Channel, Clock};

pub use counts::Counts;
pub use counts::reason;
pub use follow::{Changes, Follow};
pub use receiver::dropped_since;
pub use receiver::{Listen, Open, Receiver, Settings};
pub use sessions::{Bounds, Sessions};

/// When a datagram came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Since the receiver began: never steps.
    pub now: Duration,
    /// Time of day, ns since 1970 UTC.
    pub wall: i64,
    /// Datagrams that the receiver's sockets had dropped by then.
    pub drops: u64,
}

/// Who knows why something did not come.
pub trait Witness {
    /// Whether this machine has dropped packets in front of its sockets lately.
    fn host_dropped(&mut self, now: Duration) -> bool;
}

/// Where a receiver's findings go: history, recorder, outputs. Called on the receiving thread, in batches: it neither waits nor locks for
/// each block.
pub trait Sink {
    /// A channel is known, or what is known of it has changed. Comes before its first block.
    fn channel(&mut self, stream: &Arc<Stream>, channel: &Arc<Channel>);

    /// The next samples of a channel, or a gap: begins where the last one ended, or before it where a sender has begun to count
    /// backwards.
    fn block(&mut self, stream: &Arc<Stream>, block: &Block<'_>);

    /// Something has become of a stream.
    fn stream(&mut self, stream: &Arc<Stream>, news: News);

    /// A batch has been handed out.
    fn flush(&mut self) {}
}

/// To both, one after the other.
impl<A: Sink, B: Sink> Sink for (A, B) {
    fn channel(&mut self, stream: &Arc<Stream>, channel: &Arc<Channel>) {
        self.0.channel(stream, channel);
        self.1.channel(stream, channel);
    }

    fn block(&mut self, stream: &Arc<Stream>, block: &Block<'_>) {
        self.0.block(stream, block);
        self.1.block(stream, block);
    }

    fn stream(&mut self, stream: &Arc<Stream>, news: News) {
        self.0.stream(stream, news);
        self.1.stream(stream, news);
    }

    fn flush(&mut self) {
        self.0.flush();
        self.1.flush();
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn channel(&mut self, stream: &Arc<Stream>, channel: &Arc<Channel>) {
        (**self).channel(stream, channel);
    }

    fn block(&mut self, stream: &Arc<Stream>, block: &Block<'_>) {
        (**self).block(stream, block);
    }

    fn stream(&mut self, stream: &Arc<Stream>, news: News) {
        (**self).stream(stream, news);
    }

    fn flush(&mut self) {
        (**self).flush();
    }
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

impl Stream {
    /// Whether it is the same stream of the same station.
    pub fn is_called_as(&self, other: &Self) -> bool {
        self.name == other.name && self.station == other.station
    }
}

/// What has become of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum News {
    /// Its first datagram is here.
    Begun,
    /// It follows another session of the same station and stream, which has ended or is silent.
    Restarted,
    /// Another session of the same station and stream is heard at the same time: it is shown with a number.
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
