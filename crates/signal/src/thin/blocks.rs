//! The blocks of a channel, thinned: each with its time.

use weir_wire::signal::{Block, Element, Values};

use super::{Thinned, Thinner};

/// Thins the blocks of one channel, one behind another. What is thin enough, and gaps, stay as they are.
#[derive(Debug)]
pub struct BlockThinner {
    thinner: Thinner,
    /// Where the block before ended: the next one, without its values.
    due: Option<Block<'static>>,
    /// Of buckets that follow one another.
    values: Vec<u8>,
}

impl BlockThinner {
    /// To buckets of so many samples; of 1: as they are.
    pub fn new(bucket: u32) -> Self {
        Self { thinner: Thinner::new(bucket), due: None, values: Vec::new() }
    }

    /// Samples a bucket.
    pub fn bucket(&self) -> u32 {
        self.thinner.bucket()
    }

    /// Goes on with buckets of another size.
    pub fn set_bucket(&mut self, bucket: u32, emit: impl FnMut(Block<'_>)) {
        if bucket != self.bucket() {
            self.flush(emit);
            self.thinner = Thinner::new(bucket);
        }
    }

    /// Takes the next block.
    pub fn push(&mut self, block: &Block<'_>, mut emit: impl FnMut(Block<'_>)) {
        let is_fine = match block.values {
            Values::Samples(..) => self.bucket() == 1,
            Values::Buckets(_, each, _) => each >= self.bucket(),
            Values::Gap(_) => true,
        };
        if is_fine || !self.due.is_some_and(|due| goes_on(&due, block)) {
            self.flush(&mut emit);
        }
        if is_fine {
            emit(*block);
        } else {
            self.thin(block, |thinner, emit| thinner.push_block(block, emit), emit);
        }
        self.due = Some(Block { first: block.end(), time: block.time_of(block.end()), ..block.head() });
    }

    /// Emits what is open: nothing follows yet.
    pub fn flush(&mut self, emit: impl FnMut(Block<'_>)) {
        if let Some(due) = self.due {
            self.thin(&due, |thinner, emit| thinner.flush(emit), emit);
        }
    }

    /// Emits buckets, those of one size together. `near`: a block whose times are theirs.
    fn thin(
        &mut self,
        near: &Block<'_>,
        with: impl FnOnce(&mut Thinner, &mut dyn FnMut(Thinned)),
        mut emit: impl FnMut(Block<'_>),
    ) {
        let Self { thinner, values, .. } = self;
        let element = element(near);
        let mut run: Option<Thinned> = None;
        let mut close = |run: Option<Thinned>, values: &mut Vec<u8>| {
            if let Some(Thinned { first, samples, .. }) = run {
                // One that was open begins in front of the block.
                let time = near.rate.before(near.time_of(first.max(near.first)), near.first.saturating_sub(first));
                emit(Block { first, time, values: Values::Buckets(element, samples, values), ..near.head() });
                values.clear();
            }
        };
        with(thinner, &mut |thinned| {
            if run.is_some_and(|run| run.samples != thinned.samples) {
                close(run.take(), values);
            }
            run.get_or_insert(thinned);
            let bucket = thinned.bucket;
            [bucket.least, bucket.greatest, bucket.first, bucket.last]
                .into_iter()
                .for_each(|value| element.write(value, values));
        });
        close(run, values);
    }
}

fn element(block: &Block<'_>) -> Element {
    match block.values {
        Values::Samples(element, _) | Values::Buckets(element, ..) => element,
        Values::Gap(_) => Element::default(),
    }
}

/// Whether a block goes on where another is due: in time, too.
fn goes_on(due: &Block<'_>, block: &Block<'_>) -> bool {
    let apart = i128::from(block.time) - i128::from(due.time);
    let is_near = apart.abs() * 2 <= block.rate.nanos(1).max(2);
    due.first == block.first && due.rate == block.rate && element(due) == element(block) && is_near
}
