//! Values at numbers that stay theirs; numbers of those that are gone are given again.

use std::ops::Range;

#[derive(Debug)]
pub(super) struct Slots<T> {
    slots: Vec<Option<Box<T>>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(super) fn insert(&mut self, value: T) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize] = Some(Box::new(value));
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) -> Option<T> {
        let value = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(*value)
    }

    #[inline]
    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)?.as_deref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize)?.as_deref_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.as_deref())
    }

    /// The next so many numbers behind `at`, at most to the end; then it begins again.
    pub(super) fn turn(&self, at: &mut usize, count: usize) -> Range<u32> {
        let begin = if *at < self.slots.len() { *at } else { 0 };
        *at = (begin + count).min(self.slots.len());
        begin as u32..*at as u32
    }
}
