//! Runs in the order of their release.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use super::cut::Run;
use super::frame::Layout;
use super::pool::Slot;
use crate::model::{Alterations, Nanos};

/// A frame, or a run cut from it, that waits for its release.
#[derive(Debug)]
pub(super) struct Entry {
    /// Its release: that of its last packet.
    pub(super) release: Nanos,
    /// The release of its first packet.
    pub(super) due: Nanos,
    /// The slot of its bytes.
    pub(super) slot: Slot,
    /// Bytes of the frame in the slot, virtio header included.
    pub(super) length: u32,
    /// The segments that leave. `None`: the whole frame.
    pub(super) run: Option<(Layout, Run)>,
    /// IP packets on the wire.
    pub(super) packets: u32,
    /// Bytes on the wire, from the IP header on.
    pub(super) bytes: u32,
    /// Its alterations.
    pub(super) alterations: Alterations<Option<u64>>,
}

/// Entries by release, equal ones in order of arrival. Those that come in order, nearly all, need no sorting.
#[derive(Debug, Default)]
pub(super) struct ReleaseQueue {
    in_order: VecDeque<Numbered>,
    out_of_order: BinaryHeap<Numbered>,
    pushed: u64,
}

impl ReleaseQueue {
    pub(super) fn push(&mut self, entry: Entry) {
        let numbered = Numbered { number: self.pushed, entry };
        self.pushed += 1;
        match self.in_order.back() {
            Some(last) if last.entry.release > numbered.entry.release => self.out_of_order.push(numbered),
            _ => self.in_order.push_back(numbered),
        }
    }

    /// Release of the next entry.
    pub(super) fn next(&self) -> Option<Nanos> {
        let heads = [self.in_order.front(), self.out_of_order.peek()];
        heads.into_iter().flatten().map(|n| n.entry.release).min()
    }

    /// Takes the next entry if its release is not after `now`.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<Entry> {
        let from_heap = match (self.in_order.front(), self.out_of_order.peek()) {
            (Some(a), Some(b)) => b.key() < a.key(),
            (None, Some(_)) => true,
            _ => false,
        };
        if self.next()? > now {
            return None;
        }
        let taken = if from_heap { self.out_of_order.pop() } else { self.in_order.pop_front() };
        taken.map(|n| n.entry)
    }

    /// All entries, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.in_order.iter().chain(&self.out_of_order).map(|n| &n.entry)
    }
}

#[derive(Debug)]
struct Numbered {
    number: u64,
    entry: Entry,
}

impl Numbered {
    fn key(&self) -> (Nanos, u64) {
        (self.entry.release, self.number)
    }
}

impl PartialEq for Numbered {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Numbered {}

impl PartialOrd for Numbered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The earliest is the greatest, as a [`BinaryHeap`] requires.
impl Ord for Numbered {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(release: Nanos, length: u32) -> Entry {
        let slot = Slot::from([]);
        Entry {
            release,
            due: release,
            slot,
            length,
            run: None,
            packets: 1,
            bytes: 0,
            alterations: Alterations::default(),
        }
    }

    proptest! {
        #[test]
        fn entries_leave_as_a_stable_sort_says(releases in prop::collection::vec(0..20u64, 0..60)) {
            let mut queue = ReleaseQueue::default();
            for (at, &release) in releases.iter().enumerate() {
                queue.push(entry(release, at as u32));
            }
            let mut expected: Vec<(u64, u32)> = releases.iter().copied().zip(0..).collect();
            expected.sort();
            prop_assert_eq!(queue.iter().count(), expected.len());
            prop_assert_eq!(queue.next(), expected.first().map(|e| e.0));
            let (due, later): (Vec<_>, Vec<_>) = expected.into_iter().partition(|e| e.0 <= 10);
            let drain = |queue: &mut ReleaseQueue, now| -> Vec<(u64, u32)> {
                std::iter::from_fn(|| queue.pop(now)).map(|e| (e.release, e.length)).collect()
            };
            prop_assert_eq!(drain(&mut queue, 10), due);
            prop_assert_eq!(drain(&mut queue, u64::MAX), later);
        }
    }
}
