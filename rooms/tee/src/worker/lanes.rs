//! The lanes of a worker: one to each outlet of the plan, and those to outlets that it no longer has, as long as
//! something waits there.
//!
//! A batch goes through in three steps: each datagram is offered to the lanes of its route, what goes to lent lanes is
//! handed over, the rest is sent. Nothing of a batch is left behind the last step.

use std::time::{Duration, Instant};

use super::batch::{Batch, Pending};
use super::egress::Egress;
use super::events::{Events, Token};
use super::lane::Lane;
use super::turn::Turn;
use crate::plan::Plan;
use crate::sockets::EgressSocket;

/// The lanes of a worker.
#[derive(Default)]
pub(super) struct Lanes {
    worker: usize,
    /// By outlet.
    lanes: Vec<Lane>,
    /// Those that were given something of the batch.
    touched: Vec<usize>,
    /// Those that wait for company (gather).
    gathering: Vec<usize>,
    leaving: Vec<Leaving>,
    /// How many others hold.
    lent: usize,
}

/// The egress of a lane to an outlet that the plan no longer has.
struct Leaving {
    egress: Box<Egress>,
    until: Instant,
    number: usize,
}

impl Lanes {
    /// None yet, for this worker.
    pub(super) fn new(worker: usize) -> Self {
        Self { worker, ..Self::default() }
    }

    /// Goes over to the outlets of another plan, with their sockets. No lane may be lent.
    pub(super) fn replace(&mut self, plan: &Plan, sockets: Vec<EgressSocket>, events: &Events, turn: &Turn<'_>) {
        self.stop_gathering();
        self.lanes.iter_mut().filter_map(Lane::egress).for_each(|egress| egress.unwatch(events));
        let mut old: Vec<_> = std::mem::take(&mut self.lanes).into_iter().map(Some).collect();
        for (outlet, socket) in plan.outlets.iter().zip(sockets) {
            let before = old.iter_mut().find(|lane| lane.as_ref().is_some_and(|lane| lane.is_to(outlet)));
            self.lanes.push(match before.and_then(Option::take) {
                Some(mut lane) => {
                    lane.adapt(outlet, socket, turn);
                    lane
                }
                None => Lane::new(self.worker, outlet, socket),
            });
        }
        let until = Instant::now() + plan.settings.drain;
        let removed = old.into_iter().flatten().filter_map(Lane::into_egress);
        for egress in removed.filter(|egress| egress.has_backlog()) {
            let number = self.leaving.last().map_or(0, |last| last.number + 1);
            self.leaving.push(Leaving { egress, until, number });
        }
        self.watch(events);
    }

    /// Offers a part of a message to a lane; see [`Lane::offer`].
    pub(super) fn offer(&mut self, at: usize, offer: impl FnOnce(&mut Lane)) {
        let lane = &mut self.lanes[at];
        let before = lane.is_pending();
        offer(lane);
        if !before && lane.is_pending() {
            self.touched.push(at);
        }
    }

    /// Gives what of the batch goes to lanes that others hold: to which worker, for which lane.
    pub(super) fn hand_over(&mut self, _: &Turn<'_>, mut give: impl FnMut(usize, usize, &mut Pending)) {
        for &at in &self.touched {
            self.lanes[at].hand_over(|holder, pending| give(holder, at, pending));
        }
    }

    /// Sends what of the batch goes to lanes here. Lanes in trouble come last: they only copy, but the others need not
    /// wait for it.
    pub(super) fn send(&mut self, batch: Batch<'_>, gather: Duration, turn: &mut Turn<'_>) {
        for troubled in [false, true] {
            for &at in &self.touched {
                let lane = &mut self.lanes[at];
                // A lane that was well may be troubled now, but then nothing of the batch is left to it.
                if lane.is_pending()
                    && lane.has_backlog() == troubled
                    && lane.send(batch, gather, turn)
                    && !self.gathering.contains(&at)
                {
                    self.gathering.push(at);
                }
            }
        }
    }

    /// Ends a batch: has epoll and the timer tell when there is more to do for the lanes that it touched.
    pub(super) fn finish_batch(&mut self, events: &Events) {
        for at in self.touched.drain(..) {
            watch(&mut self.lanes, at, events);
        }
        if !self.gathering.is_empty() {
            self.set_timer(Instant::now(), events);
        }
    }

    /// The egress of a lane, if it is here.
    pub(super) fn egress(&mut self, at: usize) -> Option<&mut Egress> {
        self.lanes[at].egress()
    }

    /// The egress of a leaving one.
    pub(super) fn leaving(&mut self, number: usize) -> Option<&mut Egress> {
        self.leaving.iter_mut().find(|leaving| leaving.number == number).map(|leaving| &mut *leaving.egress)
    }

    /// Sends what has waited for company long enough.
    pub(super) fn release_due(&mut self, events: &Events, turn: &mut Turn<'_>) {
        let now = Instant::now();
        for at in std::mem::take(&mut self.gathering) {
            let Some(egress) = self.lanes[at].egress() else { continue };
            match egress.due() {
                Some(due) if due > now => self.gathering.push(at),
                Some(_) => egress.drain(turn),
                None => {}
            }
            watch(&mut self.lanes, at, events);
        }
        self.set_timer(now, events);
    }

    /// Makes what waits for company wait for room only.
    pub(super) fn stop_gathering(&mut self) {
        self.gathering.clear();
        self.lanes.iter_mut().filter_map(Lane::egress).for_each(Egress::stop_gathering);
    }

    /// When the first of the leaving ones has had its time.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.leaving.iter().map(|leaving| leaving.until).min()
    }

    /// Lets leaving ones have no longer than this.
    pub(super) fn shorten(&mut self, until: Instant) {
        self.leaving.iter_mut().for_each(|leaving| leaving.until = leaving.until.min(until));
    }

    /// Ends leaving ones that are empty or have had their time.
    pub(super) fn dismiss(&mut self, events: &Events, turn: &Turn<'_>) {
        let now = Instant::now();
        for Leaving { egress, number, .. } in self.leaving.iter_mut().filter(|leaving| leaving.until <= now) {
            egress.abandon(turn);
            egress.watch(events, Token::Leaving(*number));
        }
        self.leaving.retain(|leaving| leaving.egress.has_backlog());
    }

    /// Whether there are leaving ones.
    pub(super) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Whether something waits anywhere.
    pub(super) fn has_backlog(&self) -> bool {
        self.has_leaving() || self.lanes.iter().any(Lane::has_backlog)
    }

    /// Gives up what waits, everywhere.
    pub(super) fn abandon(&mut self, turn: &Turn<'_>) {
        let here = self.lanes.iter_mut().filter_map(Lane::egress);
        here.chain(self.leaving.iter_mut().map(|leaving| &mut *leaving.egress)).for_each(|egress| egress.abandon(turn));
    }

    /// How many others hold.
    pub(super) fn lent(&self) -> usize {
        self.lent
    }

    /// Lanes here that had work since the last call, in the order in which they are lent: every other one of them first,
    /// by their work, so that both workers have heavy and light ones.
    pub(super) fn lendable(&mut self) -> Vec<usize> {
        let given = self.lanes.iter_mut().map(Lane::take_given).enumerate();
        let mut busy: Vec<(usize, u64)> = given.filter(|(_, given)| *given > 0).collect();
        busy.sort_by_key(|(_, given)| std::cmp::Reverse(*given));
        let every_other = |first| busy.iter().skip(first).step_by(2).map(|(at, _)| *at);
        every_other(0).chain(every_other(1)).collect()
    }

    /// Lends the egress of a lane; `None`: it is lent already.
    pub(super) fn lend(&mut self, at: usize, holder: usize, events: &Events) -> Option<Box<Egress>> {
        let mut egress = self.lanes[at].lend(holder)?;
        egress.unwatch(events);
        self.lent += 1;
        Some(egress)
    }

    /// Has one back.
    pub(super) fn take_back(&mut self, at: usize, egress: Box<Egress>, events: &Events) {
        self.lanes[at].take_back(egress);
        self.lent -= 1;
        watch(&mut self.lanes, at, events);
    }

    /// Has epoll tell of every lane that waits for it.
    pub(super) fn watch(&mut self, events: &Events) {
        for at in 0..self.lanes.len() {
            watch(&mut self.lanes, at, events);
        }
        for Leaving { egress, number, .. } in &mut self.leaving {
            egress.watch(events, Token::Leaving(*number));
        }
    }

    /// Has the timer wake us for the lane that is due first.
    fn set_timer(&mut self, now: Instant, events: &Events) {
        let lanes = &mut self.lanes;
        let due = |&at: &usize| lanes[at].egress()?.due();
        if let Some(first) = self.gathering.iter().filter_map(due).min() {
            events.set_timer(first.saturating_duration_since(now));
        }
    }
}

fn watch(lanes: &mut [Lane], at: usize, events: &Events) {
    if let Some(egress) = lanes[at].egress() {
        egress.watch(events, Token::Lane(at));
    }
}
