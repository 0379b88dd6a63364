//! What an archive will never have: samples that came and could not be kept, until a gap can be written for them.

use std::collections::BTreeMap;

use weir_wire::signal::{Block, Cause, Gap, Rate, Values};

/// By session and number of the channel: the samples that are due as a gap.
#[derive(Debug, Default)]
pub(super) struct Lost(BTreeMap<(u64, u16), Due>);

#[derive(Clone, Copy, Debug)]
struct Due {
    first: u64,
    time: i64,
    rate: Rate,
    samples: u64,
}

impl Lost {
    /// Counts a block of a channel as lost, behind what was lost of it before; returns its samples. A gap that is lost was one before.
    pub(super) fn add(&mut self, key: (u64, u16), block: &Block<'_>) -> u64 {
        let due =
            self.0.entry(key).or_insert(Due { first: block.first, time: block.time, rate: block.rate, samples: 0 });
        due.samples = due.samples.max(block.end().saturating_sub(due.first));
        block.samples()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Samples of all gaps that are due.
    pub(super) fn samples(&self) -> u64 {
        self.0.values().map(|due| due.samples).sum()
    }

    /// Channels of which a gap is due.
    pub(super) fn keys(&self) -> impl Iterator<Item = (u64, u16)> {
        self.0.keys().copied()
    }

    /// The gap that is due, which goes in front of the channel's next block.
    pub(super) fn take(&mut self, key: (u64, u16)) -> Option<Block<'static>> {
        self.0.remove(&key).map(|due| due.block(key))
    }

    /// All gaps that are due.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = ((u64, u16), Block<'static>)> {
        std::mem::take(&mut self.0).into_iter().map(|(key, due)| (key, due.block(key)))
    }
}

impl Due {
    fn block(self, (_, channel): (u64, u16)) -> Block<'static> {
        let Self { first, time, rate, samples } = self;
        Block { channel, first, time, rate, values: Values::Gap(Gap { samples, cause: Cause::Server }) }
    }
}
