//! The receiving end of a bulk transfer over QUIC.

use std::io;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags};
use weir_program::clock::now;
use weir_program::stop::Stop;

use super::server::{Event, Listener};
use crate::bulk::{Batches, BulkSettings, Received};
use crate::{ErrorLog, Exchange, ReceiverSettings, TrafficError};

/// Listens in the calling thread's network namespace.
pub(crate) fn listen_for_bulk(settings: &BulkSettings) -> Result<Listener, TrafficError> {
    let receiving = ReceiverSettings { transport: settings.transport, ..ReceiverSettings::new(settings.to) };
    let mut listener = Listener::bind(&receiving)?;
    listener.is_bulk = true;
    Ok(listener)
}

/// Receives until the window is over, the sender has ended, or the stop is set.
pub(crate) fn receive_bulk(mut listener: Listener, mut batches: Batches, exchange: &Exchange, stop: &Stop) -> Received {
    let (mut errors, mut events) = (ErrorLog::default(), Vec::new());
    loop {
        let end = exchange.window().map(|window| window.end);
        if stop.is_set() || exchange.ending().is_some() || end.is_some_and(|end| now() >= end) {
            break;
        }
        let wakes = [stop.as_fd(), exchange.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        listener.next(&mut events, end, &wakes);
        for event in events.drain(..) {
            match (event, exchange.window()) {
                (Event::Bytes { bytes, at }, Some(window)) => batches.count(window, at, bytes),
                (Event::Failed { operation, reason }, _) => errors.count(operation, &io::Error::other(reason)),
                _ => {}
            }
        }
    }
    Received { batches, errors: errors.into_counts(), kept: Box::new(listener) }
}
