//! Fewer samples where more come than are looked at: one of so many, chosen at random before it is known what is in it, which counts for all
//! of them. What a full queue has no room for would be missing without a trace, and floods with it.

/// How many samples are told, by how full the queue is.
#[derive(Debug)]
pub(super) struct Thinning {
    one_in: u32,
    until_look: u32,
    /// A generator of Marsaglia's (xorshift64): nobody gains by guessing it.
    random: u64,
}

impl Thinning {
    /// All are told. `seed`: what is random follows from it.
    pub(super) fn new(seed: u64) -> Self {
        Self { one_in: 1, until_look: 0, random: seed | 1 }
    }

    /// Whether this sample is told, and for how many it counts. `free`: tells how many of so many places are free.
    #[inline]
    pub(super) fn choose(&mut self, free: impl FnOnce() -> (usize, usize)) -> Option<u32> {
        if self.until_look == 0 {
            (self.one_in, self.until_look) = (one_in(free()), LOOKS_APART);
        }
        self.until_look -= 1;
        if self.one_in == 1 {
            return Some(1);
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 32) as u32).is_multiple_of(self.one_in).then_some(self.one_in)
    }
}

/// All while half of the queue is free; from there on twice as few for each eighth of that half, so that it hardly ever is full.
fn one_in((free, places): (usize, usize)) -> u32 {
    let taken = places - free.min(places);
    let eighths = (2 * taken).saturating_sub(places) * 8 / places.max(1);
    1 << eighths.min(8)
}

/// From one look at the queue to the next, in samples: it hardly changes meanwhile.
const LOOKS_APART: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_count_for_those_that_are_left_out() {
        for (taken, one_in) in [(0, 1), (8_192, 1), (9_300, 2), (12_300, 16), (16_384, 256)] {
            let mut thinning = Thinning::new(weir_testbed::random::seed());
            let count = 200_000;
            let told: Vec<u32> = (0..count).filter_map(|_| thinning.choose(|| (16_384 - taken, 16_384))).collect();
            assert!(told.iter().all(|&of| of == one_in), "{taken}");
            let sum: f64 = told.iter().copied().map(f64::from).sum();
            // Of n that are chosen with 1/k: a standard deviation of sqrt(n k), of which seven are enough.
            assert!((sum - f64::from(count)).abs() <= 7.0 * f64::from(count * one_in).sqrt(), "{taken}: {sum}");
        }
    }
}
