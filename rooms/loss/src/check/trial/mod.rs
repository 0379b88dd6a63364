//! The load itself, on a link of our own: a sender at the stated rate, a receiver that stalls at random up to the stated
//! stall, and where what it missed was lost.
//!
//! It shows the limits of the machine that are in the way of any receiver: receive buffers, the processors' backlog, the
//! memory of all UDP sockets. It does not show what is before them, for a virtual link has no ring, no interrupts and no
//! pause frames.

mod link;
mod receiver;
mod sender;

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{setsockopt, sockopt};
use serde::Serialize;
use weir_dgram::{Memory, Options, Socket};

pub(super) use link::Link;

use weir_program::clock;

use super::facts::Truesize;
use super::load::Load;
use crate::places::Place;

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that the receiver read.
    pub received: u64,
    /// Where the others were lost; only places that lost some.
    pub places: Vec<Lost>,
    /// What no counter knows of: sent - received - places.
    pub unexplained: i64,
    /// Datagrams a second that the sender managed.
    pub rate: f64,
    /// The receive buffer in force, bytes as the kernel accounts them.
    pub buffer: u64,
    /// The longest time for which the receiver did not read, milliseconds. More than was stated, if the machine was busy.
    pub longest_stall_ms: f64,
    /// The longest time for which sender or receiver could not run, milliseconds; null: no longer than a buffer that is
    /// large enough bridges.
    pub held_up_ms: Option<f64>,
    /// The trials that were made, until nothing held one up.
    pub tries: u32,
}

/// Datagrams lost at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Where.
    pub place: Place,
    /// How many.
    pub datagrams: u64,
}

impl Outcome {
    /// Datagrams lost at a place.
    pub fn lost_at(&self, place: Place) -> u64 {
        self.places.iter().filter(|lost| lost.place == place).map(|lost| lost.datagrams).sum()
    }

    /// Datagrams that were not received.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }
}

/// The receive buffer of a trial's receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buffer {
    /// The kernel's default.
    Default,
    /// Asked for by SO_RCVBUF, which `net.core.rmem_max` caps.
    Asked(u64),
    /// Exactly this, bytes as the kernel accounts them.
    Exactly(u64),
}

/// Sends so many datagrams and accounts for them; again, where the machine stood still meanwhile.
///
/// # Errors
/// If a socket or thread cannot be made, or counters not be read.
pub(super) fn run(link: &Link, load: &Load, buffer: Buffer, datagrams: u64) -> Result<Outcome> {
    undisturbed(|| attempt(link, load, buffer, datagrams))
}

/// The first that nothing held up; if each was, that which was least.
fn undisturbed(mut attempt: impl FnMut() -> Result<Outcome>) -> Result<Outcome> {
    let mut best = attempt()?;
    while best.held_up_ms.is_some() && best.tries < TRIES {
        let tries = best.tries + 1;
        let outcome = attempt()?;
        if outcome.held_up_ms < best.held_up_ms {
            best = outcome;
        }
        best.tries = tries;
    }
    Ok(best)
}

fn attempt(link: &Link, load: &Load, buffer: Buffer, datagrams: u64) -> Result<Outcome> {
    let options = Options {
        receive_buffer: match buffer {
            Buffer::Exactly(bytes) => Some(usize::try_from(bytes / 2)?),
            _ => None,
        },
        ..Options::default()
    };
    let socket = link.receiving(&options)?;
    if let Buffer::Asked(bytes) = buffer {
        let bytes = usize::try_from(bytes)?.min(i32::MAX as usize / 2);
        setsockopt(&socket, sockopt::RcvBuf, &bytes)
            .with_context(|| format!("ask for a receive buffer of {bytes} B"))?;
    }
    let to = socket.local_addr();
    let sending = link.sending(to)?;
    let before = link.counters()?;
    let granted = memory(&socket)?.receive_buffer;
    let ended = AtomicBool::new(false);
    let (sent, received) = thread::scope(|scope| {
        let receiver = thread::Builder::new()
            .name("receiver".into())
            .spawn_scoped(scope, || receiver::receive(&socket, load, &ended))
            .context("start the trial's receiver")?;
        let sent = sender::send(&sending, load, datagrams);
        ended.store(true, Ordering::Release);
        let received = receiver.join().map_err(|_| anyhow!("the trial's receiver ended by mistake"))?;
        anyhow::Ok((sent, received?))
    })?;
    let sent = sent?;
    let held_up = sent.held_up.max(received.held_up);
    // Both have ended, and nothing is on its way: what was dropped has been counted.
    let mut lost = link.counters()?.since(&before);
    if !link.is_own() {
        // Others use the namespace, too: only what the socket counts is surely its own.
        lost = vec![(Place::ReceiveBuffer, memory(&socket)?.drops.into())];
    }
    let places: Vec<Lost> =
        lost.into_iter().filter(|(_, n)| *n > 0).map(|(place, datagrams)| Lost { place, datagrams }).collect();
    let known: u64 = received.datagrams + places.iter().map(|lost| lost.datagrams).sum::<u64>();
    Ok(Outcome {
        sent: sent.datagrams,
        received: received.datagrams,
        places,
        unexplained: sent.datagrams.cast_signed() - known.cast_signed(),
        rate: sent.datagrams as f64 / (sent.took.max(1) as f64 / 1e9),
        buffer: granted.into(),
        longest_stall_ms: received.longest as f64 / 1e6,
        held_up_ms: (held_up > TOLERATED.max(load.stall.nanos / 5)).then_some(held_up as f64 / 1e6),
        tries: 1,
    })
}

/// What a datagram of this payload takes of a receive buffer on this link.
///
/// # Errors
/// If sockets cannot be made, or the kernel does not tell (before Linux 4.12).
pub(super) fn truesize(link: &Link, payload: u64) -> Result<Truesize> {
    // Room for any number of the largest.
    let options = Options { receive_buffer: Some(ROOM), ..Options::default() };
    let socket = link.receiving(&options)?;
    let sending = link.sending(socket.local_addr())?;
    let sent = sender::send_at_once(&sending, payload, SAMPLES)?;
    let deadline = clock::now() + PATIENCE;
    let mut waiting = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    clock::wait(&mut waiting, Some(deadline));
    // They come one behind the other: what is there is counted with a look at how many are.
    let (mut held, mut before) = (memory(&socket)?.receive_queue, 0);
    while held != before && clock::now() < deadline {
        before = held;
        clock::wait(&mut [], Some(clock::now() + SETTLE));
        held = memory(&socket)?.receive_queue;
    }
    let datagrams = receiver::drain(&socket, payload)?;
    ensure!(
        datagrams > 0 && datagrams <= sent,
        "measure what a datagram of {payload} B takes: {datagrams} of {sent} arrived"
    );
    Ok(Truesize { bytes: u64::from(held) / datagrams, source: format!("measured over {link}") })
}

fn memory(socket: &Socket) -> Result<Memory> {
    socket.memory().context("read a socket's memory (needs Linux 4.12)")
}

/// A machine that stands still so often is so.
const TRIES: u32 = 3;

/// For how long sender and receiver may be held up, nanoseconds; a fifth of the stall, where that is more: the buffer has a
/// third to spare.
const TOLERATED: u64 = 10_000_000;

/// Datagrams to weigh.
const SAMPLES: u64 = 8;

const ROOM: usize = 4 << 20;

/// Nanoseconds.
const PATIENCE: u64 = 2_000_000_000;
const SETTLE: u64 = 2_000_000;

#[cfg(test)]
mod tests;
