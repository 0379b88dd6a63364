//! Messages over QUIC.

use std::io;

use weir_program::clock::now;
use weir_program::stop::Stop;

use super::ending::Ending;
use super::sessions::Sessions;
use crate::quic::{Event, Listener};
use crate::{Ended, ErrorLog, ReceiveReport};

/// Receives until the ending says so.
pub(super) fn receive(
    listener: Listener,
    mut sessions: Sessions<'_>,
    mut ending: Ending<'_>,
    stop: &Stop,
) -> ReceiveReport {
    let (receive_buffer, mut errors) = (listener.receive_buffer(), ErrorLog::default());
    let (mut accepted, mut open, mut partial_bytes) = (0, 0, 0);
    let started = listener.start(stop, ending.exchange_fd()).map_err(|error| errors.count("listen", &error));
    let Ok(mut arrivals) = started else {
        let report = ReceiveReport { receive_buffer, errors: errors.into_counts(), ..sessions.into_report() };
        return ReceiveReport { ended: Ended::Failed, ..report };
    };
    let mut events = Vec::new();
    let ended = loop {
        let next = match ending.check(&mut sessions, accepted > 0 && open == 0, now()) {
            Ok(next) => next,
            Err(ended) => break ended,
        };
        if !ending.awaits_stop() {
            arrivals.outlast_the_stop();
        }
        arrivals.next(&mut events, next, ending.awaits_exchange());
        for event in events.drain(..) {
            match event {
                Event::Connected => {
                    accepted += 1;
                    open += 1;
                }
                Event::Message { probe, length, peer, at } => sessions.count(&probe, length, peer, at),
                Event::Foreign => sessions.count_foreign(),
                Event::CutOff { bytes } => partial_bytes += bytes,
                Event::Closed => open -= 1,
                Event::Failed { operation, reason } => errors.count(operation, &io::Error::other(reason)),
                // Of a bulk transfer.
                Event::Bytes { .. } => {}
            }
        }
    };
    ReceiveReport {
        ended,
        connections: accepted,
        partial_bytes,
        receive_buffer,
        socket_drops: arrivals.socket_drops(),
        errors: errors.into_counts(),
        ..sessions.into_report()
    }
}
