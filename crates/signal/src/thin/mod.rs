//! Thinning that keeps peaks: of so many samples the least, the greatest, the first and the last (M4), as they stream by.
//!
//! Buckets are aligned: one begins at every multiple of its size, so that two thinners of one channel agree. A part of a bucket, in front
//! of a gap or at a change, is a bucket of fewer samples: counts stay exact. What is not a number does not count where others do.

mod blocks;
mod extremes;
#[cfg(test)]
mod tests;

use weir_wire::signal::{Block, Bucket, Values};

pub use blocks::BlockThinner;
pub use extremes::Sample;
use extremes::extremes;
pub use extremes::of_wire;

/// Thins one channel.
#[derive(Clone, Debug)]
pub struct Thinner {
    bucket: u32,
    open: Option<Thinned>,
}

/// A bucket, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thinned {
    /// Index of its first sample.
    pub first: u64,
    /// Samples that it stands for, at least 1.
    pub samples: u32,
    /// What they were.
    pub bucket: Bucket,
}

impl Thinner {
    /// Makes buckets of so many samples; of 0 is of 1.
    pub fn new(bucket: u32) -> Self {
        Self { bucket: bucket.max(1), open: None }
    }

    /// Samples a bucket.
    pub fn bucket(&self) -> u32 {
        self.bucket
    }

    /// The bucket that is not full yet.
    pub fn open(&self) -> Option<&Thinned> {
        self.open.as_ref()
    }

    /// Takes samples, the first of which has that index. Where it is not the next one, what was open is emitted first.
    pub fn push<S: Sample>(&mut self, first: u64, samples: &[S], mut emit: impl FnMut(Thinned)) {
        let (mut at, mut rest) = (first, samples);
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(self.left(at).min(rest.len() as u64) as usize);
            // A part is no longer than a bucket.
            self.add(Thinned { first: at, samples: part.len() as u32, bucket: extremes(part) }, &mut emit);
            at += part.len() as u64;
            rest = behind;
        }
    }

    /// Takes buckets of `each` samples, the first sample of which has that index. One belongs to the bucket that it begins in: where
    /// sizes are no multiples, buckets end where these do.
    pub fn push_buckets(
        &mut self,
        first: u64,
        each: u32,
        buckets: impl IntoIterator<Item = Bucket>,
        mut emit: impl FnMut(Thinned),
    ) {
        let mut at = first;
        for bucket in buckets {
            self.add(Thinned { first: at, samples: each, bucket }, &mut emit);
            at += u64::from(each);
        }
    }

    /// Takes a block of either; a gap emits what was open.
    pub fn push_block(&mut self, block: &Block<'_>, mut emit: impl FnMut(Thinned)) {
        match block.values {
            Values::Samples(..) => {
                let (mut each, mut first, mut part) = (block.each(), block.first, [0.0; PART]);
                while each.len() > 0 {
                    let length = each.len().min(PART);
                    part.iter_mut().zip(&mut each).for_each(|(to, value)| *to = value);
                    self.push(first, &part[..length], &mut emit);
                    first += length as u64;
                }
            }
            Values::Buckets(_, each, _) => {
                self.push_buckets(block.first, each, block.buckets().map(|(_, bucket)| bucket), emit);
            }
            Values::Gap(_) => self.flush(emit),
        }
    }

    /// Emits what is open: nothing follows, or not at once.
    pub fn flush(&mut self, emit: impl FnMut(Thinned)) {
        self.open.take().into_iter().for_each(emit);
    }

    /// Samples from an index to the end of its bucket.
    fn left(&self, at: u64) -> u64 {
        let bucket = u64::from(self.bucket);
        bucket - at % bucket
    }

    /// Takes a part, which begins in one bucket.
    fn add(&mut self, part: Thinned, emit: &mut impl FnMut(Thinned)) {
        let whole = match self.open.take() {
            Some(open) if open.end() == part.first && !open.samples.overflowing_add(part.samples).1 => open.and(&part),
            Some(open) => {
                emit(open);
                part
            }
            None => part,
        };
        // Full, where its end is not in the bucket that it begins in.
        if whole.samples >= self.bucket || u64::from(whole.samples) >= self.left(whole.first) {
            emit(whole);
        } else {
            self.open = Some(whole);
        }
    }
}

impl Thinned {
    /// Index behind its last sample.
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.samples)
    }

    fn and(&self, next: &Self) -> Self {
        Self { first: self.first, samples: self.samples + next.samples, bucket: join(&self.bucket, &next.bucket) }
    }
}

/// Of two that follow each other.
fn join(a: &Bucket, b: &Bucket) -> Bucket {
    let or = |value: f64, other: f64| if value.is_nan() { other } else { value };
    Bucket {
        // Of a number and none, the number.
        least: a.least.min(b.least),
        greatest: a.greatest.max(b.greatest),
        first: or(a.first, b.first),
        last: or(b.last, a.last),
    }
}

/// Values of a block that are looked at together.
const PART: usize = 256;
