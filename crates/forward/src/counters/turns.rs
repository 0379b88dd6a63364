//! The mark by which a reader knows when a worker's cells agree.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Whether a worker's cells agree at the moment: a sequence lock without a lock.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Turns(AtomicU64);

/// A stretch in which a worker's cells disagree: until it is dropped.
pub struct TurnMark<'a>(&'a Turns);

impl Turns {
    /// From here on the worker's cells disagree. Only the one writer may call this, and not twice at a time.
    pub fn begin(&self) -> TurnMark<'_> {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        TurnMark(self)
    }

    /// A copy that was taken while they agreed; `None`: they did not, or not all the time.
    pub fn read<T>(&self, copy: impl FnOnce() -> T) -> Option<T> {
        let before = self.0.load(Ordering::Acquire);
        if !before.is_multiple_of(2) {
            return None;
        }
        let value = copy();
        fence(Ordering::Acquire);
        (self.0.load(Ordering::Relaxed) == before).then_some(value)
    }
}

impl Drop for TurnMark<'_> {
    fn drop(&mut self) {
        let turns = &self.0.0;
        turns.store(turns.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }
}
