//! What workers count, and its sum by value.
//!
//! Every worker has cells of its own, so that a count is a load and a store on a line that nobody else writes. Each term
//! of the account has a counter of its own; none is computed from the others. A worker's cells agree between its turns
//! ([`Turns`]): they are copied then, so that an account closes at any moment, not only at the end.

mod books;
mod cells;
mod entries;
mod turns;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub(crate) use books::{ListenerBook, OutletBook, RuleBook};
pub use cells::Counter;
pub(crate) use cells::{ListenerCell, OutletCell};
#[cfg(test)]
pub(crate) use entries::REMOVED;
pub use turns::{TurnMark, Turns};

use crate::ledger::{DestinationCount, Ledger, ListenerCount, RuleCount};
use books::Book;
use entries::{Listeners, Outlets, Rules};

/// All counts since the start, also of things that a reload removed.
#[derive(Debug)]
pub struct Books {
    start: Instant,
    turns: Box<[Arc<Turns>]>,
    /// Lines about sources that are destinations, too, for the log.
    returns: Mutex<Vec<String>>,
    /// Listeners that there were.
    numbers: AtomicU32,
    listeners: Mutex<Listeners>,
    rules: Mutex<Rules>,
    outlets: Mutex<Outlets>,
}

impl Books {
    /// Empty books for so many workers.
    pub fn new(workers: usize) -> Self {
        Self {
            start: Instant::now(),
            turns: cells(workers),
            returns: Mutex::default(),
            numbers: AtomicU32::new(0),
            listeners: Mutex::default(),
            rules: Mutex::default(),
            outlets: Mutex::default(),
        }
    }

    /// How many workers write.
    pub fn workers(&self) -> usize {
        self.turns.len()
    }

    /// The mark of one worker.
    pub fn turns(&self, worker: usize) -> Arc<Turns> {
        Arc::clone(&self.turns[worker])
    }

    /// Notes for the log, once, that an address of a destination is also a source of a listener.
    pub(crate) fn tell_return(&self, outlet: &OutletBook, source: IpAddr, listener: &str) {
        if !outlet.returns.swap(true, Ordering::Relaxed) {
            let line = format!(
                "{source} sends to listener \"{listener}\" and is destination \"{}\": if it relays what it gets, this is a \
                 loop (loop = \"stop\", or hop_guard = true there)",
                outlet.name
            );
            lock(&self.returns).push(line);
        }
    }

    /// What was noted since the last call.
    pub fn take_returns(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.returns))
    }

    /// The book of a listener: the one there is, or a new one.
    pub fn listener(&self, name: &str, address: SocketAddr) -> Arc<ListenerBook> {
        let number = || self.numbers.fetch_add(1, Ordering::Relaxed);
        let make = || ListenerBook { name: name.to_owned(), address, number: number(), cells: cells(self.workers()) };
        let mut listeners = lock(&self.listeners);
        Arc::clone(listeners.books.entry((name.to_owned(), address)).or_insert_with(|| make().into()))
    }

    /// The book of a rule.
    pub fn rule(&self, name: &str) -> Arc<RuleBook> {
        let make = || RuleBook { name: name.to_owned(), cells: cells(self.workers()) };
        Arc::clone(lock(&self.rules).books.entry(name.to_owned()).or_insert_with(|| make().into()))
    }

    /// The book of a destination's address.
    pub fn outlet(&self, name: &str, address: Option<SocketAddr>) -> Arc<OutletBook> {
        let returns = AtomicBool::new(false);
        let make = || OutletBook { name: name.to_owned(), address, returns, cells: cells(self.workers()) };
        let mut outlets = lock(&self.outlets);
        Arc::clone(outlets.books.entry((name.to_owned(), address)).or_insert_with(|| make().into()))
    }

    /// The account now: of what is in use in its order, then of what was removed. What only sockets and health know
    /// (buffers, `healthy`, `not_joined`, drops at open sockets) is left at its default. `agreed`: has a worker's counts
    /// copied at a moment at which they agree.
    pub fn ledger(&self, in_use: &InUse<'_>, agreed: impl Fn(usize, CopyCounts) -> Counts) -> Ledger {
        let (mut listeners, mut rules, mut outlets) = (lock(&self.listeners), lock(&self.rules), lock(&self.outlets));
        listeners.fold(self.workers());
        rules.fold(self.workers());
        outlets.fold(self.workers());
        let lists = Lists {
            listeners: listeners.list(&in_use.listeners),
            rules: rules.list(&in_use.rules),
            outlets: outlets.list(&in_use.outlets),
        };
        let lists = Arc::new(lists);
        let mut sums = Counts(blank(&lists.listeners), blank(&lists.rules), blank(&lists.outlets));
        for worker in 0..self.workers() {
            let lists = Arc::clone(&lists);
            let Counts(of_listeners, of_rules, of_outlets) = agreed(worker, Box::new(move || lists.copy(worker)));
            add::<ListenerBook>(&mut sums.0, &of_listeners);
            add::<RuleBook>(&mut sums.1, &of_rules);
            add::<OutletBook>(&mut sums.2, &of_outlets);
        }
        let mut ledger = Ledger {
            elapsed_s: self.start.elapsed().as_secs_f64(),
            closed: false,
            listeners: sums.0.into_iter().chain(listeners.removed.clone()).collect(),
            rules: sums.1.into_iter().chain(rules.removed.clone()).collect(),
            destinations: sums.2.into_iter().chain(outlets.removed.clone()).collect(),
        };
        ledger.close();
        ledger
    }
}

/// Copies what one worker has counted.
pub type CopyCounts = Box<dyn Fn() -> Counts + Send + Sync>;

/// What one worker has counted, in the order of some lists, or the sum over all.
pub struct Counts(Vec<ListenerCount>, Vec<RuleCount>, Vec<DestinationCount>);

/// What is copied.
struct Lists {
    listeners: Vec<Arc<ListenerBook>>,
    rules: Vec<Arc<RuleBook>>,
    outlets: Vec<Arc<OutletBook>>,
}

impl Lists {
    fn copy(&self, worker: usize) -> Counts {
        Counts(copy(&self.listeners, worker), copy(&self.rules, worker), copy(&self.outlets, worker))
    }
}

/// The books that a plan counts in, in its order.
#[derive(Debug, Default)]
pub struct InUse<'a> {
    /// Of its listeners.
    pub listeners: Vec<&'a Arc<ListenerBook>>,
    /// Of its rules.
    pub rules: Vec<&'a Arc<RuleBook>>,
    /// Of its outlets.
    pub outlets: Vec<&'a Arc<OutletBook>>,
}

fn blank<B: Book>(books: &[Arc<B>]) -> Vec<B::Count> {
    books.iter().map(|book| book.blank()).collect()
}

fn copy<B: Book>(books: &[Arc<B>], worker: usize) -> Vec<B::Count> {
    books.iter().map(|book| book.copy(worker)).collect()
}

fn add<B: Book>(sums: &mut [B::Count], counts: &[B::Count]) {
    sums.iter_mut().zip(counts).for_each(|(sum, count)| B::absorb(sum, count));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cells<T: Default>(workers: usize) -> Box<[T]> {
    (0..workers).map(|_| T::default()).collect()
}

#[cfg(test)]
mod tests;
