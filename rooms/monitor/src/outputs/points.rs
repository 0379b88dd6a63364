//! Points of a channel: at most so many a second, each with the least and the greatest of what it stands for.

use weir_wire::signal::{Block, Bucket, Cause, Values};

/// What is told of a channel at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// Of the last sample, ns since 1970 UTC.
    pub(super) time: i64,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    /// The last sample.
    Value(f64),
    /// The last, the least and the greatest of several.
    Envelope(f64, f64, f64),
    /// Samples that are not there.
    Missing(u64, Cause),
}

impl Point {
    /// Those of a block that is thinned. What cannot be measured makes none.
    pub(super) fn of(block: &Block<'_>, (scale, offset): (f64, f64)) -> impl Iterator<Item = Self> {
        let gap = match block.values {
            Values::Gap(gap) => Some(Self { time: block.time, what: What::Missing(gap.samples, gap.cause) }),
            _ => None,
        };
        let point = move |(first, bucket): (u64, Bucket)| {
            let Bucket { least, greatest, last, .. } = bucket.scaled(scale, offset);
            let what = match block.values {
                Values::Samples(..) => What::Value(last),
                _ => What::Envelope(last, least, greatest),
            };
            let is_number = [least, greatest, last].into_iter().all(f64::is_finite);
            is_number.then(|| Self { time: block.time_of(first + block.step() - 1), what })
        };
        gap.into_iter().chain(block.buckets().filter_map(point))
    }
}
