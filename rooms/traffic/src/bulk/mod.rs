//! Bulk transfers: as many bytes as the path takes, for a window.
//!
//! [`Sender::open`] and [`Receiver::bind`] make their sockets in the network namespace of the calling thread, and those
//! stay there; [`run`] moves bytes from one to the other and may be called on any thread. Everything that the two ends
//! have to tell each other goes beside the network, never through the path that is measured.

mod batches;
mod report;
mod settings;
mod tcp;

use std::net::SocketAddr;

pub(super) use self::batches::Batches;
pub use self::report::{BulkReport, Datagrams, Sample};
pub use self::settings::BulkSettings;
use weir_program::clock::Nanos;
use weir_program::stop::Stop;

use crate::{TrafficError, Transport, quic};

/// The sending end, before it runs.
#[derive(Debug)]
pub struct Sender(SendingEnd);

#[derive(Debug)]
enum SendingEnd {
    Tcp(tcp::Sender),
    Quic(Box<quic::bulk::Sender>),
}

/// The receiving end, which already listens.
#[derive(Debug)]
pub struct Receiver(ReceivingEnd);

#[derive(Debug)]
enum ReceivingEnd {
    Tcp(tcp::Receiver),
    Quic(Box<quic::bulk::Receiver>),
}

impl Sender {
    /// Makes the sockets in the calling thread's network namespace. They connect later, in [`run`].
    ///
    /// # Errors
    /// The settings make no sense; no such congestion control (the error names those that there are); no socket.
    pub fn open(settings: &BulkSettings) -> Result<Self, TrafficError> {
        settings.validate()?;
        match settings.transport {
            Transport::Udp | Transport::QuicDatagram => Err(TrafficError::NoBulk(settings.transport)),
            Transport::Quic => Ok(Self(SendingEnd::Quic(Box::new(quic::bulk::Sender::open(settings)?)))),
            Transport::Tcp => Ok(Self(SendingEnd::Tcp(tcp::Sender::open(settings)?))),
        }
    }
}

impl Receiver {
    /// Makes a socket in the calling thread's network namespace, and listens at [`BulkSettings::to`].
    ///
    /// # Errors
    /// The settings make no sense; the address cannot be bound; no socket.
    pub fn bind(settings: &BulkSettings) -> Result<Self, TrafficError> {
        settings.validate()?;
        match settings.transport {
            Transport::Udp | Transport::QuicDatagram => Err(TrafficError::NoBulk(settings.transport)),
            Transport::Quic => Ok(Self(ReceivingEnd::Quic(Box::new(quic::bulk::Receiver::bind(settings)?)))),
            Transport::Tcp => Ok(Self(ReceivingEnd::Tcp(tcp::Receiver::bind(settings)?))),
        }
    }

    /// The address it listens on, with the port the kernel chose.
    pub fn local_addr(&self) -> SocketAddr {
        match &self.0 {
            ReceivingEnd::Tcp(receiver) => receiver.local_addr(),
            ReceivingEnd::Quic(receiver) => receiver.local_addr(),
        }
    }
}

/// Runs both ends, which are of one transport, until the window is over: the sender on this thread, the receiver on one
/// of its own.
///
/// All connections are made first, from the time `begin` on. When they are up, or [`BulkSettings::connect_timeout`] is
/// over, those that are up start to send: through the warm-up, then through the window. Bytes received in the window
/// count. Then the connections are reset without waiting for what is under way, so that nothing is sent into a dead
/// path any more; what the report says was seen before that. A `stop` ends the transfer early.
///
/// What goes wrong is counted in the report. A transfer that never connects is one of 0 bytes without a window.
pub fn run(sender: Sender, receiver: Receiver, begin: Nanos, stop: &Stop) -> BulkReport {
    match (sender.0, receiver.0) {
        (SendingEnd::Tcp(sender), ReceivingEnd::Tcp(receiver)) => tcp::run(sender, receiver, begin, stop),
        (SendingEnd::Quic(sender), ReceivingEnd::Quic(receiver)) => quic::bulk::run(*sender, *receiver, begin, stop),
        (sender, receiver) => unreachable!("{sender:?} and {receiver:?} are of different transports"),
    }
}

#[cfg(test)]
mod tests;
