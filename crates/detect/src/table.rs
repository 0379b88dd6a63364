//! Who is tested: hosts and prefixes as one view sees them, in a table of fixed size.
//!
//! A place can be given to somebody else without loss once all buckets of its tests are empty, which is so within a few samples' time for
//! whoever is not under attack. Eight places stand to choice; among them the one with the least evidence goes. So a sweep over any number
//! of addresses never pushes out a host with more evidence than the sweep leaves in its wake.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::RandomState;

use super::dossiers::NONE;
use super::groups::Span;
use super::sequential::{Bar, Test};
use super::views::View;

/// Who is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) span: Span,
    pub(super) view: View,
}

/// A place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) key: Key,
    /// Index in [`super::groups::Groups::networks`], and of the level within it.
    pub(super) network: u32,
    pub(super) level: u8,
    used: bool,
    /// Where its recent packets are; [`NONE`]: nowhere.
    pub(super) dossier: u32,
}

/// What came of one kind in the present slot of time, for what is learnt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    number: u32,
    sum: f32,
}

impl Slot {
    /// The sum of a slot so far.
    #[inline]
    pub(super) fn add(&mut self, number: u32, weight: f32) -> f32 {
        if self.number != number {
            (self.number, self.sum) = (number, 0.0);
        }
        self.sum += weight;
        self.sum
    }
}

#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Entry>,
    tests: Vec<Test>,
    slots: Vec<Slot>,
    stride: usize,
    mask: usize,
    hasher: RandomState,
    /// Places that are taken.
    pub(super) used: usize,
    /// Those that were given to somebody else before all evidence had gone.
    pub(super) evicted: u64,
}

/// Places that stand to choice.
const WAYS: usize = 8;

const FREE: Entry =
    Entry { key: Key { span: Span { bits: 0, length: 0 }, view: 0 }, network: 0, level: 0, used: false, dossier: NONE };

impl Table {
    /// For so many, rounded up to a power of two, of which each has so many tests.
    pub(super) fn new(targets: usize, stride: usize) -> Self {
        let places = targets.max(WAYS).next_power_of_two();
        Self {
            entries: vec![FREE; places],
            tests: vec![Test::default(); places * stride],
            slots: vec![Slot::default(); places * stride],
            stride,
            mask: places / WAYS - 1,
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    fn set(&self, key: &Key) -> usize {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u128(key.span.bits);
        hasher.write_u32(u32::from(key.span.length) << 16 | u32::from(key.view));
        (hasher.finish() as usize & self.mask) * WAYS
    }

    /// Where somebody is, if anywhere.
    pub(super) fn find(&self, key: &Key) -> Option<usize> {
        let first = self.set(key);
        (first..first + WAYS).find(|&at| self.entries[at].used && self.entries[at].key == *key)
    }

    /// Where somebody is, who is given a place if there was none. `bars` tells of the tests of a network's level, `gone` hears which
    /// dossier nobody has any more.
    #[inline]
    pub(super) fn place<'a>(
        &mut self,
        key: Key,
        network: u32,
        level: u8,
        now: u64,
        bars: impl Fn(u32, u8) -> &'a [Bar],
        gone: impl FnOnce(u32),
    ) -> usize {
        let first = self.set(&key);
        let mut free = None;
        for at in first..first + WAYS {
            let entry = &self.entries[at];
            if !entry.used {
                free.get_or_insert(at);
            } else if entry.key == key {
                return at;
            }
        }
        let at = free.unwrap_or_else(|| self.least(first, now, bars, gone));
        self.used += usize::from(!self.entries[at].used);
        self.entries[at] = Entry { key, network, level, used: true, ..FREE };
        self.tests[at * self.stride..][..self.stride].fill(Test::default());
        self.slots[at * self.stride..][..self.stride].fill(Slot::default());
        at
    }

    /// The one of a choice with the least evidence, whose dossier is given up.
    fn least<'a>(
        &mut self,
        first: usize,
        now: u64,
        bars: impl Fn(u32, u8) -> &'a [Bar],
        gone: impl FnOnce(u32),
    ) -> usize {
        let left = |at: usize| {
            let Entry { network, level, .. } = self.entries[at];
            let tests = self.tests[at * self.stride..].iter();
            tests.zip(bars(network, level)).map(|(test, bar)| test.left(now, bar)).fold(0.0, f32::max)
        };
        let (at, left) =
            (first..first + WAYS).map(|at| (at, left(at))).min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((first, 0.0));
        self.evicted += u64::from(left > 0.0);
        if self.entries[at].dossier != NONE {
            gone(self.entries[at].dossier);
        }
        at
    }

    #[inline]
    pub(super) fn entry(&mut self, at: usize) -> &mut Entry {
        &mut self.entries[at]
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> &Entry {
        &self.entries[at]
    }

    /// The tests of a place, and its slots.
    #[inline]
    pub(super) fn tests(&mut self, at: usize) -> (&mut [Test], &mut [Slot]) {
        let range = at * self.stride..(at + 1) * self.stride;
        (&mut self.tests[range.clone()], &mut self.slots[range])
    }

    pub(super) fn test(&self, at: usize, test: usize) -> &Test {
        &self.tests[at * self.stride + test]
    }
}
