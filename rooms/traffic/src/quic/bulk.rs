//! Bulk transfers over QUIC: a connection with one stream each, and as many bytes as it takes.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
use crate::bulk::{Batches, BulkReport, BulkSettings, Looks, Received, Sample};
use crate::{ErrorLog, Exchange, ReceiverSettings, SenderSettings, TrafficError};

/// A socket that is ready to connect from.
#[derive(Debug)]
pub(crate) struct Sender {
    settings: BulkSettings,
    origin: Origin,
    engine: String,
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

/// Listens in the calling thread's network namespace.
pub(crate) fn listen(settings: &BulkSettings) -> Result<Listener, TrafficError> {
    let receiving = ReceiverSettings { transport: settings.transport, ..ReceiverSettings::new(settings.to) };
    Listener::bind(&receiving)
}

/// Receives until the window is over, the sender has ended, or the stop is set.
pub(crate) fn receive(
    listener: Listener,
    mut batches: Batches,
    exchange: &Exchange,
    stop: &Stop,
) -> Received<Option<Arrivals>> {
    let mut errors = ErrorLog::default();
    let mut arrivals = listener.start(stop, exchange.as_fd()).map_err(|error| errors.count("listen", &error)).ok();
    let mut events = Vec::new();
    while let Some(arrivals) = &mut arrivals {
        let end = exchange.window().map(|window| window.end);
        if stop.is_set() || exchange.ending().is_some() || end.is_some_and(|end| now() >= end) {
            break;
        }
        arrivals.next(&mut events, end, true);
        for event in events.drain(..) {
            match (event, exchange.window()) {
                (Event::Bytes { chunks, at, .. }, Some(window)) => {
                    batches.count(window, at, chunks.iter().map(|chunk| chunk.len() as u64).sum());
                }
                (Event::Failed { operation, reason }, _) => errors.count(operation, &io::Error::other(reason)),
                _ => {}
            }
        }
    }
    Received { batches, errors: errors.into_counts(), kept: arrivals }
}

impl Sender {
    /// Connects from the time `begin` on and sends until the window is over.
    pub(crate) fn send(self, exchange: &Exchange, begin: Nanos, stop: &Stop) -> BulkReport {
        let Self { settings, origin, engine } = self;
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
        let mut looks = Looks::open(&self.settings, exchange, &mut self.report);
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
        let look = |looks: &mut Looks| looks.note((0..).zip(&states).map(|(stream, state)| sample(state, stream)));
        while !writers.is_empty() && !self.stop.is_set() && now() < looks.window.end {
            look(&mut looks);
            if let Waited::Come(Some(Ok(reason))) = self.reactor.until(Some(looks.next()), writers.join_next()) {
                self.errors.count("send", &io::Error::other(reason));
            }
        }
        self.report.used = looks.used();
        self.report.sent_bytes = sent.load(Ordering::Relaxed);
        look(&mut looks);
        self.report.samples = looks.samples;
        self.report.retransmits = Some(states.iter().map(|state| state.stats().path.lost_packets).sum());
    }
}

fn sample(connection: &Connection, stream: u32) -> Sample {
    let path = connection.stats().path;
    let (congestion_window, rtt, retransmits) = (path.cwnd, path.rtt, path.lost_packets);
    Sample { stream, congestion_window, rtt, retransmits, ..Sample::default() }
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
