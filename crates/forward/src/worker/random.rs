//! Random choices at the price of a few instructions: for samples, not for secrets.

/// A generator, seeded anew each time: samples of several workers, or tees in a row, must not be the same.
#[derive(Default)]
pub(super) struct Random(fastrand::Rng);

impl Random {
    /// True once in `n` times.
    pub(super) fn one_in(&mut self, n: u32) -> bool {
        self.0.u32(..n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_n_is_that() {
        let mut random = Random(fastrand::Rng::with_seed(1));
        for n in [2_u32, 10, 1_000] {
            let draws = 1_000 * n;
            let hits = (0..draws).filter(|_| random.one_in(n)).count();
            // 1,000 expected, standard deviation below 32.
            assert!(hits.abs_diff(1_000) < 200, "{hits} of {draws}");
        }
        assert!((0..100).all(|_| random.one_in(1)));
    }
}
