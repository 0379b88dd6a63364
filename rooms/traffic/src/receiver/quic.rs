//! Messages over QUIC.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use weir_program::clock::{Nanos, now};
use weir_program::stop::Stop;
use weir_wire::probe::Probe;

use super::ending::Ending;
use super::frames::Frames;
use super::sessions::Sessions;
use crate::quic::{Event, Listener};
use crate::{Ended, ErrorLog, ReceiveReport};

/// Receives until the ending says so.
pub(super) fn receive(
    listener: Listener,
    sessions: Sessions<'_>,
    mut ending: Ending<'_>,
    stop: &Stop,
) -> ReceiveReport {
    let mut incoming = Incoming {
        sessions,
        streams: HashMap::new(),
        accepted: 0,
        open: 0,
        partial_bytes: 0,
        errors: ErrorLog::default(),
    };
    let receive_buffer = listener.receive_buffer();
    let mut arrivals = match listener.start(stop, ending.exchange_fd()) {
        Ok(arrivals) => arrivals,
        Err(error) => {
            incoming.errors.count("listen", &error);
            return ReceiveReport { receive_buffer, ..incoming.into_report(Ended::Failed) };
        }
    };
    let mut events = Vec::new();
    let ended = loop {
        let hung_up = incoming.accepted > 0 && incoming.open == 0;
        let next = match ending.check(&mut incoming.sessions, hung_up, now()) {
            Ok(next) => next,
            Err(ended) => break ended,
        };
        if !ending.awaits_stop() {
            arrivals.outlast_the_stop();
        }
        arrivals.next(&mut events, next, ending.awaits_exchange());
        for event in events.drain(..) {
            incoming.take(event);
        }
    };
    ReceiveReport { receive_buffer, socket_drops: arrivals.socket_drops(), ..incoming.into_report(ended) }
}

struct Incoming<'a> {
    sessions: Sessions<'a>,
    /// `None`: not ours, and ignored from then on.
    streams: HashMap<(u64, u64), Option<Frames>>,
    accepted: u64,
    open: u64,
    partial_bytes: u64,
    errors: ErrorLog,
}

impl Incoming<'_> {
    fn take(&mut self, event: Event) {
        match event {
            Event::Connected => {
                self.accepted += 1;
                self.open += 1;
            }
            Event::Bytes { stream, peer, bytes, at } => self.feed(stream, peer, &bytes, at),
            Event::Datagram { peer, bytes, at } => match Probe::parse_datagram(&bytes) {
                Ok(probe) => self.sessions.count(&probe, bytes.len(), peer, at),
                Err(_) => self.sessions.count_foreign(),
            },
            Event::Finished { stream } => self.finish(stream),
            Event::Closed => self.open -= 1,
            // Nobody asked for that.
            Event::Discarded { .. } => {}
            Event::Failed { operation, reason } => self.errors.count(operation, &io::Error::other(reason)),
        }
    }

    fn feed(&mut self, stream: (u64, u64), peer: SocketAddr, bytes: &[u8], at: Nanos) {
        let place = self.streams.entry(stream).or_insert_with(|| Some(Frames::default()));
        let Some(frames) = place else { return };
        let sessions = &mut self.sessions;
        if frames.feed(bytes, |probe, length| sessions.count(probe, length, peer, at)).is_err() {
            *place = None;
            self.sessions.count_foreign();
        }
    }

    /// Forgets a stream.
    fn finish(&mut self, stream: (u64, u64)) {
        let partial = self.streams.remove(&stream).flatten().map_or(0, |frames| frames.partial());
        self.partial_bytes += partial as u64;
    }

    fn into_report(self, ended: Ended) -> ReceiveReport {
        let partial: usize = self.streams.values().flatten().map(Frames::partial).sum();
        ReceiveReport {
            ended,
            connections: self.accepted,
            partial_bytes: self.partial_bytes + partial as u64,
            errors: self.errors.into_counts(),
            ..self.sessions.into_report()
        }
    }
}
