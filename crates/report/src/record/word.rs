//! Words that many records have, each once in memory: names of columns, places and counters.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::extra::Names;
use super::ledger::Counter;

/// A text that clones share.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(Arc<str>);

/// Words that were met already, and what is made of them.
#[derive(Default)]
pub(crate) struct Words {
    words: HashSet<Word>,
    counters: HashSet<Arc<Counter>>,
    /// Of runs that were put together there are several.
    names: Vec<Arc<Names>>,
}

impl Words {
    /// The same word as one that was met before; else it is the one for those to come.
    pub(crate) fn shared(&mut self, word: Word) -> Word {
        match self.words.get(&word) {
            Some(known) => known.clone(),
            None => {
                self.words.insert(word.clone());
                word
            }
        }
    }

    /// The same counter as one that was met before.
    pub(super) fn counter(&mut self, counter: &Arc<Counter>) -> Arc<Counter> {
        if let Some(known) = self.counters.get(counter) {
            return Arc::clone(known);
        }
        let Counter { place, name, unit, source } = &**counter;
        let [place, name, unit, source] = [place, name, unit, source].map(|word| self.shared(word.clone()));
        let counter = Arc::new(Counter { place, name, unit, source });
        self.counters.insert(Arc::clone(&counter));
        counter
    }

    /// The same names as those that were met before.
    pub(super) fn names(&mut self, names: Arc<Names>) -> Arc<Names> {
        // Those of the record before, nearly always.
        if let Some(known) = self.names.iter().rev().take(MOST_COMPARED).find(|known| known.list() == names.list()) {
            return Arc::clone(known);
        }
        self.names.push(Arc::clone(&names));
        names
    }
}

/// Names of so many other records are compared with those of a new one.
const MOST_COMPARED: usize = 8;

impl Deref for Word {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Word {
    fn borrow(&self) -> &str {
        self
    }
}

impl PartialEq<str> for Word {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl From<&str> for Word {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Word {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}
