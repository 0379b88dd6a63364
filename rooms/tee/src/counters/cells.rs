//! The cells that a worker writes: a counter for each term of the account.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use crate::drops::{Drops, Reason};
use crate::ledger::{Count, DestinationCount, ReplyCount};

/// One number with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// Terms of an account with one writer, which agree whenever it is not within [`change`](Self::change): a sequence lock
/// without a lock. A reader waits for the few nanoseconds of a change, and the writer for nobody.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Cell<T> {
    /// Odd: a change is being made. 0: there has been none.
    version: AtomicU64,
    terms: T,
}

/// What a worker counts of a listener.
#[derive(Debug, Default)]
pub struct ListenerTerms {
    /// Datagrams taken from the socket.
    pub received: Counter,
    /// Their payload bytes.
    pub received_bytes: Counter,
    /// Taken by at least one rule.
    pub matched: Counter,
    /// Taken by no rule.
    pub unmatched: Counter,
    /// Longer than the buffer.
    pub truncated: Counter,
    /// Dropped by the kernel at sockets that are closed by now.
    pub kernel_drops: Counter,
}

/// What a worker counts of a rule. No sum is made of it: there is nothing to agree.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct RuleCell {
    /// Datagrams that it took.
    pub matched: Counter,
    /// Their payload bytes.
    pub matched_bytes: Counter,
    /// Of them, those that it led nowhere.
    pub discarded: Counter,
    /// Copies that it asked for and no rule before it.
    pub copies: Counter,
}

/// What the receiving worker counts of an outlet: copies = drops + given.
#[derive(Debug, Default)]
pub struct AskedTerms {
    /// Copies asked for.
    pub copies: Counter,
    /// Their payload bytes.
    pub copies_bytes: Counter,
    /// Copies given to whoever holds the lane, mostly the same worker, to be sent.
    pub given: Counter,
    /// Copies dropped before they came near the socket.
    pub drops: DropCounters,
}

/// What the worker that holds a lane counts of its outlet: taken = sent + drops + queued. It has one holder at a time.
#[derive(Debug, Default)]
pub struct CarriedTerms {
    /// Copies taken over from the worker that received them.
    pub taken: Counter,
    /// Datagrams that the kernel took.
    pub sent: Counter,
    /// Their payload bytes.
    pub sent_bytes: Counter,
    /// Datagrams that wait.
    pub queued: Counter,
    /// Bytes of memory that they take.
    pub queued_bytes: Counter,
    /// System calls that sent.
    pub calls: Counter,
    /// Datagrams that left in joined sends.
    pub joined: Counter,
    /// ICMP errors that came back.
    pub icmp_errors: Counter,
    /// Of them, those that quote nothing that was sent.
    pub icmp_unproven: Counter,
    /// Copies dropped at the socket.
    pub drops: DropCounters,
    /// Its answers.
    pub replies: ReplyTerms,
}

/// What is counted of a destination's answers: received = returned + dropped.
#[derive(Debug, Default)]
pub struct ReplyTerms {
    /// Answers that came.
    pub received: Counter,
    /// Their payload bytes.
    pub received_bytes: Counter,
    /// Handed to the kernel for the client.
    pub returned: Counter,
    /// Their payload bytes.
    pub returned_bytes: Counter,
    /// Not taken by the kernel, or their listener is gone.
    pub dropped: Counter,
    /// Sessions now.
    pub sessions: Counter,
    /// Opened.
    pub opened: Counter,
    /// Closed since they were silent for too long.
    pub aged: Counter,
    /// Closed to make room for others.
    pub evicted: Counter,
    /// That could not be opened.
    pub failed: Counter,
}

/// One counter a reason.
#[derive(Debug, Default)]
pub struct DropCounters([Counter; Reason::ALL.len()]);

impl Counter {
    /// Adds. Only the one writer may call this.
    pub fn add(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }

    /// Takes away, from a count of what is there now. Only the one writer may call this.
    pub fn sub(&self, n: u64) {
        self.0.store(self.get().wrapping_sub(n), Ordering::Relaxed);
    }

    /// Says how much there is now. Only the one writer may call this.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl<T> Cell<T> {
    /// Makes a change after which the terms agree again. Only the one writer may call this.
    pub fn change<R>(&self, change: impl FnOnce(&T) -> R) -> R {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        let result = change(&self.terms);
        self.version.store(version.wrapping_add(2), Ordering::Release);
        result
    }

    /// Another number after each change.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// What `read` makes of the terms when they agree; `None`: nothing was ever counted.
    pub(super) fn read<R>(&self, read: impl Fn(&T) -> R) -> Option<R> {
        let mut looks = 0;
        let mut start = None;
        loop {
            let before = self.version.load(Ordering::Acquire);
            if before == 0 {
                return None;
            }
            // A writer that has ended in the middle is not waited for.
            let stuck = start.is_some_and(|start: Instant| start.elapsed() > PATIENCE);
            if before.is_multiple_of(2) || stuck {
                let value = read(&self.terms);
                fence(Ordering::Acquire);
                if self.version.load(Ordering::Relaxed) == before || stuck {
                    return Some(value);
                }
            }
            looks += 1;
            if looks > LOOKS {
                // It was made to wait in the middle.
                start.get_or_insert_with(Instant::now);
                thread::yield_now();
            }
        }
    }
}

/// For the writer, which knows its own counts. A count by itself needs no agreement.
impl<T> Deref for Cell<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.terms
    }
}

impl AskedTerms {
    /// What was asked for, and how many were given.
    pub(super) fn copy(&self) -> (DestinationCount, u64) {
        let count = DestinationCount {
            copies: Count { datagrams: self.copies.get(), bytes: self.copies_bytes.get() },
            drops: self.drops.copy(),
            ..DestinationCount::default()
        };
        (count, self.given.get())
    }
}

impl CarriedTerms {
    /// What was carried, and how many were taken.
    pub(super) fn copy(&self) -> (DestinationCount, u64) {
        let count = DestinationCount {
            sent: Count { datagrams: self.sent.get(), bytes: self.sent_bytes.get() },
            queued: self.queued.get(),
            queued_bytes: self.queued_bytes.get(),
            drops: self.drops.copy(),
            calls: self.calls.get(),
            joined: self.joined.get(),
            icmp_errors: self.icmp_errors.get(),
            icmp_unproven: self.icmp_unproven.get(),
            replies: self.replies.copy(),
            ..DestinationCount::default()
        };
        (count, self.taken.get())
    }
}

impl ReplyTerms {
    fn copy(&self) -> ReplyCount {
        ReplyCount {
            received: Count { datagrams: self.received.get(), bytes: self.received_bytes.get() },
            returned: Count { datagrams: self.returned.get(), bytes: self.returned_bytes.get() },
            dropped: self.dropped.get(),
            sessions: self.sessions.get(),
            opened: self.opened.get(),
            aged: self.aged.get(),
            evicted: self.evicted.get(),
            failed: self.failed.get(),
            unexplained: 0,
        }
    }
}

impl DropCounters {
    /// Counts so many datagrams dropped for this reason.
    pub fn add(&self, reason: Reason, datagrams: u64) {
        self.0[reason as usize].add(datagrams);
    }

    fn copy(&self) -> Drops {
        Drops::count(|reason| self.0[reason as usize].get())
    }
}

/// Looks at a cell before its writer is thought to have been interrupted.
const LOOKS: u32 = 100;

/// Longest wait for a writer.
const PATIENCE: Duration = Duration::from_secs(1);
