//! What a sender said last beside data. The other of two ways says the same at the same time: whoever does is known by it before it has
//! brought any data, and whoever says something else, or the same later, is not.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The last heartbeats, ends and metadata of a session, as the hash of each and when it came.
#[derive(Debug, Default)]
pub(super) struct Echo {
    said: VecDeque<(u64, Duration)>,
    hash: RandomState,
}

impl Echo {
    /// A way that is known has said this.
    pub(super) fn hear(&mut self, bytes: &[u8], now: Duration) {
        while self.said.front().is_some_and(|(_, then)| now > *then + APART) || self.said.len() >= MOST {
            self.said.pop_front();
        }
        self.said.push_back((self.hash.hash_one(bytes), now));
    }

    /// Whether one has said the same just now.
    pub(super) fn is_one(&self, bytes: &[u8], now: Duration) -> bool {
        let hash = self.hash.hash_one(bytes);
        self.said.iter().any(|&(said, then)| said == hash && now <= then + APART)
    }
}

/// By how much two ways differ, and five heartbeats: those that stand still are all the same.
const APART: Duration = Duration::from_millis(250);

/// Metadata of 4,096 channels are some hundred datagrams.
const MOST: usize = 256;
