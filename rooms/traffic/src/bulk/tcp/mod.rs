//! Bulk transfers by TCP connections of the kernel.

mod receiver;
mod sender;

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use socket2::Type;

pub(super) use self::receiver::Receiver;
pub(super) use self::sender::Sender;
use weir_program::clock::Nanos;
use weir_program::stop::Stop;

use super::BulkReport;
use crate::{TrafficError, Transport};

/// See [`super::run`].
pub(super) fn run(sender: Sender, receiver: Receiver, begin: Nanos, stop: &Stop) -> BulkReport {
    let Receiver { exchange, listener, .. } = receiver;
    let (mut sent, mut received) = thread::scope(|scope| {
        let receiving = scope.spawn(|| listener.run(&exchange, stop));
        let sent = sender.run(&exchange, begin, stop);
        (sent, receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let mut report = std::mem::take(&mut sent.report);
    report.received_bytes = received.batches.total();
    report.batch = received.batches.length();
    report.batches = received.batches.whole_within(report.used);
    report.errors.append(&mut received.errors);
    report.stopped = stop.is_set();
    // Both ends keep their sockets up to here, so that neither sees the other's reset.
    drop((sent.streams, received.streams));
    report
}

/// A non-blocking TCP socket whose end is a reset.
fn socket(to: SocketAddr) -> Result<socket2::Socket, TrafficError> {
    let failed = |source| TrafficError::Socket { transport: Transport::Tcp, address: to, source };
    let socket = socket2::Socket::new(socket2::Domain::for_address(to), Type::STREAM, None).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    socket.set_linger(Some(Duration::ZERO)).map_err(failed)?;
    Ok(socket)
}

/// The token of an event that ends a wait, beside those of streams.
const WAKE: u64 = u64::MAX;
