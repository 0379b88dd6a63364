//! An egress that is held for a moment, to see what comes in without what it would send: see `circuit`.

use super::Egress;
use crate::worker::backlog::Backlog;
use crate::worker::batch::{Batch, Pending};
use crate::worker::turn::Turn;

/// How something is held.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    Yes,
    /// No more: the queue was half full.
    GaveUp,
}

impl Egress {
    /// Has everything wait, in order, or no more. It waits no longer than there is room for half of what may.
    pub(in crate::worker) fn hold(&mut self, hold: bool, turn: &mut Turn<'_>) {
        self.due = None;
        self.held = hold.then_some(Held::Yes);
        if !hold {
            self.drain_all(turn);
        }
    }

    /// Whether what was held had to be let go.
    pub(in crate::worker) fn gave_up(&self) -> bool {
        self.held == Some(Held::GaveUp)
    }

    pub(super) fn is_held(&self) -> bool {
        self.held == Some(Held::Yes)
    }

    /// Has what of the batch goes here wait; `false`: there was no room, and nothing is held any more.
    pub(super) fn keep_held(&mut self, pending: &mut Pending, batch: &Batch, turn: &mut Turn<'_>) -> bool {
        let parts = pending.rest().iter();
        let more: usize = parts.map(|part| Backlog::room_for(part.datagrams(), part.end - part.start)).sum();
        if self.backlog.occupied() + more <= self.limit / 2 {
            self.keep(pending, batch);
            return true;
        }
        self.held = Some(Held::GaveUp);
        self.drain_all(turn);
        false
    }

    /// Sends what waits, as far as the kernel takes it.
    fn drain_all(&mut self, turn: &mut Turn<'_>) {
        let mut before = usize::MAX;
        while !self.backlog.is_empty() && self.backlog.len() < before {
            before = self.backlog.len();
            self.drain(turn);
        }
    }
}
