//! Received bytes by time: the window cut into batches of equal length.

use std::time::Duration;

use weir_program::clock::{Nanos, nanos};

use crate::Window;

/// Bytes received in each batch of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batches {
    length: Nanos,
    bytes: Vec<u64>,
}

impl Batches {
    /// A window of `duration` in the number of whole batches, at least one, that comes closest to the wanted length.
    pub(crate) fn new(duration: Duration, wished: Duration) -> Self {
        let (length, wished) = (nanos(duration), nanos(wished).max(1));
        let count = (length.saturating_add(wished / 2) / wished).clamp(1, MAX_BATCHES);
        Self { length, bytes: vec![0; count as usize] }
    }

    /// Counts bytes received at the time `at`, unless that is outside the window.
    pub(crate) fn count(&mut self, window: Window, at: Nanos, bytes: u64) {
        if at < window.start || at >= window.end || self.length == 0 {
            return;
        }
        let place = u128::from(at - window.start) * self.bytes.len() as u128 / u128::from(self.length);
        if let Some(batch) = self.bytes.get_mut(place as usize) {
            *batch += bytes;
        }
    }

    /// Length of a batch.
    pub(crate) fn length(&self) -> Duration {
        Duration::from_nanos(self.length / self.bytes.len() as u64)
    }

    /// All bytes counted.
    pub(crate) fn total(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// The batches that lie wholly within the first `used` of the window.
    pub(crate) fn whole_within(mut self, used: Duration) -> Vec<u64> {
        if nanos(used) < self.length {
            let whole = u128::from(nanos(used)) * self.bytes.len() as u128 / u128::from(self.length);
            self.bytes.truncate(whole as usize);
        }
        self.bytes
    }
}

/// Max batches: more add no information.
const MAX_BATCHES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Nanos = 1_000_000;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn cuts_the_window_evenly() {
        for (duration, wished, count, length) in
            [(1000, 100, 10, 100), (1000, 300, 3, 333), (50, 100, 1, 50), (170, 100, 2, 85), (10, 0, 10_000_000, 0)]
        {
            let batches = Batches::new(ms(duration), ms(wished));
            assert_eq!(batches.bytes.len() as u64, count.min(MAX_BATCHES), "{duration} {wished}");
            if length > 0 {
                assert_eq!(batches.length().as_millis() as u64, length);
            }
        }
    }

    #[test]
    fn a_batch_begins_at_its_time_and_the_window_ends_before_its_end() {
        let window = Window { start: 1000 * MS, end: 1300 * MS };
        let mut batches = Batches::new(ms(300), ms(100));
        for (at, bytes) in [
            (1000 * MS - 1, 1),
            (1000 * MS, 10),
            (1100 * MS - 1, 20),
            (1100 * MS, 300),
            (1300 * MS - 1, 4000),
            (1300 * MS, 50_000),
        ] {
            batches.count(window, at, bytes);
        }
        assert_eq!(batches.total(), 4330);
        assert_eq!(batches.clone().whole_within(ms(300)), [30, 300, 4000]);
        assert_eq!(batches.clone().whole_within(ms(299)), [30, 300]);
        assert_eq!(batches.clone().whole_within(ms(200)), [30, 300]);
        assert!(batches.whole_within(ms(99)).is_empty());
    }

    proptest! {
        #[test]
        fn every_byte_within_the_window_is_in_one_batch(
            duration in 1u64..5000, wished in 1u64..6000,
            arrivals in proptest::collection::vec((0u64..8_000_000_000, 0u64..100_000), 0..50),
        ) {
            let window = Window { start: 500 * MS, end: (500 + duration) * MS };
            let mut batches = Batches::new(ms(duration), ms(wished));
            for &(at, bytes) in &arrivals {
                batches.count(window, at, bytes);
            }
            let within = arrivals.iter().filter(|(at, _)| (window.start..window.end).contains(at));
            let expected: u64 = within.map(|(_, bytes)| bytes).sum();
            prop_assert_eq!(batches.total(), expected);
            prop_assert_eq!(batches.whole_within(ms(duration)).iter().sum::<u64>(), expected);
        }
    }
}
