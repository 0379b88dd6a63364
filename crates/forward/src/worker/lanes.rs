//! The lanes of a worker: one to each outlet of the plan, and behind them those to outlets that it no longer has, as long
//! as something waits there.
//!
//! A batch goes through in two steps: each datagram is offered to the lanes of its route, then all is sent. Nothing of a
//! batch is left after the last step.

use std::sync::Arc;
use std::time::Instant;

use indexmap::IndexMap;

use super::batch::{Batch, Origin};
use super::events::{Events, Token};
use super::lane::Lane;
use super::turn::Turn;
use crate::plan::Plan;
use crate::sockets::EgressSocket;

/// The lanes of a worker.
#[derive(Default)]
pub(super) struct Lanes {
    worker: usize,
    /// By outlet, then the leaving ones.
    lanes: Vec<Lane>,
    /// How many are not leaving.
    outlets: usize,
    /// Those that were given something of the batch, or wait for room because of it.
    touched: Vec<usize>,
    /// Those whose destinations answer.
    answering: Vec<usize>,
    /// Whether something may wait for a next hop: not before the next command to look is this known to be over.
    awaits_hop: bool,
}

impl Lanes {
    /// None yet, for this worker.
    pub(super) fn new(worker: usize) -> Self {
        Self { worker, ..Self::default() }
    }

    /// Goes over to the outlets of another plan, with their sockets.
    pub(super) fn replace(&mut self, plan: &Plan, sockets: Vec<EgressSocket>, events: &Events, turn: &Turn<'_>) {
        for lane in &mut self.lanes {
            lane.unwatch(events);
            lane.watch_answers(events, None);
        }
        let mut old: IndexMap<_, _> = self.lanes.drain(..).map(|lane| (lane.identity(), lane)).collect();
        for (outlet, socket) in plan.outlets.iter().zip(sockets) {
            self.lanes.push(match old.swap_remove(&Arc::as_ptr(&outlet.book)) {
                Some(mut lane) => {
                    lane.adapt(outlet, socket, plan.settings.workers, turn);
                    lane
                }
                None => Lane::new(self.worker, outlet, socket, plan.settings.workers),
            });
        }
        self.outlets = self.lanes.len();
        self.answering.clear();
        for (at, lane) in self.lanes.iter().enumerate().filter(|(_, lane)| lane.has_sessions()) {
            lane.watch_answers(events, Some(Token::Answers(at)));
            self.answering.push(at);
        }
        let until = Instant::now() + plan.settings.drain;
        for mut lane in old.into_values().filter(Lane::has_backlog) {
            lane.leaving.get_or_insert(until);
            self.lanes.push(lane);
        }
        self.watch(events);
    }

    /// Offers a part of a message to a lane; see [`Lane::offer`].
    pub(super) fn offer(&mut self, at: usize, offer: impl FnOnce(&mut Lane)) {
        let lane = &mut self.lanes[at];
        let was_pending = lane.is_pending();
        offer(lane);
        if !was_pending && lane.is_pending() {
            self.touched.push(at);
        }
    }

    /// Sends a datagram that came alone at once; `false`: the way is not clear, and it is to be offered.
    pub(super) fn pass(&mut self, at: usize, payload: &[u8], origin: Origin, turn: &mut Turn<'_>) -> bool {
        let lane = &mut self.lanes[at];
        let Some(blocked) = lane.pass(payload, origin, turn) else { return false };
        if blocked {
            self.touched.push(at);
        }
        true
    }

    /// Whether there is something left to do for the batch.
    pub(super) fn are_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Sends the batch. Lanes in trouble come last: they only copy, but the others need not wait for it.
    pub(super) fn send(&mut self, batch: &Batch, turn: &mut Turn<'_>) {
        for troubled in [false, true] {
            for &at in &self.touched {
                let lane = &mut self.lanes[at];
                // A lane that was well may be troubled now, but then nothing of the batch is left to it.
                if lane.is_pending() && lane.has_backlog() == troubled {
                    lane.flush(batch, turn);
                }
            }
        }
    }

    /// Ends a batch: has epoll tell when there is more to do for the lanes that it touched.
    pub(super) fn finish_batch(&mut self, events: &Events) {
        for at in self.touched.drain(..) {
            self.awaits_hop |= watch(&mut self.lanes, at, events);
        }
    }

    /// A lane; a leaving one may have gone.
    pub(super) fn get(&mut self, at: usize) -> Option<&mut Lane> {
        self.lanes.get_mut(at)
    }

    /// Goes on where a next hop has answered, or failed.
    pub(super) fn look(&mut self, events: &Events, turn: &mut Turn<'_>) {
        self.awaits_hop = false;
        for at in 0..self.lanes.len() {
            self.lanes[at].drain(turn);
            self.awaits_hop |= watch(&mut self.lanes, at, events);
        }
    }

    /// Whether something may wait for a next hop.
    pub(super) fn awaits_hop(&self) -> bool {
        self.awaits_hop
    }

    /// When the first of the leaving ones has had its time, or a session.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let sessions = self.answering.iter().filter_map(|&at| self.lanes[at].sessions_deadline());
        sessions.chain(self.lanes[self.outlets..].iter().filter_map(|lane| lane.leaving)).min()
    }

    /// Whether any destination answers.
    pub(super) fn is_answered(&self) -> bool {
        !self.answering.is_empty()
    }

    /// Closes sessions that have been silent for too long.
    pub(super) fn age_sessions(&mut self, turn: &Turn<'_>) {
        let now = Instant::now();
        for &at in &self.answering {
            self.lanes[at].age_sessions(now, turn);
        }
    }

    /// Lets leaving ones have no longer than this.
    pub(super) fn shorten(&mut self, until: Instant) {
        let leaving = self.lanes[self.outlets..].iter_mut().filter_map(|lane| lane.leaving.as_mut());
        leaving.for_each(|leaving| *leaving = until.min(*leaving));
    }

    /// Ends leaving ones that are empty or have had their time.
    pub(super) fn dismiss(&mut self, events: &Events, turn: &Turn<'_>) {
        let now = Instant::now();
        let ends = |lane: &Lane| !lane.has_backlog() || lane.leaving.is_some_and(|until| until <= now);
        if !self.lanes[self.outlets..].iter().any(ends) {
            return;
        }
        for mut lane in self.lanes.split_off(self.outlets) {
            // Those behind it get other places.
            lane.unwatch(events);
            if ends(&lane) {
                lane.abandon(turn);
            } else {
                self.lanes.push(lane);
            }
        }
        self.watch(events);
    }

    /// Whether there are leaving ones.
    pub(super) fn has_leaving(&self) -> bool {
        self.lanes.len() > self.outlets
    }

    /// Whether something waits anywhere.
    pub(super) fn has_backlog(&self) -> bool {
        self.lanes.iter().any(Lane::has_backlog)
    }

    /// Gives up what waits, everywhere.
    pub(super) fn abandon(&mut self, turn: &Turn<'_>) {
        self.lanes.iter_mut().for_each(|lane| lane.abandon(turn));
    }

    /// Has epoll tell of every lane that waits for it.
    fn watch(&mut self, events: &Events) {
        for at in 0..self.lanes.len() {
            watch(&mut self.lanes, at, events);
        }
    }
}

/// Returns whether something waits for a next hop.
fn watch(lanes: &mut [Lane], at: usize, events: &Events) -> bool {
    lanes[at].watch(events, Token::Lane(at))
}
