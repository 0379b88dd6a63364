//! Messages over UDP.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags};
use weir_kernel::counters::socket_memory;
use weir_wire::probe::Probe;

use super::ending::Ending;
use super::sessions::Sessions;
use crate::traffic::clock::{self, Nanos, now};
use crate::traffic::{Ended, ErrorLog, ReceiveReport};

/// Receives until the ending says so.
pub(super) fn receive(socket: &UdpSocket, mut sessions: Sessions<'_>, mut ending: Ending<'_>) -> ReceiveReport {
    let mut errors = ErrorLog::default();
    let mut buffer = vec![0; LONGEST];
    let ended = loop {
        match take(socket, &mut buffer, &mut sessions, &mut errors) {
            Taken::Some => {
                // Under load only a stop and the clock can end it: what waits in the socket has arrived.
                if let Err(ended @ (Ended::Stopped | Ended::Deadline)) = ending.check(&sessions, now()) {
                    break ended;
                }
            }
            Taken::All => match ending.check(&sessions, now()) {
                Ok(next) => wait(socket, &ending, next),
                Err(ended) => break ended,
            },
            Taken::Failed => break Ended::Failed,
        }
    };
    let socket_drops = socket_memory(socket).ok().map(|memory| memory.drops.into());
    ReceiveReport { ended, socket_drops, errors: errors.into_counts(), ..sessions.into_report() }
}

enum Taken {
    Some,
    All,
    Failed,
}

/// Takes what the socket has, up to a batch.
fn take(socket: &UdpSocket, buffer: &mut [u8], sessions: &mut Sessions<'_>, errors: &mut ErrorLog) -> Taken {
    for _ in 0..BATCH {
        match socket.recv_from(buffer) {
            Ok((length, peer)) => {
                let at = now();
                match Probe::parse_datagram(&buffer[..length]) {
                    Ok(probe) => sessions.count(&probe, length, peer, at),
                    Err(_) => sessions.count_foreign(),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Taken::All,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                errors.count("receive", &error);
                return Taken::Failed;
            }
        }
    }
    Taken::Some
}

fn wait(socket: &UdpSocket, ending: &Ending<'_>, until: Option<Nanos>) {
    let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let mut fds = [readable(socket.as_fd()), readable(ending.stop_fd()), readable(ending.exchange_fd())];
    let watched = if ending.awaits_exchange() { 3 } else { 2 };
    clock::wait(&mut fds[..watched], until);
}

/// Bytes of the longest datagram.
const LONGEST: usize = 65_536;

/// Datagrams between two looks at the clock's other duties.
const BATCH: usize = 256;
