//! The received numbers of a sequence.

use std::ops::Range;

/// A set of sequence numbers that remembers the latest ones one by one, by default [`SequenceSet::SPAN`].
#[derive(Clone, Debug)]
pub struct SequenceSet {
    /// One bit per number, at number % span. Grows up to the span.
    bits: Vec<u64>,
    /// Numbers below it are forgotten.
    start: u64,
    /// One more than the highest number.
    end: u64,
    /// Numbers inserted.
    len: u64,
    /// Numbers remembered one by one.
    span: u64,
}

/// The class of a number on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The highest so far.
    New,
    /// Not seen before, and after a higher one.
    Reordered,
    /// Seen before.
    Duplicate,
    /// Forgotten whether it was seen.
    Stale,
}

impl SequenceSet {
    /// Numbers remembered one by one: 3.5 s of 300,000 messages per second, in 128 KiB.
    pub const SPAN: u64 = 1 << 20;

    /// The empty set.
    pub fn new() -> Self {
        Self::with_span(Self::SPAN)
    }

    /// The empty set, with a shorter memory: a power of two, at least 1024.
    pub(super) fn with_span(span: u64) -> Self {
        Self { bits: vec![0; 16], start: 0, end: 0, len: 0, span }
    }

    /// Adds a number and returns its class.
    pub fn insert(&mut self, number: u64) -> Arrival {
        if number < self.start {
            return Arrival::Stale;
        }
        let arrival = if number >= self.end {
            self.advance(number + 1);
            Arrival::New
        } else if self.contains(number) {
            return Arrival::Duplicate;
        } else {
            Arrival::Reordered
        };
        let (word, bit) = self.place(number);
        self.bits[word] |= bit;
        self.len += 1;
        arrival
    }

    /// Whether it was seen; `false` for forgotten numbers.
    pub fn contains(&self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        (self.start..self.end).contains(&number) && self.bits[word] & bit != 0
    }

    /// How many different numbers were added.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// One more than the highest number; 0 for the empty set.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The numbers that it remembers one by one.
    pub fn remembered(&self) -> Range<u64> {
        self.start..self.end
    }

    /// The numbers below `sent` that were not seen, ascending; `None` if some of them are forgotten.
    pub fn missing(&self, sent: u64) -> Option<Vec<u64>> {
        (self.start == 0).then(|| (0..sent).filter(|&number| !self.contains(number)).collect())
    }

    /// The full number with the lower 32 bits `low`: the one nearest to the highest seen.
    pub fn expand(&self, low: u32) -> u64 {
        let expected = self.end;
        let ahead = low.wrapping_sub(expected as u32) as i32;
        // Before the first wrap there is nothing below 0.
        expected.checked_add_signed(i64::from(ahead)).unwrap_or(u64::from(low))
    }

    /// Makes room for the numbers below `end`, and forgets those too far below.
    fn advance(&mut self, end: u64) {
        let capacity = self.bits.len() as u64 * 64;
        if end > capacity && capacity < self.span {
            // Bits keep their place until the first wrap, which happens only at full size.
            let words = end.next_power_of_two().min(self.span) / 64;
            self.bits.resize(words as usize, 0);
        }
        let forgotten = end.saturating_sub(self.span);
        if forgotten >= self.end {
            self.bits.fill(0);
        } else {
            (self.start..forgotten).for_each(|number| {
                let (word, bit) = self.place(number);
                self.bits[word] &= !bit;
            });
        }
        self.start = self.start.max(forgotten);
        self.end = end;
    }

    fn place(&self, number: u64) -> (usize, u64) {
        let index = number % (self.bits.len() as u64 * 64);
        ((index / 64) as usize, 1 << (index % 64))
    }
}

impl Default for SequenceSet {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forgets_only_beyond_its_span() {
        let span = SequenceSet::SPAN;
        let mut set = SequenceSet::new();
        assert_eq!(set.insert(5), Arrival::New);
        assert_eq!(set.insert(span + 3), Arrival::New);
        assert_eq!(set.insert(4), Arrival::Reordered);
        assert_eq!(set.insert(5), Arrival::Duplicate);
        assert_eq!(set.insert(span + 6), Arrival::New);
        assert_eq!(set.insert(6), Arrival::Stale);
        assert_eq!(set.insert(7), Arrival::Reordered);
        assert_eq!(set.missing(8), None);
        assert_eq!(set.insert(10 * span), Arrival::New);
        assert_eq!(set.insert(9 * span + 1), Arrival::Reordered);
        assert_eq!((set.len(), set.end()), (7, 10 * span + 1));
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_all(numbers in proptest::collection::vec(0u64..5000, 0..600)) {
            let (mut set, mut all) = (SequenceSet::new(), BTreeSet::new());
            for number in numbers {
                let highest = all.last().copied();
                let expected = match (all.insert(number), highest) {
                    (false, _) => Arrival::Duplicate,
                    (true, Some(highest)) if highest > number => Arrival::Reordered,
                    (true, _) => Arrival::New,
                };
                prop_assert_eq!(set.insert(number), expected);
            }
            prop_assert_eq!(set.len(), all.len() as u64);
            prop_assert_eq!(set.missing(5001), Some((0..5001).filter(|n| !all.contains(n)).collect()));
        }

        #[test]
        fn a_wire_number_finds_its_place(highest in 0u64..1 << 40, back in 0u64..1 << 30) {
            let mut set = SequenceSet::new();
            set.insert(highest);
            let number = highest.saturating_sub(back);
            prop_assert_eq!(set.expand(number as u32), number);
            prop_assert_eq!(set.expand((highest + back) as u32), highest + back);
        }
    }
}
