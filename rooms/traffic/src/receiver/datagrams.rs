//! Messages over UDP.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::poll::{PollFd, PollFlags};
use weir_dgram::{Inbox, Socket};
use weir_program::clock::{self, Nanos, now};
use weir_wire::control::{CONTROL_LEN, Control, Says};
use weir_wire::probe::Probe;

use super::ending::Ending;
use super::sessions::Sessions;
use super::stalls::Stalls;
use super::talk::{Due, Origin, Talk};
use crate::{Ended, ErrorLog, ReceiveReport};

/// Receives until the ending says so, or whoever talks.
pub(crate) fn receive(
    socket: &Socket,
    reads: &AtomicU64,
    longest: usize,
    mut stalls: Option<Stalls>,
    mut sessions: Sessions<'_>,
    mut ending: Ending<'_>,
    mut talk: Option<&mut dyn Talk>,
) -> ReceiveReport {
    let mut errors = ErrorLog::default();
    let mut inbox = Inbox::new(BATCH, longest.max(CONTROL_LEN));
    let ended = loop {
        if let Some(stalls) = &mut stalls {
            stalls.stand_still(&ending);
        }
        let read = take(socket, &mut inbox, &mut sessions, &mut talk, &mut errors);
        let at = now();
        let due = talk.as_mut().map_or(Due::Free, |talk| talk.tick(&mut sessions, at));
        match read {
            Read::Some => {
                reads.fetch_add(1, Ordering::Relaxed);
                // Under load only the clock can end it, also that of a stop: what waits in the socket has arrived. When
                // sending has ended that is not without end.
                match due.with(ending.check(&mut sessions, at)) {
                    Err(Ended::Deadline) if !ending.awaits_exchange() => {}
                    Err(Ended::Stopped) if ending.has_time(at) => {}
                    Err(ended @ (Ended::Stopped | Ended::Deadline)) => break ended,
                    _ => {}
                }
            }
            Read::All => match due.with(ending.check(&mut sessions, at)) {
                Ok(next) => wait(socket, &ending, next),
                Err(ended) => break ended,
            },
            Read::Failed => break Ended::Failed,
        }
    };
    let socket_drops = drops(socket);
    // Both ends of a talk have told each other by now what they received.
    if talk.is_none() && ended != Ended::Failed {
        take_the_rest(socket, &mut inbox, &mut sessions, &mut errors);
    }
    let late_drops = drops(socket).zip(socket_drops).map(|(all, before)| all.wrapping_sub(before));
    let buffer = socket.granted().receive_buffer;
    let mut report = ReceiveReport {
        ended,
        socket_drops: socket_drops.map(u64::from),
        late_drops: late_drops.map_or(0, u64::from),
        receive_buffer: Some(buffer.granted),
        receive_buffer_limit: buffer.limit,
        errors: errors.into_counts(),
        ..sessions.into_report()
    };
    if let Some(talk) = talk {
        talk.finish(&mut report);
    }
    report
}

/// Takes what has come by now, and has the kernel drop what still comes, which it counts: whatever waited in the queue when
/// the socket is closed would be in nobody's count.
fn take_the_rest(socket: &Socket, inbox: &mut Inbox, sessions: &mut Sessions<'_>, errors: &mut ErrorLog) {
    // Where the kernel does not tell when its deliveries are over, one may still be left.
    let _ = socket.close_intake_for_good();
    while let Read::Some = take(socket, inbox, sessions, &mut None, errors) {}
}

fn drops(socket: &Socket) -> Option<u32> {
    socket.memory().ok().map(|memory| memory.drops)
}

enum Read {
    Some,
    All,
    Failed,
}

/// Takes what the socket has, up to a batch. All of it has arrived when the call returns.
fn take(
    socket: &Socket,
    inbox: &mut Inbox,
    sessions: &mut Sessions<'_>,
    talk: &mut Option<&mut dyn Talk>,
    errors: &mut ErrorLog,
) -> Read {
    let reported = inbox.reported();
    let received = inbox.receive(socket);
    if let Some(talk) = talk
        && inbox.reported() > reported
    {
        talk.refused(now());
    }
    match received {
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
            match Probe::parse_datagram(datagram) {
                Ok(probe) => sessions.count(&probe, datagram.len(), message.source, at),
                Err(_) => match (Control::parse(datagram), &mut *talk) {
                    (Some(control), Some(talk)) if !message.to_all => {
                        talk.hear(&control, Origin { peer: message.source, local: message.local }, sessions, at);
                    }
                    (Some(Control { says: Says::Ask(_), session, .. }), None) if !sessions.are_foreign(session) => {
                        sessions.count_not_allowed(message.source);
                    }
                    _ => sessions.count_foreign(),
                },
            }
        }
    }
    Read::Some
}

fn wait(socket: &Socket, ending: &Ending<'_>, until: Option<Nanos>) {
    let readable = |fd, awaited| PollFd::new(fd, if awaited { PollFlags::POLLIN } else { PollFlags::empty() });
    let mut fds = [
        readable(socket.as_fd(), true),
        readable(ending.stop_fd(), ending.awaits_stop()),
        readable(ending.exchange_fd(), ending.awaits_exchange()),
    ];
    clock::wait(&mut fds, until);
}

/// Datagrams between two looks at the clock's other duties.
const BATCH: usize = 64;

#[cfg(test)]
mod tests;
