//! Which session gives way where there is no room for another.

use std::collections::VecDeque;

use weir_program::clock::Nanos;

use super::Progress;
use super::session::Session;

/// The sessions of which little has come yet, and the search among the others.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    /// Their places and serial numbers, in the order in which they came.
    waiting: VecDeque<(usize, u64)>,
    /// Likewise those that have announced their end, in the order in which they did.
    ended: VecDeque<(usize, u64)>,
    serial: u64,
    /// Where the search among the others goes on.
    hand: usize,
}

impl Newcomers {
    /// Takes note of a new session, and gives it its serial number.
    pub(super) fn add(&mut self, place: usize) -> u64 {
        self.serial += 1;
        self.waiting.push_back((place, self.serial));
        self.serial
    }

    /// Takes note of a session that has announced its end for the first time.
    pub(super) fn add_ended(&mut self, place: usize, serial: u64) {
        self.ended.push_back((place, serial));
    }

    /// The session to give up its place: the oldest of few messages that has fallen silent, or else the first that has
    /// ended, or else one of a few others that has been silent for long and had the fewest. `None`: none. Takes a bounded
    /// time.
    pub(super) fn least_plausible(&mut self, list: &[Session], at: Nanos) -> Option<usize> {
        for _ in 0..LOOKED_AT {
            let Some(&(place, serial)) = self.waiting.front() else { break };
            let session = &list[place];
            if session.serial == serial && session.messages() < PROVEN {
                if at.saturating_sub(session.last_heard) >= SILENT_NEWCOMER {
                    self.waiting.pop_front();
                    return Some(place);
                }
                if session.messages() == 1 {
                    // Those behind it came later.
                    break;
                }
                self.waiting.rotate_left(1);
            } else {
                self.waiting.pop_front();
            }
        }
        if let Some(place) = self.first_ended(list, at) {
            return Some(place);
        }
        let looked_at = (0..list.len().min(LOOKED_AT)).map(|step| (self.hand + step) % list.len());
        let silent = looked_at.filter(|&place| at.saturating_sub(list[place].last_heard) >= SILENT);
        let least = silent.min_by_key(|&place| list[place].messages());
        self.hand = self.hand.wrapping_add(LOOKED_AT) % list.len().max(1);
        least
    }

    /// The first that has ended, and of which nothing comes any more.
    fn first_ended(&mut self, list: &[Session], at: Nanos) -> Option<usize> {
        for _ in 0..LOOKED_AT {
            let &(place, serial) = self.ended.front()?;
            let session = &list[place];
            let over = session.serial == serial && session.progress() != Progress::Open;
            if over && at.saturating_sub(session.last_heard) < SILENT_NEWCOMER {
                self.ended.rotate_left(1);
                continue;
            }
            self.ended.pop_front();
            if over {
                return Some(place);
            }
        }
        None
    }
}

/// Messages of a session that is no longer taken for an accident or a forgery.
pub(in crate::receiver) const PROVEN: u64 = 8;

/// Silence after which a session of fewer, or one that has ended, may give way.
const SILENT_NEWCOMER: Nanos = 1_000_000_000;

/// Silence after which any may.
const SILENT: Nanos = 60_000_000_000;

/// Sessions looked at for one that is new.
const LOOKED_AT: usize = 32;
