//! Lanes lent to a worker that has time: when one sender fills one worker, for the kernel gives all datagrams of a flow to
//! the same socket.
//!
//! A worker that is busy lends half of its lanes to one that is not: their egresses go over by value, then every batch,
//! which both read. All of it goes through the holder's commands, first in, first out, so that each lane's order is kept.
//! To take lanes back the lender asks and waits: the holder, which waits for nobody, serves what was sent before and
//! answers. When all batches of a lender are with holders it waits for one of them, and the kernel's receive buffer holds
//! what comes meanwhile: nothing is dropped because a thread has not had its turn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::Pending;
use super::command::{Command, Commands};
use super::egress::Egress;
use super::events::{Events, Token};
use super::handle::{Effort, Handle, Role};
use super::lanes::Lanes;
use super::policy::{Decision, Load, View, decide};
use super::shared::{Pool, SharedBatch};
use super::turn::Turn;

/// A worker's part in the sharing of lanes.
pub(super) struct Sharing {
    number: usize,
    /// Of all workers, by their numbers.
    workers: Arc<[Handle]>,
    /// Not while plans change.
    allowed: bool,
    /// Egresses of others' lanes that this worker holds, by lender and the lane's index there.
    held: Vec<Vec<Option<Box<Egress>>>>,
    pool: Pool,
    pending: Pending,
    /// When this worker last had nothing to count as busy.
    rested: Instant,
    /// When the efforts of all were last looked at, and what they were.
    since: Instant,
    efforts: Vec<Effort>,
    /// Looks at the efforts that show no change yet.
    pause: u32,
}

impl Sharing {
    /// Holds nothing, and lends nothing until [`allow`](Self::allow).
    pub(super) fn new(number: usize, workers: Arc<[Handle]>) -> Self {
        let now = Instant::now();
        Self {
            number,
            allowed: false,
            held: workers.iter().map(|_| Vec::new()).collect(),
            pool: Pool::default(),
            pending: Pending::default(),
            rested: now,
            since: now,
            efforts: vec![Effort::default(); workers.len()],
            pause: 0,
            workers,
        }
    }

    /// Says whether lanes may be lent.
    pub(super) fn allow(&mut self, allowed: bool) {
        self.allowed = allowed;
    }

    /// Whether they may.
    pub(super) fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Whether this worker holds lanes of another, which sends it batches at any time.
    pub(super) fn is_holder(&self) -> bool {
        matches!(self.workers[self.number].role(), Role::Holder(_))
    }

    /// Sleeps by `sleep`, unless a command came: nobody's shall be slept through. `timeout`: `None` without one.
    pub(super) fn park<T>(
        &mut self,
        timeout: Option<Duration>,
        commands: &mut Commands,
        sleep: impl FnOnce(Option<Duration>) -> T,
    ) -> T {
        if timeout == Some(Duration::ZERO) {
            return sleep(timeout);
        }
        let own = &self.workers[self.number];
        own.park();
        let waiting = commands.is_waiting();
        let slept = sleep(if waiting { Some(Duration::ZERO) } else { timeout });
        own.unpark();
        if !waiting && self.workers.len() > 1 {
            self.rested = Instant::now();
        }
        slept
    }

    /// A batch to receive into. While all are with others, waits for one.
    pub(super) fn batch(&mut self, lanes: &Lanes, commands: &mut Commands) -> Arc<SharedBatch> {
        let most = if lanes.lent() > 0 { BATCHES } else { 1 };
        loop {
            if let Some(batch) = self.pool.take(most) {
                return batch;
            }
            self.workers[self.number].request_batch(true);
            let batch = self.pool.take(most);
            if batch.is_none() {
                let start = Instant::now();
                commands.await_released(LONGEST_WAIT);
                // Waiting is no work: who waits for others has enough time to take lanes back.
                self.rested += start.elapsed();
            }
            self.workers[self.number].request_batch(false);
            if let Some(batch) = batch {
                return batch;
            }
        }
    }

    /// Puts one back that others may still have.
    pub(super) fn recycle(&mut self, batch: Arc<SharedBatch>) {
        self.pool.put(batch);
    }

    /// Gives others what of a batch goes to lanes that they hold.
    pub(super) fn hand_over(&self, batch: &mut Arc<SharedBatch>, lanes: &mut Lanes, turn: &Turn<'_>) {
        if lanes.lent() == 0 {
            return;
        }
        // Nobody else has it yet.
        let Some(own) = Arc::get_mut(batch) else { return };
        lanes.hand_over(turn, |holder, lane, pending| own.give(holder, lane, pending));
        for (holder, worker) in self.workers.iter().enumerate() {
            if batch.given_to(holder).next().is_some() {
                worker.send(Command::Send { lender: self.number, batch: Arc::clone(batch) });
            }
        }
    }

    /// Takes over the egress of another's lane.
    pub(super) fn hold(&mut self, lender: usize, lane: usize, egress: Box<Egress>) {
        let held = &mut self.held[lender];
        held.resize_with(held.len().max(lane + 1), || None);
        held[lane] = Some(egress);
    }

    /// Sends what another's batch has for lanes held here.
    pub(super) fn send(&mut self, lender: usize, batch: &SharedBatch, events: &Events, turn: &mut Turn<'_>) {
        let Self { number, held, pending, .. } = self;
        batch.read(turn, |view, turn| {
            for (lane, given) in batch.given_to(*number) {
                let Some(Some(egress)) = held[lender].get_mut(lane) else { continue };
                pending.copy(given);
                egress.flush(pending, view, turn);
                egress.watch(events, Token::Held { lender, lane });
            }
        });
    }

    /// Goes on with lanes held here where a next hop has answered, or failed.
    pub(super) fn look(&mut self, events: &Events, turn: &mut Turn<'_>) {
        for (lender, lanes) in self.held.iter_mut().enumerate() {
            for (lane, egress) in lanes.iter_mut().enumerate() {
                if let Some(egress) = egress {
                    egress.look(turn);
                    egress.watch(events, Token::Held { lender, lane });
                }
            }
        }
    }

    /// Lets another's batch go.
    pub(super) fn release(&self, lender: usize, batch: Arc<SharedBatch>) {
        drop(batch);
        self.workers[lender].batch_released();
    }

    /// The egress of another worker's lane, if it is held here.
    pub(super) fn held(&mut self, lender: usize, lane: usize) -> Option<&mut Egress> {
        self.held[lender].get_mut(lane)?.as_deref_mut()
    }

    /// Returns to a worker what it lent, at most so many lanes.
    pub(super) fn give_back(&mut self, lender: usize, most: usize, events: &Events) {
        let held = self.held[lender].iter_mut().enumerate();
        let mut lanes: Vec<_> = held.filter_map(|(lane, held)| Some((lane, held.take()?))).take(most).collect();
        lanes.iter_mut().for_each(|(_, egress)| egress.unwatch(events));
        self.workers[lender].send(Command::Returned(lanes));
    }

    /// Takes all lanes back.
    pub(super) fn take_all_back(&mut self, lanes: &mut Lanes, commands: &mut Commands, events: &Events) {
        if lanes.lent() == 0 {
            return;
        }
        for holder in 0..self.workers.len() {
            if self.workers[holder].role() == Role::Holder(self.number) {
                self.take_back(holder, usize::MAX, lanes, commands, events);
                self.workers[holder].change(Role::Holder(self.number), Role::Free);
            }
        }
        self.workers[self.number].change(Role::Lender, Role::Free);
        self.pool.shrink();
    }

    fn take_back(&self, holder: usize, most: usize, lanes: &mut Lanes, commands: &mut Commands, events: &Events) {
        if self.workers[holder].send(Command::Return { lender: self.number, most }) {
            // The holder waits for nobody, so this takes no longer than its turn.
            for (at, egress) in commands.await_returned() {
                lanes.take_back(at, egress, events);
            }
        }
    }

    /// Counts the time since the last call as busy. Lenders look at it at any time.
    pub(super) fn count_busy(&mut self, helping: bool) {
        let now = Instant::now();
        let busy = now.saturating_duration_since(self.rested);
        self.workers[self.number].add(busy, if helping { busy } else { Duration::ZERO });
        self.rested = self.rested.max(now);
    }

    /// Now and then looks whether to lend lanes or to take some back.
    pub(super) fn assess(&mut self, lanes: &mut Lanes, commands: &mut Commands, events: &Events) {
        if self.workers.len() == 1 {
            return;
        }
        self.count_busy(false);
        let now = self.rested;
        let window = now.saturating_duration_since(self.since);
        if window < WINDOW {
            return;
        }
        let efforts: Vec<Effort> = self.workers.iter().map(Handle::effort).collect();
        let part = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64() / window.as_secs_f64();
        let load = |((worker, now), then): ((&Handle, &Effort), &Effort)| Load {
            role: worker.role(),
            busy: part(now.busy, then.busy),
            helping: part(now.helping, then.helping),
        };
        let loads: Vec<Load> = self.workers.iter().zip(&efforts).zip(&self.efforts).map(load).collect();
        (self.since, self.efforts) = (now, efforts);
        let mut to_lend = lanes.lendable();
        // What is leaving counts in the cell of a lane that came back meanwhile: both need the same hands.
        if !self.allowed || lanes.has_leaving() {
            to_lend.clear();
        }
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        match decide(&View { own: self.number, loads: &loads, lent: lanes.lent(), lanes: to_lend.len() }) {
            Decision::Stay => {}
            Decision::Lend(offers) => self.lend(&offers, &to_lend, lanes, events),
            Decision::TakeBack(holder, most) => {
                self.take_back(holder, most, lanes, commands, events);
                self.pause = PAUSE;
            }
            Decision::TakeAllBack => self.take_all_back(lanes, commands, events),
            Decision::Relieve(lender) => {
                self.workers[lender].send(Command::Relieve);
            }
        }
    }

    /// Lends the first of these lanes to the first of these workers that will have them: another may have been faster.
    fn lend(&mut self, offers: &[(usize, usize)], to_lend: &[usize], lanes: &mut Lanes, events: &Events) {
        let own = &self.workers[self.number];
        if own.role() != Role::Lender && !own.change(Role::Free, Role::Lender) {
            return;
        }
        let role = Role::Holder(self.number);
        let takes =
            |&&(at, _): &&(usize, usize)| self.workers[at].role() == role || self.workers[at].change(Role::Free, role);
        let Some(&(holder, count)) = offers.iter().find(takes) else {
            if lanes.lent() == 0 {
                own.change(Role::Lender, Role::Free);
            }
            return;
        };
        for &lane in &to_lend[..count.min(to_lend.len())] {
            if let Some(egress) = lanes.lend(lane, holder, events) {
                self.workers[holder].send(Command::Hold { lender: self.number, lane, egress });
            }
        }
        self.pause = PAUSE;
    }
}

/// How often workers look at one another.
const WINDOW: Duration = Duration::from_millis(50);

/// Looks that are not acted upon after lanes have changed hands, until efforts show it.
const PAUSE: u32 = 2;

/// Batches of a worker that lends: what holders may be behind.
const BATCHES: usize = 8;

/// Longest wait for a batch before another look.
const LONGEST_WAIT: Duration = Duration::from_millis(1);
