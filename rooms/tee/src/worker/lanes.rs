//! The lanes of a worker: one to each outlet of the plan, and those to outlets that it no longer has, as long as
//! something waits there.
//!
//! A batch goes through in three steps: each datagram is offered to the lanes of its route, what goes to lent lanes is
//! handed over, the rest is sent. Nothing of a batch is left behind the last step.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::{Batch, Origin, Pending};
use super::egress::Egress;
use super::events::{Events, Token};
use super::lane::Lane;
use super::repeats::Suspect;
use super::turn::Turn;
use crate::counters::LoopEntry;
use crate::plan::Plan;
use crate::sockets::EgressSocket;

/// The lanes of a worker.
#[derive(Default)]
pub(super) struct Lanes {
    worker: usize,
    /// By outlet.
    lanes: Vec<Lane>,
    /// Those that were given something of the batch, or wait for room because of it.
    touched: Vec<usize>,
    /// Those that began to wait for company (gather), and until when: all for as long, so the first is due first. One that
    /// has left in the meantime is passed over.
    gathering: VecDeque<(Instant, usize)>,
    /// By their numbers.
    leaving: Vec<Leaving>,
    /// How many others hold.
    lent: usize,
    /// Those whose destinations answer.
    answering: Vec<usize>,
    /// Whether something may wait for a next hop: not before the next command to look is this known to be over.
    awaits_hop: bool,
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
        self.lanes.iter_mut().filter_map(Lane::egress).for_each(|egress| {
            egress.unwatch(events);
            egress.watch_answers(events, None);
        });
        let mut old: HashMap<_, _> =
            std::mem::take(&mut self.lanes).into_iter().map(|lane| (lane.identity(), lane)).collect();
        for (outlet, socket) in plan.outlets.iter().zip(sockets) {
            self.lanes.push(match old.remove(&Arc::as_ptr(&outlet.book)) {
                Some(mut lane) => {
                    lane.adapt(outlet, socket, plan.settings.workers, turn);
                    lane
                }
                None => Lane::new(self.worker, outlet, socket, plan.settings.workers),
            });
        }
        self.answering.clear();
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            if let Some(egress) = lane.egress()
                && egress.has_sessions()
            {
                egress.watch_answers(events, Some(Token::Answers(at)));
                self.answering.push(at);
            }
        }
        let until = Instant::now() + plan.settings.drain;
        let removed = old.into_values().filter_map(Lane::into_egress);
        for egress in removed.filter(|egress| egress.has_backlog()) {
            let number = self.leaving.last().map_or(0, |last| last.number + 1);
            self.leaving.push(Leaving { egress, until, number });
        }
        self.watch(events);
    }

    /// Offers a part of a message to a lane; see [`Lane::offer`].
    pub(super) fn offer(&mut self, at: usize, offer: impl FnOnce(&mut Lane)) {
        let lane = &mut self.lanes[at];
        if !lane.is_asked() {
            self.touched.push(at);
        }
        offer(lane);
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

    /// Has everything that goes to an outlet wait, or no more.
    pub(super) fn hold(&mut self, at: usize, hold: bool, events: &Events, turn: &mut Turn<'_>) {
        if let Some(egress) = self.lanes[at].egress() {
            egress.hold(hold, turn);
        }
        self.awaits_hop |= watch(&mut self.lanes, at, events);
    }

    /// As [`Lane::stop_returning`], of one lane.
    pub(super) fn stop_returning(&mut self, at: usize, suspect: Suspect, entry: Arc<LoopEntry>, now: u32) {
        self.lanes[at].stop_returning(suspect, entry, now);
    }

    /// As [`Lane::let_return`], of all lanes.
    pub(super) fn let_return(&mut self) {
        self.lanes.iter_mut().for_each(Lane::let_return);
    }

    /// As [`Lane::forget_returned`], of any lane.
    pub(super) fn forget_returned(&mut self, now: u32) -> bool {
        self.lanes.iter_mut().fold(false, |any, lane| lane.forget_returned(now) | any)
    }

    /// Gives what of the batch goes to lanes that others hold: to which worker, for which lane.
    pub(super) fn hand_over(&mut self, turn: &Turn<'_>, mut give: impl FnMut(usize, usize, &mut Pending)) {
        for &at in &self.touched {
            self.lanes[at].hand_over(turn, |holder, pending| give(holder, at, pending));
        }
    }

    /// Sends what of the batch goes to lanes here. Lanes in trouble come last: they only copy, but the others need not
    /// wait for it.
    pub(super) fn send(&mut self, batch: Batch<'_>, gather: Duration, turn: &mut Turn<'_>) {
        for troubled in [false, true] {
            for &at in &self.touched {
                let lane = &mut self.lanes[at];
                if lane.is_asked() {
                    lane.count(turn);
                }
                // A lane that was well may be troubled now, but then nothing of the batch is left to it.
                if lane.is_pending()
                    && lane.has_backlog() == troubled
                    && let Some(due) = lane.send(batch, gather, turn)
                {
                    self.gathering.push_back((due, at));
                }
            }
        }
    }

    /// Ends a batch: has epoll and the timer tell when there is more to do for the lanes that it touched.
    pub(super) fn finish_batch(&mut self, events: &Events) {
        for at in self.touched.drain(..) {
            self.awaits_hop |= watch(&mut self.lanes, at, events);
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
        let at = self.leaving.binary_search_by_key(&number, |leaving| leaving.number).ok()?;
        Some(&mut self.leaving[at].egress)
    }

    /// Sends what has waited for company long enough.
    pub(super) fn release_due(&mut self, events: &Events, turn: &mut Turn<'_>) {
        let now = Instant::now();
        while let Some((_, at)) = self.next_due().filter(|(due, _)| *due <= now) {
            self.gathering.pop_front();
            if let Some(egress) = self.lanes[at].egress() {
                egress.drain(turn);
            }
            watch(&mut self.lanes, at, events);
        }
        self.set_timer(now, events);
    }

    /// Goes on where a next hop has answered, or failed.
    pub(super) fn look(&mut self, events: &Events, turn: &mut Turn<'_>) {
        self.awaits_hop = false;
        for at in 0..self.lanes.len() {
            if let Some(egress) = self.lanes[at].egress() {
                egress.look(turn);
            }
            self.awaits_hop |= watch(&mut self.lanes, at, events);
        }
        for Leaving { egress, number, .. } in &mut self.leaving {
            egress.look(turn);
            egress.watch(events, Token::Leaving(*number));
        }
    }

    /// Whether something may wait for a next hop.
    pub(super) fn awaits_hop(&self) -> bool {
        self.awaits_hop
    }

    /// Gives up the datagrams that next hops were asked for, where nothing else waits for their answer.
    pub(super) fn abandon_trials(&mut self, turn: &Turn<'_>) {
        let here = self.lanes.iter_mut().filter_map(Lane::egress);
        here.chain(self.leaving.iter_mut().map(|leaving| &mut *leaving.egress))
            .for_each(|egress| egress.abandon_trial(turn));
    }

    /// Makes what waits for company wait for room only.
    pub(super) fn stop_gathering(&mut self) {
        self.gathering.clear();
        self.lanes.iter_mut().filter_map(Lane::egress).for_each(Egress::stop_gathering);
    }

    /// When the first of the leaving ones has had its time, or a session.
    pub(super) fn deadline(&mut self) -> Option<Instant> {
        let Self { lanes, leaving, answering, .. } = self;
        let sessions = answering.iter().filter_map(|&at| lanes[at].egress()?.sessions_deadline());
        sessions.chain(leaving.iter().map(|leaving| leaving.until)).min()
    }

    /// Whether any destination answers.
    pub(super) fn is_answered(&self) -> bool {
        !self.answering.is_empty()
    }

    /// Closes sessions that have been silent for too long.
    pub(super) fn age_sessions(&mut self, turn: &Turn<'_>) {
        let now = Instant::now();
        for &at in &self.answering {
            if let Some(egress) = self.lanes[at].egress() {
                egress.age_sessions(now, turn);
            }
        }
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

    /// Whether any waits for company.
    pub(super) fn is_gathering(&self) -> bool {
        !self.gathering.is_empty()
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
        if let Some((first, _)) = self.next_due() {
            events.set_timer(first.saturating_duration_since(now));
        }
    }

    /// The lane that is due first, and when.
    fn next_due(&mut self) -> Option<(Instant, usize)> {
        let Self { lanes, gathering, .. } = self;
        while let Some(&(due, at)) = gathering.front() {
            if lanes[at].egress().is_some_and(|egress| egress.due() == Some(due)) {
                return Some((due, at));
            }
            gathering.pop_front();
        }
        None
    }
}

/// Returns whether something waits for a next hop.
fn watch(lanes: &mut [Lane], at: usize, events: &Events) -> bool {
    lanes[at].egress().is_some_and(|egress| egress.watch(events, Token::Lane(at)))
}
