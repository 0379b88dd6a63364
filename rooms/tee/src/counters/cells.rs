//! The cells that a worker writes: a counter for each term of the account.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::drops::{Drops, Reason};
use crate::ledger::{Count, DestinationCount};

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
    /// SendProgress by at least one rule.
    pub matched: Counter,
    /// SendProgress by no rule.
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

/// What the receiving worker counts of an outlet.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct AskedCell {
    /// Copies asked for.
    pub copies: Counter,
    /// Their payload bytes.
    pub copies_bytes: Counter,
    /// Copies given to another worker to be sent.
    pub lent: Counter,
    /// Copies dropped before they came near the socket.
    pub drops: DropCounters,
}

/// What the worker that holds a lane counts of its outlet. It has one holder at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CarriedCell {
    /// Who counts here. The lower 16 bits: 0 is the worker whose lane it is, else the worker of this number, the first
    /// being 1. The others count the changes.
    pub(super) hold: AtomicU64,
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
    /// Copies dropped at the socket.
    pub drops: DropCounters,
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

impl AskedCell {
    pub(super) fn copy(&self) -> (DestinationCount, u64) {
        let count = DestinationCount {
            copies: Count { datagrams: self.copies.get(), bytes: self.copies_bytes.get() },
            drops: self.drops.copy(),
            ..DestinationCount::default()
        };
        (count, self.lent.get())
    }
}

impl CarriedCell {
    /// Says that another worker counts here from now on; `None`: the lane's own. Only who gives or takes it may call
    /// this.
    pub fn hold(&self, worker: Option<usize>) {
        // The upper bits count: a lane that went there and back again is another hold.
        let turns = self.hold.load(Ordering::Relaxed) >> 16;
        let worker = worker.map_or(0, |worker| worker as u64 + 1);
        self.hold.store((turns + 1) << 16 | worker, Ordering::Release);
    }

    pub(super) fn holder(&self) -> Option<usize> {
        holder_of(self.hold.load(Ordering::Acquire))
    }

    pub(super) fn copy(&self) -> (DestinationCount, u64) {
        let count = DestinationCount {
            sent: Count { datagrams: self.sent.get(), bytes: self.sent_bytes.get() },
            queued: self.queued.get(),
            queued_bytes: self.queued_bytes.get(),
            drops: self.drops.copy(),
            calls: self.calls.get(),
            joined: self.joined.get(),
            icmp_errors: self.icmp_errors.get(),
            ..DestinationCount::default()
        };
        (count, self.taken.get())
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

/// Who holds a lane, by the number in its cell.
pub(super) fn holder_of(hold: u64) -> Option<usize> {
    (hold as u16).checked_sub(1).map(usize::from)
}
