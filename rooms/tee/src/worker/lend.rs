//! Lanes lent to a worker that has time: when one sender fills one worker, for the kernel gives all datagrams of a flow to
//! the same socket.
//!
//! A worker that is busy lends half of its lanes to one that is not: the far parts go over by value, then every batch as
//! a shared load that both read. All of it goes through the holder's commands, first in, first out, so that each lane's
//! order is kept. To take lanes back the lender asks and waits: the holder, which waits for nobody, serves what was sent
//! before and answers. When all loads of a lender are with holders it waits for one of them, and the kernel's receive
//! buffer holds what comes meanwhile: nothing is dropped because a thread has not had its turn.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use super::batch::Pending;
use super::carrier::Carrier;
use super::desk::{Effort, Role};
use super::lane::Place;
use super::load::Load;
use super::thread::{Command, Thread, emptied};

/// What a worker knows of the sharing.
pub(super) struct Sharing {
    /// Not while plans change.
    pub(super) allowed: bool,
    /// Lanes of this worker that others hold.
    pub(super) lent: usize,
    /// Far parts of others' lanes that this worker holds.
    pub(super) held: Vec<Held>,
    /// When the efforts were last looked at, and what they were.
    since: Instant,
    efforts: Vec<Effort>,
    /// When this worker last had nothing to count as busy.
    pub(super) risen: Instant,
    /// Looks at the efforts that show no change yet.
    pause: u32,
    pending: Pending,
}

/// A far part of another worker's lane.
pub(super) struct Held {
    pub(super) lender: usize,
    /// Its index there.
    lane: usize,
    pub(super) carrier: Box<Carrier>,
    /// Its token.
    pub(super) number: u64,
}

impl Sharing {
    pub(super) fn new(workers: usize) -> Self {
        let now = Instant::now();
        Self {
            allowed: workers > 1,
            lent: 0,
            held: Vec::new(),
            since: now,
            efforts: vec![Effort::default(); workers],
            risen: now,
            pause: 0,
            pending: Pending::default(),
        }
    }
}

impl Thread {
    /// A load to receive into. While all are with others, waits for one.
    pub(super) fn load(&mut self) -> Arc<Load> {
        let most = if self.sharing.lent > 0 { LOADS } else { 1 };
        loop {
            if let Some(load) = self.pool.take(most) {
                return load;
            }
            let desk = &self.desks[self.number];
            desk.starve(true);
            let load = self.pool.take(most);
            if load.is_none() {
                let start = Instant::now();
                let command = self.inputs.commands.recv_timeout(HUNGER);
                // Waiting is no work: who waits for others has enough time to take lanes back.
                self.sharing.risen += start.elapsed();
                match command {
                    Ok(Command::Freed) | Err(RecvTimeoutError::Timeout) => {}
                    Ok(command) => self.stash.push_back(command),
                    Err(RecvTimeoutError::Disconnected) => {}
                }
            }
            self.desks[self.number].starve(false);
            if let Some(load) = load {
                return load;
            }
        }
    }

    /// Gives others what of a batch goes to lanes that they hold.
    pub(super) fn hand_over(&mut self, load: &mut Arc<Load>) {
        if self.sharing.lent == 0 {
            return;
        }
        // Nobody else has it yet.
        let Some(own) = Arc::get_mut(load) else { return };
        for &at in &self.touched {
            let lane = &mut self.lanes[at];
            if let Place::Lent(holder) = lane.place {
                lane.count_lent();
                own.give(holder, at, &mut lane.pending);
            }
        }
        for (holder, desk) in self.desks.iter().enumerate() {
            if load.given().iter().any(|given| given.holder == holder) {
                desk.send(Command::Work { lender: self.number, load: Arc::clone(load) });
            }
        }
    }

    /// Takes over the far part of another's lane.
    pub(super) fn hold(&mut self, lender: usize, lane: usize, carrier: Box<Carrier>) {
        carrier.count().hold(Some(self.number));
        let number = self.sharing.held.last().map_or(0, |last| last.number + 1);
        self.sharing.held.push(Held { lender, lane, carrier, number });
    }

    /// Sends what another's batch has for lanes held here.
    pub(super) fn help(&mut self, lender: usize, load: Arc<Load>) {
        self.count_busy(false);
        self.plan.books.phase(self.number).begin();
        let mut payloads = emptied(std::mem::take(&mut self.bodies));
        payloads.extend(load.inbox.payloads());
        let batch = load.batch(&payloads);
        for given in load.given().iter().filter(|given| given.holder == self.number) {
            let held = self.sharing.held.iter_mut().find(|held| held.lender == lender && held.lane == given.lane);
            let Some(held) = held else { continue };
            let pending = &mut self.sharing.pending;
            pending.copy(&given.pending);
            held.carrier.count().taken.add(pending.datagrams());
            held.carrier.flush(pending, batch, &mut self.tools);
            self.inputs.watch_held(held);
        }
        self.bodies = emptied(payloads);
        self.plan.books.phase(self.number).end();
        drop(load);
        self.desks[lender].feed();
        self.count_busy(true);
    }

    /// Counts the time since the last call as busy. Lenders look at it at any time.
    fn count_busy(&mut self, helping: bool) {
        let now = Instant::now();
        let busy = now.saturating_duration_since(self.sharing.risen);
        self.desks[self.number].add(busy, if helping { busy } else { Duration::ZERO });
        self.sharing.risen = self.sharing.risen.max(now);
    }

    /// Returns to a worker what it lent, or some of it.
    pub(super) fn give_back(&mut self, lender: usize, lanes: usize) {
        let mut carriers = Vec::new();
        for mut held in self.sharing.held.extract_if(.., |held| held.lender == lender).take(lanes) {
            self.inputs.unwatch(&mut held.carrier);
            held.carrier.count().hold(None);
            carriers.push((held.lane, held.carrier));
        }
        self.desks[lender].send(Command::Returned(carriers));
    }

    /// Takes all lanes back.
    pub(super) fn recall(&mut self) {
        if self.sharing.lent == 0 {
            return;
        }
        for holder in 0..self.desks.len() {
            if self.desks[holder].role() == Role::Holder(self.number) {
                self.recall_from(holder, usize::MAX);
                self.desks[holder].change(Role::Holder(self.number), Role::Free);
            }
        }
        self.desks[self.number].change(Role::Lender, Role::Free);
        self.pool.shrink();
    }

    fn recall_from(&mut self, holder: usize, lanes: usize) {
        if !self.desks[holder].send(Command::GiveBack { lender: self.number, lanes }) {
            return;
        }
        // The holder waits for nobody, so this takes no longer than its turn; other commands have theirs later.
        while let Ok(command) = self.inputs.commands.recv() {
            let Command::Returned(carriers) = command else {
                self.stash.push_back(command);
                continue;
            };
            for (at, carrier) in carriers {
                self.lanes[at].place = Place::Here(carrier);
                self.sharing.lent -= 1;
                self.watch(at);
            }
            return;
        }
    }

    /// Now and then looks whether to lend lanes or to take some back.
    pub(super) fn assess(&mut self) {
        self.count_busy(false);
        let sharing = &mut self.sharing;
        let now = sharing.risen;
        let window = now.saturating_duration_since(sharing.since);
        if window < WINDOW {
            return;
        }
        let efforts: Vec<Effort> = self.desks.iter().map(|desk| desk.effort()).collect();
        let share = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64() / window.as_secs_f64();
        let shares: Vec<Share> = efforts
            .iter()
            .zip(&sharing.efforts)
            .map(|(now, then)| Share { busy: share(now.busy, then.busy), helping: share(now.helping, then.helping) })
            .collect();
        (sharing.since, sharing.efforts) = (now, efforts);
        match self.sharing.pause {
            0 => self.decide(&shares),
            _ => self.sharing.pause -= 1,
        }
        for lane in &mut self.lanes {
            lane.given = 0;
        }
    }

    fn decide(&mut self, shares: &[Share]) {
        let own = shares[self.number];
        match self.desks[self.number].role() {
            Role::Holder(lender) => {
                if own.busy > BUSY && own.busy - own.helping > own.helping {
                    self.desks[lender].send(Command::Relieve);
                }
            }
            Role::Lender => {
                let theirs: f64 = self.holders().map(|holder| shares[holder].helping).sum();
                if own.busy + theirs < IDLE {
                    self.recall();
                } else if own.busy > BUSY {
                    self.lend(shares);
                } else {
                    self.relieve(shares);
                }
            }
            Role::Free => {
                if own.busy > BUSY {
                    self.lend(shares);
                }
            }
        }
    }

    /// Takes some lanes back from a holder that is busier than this worker would be with them.
    fn relieve(&mut self, shares: &[Share]) {
        let each = self.cost(shares, 0);
        let spare = |holder: usize| ((shares[holder].busy - shares[self.number].busy) / (2.0 * each)) as usize;
        let holder = self.holders().find(|&holder| shares[holder].busy > BUSY && spare(holder) > 0);
        if let Some(holder) = holder {
            // One lane at least stays: to take back all is another decision.
            self.recall_from(holder, spare(holder).min(self.sharing.lent.saturating_sub(1)));
            self.sharing.pause = PAUSE;
        }
    }

    /// What a lane costs: known from those that are lent; else receiving is taken for as much as a lane.
    fn cost(&self, shares: &[Share], lanes: usize) -> f64 {
        let helping: f64 = self.holders().map(|holder| shares[holder].helping).sum();
        match self.sharing.lent {
            0 => shares[self.number].busy / (lanes + 1) as f64,
            lent => (helping / lent as f64).max(0.05),
        }
    }

    /// The workers that hold lanes of this one.
    fn holders(&self) -> impl Iterator<Item = usize> {
        (0..self.desks.len()).filter(|&at| self.desks[at].role() == Role::Holder(self.number))
    }

    /// Lends lanes that have work to the worker that has most time, as many as leave it no busier than this one.
    fn lend(&mut self, shares: &[Share]) {
        // What waits for company is copied anyhow.
        if !self.sharing.allowed || !self.plan.settings.gather.is_zero() {
            return;
        }
        let works = |at: &usize| self.lanes[*at].given > 0 && matches!(self.lanes[*at].place, Place::Here(_));
        let mut lanes: Vec<usize> = (0..self.lanes.len()).filter(works).collect();
        lanes.sort_by_key(|&at| self.lanes[at].given);
        let each = self.cost(shares, lanes.len());
        let count = |at: usize| ((shares[self.number].busy - shares[at].busy) / (2.0 * each)) as usize;
        let mut others: Vec<usize> = (0..shares.len()).filter(|&at| shares[at].busy < IDLE && count(at) > 0).collect();
        others.sort_by(|a, b| shares[*a].busy.total_cmp(&shares[*b].busy));
        let own = &self.desks[self.number];
        let able = !lanes.is_empty() && !others.is_empty();
        if !able || !(own.role() == Role::Lender || own.change(Role::Free, Role::Lender)) {
            return;
        }
        let willing = |at: &usize| {
            let holder = Role::Holder(self.number);
            self.desks[*at].role() == holder || self.desks[*at].change(Role::Free, holder)
        };
        let Some(holder) = others.into_iter().find(willing) else {
            if self.sharing.lent == 0 {
                self.desks[self.number].change(Role::Lender, Role::Free);
            }
            return;
        };
        // Every other one first, so that both have heavy and light ones.
        let (first, second): (Vec<_>, Vec<_>) = lanes.into_iter().rev().enumerate().partition(|(at, _)| at % 2 == 0);
        for (_, at) in first.into_iter().chain(second).take(count(holder)) {
            self.unwatch(at);
            let place = std::mem::replace(&mut self.lanes[at].place, Place::Lent(holder));
            if let Place::Here(carrier) = place {
                self.sharing.lent += 1;
                self.desks[holder].send(Command::Lend { lender: self.number, lane: at, carrier });
            }
        }
        self.sharing.pause = PAUSE;
    }
}

/// Parts of the last window.
#[derive(Clone, Copy)]
struct Share {
    busy: f64,
    /// Of that, for lanes of others.
    helping: f64,
}

/// How often workers look at one another.
const WINDOW: Duration = Duration::from_millis(50);

/// Looks that are not acted upon after lanes have changed hands, until efforts show it.
const PAUSE: u32 = 2;

/// From here on a worker lends.
const BUSY: f64 = 0.7;

/// Below this a worker takes lanes of others; when it is enough for all, lanes go back.
const IDLE: f64 = 0.5;

/// Loads of a worker that lends: what holders may be behind.
const LOADS: usize = 8;

/// Longest wait for a load before another look.
const HUNGER: Duration = Duration::from_millis(1);
