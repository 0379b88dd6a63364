//! What workers count, and its sum by value.
//!
//! Every worker has cells of its own, so that a count is a load and a store on a line that nobody else writes. Each term
//! of the account has a counter of its own; none is computed from the others. A cell's terms agree whenever nobody is
//! changing them, so that an account closes at any moment, not only at the end, and readers cost workers nothing: what
//! has been given to a lane and not yet been sent is queued. What must agree beyond a cell is copied between a worker's
//! turns ([`Phase`]).

mod books;
mod cells;
mod entries;
mod phase;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use indexmap::IndexMap;

pub(crate) use books::{ListenerBook, OutletBook, RuleBook};
pub use cells::Counter;
pub(crate) use cells::{CarriedTerms, Cell, ListenerTerms};
pub(crate) use phase::{Phase, PhaseMark};

use crate::ledger::Ledger;
use entries::Entries;

/// All counts since the start, also of things that a reload removed.
#[derive(Debug)]
pub struct Books {
    start: Instant,
    phases: Box<[Arc<Phase>]>,
    /// Lines about sources that are destinations, too, for the log.
    returns: Mutex<Vec<String>>,
    entries: Mutex<Entries>,
}

impl Books {
    /// Empty books for so many workers.
    pub fn new(workers: usize) -> Self {
        Self { start: Instant::now(), phases: cells(workers), returns: Mutex::default(), entries: Mutex::default() }
    }

    /// How many workers write.
    pub fn workers(&self) -> usize {
        self.phases.len()
    }

    /// The mark of one worker.
    pub fn phase(&self, worker: usize) -> Arc<Phase> {
        Arc::clone(&self.phases[worker])
    }

    /// Notes for the log, once, that an address of a destination is also a source of a listener.
    pub(crate) fn tell_return(&self, outlet: &OutletBook, source: IpAddr, listener: &str) {
        if !outlet.returns.swap(true, Ordering::Relaxed) {
            let line = format!(
                "{source} sends to listener \"{listener}\" and is destination \"{}\": if it relays what it gets, this is a \
                 loop (loop = \"stop\", or hop_guard = true there)",
                outlet.name
            );
            self.returns.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }

    /// What was noted since the last call.
    pub(crate) fn take_returns(&self) -> Vec<String> {
        std::mem::take(&mut self.returns.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The book of a listener: the one there is, or a new one.
    pub fn listener(&self, name: &str, address: SocketAddr) -> Arc<ListenerBook> {
        let make = || ListenerBook { name: name.to_owned(), address, cells: cells(self.workers()) };
        let mut entries = self.entries();
        Arc::clone(entries.listeners.entry((name.to_owned(), address)).or_insert_with(|| make().into()))
    }

    /// The book of a rule.
    pub fn rule(&self, name: &str) -> Arc<RuleBook> {
        let make = || RuleBook { name: name.to_owned(), cells: cells(self.workers()) };
        Arc::clone(self.entries().rules.entry(name.to_owned()).or_insert_with(|| make().into()))
    }

    /// The book of a destination's address.
    pub fn outlet(&self, name: &str, address: Option<SocketAddr>) -> Arc<OutletBook> {
        let make = || OutletBook {
            name: name.to_owned(),
            address,
            returns: AtomicBool::new(false),
            asked: cells(self.workers()),
            carried: cells(self.workers()),
        };
        let mut entries = self.entries();
        Arc::clone(entries.outlets.entry((name.to_owned(), address)).or_insert_with(|| make().into()))
    }

    /// The account now: of what is in use in its order, then of what was removed. What only sockets and health know
    /// (buffers, `healthy`, `not_joined`, drops at open sockets) is left at its default.
    pub fn ledger(&self, in_use: &InUse<'_>) -> Ledger {
        // Whoever has received something finds it here.
        self.phases.iter().for_each(|phase| phase.pass());
        let mut entries = self.entries();
        entries.forget(Instant::now());
        let Entries { listeners, rules, outlets, forgotten, .. } = &*entries;
        let mut ledger = Ledger {
            elapsed_s: self.start.elapsed().as_secs_f64(),
            closed: false,
            listeners: counts(&in_use.listeners, listeners, &forgotten.listeners, ListenerBook::sum),
            rules: counts(&in_use.rules, rules, &forgotten.rules, RuleBook::sum),
            destinations: counts(&in_use.outlets, outlets, &forgotten.destinations, OutletBook::sum),
        };
        ledger.close();
        ledger
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The sums of what is in use, of all else there is, and of what was forgotten.
fn counts<K, B, C: Clone>(
    in_use: &[&Arc<B>],
    all: &IndexMap<K, Arc<B>>,
    forgotten: &[C],
    sum: impl Fn(&B) -> C,
) -> Vec<C> {
    let known: HashSet<*const B> = in_use.iter().map(|book| Arc::as_ptr(book)).collect();
    let others = all.values().filter(|book| !known.contains(&Arc::as_ptr(book)));
    in_use.iter().copied().chain(others).map(|book| sum(book)).chain(forgotten.iter().cloned()).collect()
}

fn cells<T: Default>(workers: usize) -> Box<[T]> {
    (0..workers).map(|_| T::default()).collect()
}

#[cfg(test)]
mod tests;
