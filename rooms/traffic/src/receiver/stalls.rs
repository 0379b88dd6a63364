//! A reader that stops reading, on a schedule.

use nix::poll::{PollFd, PollFlags};
use weir_program::clock::{self, Nanos, nanos, now};

use super::ending::Ending;
use crate::Stall;

/// The stalls of a receiver.
pub(crate) struct Stalls {
    every: Nanos,
    length: Nanos,
    next: Nanos,
}

impl Stalls {
    pub(super) fn new(stall: Stall, started: Nanos) -> Self {
        let every = nanos(stall.every).max(1);
        Stalls { every, length: nanos(stall.length), next: started.saturating_add(every) }
    }

    /// Returns when the stall that is due is over, at once if there is none. A stop ends it.
    pub(super) fn stand_still(&mut self, ending: &Ending<'_>) {
        let at = now();
        if at < self.next {
            return;
        }
        // Stalls missed while nothing arrived are not made up for.
        let over = at.saturating_add(self.length);
        self.next += self.every * ((at - self.next) / self.every + 1);
        while now() < over && !ending.is_stopped() {
            clock::wait(&mut [PollFd::new(ending.stop_fd(), PollFlags::POLLIN)], Some(over));
        }
    }
}
