//! Messages over UDP.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::poll::{PollFd, PollFlags};
use weir_dgram::{Inbox, Socket};
use weir_program::clock::{self, Nanos, now};
use weir_wire::probe::Probe;

use super::ending::Ending;
use super::sessions::Sessions;
use super::stalls::Stalls;
use crate::reverse::Desk;
use crate::sender::channel::Way;
use crate::{Ended, ErrorLog, ReceiveReport};

/// Receives until the ending stops it. `desk`: answers requests for messages.
pub(crate) fn receive(
    socket: &Arc<Socket>,
    reads: &AtomicU64,
    longest: usize,
    mut stalls: Option<Stalls>,
    mut sessions: Sessions<'_>,
    mut ending: Ending<'_>,
    desk: Option<&Desk>,
) -> ReceiveReport {
    let mut errors = ErrorLog::default();
    let mut inbox = Inbox::new(BATCH, longest);
    let ended = loop {
        if let Some(stalls) = &mut stalls {
            stalls.stand_still(&ending);
        }
        let read = take(socket, &mut inbox, &mut sessions, desk, &mut errors);
        let at = now();
        if let Some(desk) = desk {
            desk.tick(&mut sessions, at);
        }
        match read {
            Read::Some => {
                reads.fetch_add(1, Ordering::Relaxed);
                // Under load only the clock can end it, even after a stop: what waits in the socket has arrived. After
                // sending has ended that is finite.
                match ending.check(&mut sessions, false, at) {
                    Err(Ended::Deadline) if !ending.awaits_exchange() => {}
                    Err(Ended::Stopped) if ending.has_time(at) => {}
                    Err(ended @ (Ended::Stopped | Ended::Deadline)) => break ended,
                    _ => {}
                }
            }
            Read::All => match ending.check(&mut sessions, false, at) {
                Ok(next) => wait(socket, &ending, next),
                Err(ended) => break ended,
            },
            Read::Failed => break Ended::Failed,
        }
    };
    let socket_drops = drops(socket);
    if ended != Ended::Failed {
        take_the_rest(socket, &mut inbox, &mut sessions, &mut errors);
    }
    let late_drops = drops(socket).zip(socket_drops).map(|(all, before)| all.wrapping_sub(before));
    ReceiveReport {
        ended,
        socket_drops: socket_drops.map(u64::from),
        late_drops: late_drops.map_or(0, u64::from),
        receive_buffer: Some(socket.granted().receive_buffer.granted),
        errors: errors.into_counts(),
        ..sessions.into_report()
    }
}

/// Receives all datagrams that have arrived, and makes the kernel drop and count later ones: datagrams left in the
/// queue of a closed socket would be in no count.
fn take_the_rest(socket: &Arc<Socket>, inbox: &mut Inbox, sessions: &mut Sessions<'_>, errors: &mut ErrorLog) {
    // If the kernel does not report the end of its deliveries, one may still be left.
    let _ = socket.close_intake_for_good();
    while let Read::Some = take(socket, inbox, sessions, None, errors) {}
}

fn drops(socket: &Socket) -> Option<u32> {
    socket.memory().ok().map(|memory| memory.drops)
}

enum Read {
    Some,
    All,
    Failed,
}

/// Receives up to a batch from the socket. All of it has arrived when the call returns.
fn take(
    socket: &Arc<Socket>,
    inbox: &mut Inbox,
    sessions: &mut Sessions<'_>,
    desk: Option<&Desk>,
    errors: &mut ErrorLog,
) -> Read {
    match inbox.receive(socket) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Read::All,
        Err(error) => {
            errors.count("receive", &error);
            return Read::Failed;
        }
    }
    let at = now();
    for message in inbox.messages() {
        for datagram in message.segments() {
            let way = Way { to: message.source, from: message.local };
            match Probe::parse_datagram(datagram) {
                Ok(probe) => sessions.count(&probe, datagram.len(), message.source, at),
                Err(_) if desk.is_some_and(|desk| !message.to_all && desk.token(datagram, socket, way)) => {}
                Err(_) => sessions.count_foreign(),
            }
        }
    }
    Read::Some
}

fn wait(socket: &Socket, ending: &Ending<'_>, until: Option<Nanos>) {
    let [stop, exchange] = ending.wakes();
    clock::wait(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN), stop, exchange], until);
}

/// Datagrams between two checks of timers.
const BATCH: usize = 64;

#[cfg(test)]
mod tests;
