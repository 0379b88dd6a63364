//! Blocks in the order of their indices, of files that overlap: each waits, within bounds, for what is before it in another file.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_wire::signal::{Block, Values};

use super::Head;
use super::survey::{Spans, Survey, part};
use weir_wire::signal::OwnedBlock;

/// What waits of a line.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// What was seen of what files have: it waits no longer.
    passed: Spans,
    /// Up to this place of what files have all was seen.
    reached: usize,
    /// By their first indices.
    blocks: BTreeMap<u64, (Arc<Head>, OwnedBlock)>,
}

impl Waiting {
    /// This was seen.
    pub(super) fn pass(&mut self, first: u64, end: u64) {
        self.passed.add(first, end);
    }

    /// Where what was not seen of a block begins.
    fn begin(&self, block: &Block<'_>) -> Option<u64> {
        self.passed.left(block.first, block.end()).first().map(|&(begin, _)| begin)
    }

    /// The first index that files have and that was not seen.
    fn due(&mut self, told: &Spans) -> u64 {
        while let Some((first, end)) = told.get(self.reached) {
            match self.passed.left(first, end).first() {
                Some(&(due, _)) => return due,
                None => self.reached += 1,
            }
        }
        u64::MAX
    }
}

impl Survey {
    /// Takes a block as `take` does, and has `each` see it once all was seen that is before it and in any file.
    pub(super) fn take_in_order(
        &mut self,
        head: &Arc<Head>,
        block: &Block<'_>,
        mut each: impl FnMut(&Arc<Head>, &Block<'_>),
    ) {
        let at = self.line(head);
        if !matches!(block.values, Values::Gap(_)) {
            self.order(at, head, block, &mut each);
        } else {
            // Of what is a gap here another file has values, which come from there.
            for (first, end) in self.lines[at].valued.left(block.first, block.end()) {
                if let Some(part) = part(block, first - block.first, end - block.first) {
                    self.order(at, head, &part, &mut each);
                }
            }
        }
        while self.held > MOST_HELD {
            self.is_crowded = true;
            let Some(at) = self.lines.iter().position(|line| !line.waiting.blocks.is_empty()) else { return };
            self.release_first(at, &mut each);
            self.release(at, &mut each);
        }
    }

    /// Nothing more is waited for.
    pub(super) fn release_all(&mut self, mut each: impl FnMut(&Arc<Head>, &Block<'_>)) {
        for at in 0..self.lines.len() {
            while self.release_first(at, &mut each) {}
        }
    }

    fn order(&mut self, at: usize, head: &Arc<Head>, block: &Block<'_>, each: &mut impl FnMut(&Arc<Head>, &Block<'_>)) {
        let line = &mut self.lines[at];
        let Some(begin) = line.waiting.begin(block) else { return };
        if begin <= line.waiting.due(&line.told) {
            self.take(head, block, |part| each(head, part));
            self.release(at, each);
            return;
        }
        // Of two that begin here the one that goes on for longer has the other in it.
        let waits = line.waiting.blocks.get(&block.first);
        if waits.is_none_or(|(_, waits)| waits.block().end() < block.end()) {
            let kept = OwnedBlock::new(block);
            self.held += kept.block().values.bytes().len();
            let before = line.waiting.blocks.insert(block.first, (head.clone(), kept));
            self.held -= before.map_or(0, |(_, before)| before.block().values.bytes().len());
        }
    }

    /// What is due by now of what waits.
    fn release(&mut self, at: usize, each: &mut impl FnMut(&Arc<Head>, &Block<'_>)) {
        loop {
            let line = &mut self.lines[at];
            let Some((_, (_, kept))) = line.waiting.blocks.first_key_value() else { return };
            let begin = line.waiting.begin(&kept.block());
            if begin.is_some_and(|begin| begin > line.waiting.due(&line.told)) {
                return;
            }
            self.release_first(at, each);
        }
    }

    /// The first of what waits, whatever is before it; `false`: there is none.
    fn release_first(&mut self, at: usize, each: &mut impl FnMut(&Arc<Head>, &Block<'_>)) -> bool {
        let Some((_, (head, kept))) = self.lines[at].waiting.blocks.pop_first() else { return false };
        self.held -= kept.block().values.bytes().len();
        self.take(&head, &kept.block(), |part| each(&head, part));
        true
    }
}

/// Bytes that wait at most: what one of two recorders lacks for a moment takes much less.
const MOST_HELD: usize = 256 << 20;
