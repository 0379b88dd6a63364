//! What was sent to an outlet of late, so that what comes back from a loop is not sent there again: `loop = "stop"`.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

use super::repeats::Suspect;
use crate::counters::LoopEntry;

/// The contents of two generations, as long as a loop was found.
pub(super) struct Returning {
    hasher: RandomState,
    young: HashSet<u64>,
    old: HashSet<u64>,
    /// When the young generation was begun, ms.
    turned: u32,
    /// Whose datagrams come back.
    suspects: Vec<(Suspect, Arc<LoopEntry>)>,
    /// When the last one came back, or the last suspect was added; and when that was told last.
    last: u32,
    told: u32,
}

impl Returning {
    /// Nothing was sent yet. `now`: ms from any moment on.
    pub(super) fn new(now: u32) -> Self {
        let (young, old) = (HashSet::new(), HashSet::new());
        Self { hasher: RandomState::new(), young, old, turned: now, suspects: Vec::new(), last: now, told: now }
    }

    /// What comes from these comes back. Of too many, the first are forgotten.
    pub(super) fn add(&mut self, suspect: Suspect, entry: Arc<LoopEntry>, now: u32) {
        self.suspects.retain(|(known, _)| *known != suspect);
        if self.suspects.len() >= SUSPECTS {
            self.suspects.remove(0);
        }
        self.suspects.push((suspect, entry));
        self.last = now;
    }

    /// Whether a datagram is one that was sent already, and comes back. Notes that it is sent if not.
    pub(super) fn comes_back(&mut self, listener: usize, source: IpAddr, payload: &[u8], now: u32) -> bool {
        let age = now.wrapping_sub(self.turned);
        if age >= GENERATION || self.young.len() >= CONTENTS {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
            if age >= 2 * GENERATION {
                self.old.clear();
            }
            self.turned = now;
        }
        let hash = self.hasher.hash_one(payload);
        let is_known = !self.young.insert(hash) || self.old.contains(&hash);
        let suspect = self.suspects.iter().find(|(suspect, _)| suspect.is(listener, source));
        let Some((_, entry)) = suspect.filter(|_| is_known) else { return false };
        self.last = now;
        if now.wrapping_sub(self.told) >= TOLD_APART {
            self.told = now;
            entry.confirm();
        }
        true
    }

    /// Whether nothing has come back for so long that nothing will.
    pub(super) fn is_over(&self, now: u32) -> bool {
        now.wrapping_sub(self.last) >= LASTS
    }
}

/// Time that a content is remembered for at least, ms: what goes round is back by then.
const GENERATION: u32 = 1_000;

/// Contents of a generation.
const CONTENTS: usize = 65_536;

/// Suspects of an outlet.
const SUSPECTS: usize = 16;

/// From one note that something comes back to the next, ms.
const TOLD_APART: u32 = 1_000;

/// Time after which nothing is expected to come back any more, ms.
const LASTS: u32 = 60_000;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));

    fn returning() -> Returning {
        let mut returning = Returning::new(5);
        returning.add(Suspect { listener: 0, source: Some(PEER) }, Arc::new(LoopEntry::new()), 5);
        returning
    }

    #[test]
    fn what_the_suspect_sends_is_dropped_where_it_was_sent_before() {
        let mut returning = returning();
        assert!(!returning.comes_back(0, OTHER, b"one", 10));
        assert!(returning.comes_back(0, PEER, b"one", 11));
        assert!(returning.comes_back(0, PEER, b"one", 12));
        assert!(!returning.comes_back(0, PEER, b"two", 12), "its own goes on");
        assert!(!returning.comes_back(0, OTHER, b"one", 13), "others may send the same as often as they like");
        assert!(!returning.comes_back(1, PEER, b"one", 13), "of another listener nothing is known");
    }

    #[test]
    fn what_was_sent_long_ago_may_be_sent_again() {
        let mut returning = returning();
        assert!(!returning.comes_back(0, OTHER, b"one", 10));
        assert!(returning.comes_back(0, PEER, b"one", 10 + GENERATION - 1));
        assert!(!returning.comes_back(0, PEER, b"one", 10 + 4 * GENERATION));
        assert!(!returning.is_over(10 + 4 * GENERATION));
        assert!(returning.is_over(10 + GENERATION + LASTS));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut returning = returning();
        for number in 0..4 * CONTENTS as u32 {
            returning.comes_back(0, OTHER, &number.to_be_bytes(), 10);
        }
        assert!(returning.young.len() + returning.old.len() <= 2 * CONTENTS);
        assert!(returning.comes_back(0, PEER, &(4 * CONTENTS as u32 - 1).to_be_bytes(), 10));
        for number in 0..100 {
            returning.add(Suspect { listener: number, source: None }, Arc::new(LoopEntry::new()), 10);
        }
        assert_eq!(returning.suspects.len(), SUSPECTS);
    }
}
