//! Bulk transfers: as many bytes as the path carries, for a window.
//!
//! [`Sender::open`] and [`Receiver::bind`] create their sockets in the network namespace of the calling thread, where
//! they stay; [`run`] moves bytes from one to the other and may be called on any thread. The two ends communicate
//! outside the network, never through the measured path.

mod batches;
mod report;
mod sender;
mod settings;
mod tcp;

use std::any::Any;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};

pub(super) use self::batches::Batches;
pub use self::report::{BulkReport, Datagrams, Sample};
pub use self::sender::Sender;
pub use self::settings::BulkSettings;
use weir_program::clock::{self, Nanos};
use weir_program::stop::Stop;

use crate::{ErrorCount, Exchange, TrafficError, Transport, quic};

/// The receiving end, which already listens.
#[derive(Debug)]
pub struct Receiver {
    end: ReceivingEnd,
    exchange: Exchange,
    batches: Batches,
}

#[derive(Debug)]
enum ReceivingEnd {
    Tcp(tcp::Receiver),
    Quic(Box<quic::Listener>),
}

/// The result of a receiving end, and what it keeps open until the sender has read its connections.
pub(super) struct Received {
    pub(super) batches: Batches,
    pub(super) errors: Vec<ErrorCount>,
    pub(super) kept: Box<dyn Any>,
}

impl Receiver {
    /// Creates a socket in the calling thread's network namespace, and listens on [`BulkSettings::to`].
    ///
    /// # Errors
    /// The settings are invalid, the address cannot be bound, or there is no socket.
    pub fn bind(settings: &BulkSettings) -> Result<Self, TrafficError> {
        settings.validate()?;
        let (transport, address) = (settings.transport, settings.to);
        let end = match transport {
            Transport::Quic => ReceivingEnd::Quic(Box::new(quic::listen_for_bulk(settings)?)),
            _ => ReceivingEnd::Tcp(tcp::Receiver::bind(settings)?),
        };
        let failed = |source| TrafficError::Socket { transport, address, source };
        let exchange = Exchange::new(Duration::ZERO).map_err(failed)?;
        Ok(Self { end, exchange, batches: Batches::new(settings.duration, settings.batch) })
    }

    /// The address it listens on, with the port the kernel chose.
    pub fn local_addr(&self) -> SocketAddr {
        match &self.end {
            ReceivingEnd::Tcp(receiver) => receiver.local_addr(),
            ReceivingEnd::Quic(listener) => listener.local_addr(),
        }
    }
}

/// Runs both ends, which have the same transport, until the window is over: the sender on this thread, the receiver on
/// another one.
///
/// All connections are made first, from the time `begin` on. When they are up, or [`BulkSettings::connect_timeout`] is
/// over, those that are up send: through the warm-up, then through the window. Bytes received in the window count. Then
/// the connections are reset at once, so that nothing is sent into a dead path; the report is from before that. A
/// `stop` ends the transfer early.
/// Errors are counted in the report. A transfer that never connects has 0 bytes and no window.
pub fn run(sender: Sender, receiver: Receiver, begin: Nanos, stop: &Stop) -> BulkReport {
    let Receiver { end, exchange, batches } = receiver;
    let receive = || {
        let Received { batches, errors, kept } = match end {
            ReceivingEnd::Tcp(receiver) => receiver.receive(batches, &exchange, stop),
            ReceivingEnd::Quic(listener) => quic::receive_bulk(*listener, batches, &exchange, stop),
        };
        // They stay open up to here, so that the sender does not see their end.
        while exchange.ending().is_none() {
            clock::wait(&mut [PollFd::new(exchange.as_fd(), PollFlags::POLLIN)], None);
        }
        drop(kept);
        (batches, errors)
    };
    let ((mut report, channels), (batches, mut errors)) = thread::scope(|scope| {
        let receiving = scope.spawn(receive);
        (sender.send(&exchange, begin, stop), joined(receiving))
    });
    drop(channels);
    report.received_bytes = batches.total();
    report.batch = batches.length();
    report.batches = batches.whole_within(report.used);
    report.errors.append(&mut errors);
    report.stopped = stop.is_set();
    report
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests;
