//! Communication between the two ends of an experiment outside the network.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};
use weir_program::clock::{Nanos, nanos};

/// Shared by one [`Sender`](super::Sender), one [`Receiver`](super::Receiver) and any observers.
///
/// The sender opens the window with its first send and closes it with the number sent; the receiver then ends as soon
/// as everything has arrived, or when the drain is over. Without a sender in this process the window stays unknown.
#[derive(Debug)]
pub struct Exchange {
    drain: Duration,
    window: OnceLock<Window>,
    closed: OnceLock<Closed>,
    sent: AtomicU64,
    delivered: AtomicU64,
    event: EventFd,
}

/// The time of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first send call.
    pub start: Nanos,
    /// Planned end. A message received before it counts as received within the window.
    pub end: Nanos,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    pub(super) sent: u64,
    pub(super) drained: Nanos,
}

impl Exchange {
    /// An exchange whose receiver waits at most `drain` once the window is closed. Fails if the process has no file
    /// descriptor left.
    pub fn new(drain: Duration) -> io::Result<Self> {
        Ok(Self {
            drain,
            window: OnceLock::new(),
            closed: OnceLock::new(),
            sent: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            event: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
        })
    }

    /// The window, once the first message was sent.
    pub fn window(&self) -> Option<Window> {
        self.window.get().copied()
    }

    /// Messages handed to the kernel so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Messages received so far, duplicates not counted.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// The number of sent messages, once sending has ended.
    pub fn closed(&self) -> Option<u64> {
        self.closed.get().map(|closed| closed.sent)
    }

    /// Records that sending ended at the time `at`, after `sent` messages. [`Sender::run`](super::Sender::run) always
    /// does it; call it if there is no sender after all, so that the receiver ends. Only the first call counts.
    pub fn close(&self, sent: u64, at: Nanos) {
        let _ = self.closed.set(Closed { sent, drained: at.saturating_add(nanos(self.drain)) });
        // Readable from now on; it is never read.
        let _ = self.event.write(1);
    }

    pub(super) fn open(&self, window: Window) {
        let _ = self.window.set(window);
    }

    pub(super) fn ending(&self) -> Option<Closed> {
        self.closed.get().copied()
    }

    pub(super) fn set_sent(&self, sent: u64) {
        self.sent.store(sent, Ordering::Relaxed);
    }

    /// Records the number of received messages. [`Receiver::run`](super::Receiver::run) does it; other receivers may.
    pub fn set_delivered(&self, delivered: u64) {
        self.delivered.store(delivered, Ordering::Relaxed);
    }
}

/// Readable once the window is closed.
impl AsFd for Exchange {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
