//! The latest snapshot, for whoever shows it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use weir_service::Observable;
use weir_service::metrics::Samples;

use super::snapshot::Snapshot;
use crate::metrics::Books;

/// A running watch as seen from outside.
pub(super) struct State {
    latest: Mutex<Latest>,
    changed: Condvar,
}

struct Latest {
    snapshot: Arc<Snapshot>,
    books: Books,
    /// Snapshots so far.
    number: u64,
    ended: bool,
}

impl State {
    /// Begins with a first snapshot.
    pub(super) fn new(first: Snapshot, mut books: Books) -> Self {
        books.enter(&first);
        let snapshot = Arc::new(first);
        Self { latest: Mutex::new(Latest { snapshot, books, number: 1, ended: false }), changed: Condvar::new() }
    }

    /// Takes the next one.
    pub(super) fn set(&self, snapshot: Snapshot) {
        let mut latest = self.lock();
        latest.books.enter(&snapshot);
        latest.snapshot = Arc::new(snapshot);
        latest.number += 1;
        self.changed.notify_all();
    }

    /// There will be no more.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// The latest.
    pub(super) fn latest(&self) -> Arc<Snapshot> {
        self.lock().snapshot.clone()
    }

    /// Waits for one with a higher number, and returns it with its number; `None`: there will be none. One that came and
    /// went meanwhile is left out.
    pub(super) fn next(&self, after: u64) -> Option<(u64, Arc<Snapshot>)> {
        let waits = |latest: &mut Latest| latest.number == after && !latest.ended;
        let latest = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        (latest.number > after).then(|| (latest.number, latest.snapshot.clone()))
    }

    /// A thread that panicked while it held the lock has ended the watch: nothing of it is used any more.
    fn lock(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observable for State {
    type Ledger = Snapshot;

    fn metrics(&self, samples: &mut Samples<'_>) {
        self.lock().books.metrics(samples);
    }

    fn ledger(&self) -> Snapshot {
        Snapshot::clone(&self.latest())
    }

    fn ready(&self) -> Result<(), String> {
        match self.latest().sources.trace {
            "starting" => Err("eBPF is being attached".into()),
            _ => Ok(()),
        }
    }
}
