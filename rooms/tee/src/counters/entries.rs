//! What there are books of, and how the oldest of them are forgotten.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indexmap::IndexMap;

use super::{ListenerBook, OutletBook, RuleBook};
use crate::ledger::{DestinationCount, Ledger, ListenerCount, RuleCount};

/// The books there are, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) listeners: IndexMap<(String, SocketAddr), Arc<ListenerBook>>,
    pub(super) rules: IndexMap<String, Arc<RuleBook>>,
    pub(super) outlets: IndexMap<(String, Option<SocketAddr>), Arc<OutletBook>>,
    /// What was removed so long ago that its name is forgotten.
    pub(super) forgotten: Ledger,
    /// Since when nobody but these books holds a book, by its place in memory.
    removed: HashMap<usize, Instant>,
}

impl Entries {
    /// Folds what nobody has counted for a while, and what is beyond the newest few, into one entry of each kind: a tee that
    /// is reloaded every minute with other addresses must not grow for ever.
    pub(super) fn forget(&mut self, now: Instant) {
        // What never counted anything is no loss: a plan that could not be carried out leaves no trace.
        self.listeners.retain(|_, book| Arc::strong_count(book) > 1 || !book.is_blank());
        self.rules.retain(|_, book| Arc::strong_count(book) > 1 || !book.is_blank());
        self.outlets.retain(|_, book| Arc::strong_count(book) > 1 || !book.is_blank());
        let Self { listeners, rules, outlets, .. } = self;
        let removed = (listeners.values().filter_map(place_of))
            .chain(rules.values().filter_map(place_of))
            .chain(outlets.values().filter_map(place_of));
        let since = removed.map(|book| (book, self.removed.get(&book).copied().unwrap_or(now))).collect();
        self.removed = since;
        let is_old = |book: usize| {
            let since = self.removed.get(&book);
            since.is_some_and(|since| now.saturating_duration_since(*since) >= KEPT)
        };
        for book in surplus(&mut self.listeners, is_old) {
            let count = ListenerCount { address: String::new(), ..book.sum() };
            fold(&mut self.forgotten.listeners, count, |all, name| all.name = name, ListenerCount::absorb);
        }
        for book in surplus(&mut self.rules, is_old) {
            fold(&mut self.forgotten.rules, book.sum(), |all, name| all.name = name, RuleCount::absorb);
        }
        for book in surplus(&mut self.outlets, is_old) {
            let count = DestinationCount { address: None, ..book.sum() };
            fold(&mut self.forgotten.destinations, count, |all, name| all.name = name, DestinationCount::absorb);
        }
    }
}

/// What tells a book that nobody but the books holds from others; `None`: somebody does.
fn place_of<T>(book: &Arc<T>) -> Option<usize> {
    (Arc::strong_count(book) == 1).then(|| Arc::as_ptr(book).addr())
}

/// Takes out the oldest of those that only the books still hold.
fn surplus<K: Hash + Eq, T>(books: &mut IndexMap<K, Arc<T>>, is_old: impl Fn(usize) -> bool) -> Vec<Arc<T>> {
    let removed: Vec<usize> = books.values().filter_map(place_of).collect();
    let mut surplus = removed.len().saturating_sub(REMEMBERED);
    if surplus == 0 && !removed.into_iter().any(&is_old) {
        return Vec::new();
    }
    let oldest = books.extract_if(.., |_, book| {
        let out = place_of(book).is_some_and(|place| surplus > 0 || is_old(place));
        surplus = surplus.saturating_sub(usize::from(out));
        out
    });
    oldest.map(|(_, book)| book).collect()
}

fn fold<T>(into: &mut Vec<T>, count: T, rename: impl Fn(&mut T, String), absorb: impl Fn(&mut T, &T)) {
    match into.first_mut() {
        Some(all) => absorb(all, &count),
        None => {
            let mut count = count;
            rename(&mut count, FORGOTTEN.to_owned());
            into.push(count);
        }
    }
}

/// The entry of the ledger that sums up what was removed long ago.
pub(crate) const FORGOTTEN: &str = "(removed)";

/// How long a removed thing keeps an entry of its own: longer than scrapers and people take to look.
pub(super) const KEPT: Duration = Duration::from_secs(600);

/// Removed things of one kind that keep an entry of their own.
pub(super) const REMEMBERED: usize = 256;
