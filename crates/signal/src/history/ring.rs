//! What is kept of one channel: runs of samples, buckets and gaps, one behind another.

use std::collections::VecDeque;
use std::time::Duration;

use weir_wire::signal::{Block, Cause, Gap, OwnedBlock, Values};

use super::Extent;

#[derive(Debug, Default)]
pub(super) struct Ring {
    /// Samples, buckets or a gap each, in one go.
    runs: VecDeque<OwnedBlock>,
    /// Bytes of all values.
    bytes: usize,
    end: u64,
    end_time: i64,
    /// Where it began anew.
    renewed: u64,
    /// See [`Extent::has_ended`].
    pub(super) has_ended: bool,
}

impl Ring {
    pub(super) fn extent(&self) -> Extent {
        let first = self.runs.front().map(OwnedBlock::block);
        Extent {
            begin: first.map_or(self.end, |run| run.first),
            end: self.end,
            begin_time: first.map_or(self.end_time, |run| run.time),
            end_time: self.end_time,
            has_ended: self.has_ended,
        }
    }

    pub(super) fn append(&mut self, block: &Block<'_>) {
        // No more than there are indices.
        if self.end.checked_add(block.samples()).is_none() {
            return;
        }
        let block = Block { channel: 0, first: self.end, ..*block };
        match self.runs.back_mut() {
            Some(run) if continues(&run.block(), &block) => run.extend(&block),
            _ => self.runs.push_back(OwnedBlock::new(&block)),
        }
        self.bytes += block.values.bytes().len();
        self.end = block.end();
        self.end_time = block.time_of(block.end());
        self.has_ended = false;
    }

    /// Begins anew: what there is means something else than what comes next. `is_same`: of the same channel, whose readers go on.
    pub(super) fn renew(&mut self, is_same: bool) {
        let renewed = if is_same { self.end } else { 0 };
        *self = Self { end: self.end, renewed, ..Self::default() };
    }

    /// Drops the oldest runs beyond a time and a size. The newest stays.
    pub(super) fn trim(&mut self, span: Duration, bytes: usize) {
        let oldest = self.end_time.saturating_sub(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX));
        while self.runs.len() > 1 {
            let old = self.runs[1].block().time <= oldest || self.bytes > bytes || self.runs.len() > MOST_RUNS;
            if !old {
                break;
            }
            self.bytes -= self.runs.pop_front().map_or(0, |run| run.block().values.bytes().len());
        }
    }

    /// Shows what there is from an index on, up to about so many bytes, and returns the index behind it: see [`super::History::read`].
    pub(super) fn read(&self, from: u64, most_bytes: usize, mut look: impl FnMut(Block<'_>)) -> u64 {
        let Some(oldest) = self.runs.front().map(OwnedBlock::block) else { return from };
        let mut at = from;
        if from < oldest.first {
            let samples = oldest.first - from;
            let time = oldest.rate.before(oldest.time, samples);
            // What was dropped when it began anew nobody could have read faster.
            let cause = if oldest.first == self.renewed { Cause::Server } else { Cause::Viewer };
            let values = Values::Gap(Gap { samples, cause });
            look(Block { channel: 0, first: from, time, rate: oldest.rate, values });
            at = oldest.first;
        }
        let mut left = most_bytes;
        let start = self.runs.partition_point(|run| run.block().end() <= at);
        for run in self.runs.range(start..).map(OwnedBlock::block) {
            if left == 0 {
                break;
            }
            let block = most(run.split_at(at).1, left);
            at = block.end();
            left = left.saturating_sub(block.values.bytes().len());
            look(block);
            if at < run.end() {
                break;
            }
        }
        at
    }

    /// See [`super::History::cursor`]; times may step back between runs, the first that fits is taken.
    pub(super) fn index_at(&self, time: i64) -> u64 {
        for run in self.runs.iter().map(OwnedBlock::block) {
            if time < run.time_of(run.end()) {
                let after = i128::from(time) - i128::from(run.time);
                return run.first + run.rate.samples(after + run.rate.nanos(1) - 1).min(run.samples());
            }
        }
        self.end
    }
}

/// Whether a block is like a run, and begins where that ends: by its time, too.
fn continues(run: &Block<'_>, block: &Block<'_>) -> bool {
    // Clocks are set by little all the time: what is less than half a sample is no step, as long as it does not add up in the run.
    let step = i128::from(block.time) - i128::from(run.time_of(run.end()));
    let near = step.abs() * 2 <= run.rate.nanos(1).max(2);
    run.is_like(block) && near && run.values.bytes().len() < MOST_RUN_BYTES
}

/// As much of the beginning of a block as about so many bytes have, one of its values at least.
fn most(block: Block<'_>, bytes: usize) -> Block<'_> {
    let (Values::Samples(element, _) | Values::Buckets(element, ..)) = block.values else { return block };
    let count = (bytes / block.values.form().size(element)).max(1) as u64;
    block.split_at(block.first.saturating_add(count.saturating_mul(block.step()))).0
}

/// Bytes of values after which a run is followed by another: what is dropped at once.
const MOST_RUN_BYTES: usize = 16 << 10;

/// Runs of a channel: gaps have no bytes, and may be many.
const MOST_RUNS: usize = 100_000;
