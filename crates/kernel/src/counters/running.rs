//! Totals over counters that wrap around or begin again.

/// How wide a counter is in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Wraps at 2^32: a socket's drops, softnet, a qdisc's drops, interrupts by line, softirqs.
    Bits32,
    /// Never wraps.
    Bits64,
}

/// What a counter has counted since it was first read.
///
/// A counter of 32 bits that goes from near its top to near 0 has wrapped. One that goes back otherwise has begun
/// again: its interface was made anew, its module was loaded again. Then what it counted between the last reading and
/// its end is not known, and the total is a lower bound: [`Running::resets`] says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Running {
    last: Option<u64>,
    total: u64,
    resets: u32,
}

impl Running {
    /// A total of 0, before the first reading.
    pub fn new() -> Running {
        Running::default()
    }

    /// A total that counts from a value known already: 0 for what came into being after the start.
    pub fn from(value: u64) -> Running {
        Running { last: Some(value), ..Running::default() }
    }

    /// Takes a reading and returns the total since the first one, which itself counts nothing.
    pub fn add(&mut self, value: u64, width: Width) -> u64 {
        let last = self.last.replace(value).unwrap_or(value);
        self.total += if value >= last {
            value - last
        } else if width == Width::Bits32 && last >= NEAR_TOP && value < NEAR_BOTTOM {
            (value + (1 << 32)).saturating_sub(last)
        } else {
            self.resets += 1;
            value
        };
        self.total
    }

    /// The total.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How often the counter began again; unless 0, the total is a lower bound.
    pub fn resets(&self) -> u32 {
        self.resets
    }
}

/// A counter that moves by more than a quarter of its range between two readings cannot be followed.
const NEAR_TOP: u64 = 3 << 30;
const NEAR_BOTTOM: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wraps_and_resets_are_told_apart() {
        let mut wraps = Running::new();
        let top = u64::from(u32::MAX);
        let totals = [top - 9, top, 4, 4, 10].map(|value| wraps.add(value, Width::Bits32));
        assert_eq!((totals, wraps.resets()), ([0, 9, 14, 14, 20], 0));

        // An interface made anew has counted 3 packets since.
        let mut resets = Running::new();
        let totals = [100, 150, 3, 5].map(|value| resets.add(value, Width::Bits64));
        assert_eq!((totals, resets.resets()), ([0, 50, 53, 55], 1));

        // Near the top, but 64 bits do not wrap there; and a small counter of 32 bits goes back.
        for (values, width) in
            [([top, 7], Width::Bits64), ([1 << 31, 7], Width::Bits32), ([top, 3 << 30], Width::Bits32)]
        {
            let mut running = Running::new();
            let totals = values.map(|value| running.add(value, width));
            assert_eq!((totals, running.resets()), ([0, values[1]], 1), "{values:?}");
        }
        assert_eq!(Running::from(0).add(6, Width::Bits32), 6);
    }

    proptest! {
        #[test]
        fn a_total_is_what_was_counted(start in any::<u64>(), steps in prop::collection::vec(0..1u64 << 30, 0..40)) {
            let start = start >> 2;
            let (mut narrow, mut wide) = (Running::new(), Running::new());
            let mut counted = 0;
            for step in std::iter::once(0).chain(steps) {
                counted += step;
                let value = start + counted;
                prop_assert_eq!(narrow.add(value & 0xffff_ffff, Width::Bits32), counted);
                prop_assert_eq!(wide.add(value, Width::Bits64), counted);
            }
            prop_assert_eq!((narrow.resets(), wide.resets()), (0, 0));
        }

        #[test]
        fn no_sequence_panics_or_goes_back(values in prop::collection::vec(any::<u64>(), 0..20), narrow: bool) {
            let (mut running, mut last) = (Running::new(), 0);
            for value in values {
                // Not all together may be beyond 64 bits.
                let total = running.add(value >> 8, if narrow { Width::Bits32 } else { Width::Bits64 });
                prop_assert!(total >= last);
                last = total;
            }
        }
    }
}
