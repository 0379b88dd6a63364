//! Numbers that look random and can be had again.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(super) struct Seed(u64);

impl Seed {
    /// A new one each time, printed; WEIR_TEST_SEED repeats one.
    pub(super) fn draw(test: &str) -> Seed {
        let seed = match std::env::var("WEIR_TEST_SEED") {
            Ok(text) => text.parse().unwrap(),
            Err(_) => RandomState::new().build_hasher().finish() & 0xffff_ffff,
        };
        eprintln!("{test}: WEIR_TEST_SEED={seed}");
        Seed(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of a range.
    pub(super) fn number(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// As [`Seed::number`], as a length.
    pub(super) fn size(&mut self, range: Range<usize>) -> usize {
        range.start + usize::try_from(self.next() % (range.end - range.start) as u64).unwrap()
    }

    /// Any order.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.size(0..last + 1));
        }
    }
}
