//! The blocks of a channel, thinned to what a screen has, each with its time.

use weir_wire::signal::{Block, Element, Rate, Values};

use weir_signal::thin::{Thinned, Thinner};

/// Thins the blocks of one channel, one behind another.
#[derive(Debug)]
pub(super) struct Thinning {
    thinner: Thinner,
    /// What the open bucket begins with.
    open: Option<Begin>,
    /// Where the block before ended.
    due: Option<Begin>,
}

/// A place in a channel.
#[derive(Clone, Copy, Debug)]
struct Begin {
    first: u64,
    time: i64,
    rate: Rate,
    element: Element,
}

/// What comes of blocks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece<'a> {
    /// Fine enough as it is.
    Block(Block<'a>),
    /// A bucket, or a part of one.
    Bucket(Place, Thinned),
}

/// Where a bucket is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) time: i64,
    pub(super) rate: Rate,
    pub(super) element: Element,
}

impl Thinning {
    /// To buckets of so many samples; of 1: as they are.
    pub(super) fn new(bucket: u32) -> Self {
        Self { thinner: Thinner::new(bucket), open: None, due: None }
    }

    pub(super) fn bucket(&self) -> u32 {
        self.thinner.bucket()
    }

    /// Takes the next block.
    pub(super) fn push<'a>(&mut self, block: Block<'a>, mut emit: impl FnMut(Piece<'a>)) {
        let element = match block.values {
            Values::Samples(element, _) | Values::Buckets(element, ..) => Some(element),
            Values::Gap(_) => None,
        };
        let is_fine = match block.values {
            Values::Samples(..) => self.bucket() == 1,
            Values::Buckets(_, each, _) => each >= self.bucket(),
            Values::Gap(_) => true,
        };
        let begin =
            Begin { first: block.first, time: block.time, rate: block.rate, element: element.unwrap_or_default() };
        if is_fine || !self.due.is_some_and(|due| due.continues(&begin)) {
            self.flush(&mut emit);
        }
        self.due = Some(begin.after(block.samples()));
        if is_fine {
            emit(Piece::Block(block));
            return;
        }
        let mut open = self.open;
        self.thinner.push_block(&block, |thinned| {
            let begin = open.take().filter(|open| open.first == thinned.first).unwrap_or(begin);
            emit(begin.piece(thinned));
        });
        self.open = match self.thinner.open() {
            Some(part) if part.first < block.first => self.open,
            Some(part) => Some(begin.after(part.first - block.first)),
            None => None,
        };
    }

    /// Emits what is open: nothing follows yet.
    pub(super) fn flush<'a>(&mut self, emit: &mut impl FnMut(Piece<'a>)) {
        let open = self.open.take();
        self.thinner.flush(|thinned| {
            if let Some(begin) = open {
                emit(begin.piece(thinned));
            }
        });
    }
}

impl Begin {
    fn piece<'a>(self, thinned: Thinned) -> Piece<'a> {
        let Self { time, rate, element, .. } = self.after(thinned.first.saturating_sub(self.first));
        Piece::Bucket(Place { time, rate, element }, thinned)
    }

    fn after(self, samples: u64) -> Self {
        let time = self.rate.after(self.time, samples);
        Self { first: self.first + samples, time, ..self }
    }

    /// Whether another goes on where this is: in time, too.
    fn continues(self, next: &Self) -> bool {
        let apart = i128::from(next.time) - i128::from(self.time);
        let near = apart.abs() * 2 <= self.rate.nanos(1).max(2);
        self.first == next.first && self.rate == next.rate && self.element == next.element && near
    }
}

/// Samples a bucket, so that a screen of so many columns has at least one bucket in each; a power of two, so that coarser ones are whole
/// ones of finer.
pub(super) fn bucket(rate: Rate, seconds: f64, columns: u32) -> u32 {
    let samples = rate.per_s() * seconds / f64::from(columns.max(1));
    if samples < 2.0 { 1 } else { 1 << (samples.min(2_147_483_648.0) as u32).ilog2() }
}

/// Blocks, copied out of the history: it is not held while they are thinned.
#[derive(Debug, Default)]
pub(super) struct Copied {
    /// Without their values, and where those end.
    heads: Vec<(Block<'static>, usize)>,
    values: Vec<u8>,
}

impl Copied {
    pub(super) fn clear(&mut self) {
        self.heads.clear();
        self.values.clear();
    }

    pub(super) fn keep(&mut self, block: &Block<'_>) {
        self.values.extend_from_slice(block.values.bytes());
        self.heads.push((block.head(), self.values.len()));
    }

    /// The blocks, of this channel.
    pub(super) fn blocks(&self, channel: u16) -> impl Iterator<Item = Block<'_>> {
        let mut begin = 0;
        self.heads.iter().map(move |(head, end)| {
            let values = head.values.with(&self.values[begin..*end]);
            begin = *end;
            Block { channel, values, ..*head }
        })
    }

    /// Bytes of their values.
    pub(super) fn bytes(&self) -> usize {
        self.values.len()
    }
}
