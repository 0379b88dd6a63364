//! Counts of durations by size, with memory only for the sizes that occur.

/// Counts in buckets whose width is proportional to their values, like HdrHistogram: equally many buckets per power of
/// two. They are in pages, which exist only if something was counted in them: a sample over a few powers of two takes a
/// few KiB, where all buckets would take 290.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    /// Number of buckets, as a power of two, up to the first power of two with several values per bucket.
    bits: u32,
    /// The index + 1 of each page of buckets; 0: it does not exist.
    index: Vec<u16>,
    pages: Vec<[u64; PAGE]>,
}

impl Histogram {
    /// With three digits.
    pub(crate) const FINE: u32 = 11;

    /// With two digits.
    pub(crate) const COARSE: u32 = 8;

    /// An empty histogram with this precision.
    pub(crate) fn new(bits: u32) -> Self {
        Self { bits, index: Vec::new(), pages: Vec::new() }
    }

    /// Counts a value this many times. Allocates only for a size that had no count.
    pub(crate) fn record(&mut self, value: u64, times: u64) {
        let bucket = self.bucket(value);
        let count = self.count_mut(bucket);
        *count = count.saturating_add(times);
    }

    /// Adds another's counts.
    pub(crate) fn add(&mut self, other: &Histogram) {
        other.buckets().for_each(|(bucket, count)| self.record(other.highest(bucket), count));
    }

    /// Subtracts an earlier state's counts.
    pub(crate) fn subtract(&mut self, earlier: &Histogram) {
        for (bucket, count) in earlier.buckets() {
            let left = self.count_mut(bucket);
            *left = left.saturating_sub(count);
        }
    }

    /// The value of this rank (1: the smallest), as the upper end of its bucket; 0 if there are too few values.
    pub(crate) fn of_rank(&self, rank: u64) -> u64 {
        let mut below = 0_u64;
        let found = self.buckets().find(|(_, count)| {
            below = below.saturating_add(*count);
            below >= rank
        });
        found.map_or(0, |(bucket, _)| self.highest(bucket))
    }

    /// The min, to the precision of its bucket; 0 if it is empty.
    pub(crate) fn min(&self) -> u64 {
        self.buckets().next().map_or(0, |(bucket, _)| self.lowest(bucket))
    }

    /// The max, to the precision of its bucket; 0 if it is empty.
    pub(crate) fn max(&self) -> u64 {
        self.buckets().last().map_or(0, |(bucket, _)| self.highest(bucket))
    }

    /// The buckets with a count, ascending, and the count.
    fn buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let pages = self.index.iter().enumerate().filter(|(_, place)| **place > 0);
        let of_page = |(number, place): (usize, &u16)| {
            self.pages[usize::from(*place) - 1].iter().enumerate().map(move |(at, count)| (number * PAGE + at, *count))
        };
        pages.flat_map(of_page).filter(|(_, count)| *count > 0)
    }

    fn count_mut(&mut self, bucket: usize) -> &mut u64 {
        let (number, at) = (bucket / PAGE, bucket % PAGE);
        if number >= self.index.len() {
            self.index.resize(number + 1, 0);
        }
        if self.index[number] == 0 {
            self.pages.push([0; PAGE]);
            // 54 powers of two with 1024 buckets each are 3456 pages at most.
            self.index[number] = self.pages.len() as u16;
        }
        &mut self.pages[usize::from(self.index[number]) - 1][at]
    }

    fn bucket(&self, value: u64) -> usize {
        let shift = (64 - value.leading_zeros()).saturating_sub(self.bits);
        // Below 2^bits one bucket per value, then half as many per power of two.
        (value >> shift) as usize + shift as usize * self.half()
    }

    fn lowest(&self, bucket: usize) -> u64 {
        let shift = (bucket / self.half()).saturating_sub(1);
        ((bucket - shift * self.half()) as u64) << shift
    }

    fn highest(&self, bucket: usize) -> u64 {
        let shift = (bucket / self.half()).saturating_sub(1);
        self.lowest(bucket) + ((1 << shift) - 1)
    }

    fn half(&self) -> usize {
        1 << (self.bits - 1)
    }
}

/// Buckets per page.
const PAGE: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bucket_holds_its_value_to_its_digits(value in any::<u64>(), shift in 0_u32..64, fine in any::<bool>()) {
            let value = value >> shift;
            let histogram = Histogram::new(if fine { Histogram::FINE } else { Histogram::COARSE });
            let bucket = histogram.bucket(value);
            let (low, high) = (histogram.lowest(bucket), histogram.highest(bucket));
            prop_assert!(low <= value && value <= high);
            let digits = if fine { 1024.0 } else { 128.0 };
            prop_assert!((high - low) as f64 <= low as f64 / digits);
            prop_assert_eq!((histogram.bucket(low), histogram.bucket(high)), (bucket, bucket));
            prop_assert!(high == u64::MAX || histogram.bucket(high + 1) == bucket + 1);
        }

        #[test]
        fn ranks_are_those_of_the_sorted_values(mut values in proptest::collection::vec(0_u64..1 << 40, 1..300)) {
            let mut histogram = Histogram::new(Histogram::FINE);
            values.iter().for_each(|&value| histogram.record(value, 1));
            values.sort_unstable();
            for (rank, &value) in (1..).zip(&values) {
                prop_assert_eq!(histogram.of_rank(rank), histogram.highest(histogram.bucket(value)));
            }
            prop_assert_eq!(histogram.of_rank(values.len() as u64 + 1), 0);
        }
    }

    #[test]
    fn memory_is_for_what_occurs() {
        let mut histogram = Histogram::new(Histogram::FINE);
        (0..1_000_000).for_each(|n| histogram.record(1_000_000 + n % 8000, 1));
        assert!(histogram.pages.len() <= 2 && histogram.index.len() < 1000, "{}", histogram.pages.len());
    }
}
