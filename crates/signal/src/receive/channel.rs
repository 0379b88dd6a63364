//! One channel of a session: from blocks in order to samples in order, with exact gaps.

use std::sync::Arc;
use std::time::Duration;

use weir_wire::signal::{Block, Cause, Channel, Gap, OwnedBlock, Rate, Values};

/// Where a channel stands.
#[derive(Debug, Default)]
pub(super) struct Track {
    /// What it is; `None`: not described yet.
    pub(super) known: Option<Arc<Channel>>,
    /// When the first block came that was not described.
    pub(super) undescribed: Option<Duration>,
    /// The index that is due, once it is known.
    next: Option<u64>,
    /// When that sample is due, ns, and how fast samples follow; `None`: no block has been here.
    clock: Option<(i64, Rate)>,
    /// Holes that the session had when this channel was last heard of.
    pub(super) holes: u64,
    /// A block that does not go on from those before: believed when the next one goes on from it.
    elsewhere: Option<OwnedBlock>,
}

impl Track {
    /// Of which nothing is known, in a session of so many holes.
    pub(super) fn new(holes: u64) -> Self {
        Self { holes, ..Self::default() }
    }

    /// Whether a block goes on from those before; one that does not is kept, and the channel goes on there if `block` follows the one
    /// that was kept before, which is returned. `repeated`: counts the samples of those that are dropped.
    pub(super) fn admit(&mut self, block: &Block<'_>, repeated: &mut u64) -> Result<Option<OwnedBlock>, ()> {
        let kept = self.elsewhere.take();
        let is_near =
            self.next.is_none_or(|next| block.end() > next && block.first <= next.saturating_add(far(block.rate)));
        if let Some(kept) = kept {
            if !is_near && kept.block().end() == block.first {
                self.next = self.next.map(|next| next.min(kept.block().first));
                return Ok(Some(kept));
            }
            *repeated = repeated.saturating_add(kept.block().samples());
        }
        if is_near {
            return Ok(None);
        }
        self.elsewhere = Some(OwnedBlock::new(block));
        Err(())
    }

    /// What a block adds: a gap in front of it, if samples are missing, and what of it is new. `repeated`: counts samples that were
    /// here before.
    pub(super) fn accept<'a>(
        &mut self,
        block: &Block<'a>,
        cause: Cause,
        repeated: &mut u64,
    ) -> (Option<Block<'a>>, Option<Block<'a>>) {
        let due = self.next.unwrap_or(block.first);
        *repeated = repeated.saturating_add(due.saturating_sub(block.first).min(block.samples()));
        // A bucket is whole: of one that is partly known the rest is missing.
        let (_, block) = block.split_at(due.saturating_add(block.step() - 1));
        if block.samples() == 0 {
            return (None, None);
        }
        let missing = block.first - due;
        let gap = (missing > 0).then(|| Block {
            first: due,
            time: self.clock.map_or_else(|| block.rate.before(block.time, missing), |(time, _)| time),
            values: Values::Gap(Gap { samples: missing, cause }),
            ..block
        });
        self.next = Some(block.end());
        self.clock = Some((block.time_of(block.end()), block.rate));
        (gap, Some(block))
    }

    /// What has to be added to the indices of another sender, so that a block of it stands where its time says.
    pub(super) fn shift(&self, block: &Block<'_>) -> i64 {
        let (Some(due), Some((time, _))) = (self.next, self.clock) else { return 0 };
        let apart = i128::from(block.time) - i128::from(time);
        let half = block.rate.nanos(1) / 2;
        let samples = block.rate.samples(apart.abs() + half);
        let index = if apart < 0 { due.saturating_sub(samples) } else { due.saturating_add(samples) };
        index.wrapping_sub(block.first).cast_signed()
    }

    /// Whether it is known which index is due: what is not shown from there on is missing.
    pub(super) fn has_begun(&self) -> bool {
        self.next.is_some()
    }

    /// The sender says that its next sample has an index, while nothing can be shown.
    pub(super) fn begin(&mut self, index: u64) {
        self.next.get_or_insert(index);
    }

    /// What the sender's word adds that its next sample has an index: a gap, if that is not the one that is due. `now`: when nothing
    /// better is known of the time.
    pub(super) fn reach(&mut self, channel: u16, index: u64, cause: Cause, now: i64) -> Option<Block<'static>> {
        let due = *self.next.get_or_insert(index);
        let rate = self.clock.map(|(_, rate)| rate).or_else(|| self.known.as_ref().map(|known| known.rate))?;
        let samples = index.checked_sub(due).filter(|samples| (1..=far(rate)).contains(samples))?;
        let time = self.clock.map_or_else(|| rate.before(now, samples), |(time, _)| time);
        let gap = Block { channel, first: due, time, rate, values: Values::Gap(Gap { samples, cause }) };
        self.next = Some(index);
        self.clock = Some((gap.time_of(index), rate));
        Some(gap)
    }
}

/// Samples beyond which a block is believed only with the next one, and a statement not at all: an hour's.
fn far(rate: Rate) -> u64 {
    rate.samples(3_600_000_000_000).max(65_536)
}
