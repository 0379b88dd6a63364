//! Times in which something that had to run did not.

use weir_program::clock::Nanos;

/// A time in which a processor, or the emulator, did not get on with what was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standstill<P> {
    /// When it had to run, ns of CLOCK_MONOTONIC.
    pub start: Nanos,
    /// When it ran.
    pub end: Nanos,
    /// What stood still.
    pub place: P,
}

/// Shorter ones are not told from ordinary scheduling, ns.
pub const LEAST: Nanos = 1_000_000;

/// The union of times, for questions about any part of it.
#[derive(Clone, Debug, Default)]
pub struct Union {
    /// Disjoint, ascending: start, end, and how much lies before the start.
    parts: Vec<(Nanos, Nanos, Nanos)>,
}

impl Union {
    /// Of times in any order: start and end.
    pub fn new(times: impl IntoIterator<Item = (Nanos, Nanos)>) -> Union {
        let mut times: Vec<_> = times.into_iter().filter(|(start, end)| start < end).collect();
        times.sort_unstable();
        let mut parts: Vec<(Nanos, Nanos, Nanos)> = Vec::with_capacity(times.len());
        for (start, end) in times {
            match parts.last_mut() {
                Some((_, last, _)) if start <= *last => *last = end.max(*last),
                last => {
                    let before = last.map_or(0, |(start, end, before)| *before + (*end - *start));
                    parts.push((start, end, before));
                }
            }
        }
        Union { parts }
    }

    /// How much of it lies between two times.
    pub fn within(&self, from: Nanos, to: Nanos) -> Nanos {
        if from >= to { 0 } else { self.before(to) - self.before(from) }
    }

    fn before(&self, at: Nanos) -> Nanos {
        match self.parts.partition_point(|(start, ..)| *start < at).checked_sub(1) {
            Some(index) => {
                let (start, end, before) = self.parts[index];
                before + end.min(at) - start
            }
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn overlaps_count_once() {
        let union = Union::new([(50, 60), (10, 20), (15, 30), (30, 31), (70, 70)]);
        assert_eq!(union.within(0, 100), 31);
        assert_eq!((union.within(12, 16), union.within(29, 55), union.within(31, 50)), (4, 7, 0));
        assert_eq!((union.within(60, 10), Union::default().within(0, 100)), (0, 0));
    }

    proptest! {
        #[test]
        fn as_counted_one_by_one(
            times in proptest::collection::vec((0u64..200, 0u64..20), 0..30), from in 0u64..250, length in 0u64..250,
        ) {
            let union = Union::new(times.iter().map(|(start, length)| (*start, start + length)));
            let still = |at: &u64| times.iter().any(|(start, length)| (*start..start + length).contains(at));
            prop_assert_eq!(union.within(from, from + length), (from..from + length).filter(still).count() as u64);
        }
    }
}
