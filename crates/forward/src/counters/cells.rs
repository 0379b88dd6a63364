//! The cells that a worker writes: a counter for each term of the account.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::drops::{Drops, Reason};
use crate::ledger::{Count, DestinationCount, ListenerCount, ReplyCount, RuleCount};

/// One number with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// What a worker counts of a listener.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ListenerCell {
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

/// What a worker counts of a rule.
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

/// What a worker counts of an outlet: copies = sent + drops + queued.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct OutletCell {
    /// Copies asked for.
    pub copies: Counter,
    /// Their payload bytes.
    pub copies_bytes: Counter,
    /// Datagrams that the kernel took.
    pub sent: Counter,
    /// Their payload bytes.
    pub sent_bytes: Counter,
    /// Datagrams that the kernel took while the next hop was not known to answer.
    pub sent_unresolved: Counter,
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
    /// Copies that were not sent.
    pub drops: DropCounters,
    /// Its answers.
    pub replies: ReplyCell,
}

/// What is counted of a destination's answers: received = returned + dropped.
#[derive(Debug, Default)]
pub struct ReplyCell {
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

impl ListenerCell {
    pub(super) fn copy(&self) -> ListenerCount {
        ListenerCount {
            received: Count { datagrams: self.received.get(), bytes: self.received_bytes.get() },
            matched: self.matched.get(),
            unmatched: self.unmatched.get(),
            truncated: self.truncated.get(),
            kernel_drops: Some(self.kernel_drops.get()),
            ..ListenerCount::default()
        }
    }
}

impl RuleCell {
    pub(super) fn copy(&self) -> RuleCount {
        RuleCount {
            matched: Count { datagrams: self.matched.get(), bytes: self.matched_bytes.get() },
            discarded: self.discarded.get(),
            copies: self.copies.get(),
            ..RuleCount::default()
        }
    }
}

impl OutletCell {
    pub(super) fn copy(&self) -> DestinationCount {
        DestinationCount {
            copies: Count { datagrams: self.copies.get(), bytes: self.copies_bytes.get() },
            sent: Count { datagrams: self.sent.get(), bytes: self.sent_bytes.get() },
            sent_unresolved: self.sent_unresolved.get(),
            queued: self.queued.get(),
            queued_bytes: self.queued_bytes.get(),
            drops: self.drops.copy(),
            calls: self.calls.get(),
            joined: self.joined.get(),
            icmp_errors: self.icmp_errors.get(),
            icmp_unproven: self.icmp_unproven.get(),
            replies: Some(self.replies.copy()).filter(|replies| *replies != ReplyCount::default()),
            ..DestinationCount::default()
        }
    }
}

impl ReplyCell {
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
