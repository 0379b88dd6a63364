//! One channel of a session: from blocks in order to samples in order, with exact gaps.

use std::sync::Arc;
use std::time::Duration;

use weir_wire::signal::{Block, Cause, Channel, Element, Gap, Rate, Values};

use super::plausible::{Doubt, SLACK, reach};
use crate::derived;

/// Where a channel stands.
#[derive(Debug, Default)]
pub(super) struct Track {
    /// What it is; `None`: not told yet.
    pub(super) known: Option<Arc<Channel>>,
    /// The index that is due, once it is known.
    next: Option<u64>,
    /// When that sample is due, ns, and how fast samples follow; `None`: no block has been here.
    clock: Option<(i64, Rate)>,
    /// Holes that the session had when this channel was last heard of.
    pub(super) holes: u64,
    /// When its index last went on, by the receiver's clock.
    pub(super) moved: Duration,
    doubt: Doubt,
    /// Blocks that wait for the channel's name.
    pub(super) waiting: Vec<Kept>,
}

/// A block that has to be kept.
#[derive(Debug)]
pub(crate) struct Kept {
    first: u64,
    time: i64,
    rate: Rate,
    form: KeptForm,
    values: Vec<u8>,
}

#[derive(Debug)]
enum KeptForm {
    Samples(Element),
    Buckets(Element, u32),
    Gap(Gap),
}

impl Track {
    /// Of which nothing is known, in a session of so many holes.
    pub(super) fn new(holes: u64) -> Self {
        Self { holes, ..Self::default() }
    }

    /// What a block adds: a gap in front of it, if samples are missing, and what of it is new. `repeated`: counts samples that were
    /// here before.
    pub(super) fn accept<'a>(
        &mut self,
        block: Block<'a>,
        cause: Cause,
        repeated: &mut u64,
    ) -> (Option<Block<'a>>, Option<Block<'a>>) {
        let due = self.next.unwrap_or(block.first);
        let before = i128::from(block.time) - block.rate.nanos(block.first.saturating_sub(due));
        let Some(block) = trim(block, due, repeated) else { return (None, None) };
        let missing = block.first - due;
        let gap = (missing > 0).then(|| Block {
            channel: block.channel,
            first: due,
            time: self.clock.map_or(nearest(before), |(time, _)| time),
            rate: block.rate,
            values: Values::Gap(Gap { samples: missing, cause }),
        });
        self.next = Some(block.end());
        let end = i128::from(block.time) + block.rate.nanos(block.samples());
        self.clock = Some((nearest(end), block.rate));
        (gap, Some(block))
    }

    /// Whether the sender can have got to an index by now, or enough in a row say that it has. `rate`: of the block, where nothing
    /// better is known. `is_own`: it comes from where the session's data comes from.
    pub(super) fn believes(&mut self, index: u64, rate: Option<Rate>, is_own: bool, now: Duration) -> bool {
        let Some(next) = self.next else { return true };
        let known = self.known.as_ref().map(|known| known.rate);
        let Some(rate) = known.or(self.clock.map(|(_, rate)| rate)).or(rate) else { return true };
        let (count, span) = (u64::from(rate.per_second), Duration::from_secs(u64::from(rate.per_sample)));
        let plausible = index.saturating_sub(next) <= reach(count, span, now.saturating_sub(self.moved));
        if is_own { self.doubt.judge(index, plausible, SLACK, now) } else { plausible }
    }

    /// Whether a server makes it of others.
    pub(super) fn is_derived(&self) -> bool {
        self.known.as_ref().is_some_and(|known| derived::is_one(&known.origin, "", &known.name))
    }

    /// The index that is due.
    pub(super) fn next(&self) -> Option<u64> {
        self.next
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

    /// What the sender's word adds that its next sample has an index: a gap, if that is not the one that is due. `now`: when nothing
    /// better is known of the time.
    pub(super) fn reach(&mut self, channel: u16, index: u64, cause: Cause, now: i64) -> Option<Block<'static>> {
        let due = *self.next.get_or_insert(index);
        let samples = index.checked_sub(due).filter(|&samples| samples > 0)?;
        let rate = self.clock.map(|(_, rate)| rate).or_else(|| self.known.as_ref().map(|known| known.rate))?;
        let time = self.clock.map_or_else(|| nearest(i128::from(now) - rate.nanos(samples)), |(time, _)| time);
        self.next = Some(index);
        self.clock = Some((nearest(i128::from(time) + rate.nanos(samples)), rate));
        Some(Block { channel, first: due, time, rate, values: Values::Gap(Gap { samples, cause }) })
    }
}

impl Kept {
    pub(crate) fn new(block: &Block<'_>) -> Self {
        let (form, values) = match block.values {
            Values::Samples(element, bytes) => (KeptForm::Samples(element), bytes),
            Values::Buckets(element, bucket, bytes) => (KeptForm::Buckets(element, bucket), bytes),
            Values::Gap(gap) => (KeptForm::Gap(gap), [].as_slice()),
        };
        Self { first: block.first, time: block.time, rate: block.rate, form, values: values.to_vec() }
    }

    pub(crate) fn block(&self, channel: u16) -> Block<'_> {
        let values = match self.form {
            KeptForm::Samples(element) => Values::Samples(element, &self.values),
            KeptForm::Buckets(element, bucket) => Values::Buckets(element, bucket, &self.values),
            KeptForm::Gap(gap) => Values::Gap(gap),
        };
        Block { channel, first: self.first, time: self.time, rate: self.rate, values }
    }

    /// When its first sample was, ns since 1970 UTC.
    pub(crate) fn time(&self) -> i64 {
        self.time
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.values.len()
    }

    /// What a channel is of which nothing has been told but its blocks.
    pub(super) fn guess(&self, id: u16) -> Channel {
        let (element, bucket) = match self.form {
            KeptForm::Samples(element) => (element, 1),
            KeptForm::Buckets(element, bucket) => (element, bucket),
            KeptForm::Gap(_) => (Element::default(), 0),
        };
        Channel { id, name: id.to_string(), rate: self.rate, element, bucket, ..Channel::default() }
    }
}

/// What of a block is not before the index that is due; `None`: nothing.
fn trim<'a>(block: Block<'a>, due: u64, repeated: &mut u64) -> Option<Block<'a>> {
    let old = due.saturating_sub(block.first);
    if old == 0 {
        return Some(block);
    }
    *repeated = repeated.saturating_add(old.min(block.samples()));
    if block.end() <= due {
        return None;
    }
    // A bucket is whole: of one that is partly known the rest is missing.
    let (skipped, values) = match block.values {
        Values::Samples(element, bytes) => (old, Values::Samples(element, bytes.get(old as usize * element.size()..)?)),
        Values::Buckets(element, bucket, bytes) => {
            let buckets = old.div_ceil(u64::from(bucket));
            let bytes = bytes.get(buckets as usize * 4 * element.size()..).filter(|bytes| !bytes.is_empty())?;
            (buckets * u64::from(bucket), Values::Buckets(element, bucket, bytes))
        }
        Values::Gap(gap) => (old, Values::Gap(Gap { samples: gap.samples - old, ..gap })),
    };
    let time = nearest(i128::from(block.time) + block.rate.nanos(skipped));
    Some(Block { first: block.first + skipped, time, values, ..block })
}
/// As near as a time can be written.
fn nearest(nanos: i128) -> i64 {
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}
