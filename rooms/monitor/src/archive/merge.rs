//! Files as one: each sample once, in the order of indices within each channel of a session, what no file has as gaps.
//!
//! The files are read once for which indices each has of each channel, and then side by side. A block whose index is the next of its
//! channel goes at once. One that is further on, or a gap, waits while another file may have what is before. Times only choose between
//! blocks that may go: clocks that differ or were set put nothing in the wrong place.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use weir_wire::signal::{Block, Cause, Channel, Gap, Values};

use super::schema::Message;
use super::{Damage, Head, Reading};

/// Files that are read as one.
pub(super) struct Merge {
    /// Files that are damaged, and were read up to there.
    pub(super) damaged: Vec<(PathBuf, Damage)>,
    files: Vec<(PathBuf, Option<Reading<BufReader<File>>>)>,
    /// Files that are not open yet, with the times of their first blocks; the earliest is the last.
    closed: Vec<(i64, usize)>,
    lines: Vec<Line>,
    places: HashMap<(u64, u16, String, String), usize>,
    /// Blocks that were read and not handed out.
    waiting: Vec<Waiting>,
    /// The block that was handed out last.
    current: Option<Waiting>,
}

/// A channel of a session.
struct Line {
    /// The index that is next, and when that sample was due; `None`: nothing was handed out yet.
    next: u64,
    time: Option<i64>,
    ranges: Vec<Range>,
}

/// Which indices a file has of a channel: some from `at`, which moves on as it is read, to `end`.
struct Range {
    file: usize,
    at: u64,
    end: u64,
}

/// A block that was read, and where it begins and ends.
struct Waiting {
    file: usize,
    line: usize,
    head: Arc<Head>,
    message: Message,
    first: u64,
    end: u64,
    /// After its last sample: blocks are recorded at about that time.
    end_time: i64,
    is_gap: bool,
}

impl Merge {
    /// Reads files for what is in them, and has `look` see each block, until it breaks off.
    ///
    /// # Errors
    /// A file cannot be opened or is not an MCAP file.
    pub(super) fn new(
        files: &[PathBuf],
        mut look: impl FnMut(&Arc<Head>, &Block<'_>) -> ControlFlow<()>,
    ) -> Result<Self> {
        let mut merge = Self {
            damaged: Vec::new(),
            files: files.iter().map(|path| (path.clone(), None)).collect(),
            closed: Vec::new(),
            lines: Vec::new(),
            places: HashMap::new(),
            waiting: Vec::new(),
            current: None,
        };
        for (file, path) in files.iter().enumerate() {
            let (mut reading, mut begin) = (open(path)?, None);
            while let Some((head, message)) = reading.read_block().with_context(|| path.display().to_string())? {
                let block = message.block(head.channel.id)?;
                begin.get_or_insert(block.time_of(block.end()));
                let at = merge.line(&head, block.first);
                let Line { next, ranges, .. } = &mut merge.lines[at];
                *next = block.first.min(*next);
                match ranges.last_mut().filter(|range| range.file == file) {
                    Some(range) => (range.at, range.end) = (range.at.min(block.first), range.end.max(block.end())),
                    None => ranges.push(Range { file, at: block.first, end: block.end() }),
                }
                if look(&head, &block).is_break() {
                    return Ok(merge);
                }
            }
            // One without a block is opened for its damage.
            merge.closed.push((begin.unwrap_or(i64::MIN), file));
        }
        merge.closed.sort_unstable_by(|one, other| other.cmp(one));
        Ok(merge)
    }

    fn line(&mut self, head: &Head, first: u64) -> usize {
        let Channel { id, origin, name, .. } = &head.channel;
        *self.places.entry((head.session, *id, origin.clone(), name.clone())).or_insert_with(|| {
            self.lines.push(Line { next: first, time: None, ranges: Vec::new() });
            self.lines.len() - 1
        })
    }

    /// The next block, as far as it is new, or a gap before it; with what is known of its channel.
    ///
    /// # Errors
    /// A file cannot be opened or read.
    pub(super) fn next(&mut self) -> Result<Option<(Arc<Head>, Block<'_>)>> {
        let from = loop {
            let Some(at) = self.choose()? else { return Ok(None) };
            let one = &self.waiting[at];
            let (reach, line) = (self.reach(one), &mut self.lines[one.line]);
            let (from, block) = (line.next, one.message.block(one.head.channel.id)?);
            if one.end <= from {
                self.remove(at)?;
                continue;
            }
            let (upto, cause) = match (block.values, after(&block, from)) {
                (Values::Gap(gap), Some(part)) if part.first == from => {
                    (if reach > from { reach.min(one.end) } else { one.end }, gap.cause)
                }
                (_, Some(part)) if part.first == from => {
                    (line.next, line.time) = (one.end, Some(one.end_time));
                    self.current = Some(self.remove(at)?);
                    break from;
                }
                // No file has what is before it: a recorder lost it.
                (_, part) => (part.map_or(one.end, |part| part.first), Cause::Server),
            };
            let values = Values::Gap(Gap { samples: upto - from, cause });
            let (channel, time, rate) = (block.channel, line.time.unwrap_or(block.time), block.rate);
            let gap = Block { channel, first: from, time, rate, values };
            (line.next, line.time) = (upto, Some(gap.time_of(upto)));
            return Ok(Some((one.head.clone(), gap)));
        };
        let Some(Waiting { head, message, .. }) = &self.current else { return Ok(None) };
        let block = message.block(head.channel.id)?;
        Ok(after(&block, from).map(|part| (head.clone(), part)))
    }

    /// Of the blocks that may go the earliest.
    fn choose(&mut self) -> Result<Option<usize>> {
        loop {
            let earliest = |may: &dyn Fn(&Waiting) -> bool| {
                let all = self.waiting.iter().enumerate().filter(|(_, one)| may(one));
                all.min_by_key(|(_, one)| (one.end_time, one.file)).map(|(at, one)| (at, one.end_time))
            };
            let ready = earliest(&|one| self.may_go(one));
            let file = match (ready, self.closed.last()) {
                (ready, Some(&(begin, file))) if ready.is_none_or(|(_, end_time)| begin <= end_time) => {
                    self.files[file].1 = Some(open(&self.files[file].0)?);
                    self.closed.pop();
                    file
                }
                (Some((at, _)), _) => return Ok(Some(at)),
                // Each waits for what another file has further on.
                (None, _) => match earliest(&|one| self.files[one.file].1.is_some()) {
                    Some((at, _)) if self.waiting.len() < MOST_WAITING => self.waiting[at].file,
                    _ => return Ok(earliest(&|_| true).map(|(at, _)| at)),
                },
            };
            self.read_on(file)?;
        }
    }

    /// Whether nothing that any file has goes before it.
    fn may_go(&self, one: &Waiting) -> bool {
        let next = self.lines[one.line].next;
        if one.end <= next || !one.is_gap && one.first <= next {
            return true;
        }
        let earlier = |other: &Waiting| other.line == one.line && other.is_gap && other.first < one.first;
        let reach = self.reach(one);
        if one.is_gap { reach > next.max(one.first) } else { reach >= one.first && !self.waiting.iter().any(earlier) }
    }

    /// The first index of which another block, or what was not read yet, may have the sample.
    fn reach(&self, one: &Waiting) -> u64 {
        let Line { next, ranges, .. } = &self.lines[one.line];
        let is_other = |other: &&Waiting| other.line == one.line && !other.is_gap && !std::ptr::eq(*other, one);
        let read = self.waiting.iter().filter(is_other).map(|other| (other.first, other.end));
        let unread = ranges.iter().map(|range| (range.at, range.end));
        let all = read.chain(unread).filter(|(first, end)| first < end && end > next);
        all.map(|(first, _)| first.max(*next)).min().unwrap_or(u64::MAX)
    }

    /// Takes a block away; its file goes on with the next.
    fn remove(&mut self, at: usize) -> Result<Waiting> {
        let one = self.waiting.swap_remove(at);
        if self.waiting.iter().all(|other| other.file != one.file) {
            self.read_on(one.file)?;
        }
        Ok(one)
    }

    fn read_on(&mut self, file: usize) -> Result<()> {
        let (path, Some(reading)) = &mut self.files[file] else { return Ok(()) };
        let Some((head, message)) = reading.read_block().with_context(|| path.display().to_string())? else {
            self.damaged.extend(reading.damage.take().map(|damage| (path.clone(), damage)));
            self.files[file].1 = None;
            return Ok(());
        };
        let block = message.block(head.channel.id)?;
        let (first, end, end_time) = (block.first, block.end(), block.time_of(block.end()));
        let is_gap = matches!(block.values, Values::Gap(_));
        let line = self.line(&head, first);
        if let Some(range) = self.lines[line].ranges.iter_mut().find(|range| range.file == file) {
            range.at = range.at.max(end);
        }
        self.waiting.push(Waiting { file, line, head, message, first, end, end_time, is_gap });
        Ok(())
    }
}

fn open(path: &Path) -> Result<Reading<BufReader<File>>> {
    Reading::open(path).with_context(|| path.display().to_string())
}

/// What a block has from an index on: of buckets those that begin there or later; `None`: nothing.
fn after<'a>(block: &Block<'a>, index: u64) -> Option<Block<'a>> {
    let rest = block.split_at(index.saturating_add(block.step() - 1)).1;
    (rest.samples() > 0).then_some(rest)
}

/// Blocks that wait at most, of 1,400 bytes where weir wrote them: 90 MB. Then the earliest goes, whatever is before it.
const MOST_WAITING: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use weir_wire::signal::{Element, Rate};

    use super::*;

    #[test]
    fn a_part_of_buckets_is_whole_buckets() {
        let bytes: Vec<u8> = (0..3 * 4).flat_map(|value: i16| value.to_le_bytes()).collect();
        let values = Values::Buckets(Element::I16, 10, &bytes);
        let block = Block { channel: 0, first: 100, time: 0, rate: Rate::hertz(1000), values };
        let found = after(&block, 105).unwrap();
        assert_eq!((found.first, found.end(), found.time), (110, 130, 10_000_000));
        assert_eq!(found.values, Values::Buckets(Element::I16, 10, &bytes[8..]));
        assert_eq!(after(&block, 125), None);
    }
}
