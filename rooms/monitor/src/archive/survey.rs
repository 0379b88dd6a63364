//! Which samples an archive has, before any is taken of it: each is taken once, however its files overlap, and what no file has is a gap.
//!
//! A recorder that was down in the middle of a session, a file that was left out or lost, and chunks that are damaged leave no gap behind:
//! nobody was there to write one. The index tells of them, as soon as all files are known.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use weir_wire::signal::{Block, Cause, Gap, Values};

use super::ordered::Waiting;
use super::{Head, read};

/// Files, and what is in them.
pub(super) struct Surveyed {
    /// In the order in which they are to be read, with the times of their first blocks; together those that overlap, in some channel, and
    /// those between them.
    pub(super) groups: Vec<Vec<(Option<i64>, PathBuf)>>,
    /// Names of files that have been named before, this way or another.
    pub(super) twice: Vec<PathBuf>,
    pub(super) survey: Survey,
}

/// What files have of each channel, and what was taken of it.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) lines: Vec<Line>,
    /// What waits in all lines, bytes.
    pub(super) held: usize,
    /// Whether more would have had to wait than there is room for.
    pub(super) is_crowded: bool,
    /// By session and number of the channel; a number may stand for one channel after another.
    numbers: HashMap<(u64, u16), Vec<usize>>,
}

/// A channel of a session.
#[derive(Debug)]
pub(super) struct Line {
    origin: String,
    name: String,
    /// What files have values of.
    pub(super) valued: Spans,
    /// What files have values or a gap of.
    pub(super) told: Spans,
    /// What was taken, holes included.
    taken: Spans,
    /// Of what files have, that which was seen; and what waits for what is before it.
    pub(super) waiting: Waiting,
    /// Behind what was taken last: its index and time.
    behind: Option<(u64, i64)>,
}

/// Reads files for what is in them, and has `look` see each block. Files that stand in another order than they were written in, by their
/// indices, are put in the order of their times.
///
/// # Errors
/// A file that cannot be opened or is none of MCAP.
pub(super) fn survey(
    files: &[PathBuf],
    mut look: impl FnMut(&Arc<Head>, &Block<'_>) -> ControlFlow<()>,
) -> Result<Surveyed> {
    let (files, twice) = once(files);
    let mut survey = Survey::default();
    let (mut found, mut reached, mut is_in_order) = (Vec::new(), HashMap::new(), true);
    for path in files {
        let mut file = Found { path, begin: None, lines: HashMap::new() };
        read(&file.path, |head, block| {
            file.begin.get_or_insert(block.time);
            let line = survey.look(head, block);
            let (first, end) = file.lines.entry(line).or_insert_with(|| {
                is_in_order &= reached.insert(line, block.first).is_none_or(|before| before <= block.first);
                (block.first, block.end())
            });
            (*first, *end) = ((*first).min(block.first), (*end).max(block.end()));
            look(head, block)
        })
        .with_context(|| file.path.display().to_string())?;
        found.push(file);
    }
    if !is_in_order {
        found.sort_by_key(|file| file.begin);
    }
    Ok(Surveyed { groups: groups(found), twice, survey })
}

/// A file, and what is in it.
struct Found {
    path: PathBuf,
    /// Time of its first block.
    begin: Option<i64>,
    /// By lines: from which index up to which.
    lines: HashMap<usize, (u64, u64)>,
}

/// Files that are read together.
struct Group {
    /// The number of the first of them.
    begin: usize,
    files: Vec<(Option<i64>, PathBuf)>,
}

/// Puts together what overlaps: no file has in a line what is before the end of that line in an earlier group.
fn groups(found: Vec<Found>) -> Vec<Vec<(Option<i64>, PathBuf)>> {
    // By lines: each file that got further than all before it, and how far.
    let mut reached: HashMap<usize, Vec<(usize, u64)>> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (number, file) in found.into_iter().enumerate() {
        let mut from = number;
        for (line, (first, end)) in file.lines {
            let reached = reached.entry(line).or_default();
            let at = reached.partition_point(|&(_, before)| before <= first);
            from = reached.get(at).map_or(from, |&(earlier, _)| from.min(earlier));
            if reached.last().is_none_or(|&(_, before)| before < end) {
                reached.push((number, end));
            }
        }
        let mut group = Group { begin: number, files: vec![(file.begin, file.path)] };
        while let Some(mut earlier) = groups.pop_if(|earlier| from < earlier.begin + earlier.files.len()) {
            earlier.files.append(&mut group.files);
            group = earlier;
        }
        group.files.sort_by_key(|&(begin, _)| begin);
        groups.push(group);
    }
    groups.into_iter().map(|group| group.files).collect()
}

/// Each file once, whatever it is called; and what else it was called.
fn once(files: &[PathBuf]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut known = HashSet::new();
    // What cannot be looked at is told when it is opened.
    files.iter().cloned().partition(|file| fs::metadata(file).ok().is_none_or(|of| known.insert((of.dev(), of.ino()))))
}

impl Survey {
    /// A block is in a file; returns its channel's place.
    fn look(&mut self, head: &Head, block: &Block<'_>) -> usize {
        let at = self.line(head);
        let line = &mut self.lines[at];
        line.told.add(block.first, block.end());
        if !matches!(block.values, Values::Gap(_)) {
            line.valued.add(block.first, block.end());
        }
        at
    }

    /// Takes a block: `each` sees the hole in front of it, if there is one, and what of the block was not taken before. A gap of one file is
    /// none where another has values.
    pub(super) fn take(&mut self, head: &Head, block: &Block<'_>, mut each: impl FnMut(&Block<'_>)) {
        let at = self.line(head);
        let line = &mut self.lines[at];
        line.waiting.pass(block.first, block.end());
        if let Some(hole) = line.hole(block) {
            line.taken.add(hole.first, hole.end());
            each(&hole);
        }
        let mut parts = line.taken.left(block.first, block.end());
        if matches!(block.values, Values::Gap(_)) {
            // Of which another file has values, or will have.
            parts = parts.into_iter().flat_map(|(first, end)| line.valued.left(first, end)).collect();
        }
        for (first, end) in parts {
            if let Some(part) = part(block, first - block.first, end - block.first) {
                line.taken.add(part.first, part.end());
                line.behind = Some((part.end(), later(part.time, part.rate.nanos(part.samples()))));
                each(&part);
            }
        }
    }

    /// Of files that overlap the gaps of the first are taken, too: what is sent cannot be gone back to.
    pub(super) fn keep_gaps(&mut self) {
        for line in &mut self.lines {
            line.valued = Spans::default();
        }
    }

    pub(super) fn line(&mut self, head: &Head) -> usize {
        let Self { lines, numbers, .. } = self;
        let channel = &head.channel;
        let known = numbers.entry((head.session, channel.id)).or_default();
        let is_it = |line: &Line| line.name == channel.name && line.origin == channel.origin;
        if let Some(&at) = known.iter().find(|&&at| is_it(&lines[at])) {
            return at;
        }
        lines.push(Line {
            origin: channel.origin.clone(),
            name: channel.name.clone(),
            valued: Spans::default(),
            told: Spans::default(),
            taken: Spans::default(),
            behind: None,
            waiting: Waiting::default(),
        });
        known.push(lines.len() - 1);
        lines.len() - 1
    }
}

impl Line {
    /// What no file has right in front of a block, while files have what is before. Whoever was to record it is what lost it.
    fn hole(&self, block: &Block<'_>) -> Option<Block<'static>> {
        let first = self.told.end_before(block.first)?;
        if self.taken.left(first, block.first).is_empty() {
            return None;
        }
        let samples = block.first - first;
        let time = match self.behind {
            Some((index, time)) if index == first => time,
            _ => later(block.time, -block.rate.nanos(samples)),
        };
        let values = Values::Gap(Gap { samples, cause: Cause::Server });
        Some(Block { channel: block.channel, first, time, rate: block.rate, values })
    }
}

/// The samples of a block from one on, up to another; of buckets those that are whole in there. `None`: none.
pub(super) fn part<'a>(block: &Block<'a>, from: u64, upto: u64) -> Option<Block<'a>> {
    let slice = |bytes: &'a [u8], each: usize, (from, upto): (u64, u64)| {
        let at = |index: u64| usize::try_from(index).unwrap_or(usize::MAX).saturating_mul(each);
        bytes.get(at(from)..at(upto)).filter(|bytes| !bytes.is_empty())
    };
    let (skipped, values) = match block.values {
        Values::Samples(element, bytes) => {
            (from, Values::Samples(element, slice(bytes, element.size(), (from, upto))?))
        }
        Values::Buckets(element, bucket, bytes) => {
            let whole = (from.div_ceil(bucket.into()), upto / u64::from(bucket));
            let bytes = slice(bytes, 4 * element.size(), whole)?;
            (whole.0 * u64::from(bucket), Values::Buckets(element, bucket, bytes))
        }
        Values::Gap(gap) => (from, Values::Gap(Gap { samples: upto - from, ..gap })),
    };
    let time = later(block.time, block.rate.nanos(skipped));
    Some(Block { first: block.first + skipped, time, values, ..*block })
}

fn later(time: i64, nanos: i128) -> i64 {
    let time = i128::from(time).saturating_add(nanos);
    i64::try_from(time).unwrap_or(if time < 0 { i64::MIN } else { i64::MAX })
}

/// Indices from one on, up to another, each; in order, and none touches the next.
#[derive(Debug, Default)]
pub(super) struct Spans(Vec<(u64, u64)>);

impl Spans {
    pub(super) fn add(&mut self, first: u64, end: u64) {
        if first >= end {
            return;
        }
        let from = self.0.partition_point(|&(_, before)| before < first);
        let upto = self.0.partition_point(|&(begin, _)| begin <= end);
        if from == upto {
            self.0.insert(from, (first, end));
        } else {
            self.0[from] = (self.0[from].0.min(first), self.0[upto - 1].1.max(end));
            self.0.drain(from + 1..upto);
        }
    }

    /// What of this is in none of them.
    pub(super) fn left(&self, mut first: u64, end: u64) -> Vec<(u64, u64)> {
        let mut parts = Vec::new();
        let at = self.0.partition_point(|&(_, before)| before <= first);
        for &(begin, before) in self.0[at..].iter().take_while(|&&(begin, _)| begin < end) {
            if begin > first {
                parts.push((first, begin));
            }
            first = before;
        }
        if first < end {
            parts.push((first, end));
        }
        parts
    }

    pub(super) fn get(&self, at: usize) -> Option<(u64, u64)> {
        self.0.get(at).copied()
    }

    /// If one begins here, and there is another before it: its end.
    fn end_before(&self, first: u64) -> Option<u64> {
        let at = self.0.binary_search_by_key(&first, |&(begin, _)| begin).ok()?;
        Some(self.0.get(at.checked_sub(1)?)?.1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_wire::signal::{Element, Rate};

    use super::*;

    proptest! {
        #[test]
        fn spans_are_what_was_added(added in prop::collection::vec((0..60_u64, 0..12_u64), 0..20), asked in (0..70_u64, 0..40_u64)) {
            let (mut spans, mut indices) = (Spans::default(), [false; 200]);
            for (first, length) in added {
                spans.add(first, first + length);
                (first..first + length).for_each(|index| indices[index as usize] = true);
            }
            prop_assert!(spans.0.iter().all(|(first, end)| first < end));
            prop_assert!(spans.0.windows(2).all(|two| two[0].1 < two[1].0));
            let (first, end) = (asked.0, asked.0 + asked.1);
            let left: Vec<u64> = spans.left(first, end).into_iter().flat_map(|(first, end)| first..end).collect();
            prop_assert_eq!(left, (first..end).filter(|&index| !indices[index as usize]).collect::<Vec<_>>());
            let begins = first > 0 && indices[first as usize] && !indices[first as usize - 1];
            let before = (0..first).rev().find(|&index| indices[index as usize]).filter(|_| begins);
            prop_assert_eq!(spans.end_before(first), before.map(|index| index + 1));
        }
    }

    #[test]
    fn a_part_of_buckets_is_whole_buckets() {
        let bytes: Vec<u8> = (0..3 * 4).flat_map(|value: i16| value.to_le_bytes()).collect();
        let values = Values::Buckets(Element::I16, 10, &bytes);
        let block = Block { channel: 0, first: 100, time: 0, rate: Rate::hertz(1000), values };
        let found = part(&block, 5, 30).unwrap();
        assert_eq!((found.first, found.end(), found.time), (110, 130, 10_000_000));
        assert_eq!(found.values, Values::Buckets(Element::I16, 10, &bytes[8..]));
        assert_eq!(part(&block, 5, 15), None);
    }
}
