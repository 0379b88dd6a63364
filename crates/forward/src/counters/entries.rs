//! What there are books of, in use or draining. What was removed is summed up as soon as nobody counts in it any more.

use std::hash::Hash;
use std::net::SocketAddr;
use std::sync::Arc;

use indexmap::IndexMap;

use super::books::Book;
use super::{ListenerBook, OutletBook, RuleBook};

/// The books of one kind, the oldest first.
#[derive(Debug)]
pub(super) struct Entries<K, B: Book> {
    pub(super) books: IndexMap<K, Arc<B>>,
    /// The sum of those that were removed.
    pub(super) removed: Option<B::Count>,
}

pub(super) type Listeners = Entries<(String, SocketAddr), ListenerBook>;
pub(super) type Rules = Entries<String, RuleBook>;
pub(super) type Outlets = Entries<(String, Option<SocketAddr>), OutletBook>;

impl<K, B: Book> Default for Entries<K, B> {
    fn default() -> Self {
        Self { books: IndexMap::new(), removed: None }
    }
}

impl<K: Hash + Eq, B: Book> Entries<K, B> {
    /// Sums up those that nobody but these books holds: a tee that is reloaded every minute with other addresses must not
    /// grow for ever. What never counted anything leaves no trace, as a plan that could not be carried out.
    pub(super) fn fold(&mut self, workers: usize) {
        for (_, book) in self.books.extract_if(.., |_, book| Arc::strong_count(book) == 1) {
            let mut sum = book.blank();
            (0..workers).for_each(|worker| B::absorb(&mut sum, &book.copy(worker)));
            if !B::is_blank(&sum) {
                B::rename(&mut sum, REMOVED);
                match &mut self.removed {
                    Some(removed) => B::absorb(removed, &sum),
                    None => self.removed = Some(sum),
                }
            }
        }
    }

    /// All books, those in use first, in their order.
    pub(super) fn list(&self, in_use: &[&Arc<B>]) -> Vec<Arc<B>> {
        let mut list: Vec<Arc<B>> = in_use.iter().copied().cloned().collect();
        let known: std::collections::HashSet<_> = in_use.iter().map(|book| Arc::as_ptr(book)).collect();
        list.extend(self.books.values().filter(|book| !known.contains(&Arc::as_ptr(book))).cloned());
        list
    }
}

/// The entry of the ledger that sums up what was removed.
pub(crate) const REMOVED: &str = "(removed)";
