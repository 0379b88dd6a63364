//! The memory of packets that wait for their release.

use std::rc::Rc;

/// One frame's memory, shared by the runs that were cut from it.
pub(super) type Slot = Rc<[u8]>;

/// Frames up to this length are copied into small slots, so that a 100-byte packet does not occupy 64 KiB.
pub(super) const SMALL: usize = 2048 - 16; // and the two counters of an Rc
/// Max frame, virtio and Ethernet headers included, and room to detect that a frame was longer.
pub(super) const LARGE: usize = 65535 + 24 + 1;

/// The slots of one thread. Freed slots are reused last-in first-out: recently sent data is still in the CPU's cache.
/// Memory is kept until the thread ends.
#[derive(Debug)]
pub(super) struct Pool {
    small: Vec<Slot>,
    large: Vec<Slot>,
    bytes: usize,
    limit: usize,
}

impl Pool {
    pub(super) fn new(limit: usize) -> Self {
        Self { small: Vec::new(), large: Vec::new(), bytes: 0, limit }
    }

    /// A free slot of at least `length` bytes. `None`: the limit is reached or no slot is that large.
    pub(super) fn take(&mut self, length: usize) -> Option<Slot> {
        if length <= SMALL {
            self.small.pop().or_else(|| self.grow(SMALL, 64))
        } else if length <= LARGE {
            self.large.pop().or_else(|| self.grow(LARGE, 1))
        } else {
            None
        }
    }

    /// Returns a slot; it is free once its last holder has returned it.
    pub(super) fn give(&mut self, slot: Slot) {
        if Rc::strong_count(&slot) == 1 {
            let free = if slot.len() == SMALL { &mut self.small } else { &mut self.large };
            free.push(slot);
        }
    }

    fn grow(&mut self, size: usize, count: usize) -> Option<Slot> {
        if self.bytes + size * count > self.limit {
            return None;
        }
        self.bytes += size * count;
        let free = if size == SMALL { &mut self.small } else { &mut self.large };
        free.extend((0..count).map(|_| std::iter::repeat_n(0, size).collect::<Slot>()));
        free.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_slots_are_free_once_all_holders_gave_them_back() {
        let mut pool = Pool::new(LARGE);
        let slot = pool.take(9000).unwrap();
        let second = Rc::clone(&slot);
        assert!(pool.take(9000).is_none(), "the limit is one large slot");
        pool.give(slot);
        assert!(pool.take(9000).is_none(), "still held");
        pool.give(second);
        assert!(pool.take(9000).is_some());
    }

    #[test]
    fn small_slots_grow_in_chunks_within_the_limit() {
        let mut pool = Pool::new(100 * SMALL);
        let taken: Vec<Slot> = std::iter::from_fn(|| pool.take(60)).collect();
        assert_eq!(taken.len(), 64);
        assert!(pool.take(LARGE + 1).is_none());
        let last = Rc::as_ptr(taken.last().unwrap());
        taken.into_iter().for_each(|slot| pool.give(slot));
        assert_eq!(Rc::as_ptr(&pool.take(60).unwrap()), last, "last in, first out");
    }
}
