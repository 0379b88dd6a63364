//! What workers count, and its sum by value.
//!
//! Every worker has cells of its own, so that a count is a load and a store on a line that nobody else writes. Each term
//! of the account has a counter of its own; none is computed from the others. A worker marks the stretches in which its
//! cells disagree (a batch is taken but not yet sent); a reader takes its copy between them, so that an account closes
//! at any moment, not only at the end.

mod books;
mod cells;
mod entries;
mod phase;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub(crate) use books::{ListenerBook, OutletBook, RuleBook};
pub(crate) use cells::CarriedCell;
pub use cells::Counter;
pub(crate) use phase::{Phase, PhaseMark};

use crate::ledger::{DestinationCount, Ledger};
use entries::{Entries, find};
use phase::PATIENCE;

/// All counts since the start, also of things that a reload removed.
#[derive(Debug)]
pub struct Books {
    start: Instant,
    phases: Box<[Arc<Phase>]>,
    entries: Mutex<Entries>,
}

impl Books {
    /// Empty books for so many workers.
    pub fn new(workers: usize) -> Self {
        Self { start: Instant::now(), phases: cells(workers), entries: Mutex::default() }
    }

    /// How many workers write.
    pub fn workers(&self) -> usize {
        self.phases.len()
    }

    /// The mark of one worker.
    pub fn phase(&self, worker: usize) -> Arc<Phase> {
        Arc::clone(&self.phases[worker])
    }

    /// The book of a listener: the one there is, or a new one.
    pub fn listener(&self, name: &str, address: SocketAddr) -> Arc<ListenerBook> {
        find(
            &mut self.entries().listeners,
            |book| book.name == name && book.address == address,
            || ListenerBook { name: name.to_owned(), address, cells: cells(self.workers()) },
        )
    }

    /// The book of a rule.
    pub fn rule(&self, name: &str) -> Arc<RuleBook> {
        let make = || RuleBook { name: name.to_owned(), cells: cells(self.workers()) };
        find(&mut self.entries().rules, |book| book.name == name, make)
    }

    /// The book of a destination's address.
    pub fn outlet(&self, name: &str, address: Option<SocketAddr>) -> Arc<OutletBook> {
        find(
            &mut self.entries().outlets,
            |book| book.name == name && book.address == address,
            || OutletBook {
                name: name.to_owned(),
                address,
                asked: cells(self.workers()),
                carried: cells(self.workers()),
            },
        )
    }

    /// The account now. What only sockets and health know (buffers, `healthy`, `not_joined`, drops at open sockets) is
    /// left at its default.
    pub fn ledger(&self) -> Ledger {
        let mut entries = self.entries();
        entries.forget(self);
        let mut ledger = entries.forgotten.clone();
        let listeners = self.each(&entries.listeners, |book, worker| book.copy(worker));
        let rules = self.each(&entries.rules, |book, worker| book.copy(worker));
        ledger.listeners.extend(entries.listeners.iter().zip(listeners).map(|(book, counts)| book.sum(&counts)));
        ledger.rules.extend(entries.rules.iter().zip(rules).map(|(book, counts)| book.sum(&counts)));
        ledger.destinations.extend(self.destinations(&entries.outlets));
        ledger.elapsed_s = self.start.elapsed().as_secs_f64();
        ledger.close();
        ledger
    }

    /// Copies of books, by worker, each taken while that worker's cells agreed.
    fn each<B, T>(&self, books: &[Arc<B>], copy: fn(&B, usize) -> T) -> Vec<Vec<T>>
    where
        B: Send + Sync + 'static,
        T: Send + 'static,
    {
        let books: Arc<[Arc<B>]> = books.into();
        let mut copies: Vec<Vec<T>> = books.iter().map(|_| Vec::new()).collect();
        for (worker, phase) in self.phases.iter().enumerate() {
            let books = Arc::clone(&books);
            let all = phase.between(move || books.iter().map(|book| copy(book, worker)).collect::<Vec<T>>());
            copies.iter_mut().zip(all).for_each(|(copies, copy)| copies.push(copy));
        }
        copies
    }

    /// The sums of outlets. What one worker lends another has two writers: what the holder has taken is read before what
    /// was lent, so that nothing is on the way less than zero times, and anew if it has changed hands in between.
    fn destinations(&self, books: &[Arc<OutletBook>]) -> Vec<DestinationCount> {
        let start = Instant::now();
        loop {
            let lent = books.iter().any(|book| book.carried.iter().any(|cell| cell.holder().is_some()));
            let held = if lent { self.each(books, OutletBook::copy_held) } else { Vec::new() };
            let own = self.each(books, OutletBook::copy_own);
            let sums: Vec<_> = books
                .iter()
                .zip(&own)
                .enumerate()
                .map(|(at, (book, own))| book.sum(own, held.get(at).map_or(&[][..], Vec::as_slice)))
                .collect();
            if sums.iter().all(Option::is_some) || start.elapsed() > PATIENCE {
                let named = |(book, sum): (&Arc<OutletBook>, Option<_>)| sum.unwrap_or_else(|| book.empty());
                return books.iter().zip(sums).map(named).collect();
            }
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cells<T: Default>(workers: usize) -> Box<[T]> {
    (0..workers).map(|_| T::default()).collect()
}

#[cfg(test)]
mod tests;
