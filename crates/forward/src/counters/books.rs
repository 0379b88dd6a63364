//! The books of one listener, rule or address of a destination: a cell for each worker.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use super::cells::{ListenerCell, OutletCell, RuleCell};
use crate::ledger::{DestinationCount, ListenerCount, Place, RuleCount};

/// The counts of a listener.
#[derive(Debug)]
pub struct ListenerBook {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: SocketAddr,
    /// What tells it from others since the start.
    pub number: u32,
    pub(super) cells: Box<[ListenerCell]>,
}

/// The counts of a rule.
#[derive(Debug)]
pub struct RuleBook {
    /// Its name.
    pub name: String,
    pub(super) cells: Box<[RuleCell]>,
}

/// The counts of one address of a destination.
#[derive(Debug)]
pub struct OutletBook {
    /// The destination's name.
    pub name: String,
    /// The address; `None`: the name did not resolve.
    pub address: Option<SocketAddr>,
    /// Whether it was noted that the address is a source, too.
    pub(super) returns: AtomicBool,
    pub(super) cells: Box<[OutletCell]>,
}

/// What the ledger makes of a book.
pub(super) trait Book {
    type Count: Clone;

    /// Nothing, under its name.
    fn blank(&self) -> Self::Count;

    /// What a worker has counted, without the name.
    fn copy(&self, worker: usize) -> Self::Count;

    fn absorb(sum: &mut Self::Count, count: &Self::Count);

    /// Gives it the name of all that was removed.
    fn rename(count: &mut Self::Count, name: &str);

    /// Whether anything was counted.
    fn is_blank(count: &Self::Count) -> bool;
}

impl ListenerBook {
    /// The cell of a worker.
    pub fn cell(&self, worker: usize) -> &ListenerCell {
        &self.cells[worker]
    }

    /// What a worker has counted.
    pub fn copy(&self, worker: usize) -> ListenerCount {
        self.cells[worker].copy()
    }
}

impl RuleBook {
    /// The cell of a worker.
    pub fn cell(&self, worker: usize) -> &RuleCell {
        &self.cells[worker]
    }
}

impl OutletBook {
    /// The cell of a worker.
    pub fn cell(&self, worker: usize) -> &OutletCell {
        &self.cells[worker]
    }
}

impl Book for ListenerBook {
    type Count = ListenerCount;

    fn blank(&self) -> ListenerCount {
        let (name, address) = (self.name.clone(), self.address.to_string());
        ListenerCount { name, address, kernel_drops: Some(0), ..ListenerCount::default() }
    }

    fn copy(&self, worker: usize) -> ListenerCount {
        self.cells[worker].copy()
    }

    fn absorb(sum: &mut ListenerCount, count: &ListenerCount) {
        sum.absorb(count);
    }

    fn rename(count: &mut ListenerCount, name: &str) {
        (count.name, count.address) = (name.to_owned(), String::new());
    }

    fn is_blank(count: &ListenerCount) -> bool {
        count.received.datagrams == 0 && count.kernel_drops == Some(0)
    }
}

impl Book for RuleBook {
    type Count = RuleCount;

    fn blank(&self) -> RuleCount {
        RuleCount { name: self.name.clone(), ..RuleCount::default() }
    }

    fn copy(&self, worker: usize) -> RuleCount {
        self.cells[worker].copy()
    }

    fn absorb(sum: &mut RuleCount, count: &RuleCount) {
        sum.absorb(count);
    }

    fn rename(count: &mut RuleCount, name: &str) {
        name.clone_into(&mut count.name);
    }

    fn is_blank(count: &RuleCount) -> bool {
        count.matched.datagrams == 0
    }
}

impl Book for OutletBook {
    type Count = DestinationCount;

    fn blank(&self) -> DestinationCount {
        DestinationCount { name: self.name.clone(), address: Place(self.address), ..DestinationCount::default() }
    }

    fn copy(&self, worker: usize) -> DestinationCount {
        self.cells[worker].copy()
    }

    fn absorb(sum: &mut DestinationCount, count: &DestinationCount) {
        sum.absorb(count);
    }

    fn rename(count: &mut DestinationCount, name: &str) {
        (count.name, count.address) = (name.to_owned(), Place(None));
    }

    fn is_blank(count: &DestinationCount) -> bool {
        count.copies.datagrams == 0 && count.icmp_errors == 0
    }
}
