//! What the last datagrams of an agent had in them: one number with two contents shows that somebody else speaks in its name.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use crate::agents::Sequence;

/// A datagram as it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent<'a> {
    /// Its sequence number.
    pub(super) number: u32,
    /// The agent's uptime in it, ms.
    pub(super) uptime: u32,
    /// All of it.
    pub(super) bytes: &'a [u8],
}

/// Contents of the last datagrams of agents.
#[derive(Debug, Default)]
pub(super) struct Contents {
    hasher: RandomState,
    /// By the agent's slot, then by number: number and hash, which is never 0.
    agents: Vec<Option<Box<Numbers>>>,
}

/// By the lowest digits of their numbers.
type Numbers = [(u32, u32); NUMBERS];

/// Datagrams that are remembered of an agent: all of which it is known whether they have come.
const NUMBERS: usize = Sequence::WINDOW as usize;

impl Contents {
    /// A datagram of the agent in a slot was taken.
    #[inline]
    pub(super) fn note(&mut self, slot: usize, sent: &Sent<'_>) {
        let hash = self.hash(sent);
        if slot >= self.agents.len() {
            self.agents.resize(slot + 1, None);
        }
        let known = self.agents[slot].get_or_insert_with(|| Box::new([(0, 0); NUMBERS]));
        known[sent.number as usize % NUMBERS] = (sent.number, hash);
    }

    /// Whether a datagram of this number that was taken had another content.
    pub(super) fn differs(&self, slot: usize, sent: &Sent<'_>) -> bool {
        let Some(Some(known)) = self.agents.get(slot) else { return false };
        let (number, hash) = known[sent.number as usize % NUMBERS];
        hash != 0 && number == sent.number && hash != self.hash(sent)
    }

    fn hash(&self, sent: &Sent<'_>) -> u32 {
        self.hasher.hash_one(sent.bytes) as u32 | 1
    }
}
