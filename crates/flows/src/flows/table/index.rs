//! Where flows are, by a hash: a slot holds the half of it that tells where the slot should be, and the place of the flow.
//!
//! Linear probing at half load: nearly always the first slot looked at is the right one, so that looking costs one line of the
//! cache, which can be asked for before ([`Index::foresee`]). It grows without reading anything but itself.

use crate::sys::prefetch;

/// Places by hash.
#[derive(Debug)]
pub(super) struct Index {
    /// A power of two of them: the tag above, the place below.
    slots: Vec<u64>,
    len: usize,
}

/// No place.
const NOWHERE: u32 = u32::MAX;

const EMPTY: u64 = u64::MAX;

impl Default for Index {
    fn default() -> Index {
        Index { slots: vec![EMPTY; LEAST], len: 0 }
    }
}

impl Index {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Asks for the slots that will be looked at.
    #[inline]
    pub(super) fn foresee(&self, hash: u64) {
        prefetch(&self.slots[self.home(hash >> 32)]);
    }

    /// The first place under a hash like this one; [`NOWHERE`]: there is none.
    #[inline]
    pub(super) fn guess(&self, hash: u64) -> u32 {
        self.find(hash, |_| true).unwrap_or(NOWHERE)
    }

    /// The place under this hash that is the right one.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let tag = hash >> 32;
        let mut at = self.home(tag);
        loop {
            let slot = self.slots[at];
            if slot >> 32 == tag && slot != EMPTY && is_it(slot as u32) {
                return Some(slot as u32);
            }
            if slot == EMPTY {
                return None;
            }
            at = self.behind(at);
        }
    }

    /// Adds a place, which is not in it.
    pub(super) fn insert(&mut self, hash: u64, place: u32) {
        if self.len * 2 >= self.slots.len() {
            self.grow();
        }
        self.put(hash & !u64::from(u32::MAX) | u64::from(place));
        self.len += 1;
    }

    /// Takes a place out that was added under this hash.
    pub(super) fn remove(&mut self, hash: u64, place: u32) {
        let wanted = hash & !u64::from(u32::MAX) | u64::from(place);
        let mut gap = self.home(hash >> 32);
        while self.slots[gap] != wanted {
            if self.slots[gap] == EMPTY {
                return;
            }
            gap = self.behind(gap);
        }
        self.len -= 1;
        // What may stand nearer to where it should be moves up.
        let mut at = gap;
        loop {
            at = self.behind(at);
            let slot = self.slots[at];
            if slot == EMPTY {
                break;
            }
            if self.distance(self.home(slot >> 32), at) >= self.distance(gap, at) {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = EMPTY;
    }

    fn grow(&mut self) {
        let twice = vec![EMPTY; self.slots.len() * 2];
        let slots = std::mem::replace(&mut self.slots, twice);
        slots.into_iter().filter(|slot| *slot != EMPTY).for_each(|slot| self.put(slot));
    }

    fn put(&mut self, slot: u64) {
        let mut at = self.home(slot >> 32);
        while self.slots[at] != EMPTY {
            at = self.behind(at);
        }
        self.slots[at] = slot;
    }

    /// Where a tag should be: its highest bits.
    #[inline]
    fn home(&self, tag: u64) -> usize {
        ((tag * self.slots.len() as u64) >> 32) as usize
    }

    #[inline]
    fn behind(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.slots.len() - 1)
    }
}

/// Slots at the start.
const LEAST: usize = 16;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use weir_testbed::random::Source;

    use super::*;

    #[test]
    fn it_finds_what_a_map_would() {
        let mut source = Source::drawn();
        let (mut index, mut map) = (Index::default(), HashMap::new());
        for place in 0..50_000_u32 {
            // Many share a tag, or a part of it: all ones among them.
            let hash = (u64::from(u32::MAX - source.number(0..3000) as u32 * 7) << 32) | u64::from(place);
            if source.uniform() < 0.6 {
                index.insert(hash, place);
                map.insert(place, hash);
            } else if let Some((&place, &hash)) = map.iter().next() {
                index.remove(hash, place);
                map.remove(&place);
            }
            assert_eq!(index.len(), map.len());
        }
        for place in 0..50_000 {
            let hash = map.get(&place);
            let found = hash.and_then(|&hash| index.find(hash, |found| found == place));
            assert_eq!(found, hash.map(|_| place));
        }
        map.iter().for_each(|(&place, &hash)| index.remove(hash, place));
        assert!(index.len() == 0 && index.slots.iter().all(|slot| *slot == EMPTY));
    }
}
