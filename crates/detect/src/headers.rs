//! First bytes of a few packets.

use std::collections::VecDeque;

use super::classes::Classes;

/// Headers that are kept, and how much of each.
const HEADERS: usize = 4;
/// As above.
const HEADER: usize = 128;

/// First bytes of the newest packets, the oldest first, each with when it came.
#[derive(Debug)]
pub(super) struct Headers(VecDeque<(u64, Classes, Vec<u8>)>);

impl Default for Headers {
    fn default() -> Self {
        Self(VecDeque::with_capacity(HEADERS))
    }
}

impl Headers {
    /// In the place of the oldest.
    #[inline]
    pub(super) fn note(&mut self, header: &[u8], time: u64, classes: Classes) {
        let oldest = if self.0.len() < HEADERS { None } else { self.0.pop_front() };
        let (.., mut bytes) = oldest.unwrap_or_else(|| (0, 0, Vec::with_capacity(HEADER)));
        bytes.clear();
        bytes.extend_from_slice(&header[..header.len().min(HEADER)]);
        self.0.push_back((time, classes, bytes));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Those that came since, of one of these classes.
    pub(super) fn of(&self, classes: Classes, since: u64) -> impl Iterator<Item = &[u8]> {
        let of_it = self.0.iter().filter(move |(time, of, _)| *time >= since && of & classes != 0);
        of_it.map(|(.., bytes)| bytes.as_slice())
    }
}
