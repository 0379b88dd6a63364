//! Values at numbers that stay theirs; numbers of those that are gone are given again.

use std::ops::Range;

use crate::sys::prefetch;

/// Values in pieces of [`PIECE`], none of which ever moves: a table that grows holds nobody up.
#[derive(Debug)]
pub(super) struct Slots<T> {
    pieces: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
    /// Numbers that have been given.
    given: usize,
}

const PIECE: usize = 256;

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { pieces: Vec::new(), free: Vec::new(), given: 0 }
    }
}

impl<T> Slots<T> {
    pub(super) fn insert(&mut self, value: T) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| self.give());
        self.pieces[slot as usize / PIECE][slot as usize % PIECE] = Some(value);
        slot
    }

    fn give(&mut self) -> u32 {
        if self.given.is_multiple_of(PIECE) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        self.pieces[self.given / PIECE].push(None);
        self.given += 1;
        (self.given - 1) as u32
    }

    pub(super) fn remove(&mut self, slot: u32) -> Option<T> {
        let value = self.pieces.get_mut(slot as usize / PIECE)?.get_mut(slot as usize % PIECE)?.take()?;
        self.free.push(slot);
        Some(value)
    }

    #[inline]
    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        self.pieces.get(slot as usize / PIECE)?.get(slot as usize % PIECE)?.as_ref()
    }

    /// Asks for a value. To find out first whether there is one would be to wait for it.
    #[inline]
    pub(super) fn foresee(&self, slot: u32) {
        self.pieces
            .get(slot as usize / PIECE)
            .and_then(|piece| piece.get(slot as usize % PIECE))
            .into_iter()
            .for_each(prefetch);
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.pieces.get_mut(slot as usize / PIECE)?.get_mut(slot as usize % PIECE)?.as_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.given - self.free.len()
    }

    /// Those from a number on, with their numbers.
    pub(super) fn starting_at(&self, slot: u32) -> impl Iterator<Item = (u32, &T)> {
        (slot..self.given as u32).filter_map(|slot| Some((slot, self.get(slot)?)))
    }

    /// The next so many numbers behind `at`, at most to the end; then it begins again.
    pub(super) fn turn(&self, at: &mut usize, count: usize) -> Range<u32> {
        let begin = if *at < self.given { *at } else { 0 };
        *at = (begin + count).min(self.given);
        begin as u32..*at as u32
    }
}
