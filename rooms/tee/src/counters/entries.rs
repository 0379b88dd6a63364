//! What there are books of, and how the oldest of them are forgotten.

use std::sync::Arc;

use super::{Books, ListenerBook, OutletBook, RuleBook};
use crate::ledger::{DestinationCount, Ledger, ListenerCount, RuleCount};

/// The books there are.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) listeners: Vec<Arc<ListenerBook>>,
    pub(super) rules: Vec<Arc<RuleBook>>,
    pub(super) outlets: Vec<Arc<OutletBook>>,
    /// What was removed so long ago that its name is forgotten.
    pub(super) forgotten: Ledger,
}

impl Entries {
    /// Folds what nobody counts any more, beyond the newest few, into one entry of each kind: a tee that is reloaded
    /// every minute with other addresses must not grow for ever.
    pub(super) fn forget(&mut self, books: &Books) {
        let workers = books.workers();
        // What never counted anything is no loss: a plan that could not be carried out leaves no trace.
        self.listeners.retain(|book| {
            Arc::strong_count(book) > 1 || {
                let count = book.total(workers);
                count.received.datagrams > 0 || count.kernel_drops != Some(0)
            }
        });
        self.rules.retain(|book| Arc::strong_count(book) > 1 || book.total(workers).matched.datagrams > 0);
        self.outlets.retain(|book| {
            Arc::strong_count(book) > 1 || {
                let count = book.total(workers);
                count.copies.datagrams > 0 || count.icmp_errors > 0
            }
        });
        for book in surplus(&mut self.listeners) {
            let count = ListenerCount { address: String::new(), ..book.total(workers) };
            fold(&mut self.forgotten.listeners, count, |all, name| all.name = name, ListenerCount::absorb);
        }
        for book in surplus(&mut self.rules) {
            fold(&mut self.forgotten.rules, book.total(workers), |all, name| all.name = name, RuleCount::absorb);
        }
        for book in surplus(&mut self.outlets) {
            let count = DestinationCount { address: None, ..book.total(workers) };
            fold(&mut self.forgotten.destinations, count, |all, name| all.name = name, DestinationCount::absorb);
        }
    }
}

/// Takes out the oldest of those that only the books still hold.
fn surplus<T>(books: &mut Vec<Arc<T>>) -> Vec<Arc<T>> {
    let removed = books.iter().filter(|book| Arc::strong_count(book) == 1).count();
    let mut surplus = removed.saturating_sub(REMEMBERED);
    books
        .extract_if(.., |book| {
            let out = surplus > 0 && Arc::strong_count(book) == 1;
            surplus -= usize::from(out);
            out
        })
        .collect()
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

pub(super) fn find<T>(books: &mut Vec<Arc<T>>, is: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> Arc<T> {
    if let Some(book) = books.iter().find(|book| is(book)) {
        return Arc::clone(book);
    }
    let book = Arc::new(make());
    books.push(Arc::clone(&book));
    book
}

/// The entry of the ledger that sums up what was removed long ago.
pub(crate) const FORGOTTEN: &str = "(removed)";

/// Removed things of one kind that keep an entry of their own.
pub(super) const REMEMBERED: usize = 256;
