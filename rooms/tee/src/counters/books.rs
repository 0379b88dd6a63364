//! The books of one listener, rule or address of a destination: its cells, copied and summed up.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use super::cells::{AskedCell, CarriedCell, ListenerCell, RuleCell, holder_of};
use crate::ledger::{Count, DestinationCount, ListenerCount, RuleCount};

/// The counts of a listener.
#[derive(Debug)]
pub struct ListenerBook {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: SocketAddr,
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
    pub(super) asked: Box<[AskedCell]>,
    pub(super) carried: Box<[CarriedCell]>,
}

impl ListenerBook {
    /// The cell of a worker.
    pub fn cell(&self, worker: usize) -> &ListenerCell {
        &self.cells[worker]
    }

    /// The sum, once nobody counts any more.
    pub(super) fn total(&self, workers: usize) -> ListenerCount {
        self.sum(&(0..workers).map(|worker| self.copy(worker)).collect::<Vec<_>>())
    }

    pub(super) fn sum(&self, counts: &[ListenerCount]) -> ListenerCount {
        let mut sum = ListenerCount {
            name: self.name.clone(),
            address: self.address.to_string(),
            kernel_drops: Some(0),
            ..ListenerCount::default()
        };
        counts.iter().for_each(|count| sum.absorb(count));
        sum
    }

    /// What a worker has counted.
    pub fn copy(&self, worker: usize) -> ListenerCount {
        let cell = &self.cells[worker];
        ListenerCount {
            received: Count { datagrams: cell.received.get(), bytes: cell.received_bytes.get() },
            matched: cell.matched.get(),
            unmatched: cell.unmatched.get(),
            truncated: cell.truncated.get(),
            kernel_drops: Some(cell.kernel_drops.get()),
            ..ListenerCount::default()
        }
    }
}

impl RuleBook {
    /// The cell of a worker.
    pub fn cell(&self, worker: usize) -> &RuleCell {
        &self.cells[worker]
    }

    /// The sum, once nobody counts any more.
    pub(super) fn total(&self, workers: usize) -> RuleCount {
        self.sum(&(0..workers).map(|worker| self.copy(worker)).collect::<Vec<_>>())
    }

    pub(super) fn sum(&self, counts: &[RuleCount]) -> RuleCount {
        let mut sum = RuleCount { name: self.name.clone(), ..RuleCount::default() };
        counts.iter().for_each(|count| sum.absorb(count));
        sum
    }

    pub(super) fn copy(&self, worker: usize) -> RuleCount {
        let cell = &self.cells[worker];
        RuleCount {
            name: String::new(),
            matched: Count { datagrams: cell.matched.get(), bytes: cell.matched_bytes.get() },
            discarded: cell.discarded.get(),
            copies: cell.copies.get(),
        }
    }
}

impl OutletBook {
    /// What this worker counts when it receives.
    pub fn asked(&self, worker: usize) -> &AskedCell {
        &self.asked[worker]
    }

    /// What the holder of this worker's lane counts.
    pub fn carried(&self, worker: usize) -> &CarriedCell {
        &self.carried[worker]
    }

    pub(super) fn empty(&self) -> DestinationCount {
        DestinationCount { name: self.name.clone(), address: self.address, ..DestinationCount::default() }
    }

    /// What a worker counts of its own lane; the far part only if it holds that itself.
    pub(super) fn copy_own(&self, worker: usize) -> OwnCopy {
        let carried = &self.carried[worker];
        let hold = carried.hold.load(Ordering::Acquire);
        OwnCopy { asked: self.asked[worker].copy(), carried: carried.copy(), hold }
    }

    /// What a worker counts of the lanes that it holds for others, and whose they are.
    pub(super) fn copy_held(&self, worker: usize) -> Vec<HeldCopy> {
        let others = self.carried.iter().enumerate().filter(|(_, cell)| cell.holder() == Some(worker));
        others
            .map(|(owner, cell)| {
                let hold = cell.hold.load(Ordering::Acquire);
                HeldCopy { owner, carried: cell.copy(), hold }
            })
            .collect()
    }

    /// The sum, once nobody counts any more.
    pub(super) fn total(&self, workers: usize) -> DestinationCount {
        let own: Vec<_> = (0..workers).map(|worker| self.copy_own(worker)).collect();
        self.sum(&own, &[]).unwrap_or_else(|| self.empty())
    }

    /// The sum; `None`: a lane has changed hands between the copies.
    pub(super) fn sum(&self, own: &[OwnCopy], held: &[Vec<HeldCopy>]) -> Option<DestinationCount> {
        let mut sum = self.empty();
        let mut on_the_way = 0_u64;
        for (worker, own) in own.iter().enumerate() {
            let (carried, taken) = if holder_of(own.hold).is_none() {
                &own.carried
            } else {
                let is_this = |held: &&HeldCopy| held.owner == worker && held.hold == own.hold;
                &held.iter().flatten().find(is_this)?.carried
            };
            sum.absorb(&own.asked.0);
            sum.absorb(carried);
            on_the_way = on_the_way.wrapping_add(own.asked.1).wrapping_sub(*taken);
        }
        sum.queued = sum.queued.wrapping_add(on_the_way);
        Some(sum)
    }
}

/// What a worker counted of its own lane to an outlet: what was asked and how many were lent, what was carried and how
/// many were taken over.
pub(super) struct OwnCopy {
    asked: (DestinationCount, u64),
    carried: (DestinationCount, u64),
    hold: u64,
}

/// What a worker counted of another's lane.
pub(super) struct HeldCopy {
    owner: usize,
    carried: (DestinationCount, u64),
    hold: u64,
}
