//! The counters of a cell's account.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::word::{Word, Words};

/// One counter of a cell's account: which it is, which records share, and its count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    counter: Arc<Counter>,
    /// The count.
    pub count: i64,
}

/// What a ledger's counter is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Counter {
    /// Where: `sender`, `link uplink ->`, `receiver socket`.
    pub place: Word,
    /// What: `sent`, `planned loss`, `delivered`.
    pub name: Word,
    /// `messages`, `packets` or `frames`.
    pub unit: Word,
    /// The counter's source, e.g. `emulator` or `SK_MEMINFO_DROPS`.
    pub source: Word,
}

/// As it is written.
#[derive(Serialize, Deserialize)]
struct Line<W> {
    place: W,
    name: W,
    unit: W,
    count: i64,
    source: W,
}

impl LedgerEntry {
    /// A counter and its count.
    pub fn new(counter: Counter, count: i64) -> Self {
        Self { counter: Arc::new(counter), count }
    }

    /// Takes what it is from another record that has the same counter.
    pub(super) fn share(&mut self, words: &mut Words) {
        self.counter = words.counter(&self.counter);
    }
}

impl Deref for LedgerEntry {
    type Target = Counter;

    fn deref(&self) -> &Counter {
        &self.counter
    }
}

impl DerefMut for LedgerEntry {
    fn deref_mut(&mut self) -> &mut Counter {
        Arc::make_mut(&mut self.counter)
    }
}

impl Serialize for LedgerEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Counter { place, name, unit, source } = &*self.counter;
        Line { place, name, unit, count: self.count, source }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LedgerEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Line { place, name, unit, count, source } = Line::<Word>::deserialize(deserializer)?;
        Ok(Self::new(Counter { place, name, unit, source }, count))
    }
}
