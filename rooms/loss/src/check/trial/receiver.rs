//! The trial's receiver: reads all there is, and every now and then does not read for a while.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags};
use weir_dgram::{Inbox, Socket};
use weir_kernel::scheduling;
use weir_program::clock::{self, Nanos};

use super::Load;

/// What was received.
pub(super) struct Received {
    pub(super) datagrams: u64,
    /// The longest time between two reads.
    pub(super) longest: Nanos,
    /// The longest time by which it was back later than it was to be.
    pub(super) held_up: Nanos,
}

/// Receives until the sender has ended and nothing more comes.
pub(super) fn receive(socket: &Socket, load: &Load, ended: &AtomicBool) -> Result<Received> {
    clock::precise_timers();
    // Its stalls are to be those that are ordered. Without the privilege they are longer on a busy machine, and told.
    let _ = scheduling::become_real_time();
    let mut inbox = Inbox::new(BATCH, usize::try_from(load.payload.bytes)?.max(1));
    let mut stalls = Stalls::new(load.stall.nanos);
    let mut received = Received { datagrams: 0, longest: 0, held_up: 0 };
    let mut next = stalls.begin();
    let mut last = clock::now();
    let mut due = last;
    let mut looks = 0;
    loop {
        let result = inbox.receive(socket);
        let now = clock::now();
        received.held_up = received.held_up.max(now.saturating_sub(due));
        match result {
            Ok(_) => {
                received.longest = received.longest.max(now - last);
                (last, due, looks) = (now, now, 0);
                received.datagrams += inbox.len() as u64;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // It has caught up: a wait for the next datagram is no stall, and the next stall may come.
                let ending = ended.load(Ordering::Acquire);
                if now >= next && !ending {
                    (last, due) = (now, now + stalls.length());
                    clock::wait(&mut [], Some(due));
                    next = stalls.begin();
                    continue;
                }
                if ending && looks == LAST_LOOKS {
                    return Ok(received);
                }
                looks += u32::from(ending);
                due = now + LOOK;
                clock::wait(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], Some(due));
                last = clock::now();
            }
            Err(error) => return Err(error).context("receive the trial's datagrams"),
        }
    }
}

/// Reads what is there, and returns how many datagrams that was.
pub(super) fn drain(socket: &Socket, payload: u64) -> Result<u64> {
    let mut inbox = Inbox::new(BATCH, usize::try_from(payload)?.max(1));
    let mut datagrams = 0;
    loop {
        match inbox.receive(socket) {
            Ok(_) => datagrams += inbox.len() as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(datagrams),
            Err(error) => return Err(error).context("receive datagrams to weigh"),
        }
    }
}

/// When the receiver stalls and for how long: the same in each trial, so that two of them can be compared.
struct Stalls {
    /// The longest.
    most: Nanos,
    random: fastrand::Rng,
    count: u64,
}

impl Stalls {
    fn new(most: Nanos) -> Stalls {
        Stalls { most, random: fastrand::Rng::with_seed(0), count: 0 }
    }

    /// The moment of the next one: on average it reads four times as long as it stalls at most.
    fn begin(&mut self) -> Nanos {
        let pause = (self.random.f64() * self.most as f64 * 8.0) as Nanos;
        // The first comes early, so that even a short trial has one.
        clock::now() + if self.count == 0 { pause / 8 } else { pause }
    }

    /// Its length: any up to the longest, each eighth the longest.
    fn length(&mut self) -> Nanos {
        self.count += 1;
        let length = (self.random.f64() * self.most as f64) as Nanos;
        if self.count % 8 == 1 { self.most } else { length }
    }
}

/// Datagrams a system call.
const BATCH: usize = 64;

/// How long it waits at most before it looks whether the sender has ended, nanoseconds.
const LOOK: Nanos = 20_000_000;

/// After so many looks without a datagram none is on its way any more. Looks, for a machine that stood still has not
/// moved what is on its way either.
const LAST_LOOKS: u32 = 10;
