//! Loops that were found: by which destination what comes to a listener goes round.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indexmap::IndexMap;

use crate::ledger::LoopCount;

/// What tells a loop from others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LoopKey {
    /// The name of the listener to which it comes back.
    pub(crate) listener: String,
    /// Where it comes back from; `None`: from many.
    pub(crate) source: Option<IpAddr>,
    /// The destination's name.
    pub(crate) destination: String,
    /// Its address.
    pub(crate) address: Option<SocketAddr>,
}

/// A loop that was found once at least.
#[derive(Debug)]
pub(crate) struct LoopEntry {
    start: Instant,
    found: AtomicU64,
    /// When it was last seen, ms since the start.
    last: AtomicU64,
}

/// All of them, by any worker.
#[derive(Debug, Default)]
pub(crate) struct LoopBook {
    entries: Mutex<IndexMap<LoopKey, Arc<LoopEntry>>>,
    forgotten: AtomicU64,
    tests: AtomicU64,
}

impl LoopEntry {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), found: AtomicU64::new(0), last: AtomicU64::new(0) }
    }

    /// It goes round still.
    pub(crate) fn confirm(&self) {
        self.last.store(self.start.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Time since it was last seen.
    fn silent(&self) -> Duration {
        self.start.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }
}

impl LoopBook {
    /// Notes that one was found, perhaps once more. Of too many, the one that was not seen for longest is forgotten.
    pub(crate) fn find(&self, key: LoopKey) -> Arc<LoopEntry> {
        let mut entries = self.entries();
        if entries.len() >= MOST && !entries.contains_key(&key) {
            let oldest = entries.values().enumerate().max_by_key(|(_, entry)| entry.silent());
            if let Some((at, _)) = oldest {
                entries.shift_remove_index(at);
                self.forgotten.fetch_add(1, Ordering::Relaxed);
            }
        }
        let entry = entries.entry(key).or_insert_with(|| Arc::new(LoopEntry::new()));
        entry.found.fetch_add(1, Ordering::Relaxed);
        entry.confirm();
        Arc::clone(entry)
    }

    /// Those that were seen within the hour, in the order in which they were found.
    pub(super) fn counts(&self) -> Vec<LoopCount> {
        let mut entries = self.entries();
        let before = entries.len();
        entries.retain(|_, entry| entry.silent() < KEPT);
        self.forgotten.fetch_add((before - entries.len()) as u64, Ordering::Relaxed);
        let count = |(key, entry): (&LoopKey, &Arc<LoopEntry>)| LoopCount {
            listener: key.listener.clone(),
            source: key.source,
            destination: key.destination.clone(),
            address: key.address,
            found: entry.found.load(Ordering::Relaxed),
            present: entry.silent() < PRESENT,
        };
        entries.iter().map(count).collect()
    }

    /// Notes that a test is over, whatever it has shown.
    pub(crate) fn count_test(&self) {
        self.tests.fetch_add(1, Ordering::Relaxed);
    }

    /// Tests that are over.
    pub(super) fn tests(&self) -> u64 {
        self.tests.load(Ordering::Relaxed)
    }

    /// Those that were forgotten.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }

    fn entries(&self) -> MutexGuard<'_, IndexMap<LoopKey, Arc<LoopEntry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Loops that are remembered: each pair of a listener and a destination in a large mistake.
const MOST: usize = 256;

/// For how long one is remembered that is not seen any more.
const KEPT: Duration = Duration::from_secs(3_600);

/// A loop that was seen so lately is thought to be there: as long as it is, it is looked for more often.
const PRESENT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_and_what_is_forgotten_is_counted() {
        let book = LoopBook::default();
        let key = |number: usize| LoopKey {
            listener: number.to_string(),
            source: None,
            destination: "to".into(),
            address: None,
        };
        for number in 0..MOST + 10 {
            assert_eq!(book.find(key(number)).found.load(Ordering::Relaxed), 1);
        }
        book.find(key(MOST));
        let counts = book.counts();
        assert_eq!((counts.len(), book.forgotten()), (MOST, 10));
        let twice: Vec<_> = counts.iter().filter(|count| count.found == 2).map(|count| &*count.listener).collect();
        assert_eq!(twice, [MOST.to_string()]);
        assert!(counts.iter().all(|count| count.present));
    }
}
