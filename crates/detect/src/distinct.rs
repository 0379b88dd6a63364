//! How many different ones there were, in little memory.

/// How many different ones there were, by linear counting (Whang, Vander-Zanden, Taylor, 1990): one bit a hash.
#[derive(Clone, Debug)]
pub(super) struct Distinct {
    bits: Box<[u64; WORDS]>,
    set: u32,
}

const WORDS: usize = 32;

impl Default for Distinct {
    fn default() -> Self {
        Self { bits: Box::new([0; WORDS]), set: 0 }
    }
}

impl Distinct {
    pub(super) fn clear(&mut self) {
        (*self.bits, self.set) = ([0; WORDS], 0);
    }

    #[inline]
    pub(super) fn add(&mut self, hash: u64) {
        let at = (hash >> 32) as usize % (WORDS * 64);
        let (word, bit) = (&mut self.bits[at / 64], 1 << (at % 64));
        self.set += u32::from(*word & bit == 0);
        *word |= bit;
    }

    pub(super) fn count(&self) -> usize {
        let m = (WORDS * 64) as f64;
        let empty = (m - f64::from(self.set)).max(1.0);
        (m * (m / empty).ln()).round() as usize
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use foldhash::quality::RandomState;

    use super::*;

    #[test]
    fn sources_are_counted() {
        let hasher = RandomState::default();
        for (count, off) in [(1u32, 0.0), (10, 1.0), (500, 30.0), (3000, 200.0)] {
            let mut sources = Distinct::default();
            (0..3).for_each(|_| (0..count).for_each(|source| sources.add(hasher.hash_one(source))));
            assert!((sources.count() as f64 - f64::from(count)).abs() <= off, "{count}: {}", sources.count());
        }
    }
}
