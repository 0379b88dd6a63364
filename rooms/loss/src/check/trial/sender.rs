//! The trial's sender: an even rate that never catches up in a burst what the machine held it back from.

use std::io::{ErrorKind, IoSlice};
use std::os::fd::AsFd;

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags};
use weir_dgram::{Outgoing, Socket};
use weir_program::clock::{self, Nanos};

use super::Load;

/// What was sent.
pub(super) struct Sent {
    pub(super) datagrams: u64,
    /// How long that took.
    pub(super) took: Nanos,
    /// The longest time by which it looked at its schedule later than it was to.
    pub(super) held_up: Nanos,
}

/// Sends so many datagrams at the load's rate.
pub(super) fn send(socket: &Socket, load: &Load, datagrams: u64) -> Result<Sent> {
    clock::precise_timers();
    let begin = clock::now();
    let rate = load.per_second() / 1e9;
    let burst = (rate * BURST as f64).max(1.0) as u64;
    let (mut sent, mut held_up, mut next) = (0, 0, begin);
    // The schedule: `counted` of them were due at `since`.
    let (mut since, mut counted) = (begin, 0);
    while sent < datagrams {
        let now = clock::now();
        held_up = held_up.max(now.saturating_sub(next));
        next = now;
        let due = counted + ((now - since) as f64 * rate) as u64 + 1;
        if due.saturating_sub(sent) > burst {
            (since, counted) = (now, sent);
        }
        let count = due.saturating_sub(sent).min(BATCH).min(datagrams - sent);
        if count == 0 {
            next = now + STEP.max((1.0 / rate) as Nanos).min(LONGEST_STEP);
            clock::wait(&mut [], Some(next));
            continue;
        }
        sent += send_at_once(socket, load.payload.bytes, count)?;
    }
    Ok(Sent { datagrams: sent, took: clock::now() - begin, held_up })
}

/// Sends so many datagrams, 64 at most, and returns how many the kernel took.
pub(super) fn send_at_once(socket: &Socket, payload: u64, count: u64) -> Result<u64> {
    let bytes = vec![0; usize::try_from(payload)?];
    let pieces = [IoSlice::new(&bytes)];
    let messages = [Outgoing { pieces: &pieces, segment: None, to: None }; BATCH as usize];
    let taken = socket.send(&messages[..usize::try_from(count.min(BATCH))?]);
    match taken.error {
        Some(error) if error.kind() == ErrorKind::WouldBlock => {
            clock::wait(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)], Some(clock::now() + LONGEST_STEP));
        }
        Some(error) => return Err(error).with_context(|| format!("send a datagram of {payload} B")),
        None => {}
    }
    Ok(taken.messages as u64)
}

/// Datagrams a system call.
const BATCH: u64 = 64;

/// Nanoseconds between two looks at the schedule.
const STEP: Nanos = 100_000;
const LONGEST_STEP: Nanos = 50_000_000;

/// What is sent at once at most: so much of the schedule, nanoseconds.
const BURST: Nanos = 1_000_000;
