//! Random choices at the price of a few instructions: for samples, not for secrets.

use std::hash::{BuildHasher, RandomState};

/// A generator: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
pub(super) struct Random(u64);

impl Default for Random {
    /// Seeded by the operating system: samples of several workers, or tees in a row, must not be the same.
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// True once in `n` times.
    pub(super) fn one_in(&mut self, n: u32) -> bool {
        // A multiplication maps 32 bits to 0..n; what it is uneven by is below one in 2^32.
        (self.next() >> 32) * u64::from(n) < 1 << 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_n_is_that() {
        let mut random = Random(1);
        for n in [2_u32, 10, 1_000] {
            let draws = 1_000 * n;
            let hits = (0..draws).filter(|_| random.one_in(n)).count();
            // 1,000 expected, standard deviation below 32.
            assert!(hits.abs_diff(1_000) < 200, "{hits} of {draws}");
        }
        assert!((0..100).all(|_| random.one_in(1)));
    }
}
