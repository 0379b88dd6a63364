//! What was asked for of late, bounded: what nobody asks for any more ages and is forgotten.

use std::collections::HashMap;
use std::hash::Hash;

/// Two generations of answers. What is asked for moves to the young one; when that is full it becomes the old one, and
/// what nobody has asked for since is forgotten. Keyed by chance: senders must not be able to choose collisions.
pub(super) struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    /// Entries of a generation.
    room: usize,
}

impl<K: Copy + Eq + Hash, V: Copy> Recent<K, V> {
    /// Remembers at most so many.
    pub(super) fn new(most: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), room: most.div_ceil(2).max(1) }
    }

    /// What was kept under this key, if it is remembered.
    pub(super) fn get(&mut self, key: K) -> Option<V> {
        if let Some(&value) = self.young.get(&key) {
            return Some(value);
        }
        let value = self.old.remove(&key)?;
        self.age();
        self.young.insert(key, value);
        Some(value)
    }

    /// Keeps something under a key that [`get`](Self::get) has not found.
    pub(super) fn keep(&mut self, key: K, value: V) {
        self.age();
        self.young.insert(key, value);
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    /// Makes room for one in the young generation.
    fn age(&mut self) {
        if self.young.len() >= self.room {
            std::mem::swap(&mut self.young, &mut self.old);
            // Its memory stays for the next.
            self.young.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_is_forgotten_in_time() {
        let mut recent = Recent::new(100);
        for key in 0..10_000_u32 {
            recent.keep(key, key * 2);
            assert_eq!(recent.get(0), Some(0), "asked for after {key} others");
            assert_eq!(recent.get(key), Some(key * 2));
            assert!(recent.young.len() + recent.old.len() <= 100);
        }
        assert_eq!(recent.get(5_000), None);
    }
}
