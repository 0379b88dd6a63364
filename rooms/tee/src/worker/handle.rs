//! The handle of a worker: how others reach it, and what workers know of one another.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nix::sys::eventfd::EventFd;

use super::command::Command;

/// A worker as the others, and the program, see it.
#[derive(Debug)]
pub(super) struct Handle {
    commands: mpsc::Sender<Command>,
    wake: Arc<EventFd>,
    /// Whether it sleeps, or is about to: whoever sends a command must wake it.
    parked: AtomicBool,
    /// Whether it waits for one of its batches.
    wants_batch: AtomicBool,
    /// What it is in the sharing of lanes; see [`Role`].
    role: AtomicUsize,
    /// Time that it did not sleep, ns.
    busy: AtomicU64,
    /// Of that, for lanes of others.
    helping: AtomicU64,
}

/// What a worker is in the sharing of lanes. Nobody is both, so that nobody ever waits for one who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Nothing.
    Free,
    /// It lends lanes.
    Lender,
    /// It holds lanes of this worker.
    Holder(usize),
}

/// How busy a worker was since it was started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Effort {
    /// Time that it did not sleep.
    pub(super) busy: Duration,
    /// Of that, for lanes of others.
    pub(super) helping: Duration,
}

impl Handle {
    pub(super) fn new(commands: mpsc::Sender<Command>, wake: Arc<EventFd>) -> Self {
        Self {
            commands,
            wake,
            parked: AtomicBool::new(false),
            wants_batch: AtomicBool::new(false),
            role: AtomicUsize::new(0),
            busy: AtomicU64::new(0),
            helping: AtomicU64::new(0),
        }
    }

    /// Sends a command; `false`: the worker has ended.
    pub(super) fn send(&self, command: Command) -> bool {
        let sent = self.commands.send(command).is_ok();
        // Pairs with `park`: either we see that it sleeps, or it sees the command.
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) {
            // The counter of an eventfd is full only when there are 2^64 - 2 wake-ups to see.
            let _ = self.wake.write(1);
        }
        sent
    }

    /// Sends a command that is answered. A worker that has ended answers nobody.
    pub(super) fn ask<T>(&self, command: impl FnOnce(mpsc::Sender<T>) -> Command) -> mpsc::Receiver<T> {
        let (reply, answer) = mpsc::channel();
        self.send(command(reply));
        answer
    }

    /// Says that the worker is about to sleep. It must look for commands once more before it does.
    pub(super) fn park(&self) {
        self.parked.store(true, Ordering::Relaxed);
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// Says that it is awake, and looks for commands before it sleeps again.
    pub(super) fn unpark(&self) {
        self.parked.store(false, Ordering::Relaxed);
    }

    /// Says that the worker waits for a batch, or no longer. It must look for one once more before it waits.
    pub(super) fn request_batch(&self, wants: bool) {
        self.wants_batch.store(wants, Ordering::Relaxed);
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// Tells the worker, if it waits for that, that a batch of its has been let go.
    pub(super) fn batch_released(&self) {
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.wants_batch.load(Ordering::Relaxed) {
            self.send(Command::Released);
        }
    }

    pub(super) fn role(&self) -> Role {
        Role::from(self.role.load(Ordering::Acquire))
    }

    /// Changes the role from one to another; `false`: it was not `from`.
    pub(super) fn change(&self, from: Role, to: Role) -> bool {
        self.role.compare_exchange(from.into(), to.into(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(super) fn effort(&self) -> Effort {
        let of = |counter: &AtomicU64| Duration::from_nanos(counter.load(Ordering::Relaxed));
        Effort { busy: of(&self.busy), helping: of(&self.helping) }
    }

    /// Adds time; called by the worker alone.
    pub(super) fn add(&self, busy: Duration, helping: Duration) {
        let add = |counter: &AtomicU64, time: Duration| {
            counter.store(counter.load(Ordering::Relaxed) + time.as_nanos() as u64, Ordering::Relaxed);
        };
        add(&self.busy, busy);
        add(&self.helping, helping);
    }
}

impl From<Role> for usize {
    fn from(role: Role) -> Self {
        match role {
            Role::Free => 0,
            Role::Lender => 1,
            Role::Holder(lender) => 2 + lender,
        }
    }
}

impl From<usize> for Role {
    fn from(number: usize) -> Self {
        match number {
            0 => Self::Free,
            1 => Self::Lender,
            lender => Self::Holder(lender - 2),
        }
    }
}
