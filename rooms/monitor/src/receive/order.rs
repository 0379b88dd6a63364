//! The datagrams of a session in the order of their numbers: what comes early waits for a bounded time, what does not come is a hole.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use super::Moment;

/// Puts datagrams in order. Pure: the caller brings time.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The number of the datagram that is due; `None`: the first are still being collected.
    next: Option<u64>,
    /// The number that was due first.
    first: u64,
    /// Those that came early.
    held: BTreeMap<u64, Held>,
    /// What shows that something before it is missing: when it came, how many datagrams the sockets had dropped by then, and its
    /// number. In the order of arrival.
    noticed: VecDeque<(Moment, u64)>,
    /// Holes, the newest at the back: what comes of them is late, not a copy.
    holes: VecDeque<Range<u64>>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
}

/// A datagram that came early.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) bytes: Vec<u8>,
    pub(super) moment: Moment,
}

/// What a number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the one that is due.
    Due,
    /// Others are due before it.
    Early,
    /// It is here already.
    Copy,
    /// It had been given up, or was sent before the first that came.
    Late,
    /// No sender gets so far ahead: it is made up.
    Absurd,
}

/// Datagrams that are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    /// Datagrams missing; 0: only the beginning has been decided.
    pub(super) datagrams: u64,
    /// What the sockets had dropped when the hole was seen.
    pub(super) drops: u64,
}

impl Order {
    /// The number that is due; `None`: not decided yet.
    pub(super) fn next(&self) -> Option<u64> {
        self.next
    }

    /// The number that is due, or the first of those that are still being collected.
    pub(super) fn reached(&self) -> Option<u64> {
        self.next.or_else(|| self.held.keys().next().copied())
    }

    /// Datagrams that wait.
    pub(super) fn waiting(&self) -> usize {
        self.held.len()
    }

    /// Whether time alone will change something.
    pub(super) fn is_pending(&self) -> bool {
        !self.noticed.is_empty()
    }

    /// Whether the datagram of a number has neither come nor been given up.
    pub(super) fn is_new(&self, number: u64) -> bool {
        self.next.is_none_or(|next| number >= next) && !self.held.contains_key(&number)
    }

    /// What to do with the datagram of a number.
    pub(super) fn judge(&mut self, number: u64) -> Verdict {
        let Some(next) = self.next else {
            // The first of a session has nothing in front of it.
            if number == 0 && self.held.is_empty() {
                self.begin(0);
                return Verdict::Due;
            }
            return if self.held.contains_key(&number) { Verdict::Copy } else { Verdict::Early };
        };
        match number.checked_sub(next) {
            Some(0) => Verdict::Due,
            Some(ahead) if ahead > MOST_AHEAD => Verdict::Absurd,
            Some(_) if self.held.contains_key(&number) => Verdict::Copy,
            Some(_) => Verdict::Early,
            None if number < self.first || self.reclaim(number) => Verdict::Late,
            None => Verdict::Copy,
        }
    }

    /// The one that was due has been taken.
    pub(super) fn advance(&mut self) {
        self.next = self.next.map(|next| next + 1);
        self.forget_noticed();
    }

    /// Keeps one that is early.
    pub(super) fn hold(&mut self, number: u64, bytes: &[u8], moment: Moment) {
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(bytes);
        self.held.insert(number, Held { bytes: kept, moment });
        self.noticed.push_back((moment, number));
    }

    /// The sender says which number its next datagram has. `false`: it is behind what came, or made up.
    pub(super) fn announce(&mut self, number: u64, moment: Moment) -> bool {
        let next = match self.next {
            Some(next) => next,
            None => self.begin(self.held.keys().next().map_or(number, |&held| held.min(number))),
        };
        match number.checked_sub(next) {
            None => return false,
            Some(0) => {}
            Some(ahead) if ahead > MOST_AHEAD => return false,
            Some(_) if self.noticed.iter().any(|&(_, noticed)| noticed >= number) => {}
            Some(_) => self.noticed.push_back((moment, number)),
        }
        true
    }

    /// The one that is due, if it waits here. The buffer is given back by [`Self::give_back`].
    pub(super) fn take(&mut self) -> Option<Held> {
        let held = self.held.remove(&self.next?)?;
        self.advance();
        Some(held)
    }

    /// A buffer that is not needed any more.
    pub(super) fn give_back(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < SPARE {
            self.spare.push(bytes);
        }
    }

    /// Gives up what has been missing for as long as the window, or what stands in front of more than `most` that wait.
    pub(super) fn give_up(&mut self, now: Duration, window: Duration, most: usize) -> Option<Hole> {
        let &(noticed, number) = self.noticed.front()?;
        if now < noticed.now + window && self.held.len() <= most {
            return None;
        }
        let first = self.held.first_key_value();
        let Some(next) = self.next else {
            let first = first.map_or(number, |(&first, _)| first);
            self.begin(first);
            self.forget_noticed();
            return Some(Hole { datagrams: 0, drops: noticed.drops });
        };
        let (to, drops) = match first {
            Some((&first, held)) if first <= number => (first, held.moment.drops),
            _ => (number, noticed.drops),
        };
        if self.holes.len() == MOST_HOLES {
            self.holes.pop_front();
        }
        self.holes.push_back(next..to);
        self.next = Some(to);
        self.forget_noticed();
        Some(Hole { datagrams: to - next, drops })
    }

    /// Nothing before a number is waited for.
    fn begin(&mut self, first: u64) -> u64 {
        self.first = first;
        self.next = Some(first);
        first
    }

    /// What is not missing any more shows nothing.
    fn forget_noticed(&mut self) {
        let Some(next) = self.next else { return };
        while self.noticed.front().is_some_and(|&(_, number)| number <= next) {
            self.noticed.pop_front();
        }
    }

    /// Whether a number was given up; it is then no more.
    fn reclaim(&mut self, number: u64) -> bool {
        let Some(at) = self.holes.iter().rposition(|hole| hole.contains(&number)) else { return false };
        let Range { start, end } = self.holes[at].clone();
        self.holes[at] = start..number;
        if number + 1 < end {
            self.holes.insert(at + 1, number + 1..end);
        }
        if self.holes[at].is_empty() {
            self.holes.remove(at);
        } else if self.holes.len() > MOST_HOLES {
            self.holes.pop_front();
        }
        true
    }
}

/// Numbers between a datagram and the one that is due: at a million datagrams a second more than an hour.
const MOST_AHEAD: u64 = 1 << 32;

/// Holes that are remembered, to tell what is late from copies.
const MOST_HOLES: usize = 1024;

/// Buffers that are kept to be used again.
const SPARE: usize = 16;
