//! How many different keys there are over all data sources and shards (Flajolet, Fusy, Gandouet, Meunier, "HyperLogLog", 2007).

use super::ranking::hash;
use super::view::Flow;

/// A count of different keys; 4 KiB, whatever the number. Its standard error is 1.6 %; small numbers are nearly exact.
#[derive(Clone, Debug)]
pub struct Distinct {
    ranks: Vec<u8>,
}

impl Default for Distinct {
    fn default() -> Self {
        Self { ranks: vec![0; RANKS] }
    }
}

impl Distinct {
    /// Shows it a flow.
    pub fn offer(&mut self, flow: &Flow<'_>) {
        self.add(hash(flow.key()));
    }

    fn add(&mut self, hash: u64) {
        let (at, rest) = ((hash >> (64 - BITS)) as usize, hash << BITS);
        self.ranks[at] = self.ranks[at].max(rest.leading_zeros() as u8 + 1);
    }

    /// The estimate.
    pub fn count(&self) -> f64 {
        let m = RANKS as f64;
        let sum: f64 = self.ranks.iter().map(|&rank| (-f64::from(rank)).exp2()).sum();
        let estimate = 0.7213 / (1.0 + 1.079 / m) * m * m / sum;
        let empty = self.ranks.iter().filter(|&&rank| rank == 0).count();
        // As long as places are empty, their number tells more.
        if estimate <= 2.5 * m && empty > 0 { m * (m / empty as f64).ln() } else { estimate }
    }
}

const BITS: u32 = 12;

const RANKS: usize = 1 << BITS;

#[cfg(test)]
mod tests {
    use weir_testbed::random::Source;

    use super::*;

    #[test]
    fn the_error_is_as_stated() {
        let mut source = Source::drawn();
        // Six deviations and more: of 1.6 %, of 1.3 % with 3,000, and of 100 some may share a place.
        for (count, bound) in [(0, 0.0), (1, 0.001), (100, 0.12), (3000, 0.08), (30_000, 0.1), (300_000, 0.1)] {
            let mut distinct = Distinct::default();
            for _ in 0..count {
                let bits = hash(&source.bits().to_be_bytes());
                // Twice is once.
                distinct.add(bits);
                distinct.add(bits);
            }
            let error = (distinct.count() - f64::from(count)).abs() / f64::from(count.max(1));
            assert!(error <= bound, "{count}: {}", distinct.count());
        }
    }
}
