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

/// Where an output stands in a channel.
#[derive(Debug)]
pub(super) struct Follower {
    at: u64,
    most: f64,
    /// Samples since the last point.
    open: Option<Open>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    /// Which of the points, counted from the channel's first sample.
    number: u64,
    time: i64,
    last: f64,
    least: f64,
    greatest: f64,
    single: bool,
}

impl Follower {
    pub(super) fn new(at: u64, most: f64) -> Self {
        Self { at, most, open: None }
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn stand(&mut self, at: u64) {
        self.at = at;
    }

    /// Adds the points that a block makes. What cannot be measured makes none.
    pub(super) fn take(&mut self, block: &Block<'_>, (scale, offset): (f64, f64), points: &mut Vec<Point>) {
        let each = (block.rate.per_s() / self.most).ceil().clamp(1.0, 1e12) as u64;
        if let Values::Gap(gap) = block.values {
            self.close(points);
            points.push(Point { time: block.time, what: What::Missing(gap.samples, gap.cause) });
        }
        let single = each == 1 && matches!(block.values, Values::Samples(..));
        for (first, bucket) in block.buckets() {
            let time = block.time_of(first + block.step() - 1);
            self.add(first / each, time, bucket.scaled(scale, offset), single, points);
        }
    }

    fn add(&mut self, number: u64, time: i64, bucket: Bucket, single: bool, points: &mut Vec<Point>) {
        let Bucket { least, greatest, last, .. } = bucket;
        if !(last.is_finite() && least.is_finite() && greatest.is_finite()) {
            return;
        }
        if self.open.is_some_and(|open| open.number != number) {
            self.close(points);
        }
        let open = self.open.get_or_insert(Open { number, time, last, least, greatest, single });
        *open = Open { time, last, least: open.least.min(least), greatest: open.greatest.max(greatest), ..*open };
        // A sample of its own need not wait for the next.
        if single {
            self.close(points);
        }
    }

    /// Ends the point that is open.
    pub(super) fn close(&mut self, points: &mut Vec<Point>) {
        if let Some(Open { time, last, least, greatest, single, .. }) = self.open.take() {
            let what = if single { What::Value(last) } else { What::Envelope(last, least, greatest) };
            points.push(Point { time, what });
        }
    }
}
