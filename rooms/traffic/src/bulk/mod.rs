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
use std::thread;
use std::time::Duration;

pub(super) use self::batches::Batches;
pub use self::report::{BulkReport, Datagrams, Sample};
pub use self::settings::BulkSettings;
use weir_program::clock::{Nanos, nanos, now};
use weir_program::stop::Stop;

use crate::{ErrorCount, Exchange, TrafficError, Transport, Window, quic};

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

/// What a receiving end has to tell, and what it keeps open until the sender has looked at its connections.
pub(super) struct Received<T> {
    pub(super) batches: Batches,
    pub(super) errors: Vec<ErrorCount>,
    pub(super) kept: T,
}

/// The looks at the connections of a transfer while it goes on.
pub(super) struct Looks {
    origin: Nanos,
    pub(super) window: Window,
    period: Nanos,
    pub(super) samples: Vec<Sample>,
}

impl Sender {
    /// Makes the sockets in the calling thread's network namespace. They connect later, in [`run`].
    ///
    /// # Errors
    /// The settings make no sense; no such congestion control (the error names those that there are); no socket.
    pub fn open(settings: &BulkSettings) -> Result<Self, TrafficError> {
        settings.validate()?;
        Ok(Self(match settings.transport {
            Transport::Quic => SendingEnd::Quic(Box::new(quic::bulk::Sender::open(settings)?)),
            _ => SendingEnd::Tcp(tcp::Sender::open(settings)?),
        }))
    }
}

impl Receiver {
    /// Makes a socket in the calling thread's network namespace, and listens at [`BulkSettings::to`].
    ///
    /// # Errors
    /// The settings make no sense; the address cannot be bound; no socket.
    pub fn bind(settings: &BulkSettings) -> Result<Self, TrafficError> {
        settings.validate()?;
        let (transport, address) = (settings.transport, settings.to);
        let end = match transport {
            Transport::Quic => ReceivingEnd::Quic(Box::new(quic::bulk::listen(settings)?)),
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
    let Receiver { end, exchange, batches } = receiver;
    match (sender.0, end) {
        (SendingEnd::Tcp(sender), ReceivingEnd::Tcp(receiver)) => {
            both(|| sender.send(&exchange, begin, stop), || receiver.receive(batches, &exchange, stop), stop)
        }
        (SendingEnd::Quic(sender), ReceivingEnd::Quic(listener)) => both(
            || (sender.send(&exchange, begin, stop), ()),
            || quic::bulk::receive(*listener, batches, &exchange, stop),
            stop,
        ),
        (sender, receiver) => unreachable!("{sender:?} and {receiver:?} are of different transports"),
    }
}

fn both<S, R: Send>(
    send: impl FnOnce() -> (BulkReport, S),
    receive: impl FnOnce() -> Received<R> + Send,
    stop: &Stop,
) -> BulkReport {
    let ((mut report, sockets), mut received) = thread::scope(|scope| {
        let receiving = scope.spawn(receive);
        (send(), receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    report.received_bytes = received.batches.total();
    report.batch = received.batches.length();
    report.batches = received.batches.whole_within(report.used);
    report.errors.append(&mut received.errors);
    report.stopped = stop.is_set();
    // Both ends keep their sockets up to here, so that neither sees the other's end.
    drop((sockets, received.kept));
    report
}

impl Looks {
    /// Opens the window, now that the connections are up.
    pub(super) fn open(settings: &BulkSettings, exchange: &Exchange, report: &mut BulkReport) -> Self {
        let origin = now();
        let start = origin.saturating_add(nanos(settings.warmup));
        let window = Window { start, end: start.saturating_add(nanos(settings.duration)) };
        exchange.open(window);
        report.window = Some(window);
        Self { origin, window, period: nanos(settings.batch).max(SHORTEST_PERIOD), samples: Vec::new() }
    }

    /// Notes the state of connections.
    pub(super) fn note(&mut self, samples: impl Iterator<Item = Sample>) {
        let at = Duration::from_nanos(now() - self.origin);
        self.samples.extend(samples.map(|sample| Sample { at, ..sample }));
    }

    /// When to look again.
    pub(super) fn next(&self) -> Nanos {
        let looks = (now() - self.origin) / self.period + 1;
        self.origin.saturating_add(looks * self.period).min(self.window.end)
    }

    /// How much of the window is over.
    pub(super) fn used(&self) -> Duration {
        Duration::from_nanos(now().min(self.window.end).saturating_sub(self.window.start))
    }
}

/// Shortest time between two looks, ns: a look takes some microseconds a connection.
const SHORTEST_PERIOD: Nanos = 1_000_000;

#[cfg(test)]
mod tests;
