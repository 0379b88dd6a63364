//! Messages over QUIC.

use std::io;

use weir_program::clock::now;

use super::ending::Ending;
use super::sessions::Sessions;
use crate::quic::{Event, Listener};
use crate::{ErrorLog, ReceiveReport};

/// Receives until the ending stops it.
pub(super) fn receive(mut listener: Listener, mut sessions: Sessions<'_>, mut ending: Ending<'_>) -> ReceiveReport {
    let mut errors = ErrorLog::default();
    let (mut accepted, mut open, mut partial_bytes) = (0, 0, 0);
    let mut events = Vec::new();
    let ended = loop {
        let next = match ending.check(&mut sessions, accepted > 0 && open == 0, now()) {
            Ok(next) => next,
            Err(ended) => break ended,
        };
        listener.next(&mut events, next, &ending.wakes());
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
                // Only in bulk transfers.
                Event::Bytes { .. } => {}
            }
        }
    };
    ReceiveReport {
        ended,
        connections: accepted,
        partial_bytes,
        receive_buffer: Some(listener.receive_buffer()),
        socket_drops: listener.socket_drops(),
        errors: errors.into_counts(),
        ..sessions.into_report()
    }
}
