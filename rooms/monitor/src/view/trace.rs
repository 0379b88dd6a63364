//! What a curve is drawn of: columns of time, each with the least, the greatest and what is missing in it.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_wire::signal::{Block, Bucket, Values};

use weir_signal::history::{Cursor, History, Listed};

/// The columns of one channel, up to the newest.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    key: u32,
    /// ns of a column.
    width: i64,
    /// At most so many columns.
    most: usize,
    cursor: Cursor,
    columns: VecDeque<Column>,
    /// The channel as its columns have it.
    listed: Option<Arc<Listed>>,
}

/// What there is in a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Column {
    /// Which one: its time divided by the width of columns.
    pub(super) number: i64,
    /// Not a number: no sample in it.
    pub(super) least: f64,
    pub(super) greatest: f64,
    /// Its first and last sample, to which the curve of its neighbours goes on.
    pub(super) first: f64,
    pub(super) last: f64,
    /// Samples that are missing in it.
    pub(super) missing: u64,
}

impl Trace {
    pub(super) fn new(key: u32, width: i64, most: usize) -> Self {
        Self { key, width: width.max(1), most, cursor: Cursor::default(), columns: VecDeque::new(), listed: None }
    }

    pub(super) fn key(&self) -> u32 {
        self.key
    }

    /// The channel as its columns have it: whoever has paused sees it as it was.
    pub(super) fn listed(&self) -> Option<&Arc<Listed>> {
        self.listed.as_ref()
    }

    pub(super) fn is_of(&self, width: i64, most: usize) -> bool {
        self.width == width && self.most == most
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter()
    }

    /// Takes in what has come since.
    pub(super) fn follow(&mut self, history: &History, listed: &Arc<Listed>) {
        let before = self.listed.replace(listed.clone());
        if before.is_some_and(|before| before.id() != listed.id()) {
            self.columns.clear();
        }
        let scaling = (listed.channel.scale, listed.channel.offset);
        let Some(extent) = history.extent(self.key) else { return };
        let span = self.width.saturating_mul(self.most as i64);
        // What has left the picture, or the history, is not looked at.
        let oldest = history.cursor(listed.id(), extent.end_time.saturating_sub(span));
        let mut cursor = Cursor { at: self.cursor.at.max(oldest.at), ..oldest };
        while history.read(&mut cursor, |block| self.take(&block, scaling)) {}
        self.cursor = cursor;
        while self.columns.len() > self.most {
            self.columns.pop_front();
        }
    }

    fn take(&mut self, block: &Block<'_>, (scale, offset): (f64, f64)) {
        for (first, bucket) in block.buckets() {
            self.column(block.time_of(first)).add(bucket.scaled(scale, offset));
        }
        if let Values::Gap(gap) = block.values {
            let (begin, end) = (block.time, block.time_of(block.end().saturating_sub(1)));
            let last = end.div_euclid(self.width);
            // A gap that is longer than the picture is as long as it.
            let first = begin.div_euclid(self.width).max(last.saturating_sub(self.most as i64));
            let each = gap.samples / (last - first + 1).unsigned_abs();
            for number in first..=last {
                let column = self.column(number.saturating_mul(self.width));
                column.missing +=
                    if number == last { gap.samples - each * (last - first).unsigned_abs() } else { each };
            }
        }
    }

    /// The column of a time; earlier than the last one is only what a clock set back: it is drawn where the picture is.
    fn column(&mut self, time: i64) -> &mut Column {
        let number = time.div_euclid(self.width);
        let newest = self.columns.back().map(|column| column.number);
        if newest.is_none_or(|newest| number > newest) {
            let nan = f64::NAN;
            let empty = Column { number, least: nan, greatest: nan, first: nan, last: nan, missing: 0 };
            self.columns.push_back(empty);
            if self.columns.len() > 2 * self.most {
                self.columns.pop_front();
            }
        }
        let last = self.columns.len() - 1;
        &mut self.columns[last]
    }
}

impl Column {
    fn add(&mut self, bucket: Bucket) {
        if self.first.is_nan() {
            self.first = bucket.first;
        }
        self.least = self.least.min(bucket.least);
        self.greatest = self.greatest.max(bucket.greatest);
        self.last = bucket.last;
    }
}
