//! What is kept of one channel: runs of samples, buckets and gaps, one behind another.

use std::collections::VecDeque;
use std::time::Duration;

use weir_wire::signal::{Block, Cause, Element, Form, Gap, Rate, Values};

use super::Extent;

#[derive(Debug, Default)]
pub(super) struct Ring {
    runs: VecDeque<Run>,
    /// Bytes of all values.
    bytes: usize,
    end: u64,
    end_time: i64,
    /// Where it began anew.
    renewed: u64,
}

/// Samples, buckets or a gap, in one go.
#[derive(Debug)]
struct Run {
    first: u64,
    samples: u64,
    time: i64,
    rate: Rate,
    element: Element,
    form: Form,
    /// Values as on the wire; of a gap none.
    values: Vec<u8>,
    cause: Cause,
}

impl Ring {
    pub(super) fn extent(&self) -> Extent {
        let first = self.runs.front();
        Extent {
            begin: first.map_or(self.end, |run| run.first),
            end: self.end,
            begin_time: first.map_or(self.end_time, |run| run.time),
            end_time: self.end_time,
        }
    }

    pub(super) fn append(&mut self, block: &Block<'_>) {
        let (element, values, cause) = match block.values {
            Values::Samples(element, values) | Values::Buckets(element, _, values) => (element, values, Cause::Unknown),
            Values::Gap(gap) => (Element::F32, [].as_slice(), gap.cause),
        };
        let form = block.values.form();
        let samples = block.samples();
        match self.runs.back_mut() {
            Some(run) if run.continues(block, element, form, cause) => {
                run.values.extend_from_slice(values);
                run.samples += samples;
            }
            _ => self.runs.push_back(Run {
                first: self.end,
                samples,
                time: block.time,
                rate: block.rate,
                element,
                form,
                values: values.to_vec(),
                cause,
            }),
        }
        self.bytes += values.len();
        self.end += samples;
        self.end_time = block.time.saturating_add(i64::try_from(block.rate.nanos(samples)).unwrap_or(i64::MAX));
    }

    /// Forgets all that there is: what comes next goes on behind it.
    pub(super) fn clear(&mut self) {
        *self = Self { end: self.end, ..Self::default() };
    }

    /// Begins anew: what there is means something else than what comes next. Whether there was anything.
    pub(super) fn renew(&mut self) -> bool {
        let had = !self.runs.is_empty();
        *self = Self { end: self.end, renewed: self.end, ..Self::default() };
        had
    }

    /// Drops the oldest runs beyond a time and a size. The newest stays.
    pub(super) fn trim(&mut self, span: Duration, bytes: usize) {
        let oldest = self.end_time.saturating_sub(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX));
        while self.runs.len() > 1 {
            let old = self.runs[1].time <= oldest || self.bytes > bytes || self.runs.len() > MOST_RUNS;
            if !old {
                break;
            }
            self.bytes -= self.runs.pop_front().map_or(0, |run| run.values.len());
        }
    }

    /// See [`super::History::read`].
    pub(super) fn read(&self, from: u64, most_bytes: usize, mut look: impl FnMut(Block<'_>)) -> u64 {
        let Some(oldest) = self.runs.front() else { return from };
        let mut at = from;
        if from < oldest.first {
            let samples = oldest.first - from;
            let time = oldest.time.saturating_sub(i64::try_from(oldest.rate.nanos(samples)).unwrap_or(i64::MAX));
            // What was dropped when it began anew nobody could have read faster.
            let cause = if oldest.first == self.renewed { Cause::Server } else { Cause::Viewer };
            let values = Values::Gap(Gap { samples, cause });
            look(Block { channel: 0, first: from, time, rate: oldest.rate, values });
            at = oldest.first;
        }
        let mut left = most_bytes;
        let start = self.runs.partition_point(|run| run.first + run.samples <= at);
        for run in self.runs.range(start..) {
            if left == 0 {
                break;
            }
            let block = run.from(at, left);
            at = block.end();
            left = left.saturating_sub(match block.values {
                Values::Samples(_, values) | Values::Buckets(_, _, values) => values.len(),
                Values::Gap(_) => 0,
            });
            let whole = at >= run.first + run.samples;
            look(block);
            if !whole {
                break;
            }
        }
        at
    }

    /// See [`super::History::index_at`]; times may step back between runs, the first that fits is taken.
    pub(super) fn index_at(&self, time: i64) -> u64 {
        for run in &self.runs {
            let end = i128::from(run.time) + run.rate.nanos(run.samples);
            if i128::from(time) < end {
                let after = i128::from(time) - i128::from(run.time);
                return run.first + run.rate.samples(after + run.rate.nanos(1) - 1).min(run.samples);
            }
        }
        self.end
    }
}

impl Run {
    /// Whether a block is the same in all but its values, and begins where this ends: by its time, too.
    fn continues(&self, block: &Block<'_>, element: Element, form: Form, cause: Cause) -> bool {
        let same = self.rate == block.rate && self.element == element && self.form == form && self.cause == cause;
        let due = i128::from(self.time) + self.rate.nanos(self.samples);
        // Clocks are set by little all the time: what is less than half a sample is no step, as long as it does not add up in the run.
        let near = (i128::from(block.time) - due).abs() * 2 <= self.rate.nanos(1).max(2);
        same && near && self.values.len() < MOST_RUN_BYTES
    }

    /// What it has from an index on that is in it, of about so many bytes at most.
    fn from(&self, at: u64, most_bytes: usize) -> Block<'_> {
        let skipped = at.saturating_sub(self.first);
        let moved = |skipped: u64| {
            let time = self.time.saturating_add(i64::try_from(self.rate.nanos(skipped)).unwrap_or(i64::MAX));
            (self.first + skipped, time)
        };
        let each = self.form.size(self.element);
        let (skipped, values) = match self.form {
            Form::Samples => {
                let values = &self.values[skipped as usize * each..];
                let most = (most_bytes / each).max(1) * each;
                (skipped, Values::Samples(self.element, &values[..values.len().min(most)]))
            }
            Form::Buckets(bucket) => {
                // A bucket is whole: what begins in it begins with it.
                let buckets = skipped / u64::from(bucket);
                let values = &self.values[buckets as usize * each..];
                let most = (most_bytes / each).max(1) * each;
                let values = Values::Buckets(self.element, bucket, &values[..values.len().min(most)]);
                (buckets * u64::from(bucket), values)
            }
            Form::Gap => (skipped, Values::Gap(Gap { samples: self.samples - skipped, cause: self.cause })),
        };
        let (first, time) = moved(skipped);
        Block { channel: 0, first, time, rate: self.rate, values }
    }
}

/// Bytes of values after which a run is followed by another: what is dropped at once.
const MOST_RUN_BYTES: usize = 16 << 10;

/// Runs of a channel: gaps have no bytes, and may be many.
const MOST_RUNS: usize = 100_000;
