//! Bulk transfers over QUIC: a connection with one stream each, and as many bytes as it takes.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use nix::libc::ETIMEDOUT;
use quinn::{Connection, Endpoint, SendStream};
use tokio::task::JoinSet;
use weir_program::clock::{self, Nanos, nanos, now};
use weir_program::stop::Stop;

use super::client::Origin;
use super::reactor::{Reactor, Waited};
use super::server::{Arrivals, Event, Listener};
use super::{DONE, QuicSettings, RECEIVE_WINDOW, ended_by, tls};
use crate::bulk::{Batches, BulkReport, BulkSettings, Sample};
use crate::{ErrorCount, ErrorLog, Exchange, ReceiverSettings, SenderSettings, TrafficError, Window};

/// A socket that is ready to connect from.
#[derive(Debug)]
pub(crate) struct Sender {
    settings: BulkSettings,
    origin: Origin,
    engine: String,
}

/// A socket that listens, and what both ends share.
#[derive(Debug)]
pub(crate) struct Receiver {
    listener: Listener,
    exchange: Exchange,
    batches: Batches,
}

impl Sender {
    /// Makes the socket in the calling thread's network namespace.
    pub(crate) fn open(settings: &BulkSettings) -> Result<Self, TrafficError> {
        let default = QuicSettings::default();
        let quic =
            settings.congestion.clone().map_or(default, |congestion| QuicSettings { congestion, any_peer: false });
        let engine = format!("weir {}: quic by quinn, {}", env!("CARGO_PKG_VERSION"), quic.congestion);
        let as_sender = SenderSettings {
            transport: settings.transport,
            quic,
            // As much as flow control lets under way: the buffer must not cap the path either.
            send_buffer: Some(RECEIVE_WINDOW as usize),
            ..SenderSettings::new(settings.to)
        };
        let origin = Origin::open(&as_sender, tls::Identity::of_process()?)?;
        Ok(Self { settings: settings.clone(), origin, engine })
    }
}

impl Receiver {
    /// Listens in the calling thread's network namespace.
    pub(crate) fn bind(settings: &BulkSettings) -> Result<Self, TrafficError> {
        let (transport, address) = (settings.transport, settings.to);
        let failed = |source| TrafficError::Socket { transport, address, source };
        let listener = Listener::bind(&ReceiverSettings { transport, ..ReceiverSettings::new(address) })?;
        let batches = Batches::new(settings.duration, settings.batch);
        Ok(Self { listener: listener.discarding(), exchange: Exchange::new(Duration::ZERO).map_err(failed)?, batches })
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }
}

/// See [`crate::bulk::run`].
pub(crate) fn run(sender: Sender, receiver: Receiver, begin: Nanos, stop: &Stop) -> BulkReport {
    let Receiver { listener, exchange, mut batches } = receiver;
    let (mut report, (mut errors, arrivals)) = thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(listener, &mut batches, &exchange, stop));
        let report = send(sender, &exchange, begin, stop);
        (report, receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    report.received_bytes = batches.total();
    report.batch = batches.length();
    report.batches = batches.whole_within(report.used);
    report.errors.append(&mut errors);
    report.stopped = stop.is_set();
    // It stays up to here, so that the sender does not see it close.
    drop(arrivals);
    report
}

/// Receives until the window is over, the sender has ended, or the stop is set.
fn receive(
    listener: Listener,
    batches: &mut Batches,
    exchange: &Exchange,
    stop: &Stop,
) -> (Vec<ErrorCount>, Option<Arrivals>) {
    let mut errors = ErrorLog::default();
    let mut arrivals = match listener.start(stop, exchange.as_fd()) {
        Ok(arrivals) => arrivals,
        Err(error) => {
            errors.count("listen", &error);
            return (errors.into_counts(), None);
        }
    };
    let mut events = Vec::new();
    loop {
        let end = exchange.window().map(|window| window.end);
        if stop.is_set() || exchange.ending().is_some() || end.is_some_and(|end| now() >= end) {
            return (errors.into_counts(), Some(arrivals));
        }
        arrivals.next(&mut events, end, true);
        for event in events.drain(..) {
            match (event, exchange.window()) {
                (Event::Discarded { bytes, at }, Some(window)) => batches.count(window, at, bytes),
                (Event::Failed { operation, reason }, _) => errors.count(operation, &io::Error::other(reason)),
                _ => {}
            }
        }
    }
}

/// Connects from the time `begin` on and sends until the window is over.
fn send(sender: Sender, exchange: &Exchange, begin: Nanos, stop: &Stop) -> BulkReport {
    let Sender { settings, origin, engine } = sender;
    let mut report = BulkReport { engine, streams: settings.streams, ..BulkReport::default() };
    let mut errors = ErrorLog::default();
    clock::precise_timers();
    let ready = Reactor::new(stop).and_then(|reactor| Ok((origin.endpoint(&reactor)?, reactor)));
    match ready {
        Ok((endpoint, reactor)) => {
            reactor.until(Some(begin), std::future::pending::<()>());
            let mut run = Run { settings, reactor, stop, errors, report };
            let connections = run.connect(&origin, &endpoint);
            if !connections.is_empty() && !stop.is_set() {
                run.send(connections, exchange);
            }
            // What is under way is not waited for.
            endpoint.close(DONE, b"");
            run.reactor.turn();
            (errors, report) = (run.errors, run.report);
        }
        Err(error) => errors.count("connect", &error),
    }
    exchange.close(0, now());
    report.errors = errors.into_counts();
    report
}

/// A transfer under way.
struct Run<'a> {
    settings: BulkSettings,
    stop: &'a Stop,
    errors: ErrorLog,
    report: BulkReport,
    // Last: the others' tasks belong to it.
    reactor: Reactor,
}

impl Run<'_> {
    /// Makes the connections, all at once; ends when none is under way any more, at the deadline, or at a stop.
    fn connect(&mut self, origin: &Origin, endpoint: &Endpoint) -> Vec<(Connection, SendStream)> {
        let begin = now();
        let deadline = begin.saturating_add(nanos(self.settings.connect_timeout));
        let mut connecting = JoinSet::new();
        self.reactor.with(|| {
            for _ in 0..self.settings.streams {
                let connection = origin.connect(endpoint, self.settings.to);
                connecting.spawn(async {
                    let connection = connection.await?;
                    let stream = connection.open_uni().await?;
                    io::Result::Ok((connection, stream))
                });
            }
        });
        let mut connected = Vec::new();
        while let Waited::Come(Some(joined)) = self.reactor.until(Some(deadline), connecting.join_next()) {
            match joined.unwrap_or_else(|error| Err(io::Error::other(error.to_string()))) {
                Ok(pair) => {
                    connected.push(pair);
                    self.report.connected += 1;
                    self.report.connect = Some(Duration::from_nanos(now() - begin));
                }
                Err(error) => self.errors.count("connect", &error),
            }
        }
        if !self.stop.is_set() {
            for _ in 0..connecting.len() {
                self.errors.count("connect", &io::Error::from_raw_os_error(ETIMEDOUT));
            }
        }
        // Those that gave up must not go on trying beside the others.
        connecting.abort_all();
        connected
    }

    /// Sends through warm-up and window.
    fn send(&mut self, connections: Vec<(Connection, SendStream)>, exchange: &Exchange) {
        let origin = now();
        let start = origin.saturating_add(nanos(self.settings.warmup));
        let window = Window { start, end: start.saturating_add(nanos(self.settings.duration)) };
        exchange.open(window);
        self.report.window = Some(window);

        let block = Bytes::from(vec![0; self.settings.block_bytes.max(1)]);
        let sent = Arc::new(AtomicU64::new(0));
        let mut writers = JoinSet::new();
        let mut states = Vec::new();
        self.reactor.with(|| {
            for (connection, stream) in connections {
                states.push(connection);
                writers.spawn(write(stream, block.clone(), Arc::clone(&sent)));
            }
        });
        let period = nanos(self.settings.batch).max(SHORTEST_PERIOD);
        let mut next_look = origin;
        while !writers.is_empty() && !self.stop.is_set() {
            let at = now();
            if at >= window.end {
                break;
            }
            if at >= next_look {
                self.look(&states, origin);
                next_look += ((at - next_look) / period + 1) * period;
            }
            if let Waited::Come(Some(Ok(reason))) =
                self.reactor.until(Some(next_look.min(window.end)), writers.join_next())
            {
                self.errors.count("send", &io::Error::other(reason));
            }
        }
        self.report.used = Duration::from_nanos(now().min(window.end).saturating_sub(window.start));
        self.report.sent_bytes = sent.load(Ordering::Relaxed);
        self.look(&states, origin);
        self.report.retransmits = Some(states.iter().map(|state| state.stats().path.lost_packets).sum());
    }

    /// Notes the state of every connection.
    fn look(&mut self, states: &[Connection], origin: Nanos) {
        let at = Duration::from_nanos(now() - origin);
        for (stream, connection) in (0..).zip(states) {
            let path = connection.stats().path;
            self.report.samples.push(Sample {
                at,
                stream,
                congestion_window: path.cwnd,
                rtt: path.rtt,
                retransmits: path.lost_packets,
                delivery_rate: None,
                in_flight: None,
            });
        }
    }
}

/// Writes blocks until the connection ends; tells why it did.
async fn write(mut stream: SendStream, block: Bytes, sent: Arc<AtomicU64>) -> String {
    loop {
        match stream.write_chunks(&mut [block.clone()]).await {
            Ok(written) => {
                sent.fetch_add(written.bytes as u64, Ordering::Relaxed);
            }
            Err(quinn::WriteError::ConnectionLost(error)) => {
                return ended_by(&error).unwrap_or_else(|| "closed by the receiver".to_owned());
            }
            Err(error) => return error.to_string(),
        }
    }
}

/// Shortest time between two looks, ns.
const SHORTEST_PERIOD: Nanos = 1_000_000;
