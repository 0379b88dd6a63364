//! Running totals of counters that come, go, wrap and begin again.

use std::collections::HashMap;

use weir_kernel::counters::{Running, Width};

/// Running totals by name. What is not read any more is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    known: HashMap<String, Known>,
    reading: u64,
}

#[derive(Debug)]
struct Known {
    running: Running,
    most: u64,
    reading: u64,
}

impl Totals {
    /// A reading begins.
    pub(super) fn begin(&mut self) {
        self.reading += 1;
        let reading = self.reading;
        // A counter that could not be read now and then goes on.
        self.known.retain(|_, known| known.reading + FORGOTTEN_AFTER >= reading);
    }

    /// Takes what a counter says now; returns its total since its first reading, or, where it began while we watched
    /// (`is_new`), since it was made.
    pub(super) fn add(&mut self, name: String, value: u64, width: Width, is_new: bool) -> u64 {
        let first = || Known { running: if is_new { Running::from(0) } else { Running::new() }, most: 0, reading: 0 };
        let known = self.known.entry(name).or_insert_with(first);
        known.reading = self.reading;
        known.running.add(value, width)
    }

    /// Takes a level; returns the highest so far.
    pub(super) fn highest(&mut self, name: String, level: u64) -> u64 {
        let known =
            self.known.entry(name).or_insert_with(|| Known { running: Running::new(), most: level, reading: 0 });
        known.reading = self.reading;
        known.most = known.most.max(level);
        known.most
    }
}

/// Readings after which a counter that is not there any more is another when it comes again.
const FORGOTTEN_AFTER: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_counts_from_now_and_what_is_new_from_its_beginning() {
        let mut totals = Totals::default();
        let mut add = |name: &str, value, is_new| {
            totals.begin();
            totals.add(name.to_owned(), value, Width::Bits32, is_new)
        };
        assert_eq!(add("old", 1000, false), 0);
        assert_eq!(add("old", 1007, true), 7);
        assert_eq!(add("new", 5, true), 5);
        assert_eq!(add("wraps", u64::from(u32::MAX) - 1, false), 0);
        assert_eq!(add("wraps", 3, false), 5);
        // Read long ago: that was another.
        for _ in 0..FORGOTTEN_AFTER {
            add("wraps", 3, false);
        }
        assert_eq!(add("old", 20, true), 20);
    }

    #[test]
    fn levels_are_remembered_at_their_highest() {
        let mut totals = Totals::default();
        totals.begin();
        assert_eq!([5, 9, 2].map(|level| totals.highest("queue".into(), level)), [5, 9, 9]);
    }
}
