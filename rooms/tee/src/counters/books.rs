//! The books of one listener, rule or address of a destination: its cells, copied and summed up.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use super::cells::{AskedTerms, CarriedTerms, Cell, ListenerTerms, RuleCell};
use crate::ledger::{Count, DestinationCount, ListenerCount, RuleCount};

/// The counts of a listener.
#[derive(Debug)]
pub struct ListenerBook {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: SocketAddr,
    pub(super) cells: Box<[Cell<ListenerTerms>]>,
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
    pub(super) asked: Box<[Cell<AskedTerms>]>,
    pub(super) carried: Box<[Cell<CarriedTerms>]>,
}

impl ListenerBook {
    /// The cell of a worker.
    pub fn cell(&self, worker: usize) -> &Cell<ListenerTerms> {
        &self.cells[worker]
    }

    /// The sum over all workers.
    pub(super) fn sum(&self) -> ListenerCount {
        let mut sum = ListenerCount {
            name: self.name.clone(),
            address: self.address.to_string(),
            kernel_drops: Some(0),
            ..ListenerCount::default()
        };
        (0..self.cells.len()).for_each(|worker| sum.absorb(&self.copy(worker)));
        sum
    }

    /// What a worker has counted.
    pub fn copy(&self, worker: usize) -> ListenerCount {
        let copy = |terms: &ListenerTerms| ListenerCount {
            received: Count { datagrams: terms.received.get(), bytes: terms.received_bytes.get() },
            matched: terms.matched.get(),
            unmatched: terms.unmatched.get(),
            truncated: terms.truncated.get(),
            kernel_drops: Some(terms.kernel_drops.get()),
            ..ListenerCount::default()
        };
        let nothing = ListenerCount { kernel_drops: Some(0), ..ListenerCount::default() };
        self.cells[worker].read(copy).unwrap_or(nothing)
    }

    /// Whether anything was counted.
    pub(super) fn is_blank(&self) -> bool {
        let sum = self.sum();
        sum.received.datagrams == 0 && sum.kernel_drops == Some(0)
    }
}

impl RuleBook {
    /// The cell of a worker.
    pub fn cell(&self, worker: usize) -> &RuleCell {
        &self.cells[worker]
    }

    /// The sum over all workers.
    pub(super) fn sum(&self) -> RuleCount {
        let mut sum = RuleCount { name: self.name.clone(), ..RuleCount::default() };
        for cell in &self.cells {
            sum.matched += Count { datagrams: cell.matched.get(), bytes: cell.matched_bytes.get() };
            sum.discarded += cell.discarded.get();
            sum.copies += cell.copies.get();
        }
        sum
    }

    /// Whether anything was counted.
    pub(super) fn is_blank(&self) -> bool {
        self.sum().matched.datagrams == 0
    }
}

impl OutletBook {
    /// What this worker counts when it receives.
    pub fn asked(&self, worker: usize) -> &Cell<AskedTerms> {
        &self.asked[worker]
    }

    /// What the holder of this worker's lane counts.
    pub fn carried(&self, worker: usize) -> &Cell<CarriedTerms> {
        &self.carried[worker]
    }

    /// The sum over all workers. What the holder of a lane has taken is read before what it was given, so that nothing is
    /// on the way less than zero times; what is on the way is queued. Where it took more meanwhile, both are read again,
    /// for a while: else that would seem to be on the way, too.
    pub(super) fn sum(&self) -> DestinationCount {
        let mut sum =
            DestinationCount { name: self.name.clone(), address: self.address, ..DestinationCount::default() };
        for (asked, carried) in self.asked.iter().zip(&self.carried) {
            let look = || {
                let before = carried.version();
                let (carried_count, taken) = carried.read(CarriedTerms::copy).unwrap_or_default();
                let (asked_count, given) = asked.read(AskedTerms::copy).unwrap_or_default();
                (carried.version() == before, [carried_count, asked_count], given.wrapping_sub(taken))
            };
            let mut looks = (0..LOOKS).map(|_| look());
            let (_, counts, on_the_way) = looks.find(|(is_one_moment, ..)| *is_one_moment).unwrap_or_else(look);
            counts.iter().for_each(|count| sum.absorb(count));
            sum.queued = sum.queued.wrapping_add(on_the_way);
        }
        sum
    }

    /// Whether anything was counted.
    pub(super) fn is_blank(&self) -> bool {
        let sum = self.sum();
        sum.copies.datagrams == 0 && sum.icmp_errors == 0
    }
}

/// Looks at a lane that is busy, for one in which nothing changes.
const LOOKS: u32 = 16;
