//! The egress of a lane: its socket, and what waits for it.
//!
//! It sends at once, from the receive buffers. When the kernel takes no more, the rest is copied into its own bounded
//! backlog, and everything after it goes behind it; epoll tells when to go on. So a lane in trouble costs the others a
//! copy at most, and no system call.
//!
//! While its next hop is not known to answer, the kernel would take what is sent and lose it without a word: it gets one
//! datagram (`trial`), which makes it ask, and what became of that one is known when the neighbour answers or fails.

mod answers;
mod hearing;
mod pass;

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_dgram::{MAX_RUN_BYTES, MAX_SEGMENTS};

use super::backlog::Backlog;
use super::batch::{Batch, Pending};
use super::events::{Events, Token};
use super::reports::Reports;
use super::send::{Outcome, SendStatistics};
use super::sender::{Sender, share};
use super::trial::{Fate, Trial};
use super::turn::{Scratch, Turn};
use crate::counters::{CarriedTerms, Cell, OutletBook};
use crate::drops::Reason;
use crate::health::{Evidence, Gate, Health, Hop};
use crate::plan::Outlet;
use crate::settings::Source;
use crate::sockets::EgressSocket;

/// The egress of a lane.
pub(super) struct Egress {
    /// Whose lane it is.
    worker: usize,
    book: Arc<OutletBook>,
    health: Arc<Health>,
    source: Source,
    /// Bytes that may wait.
    limit: usize,
    sender: Sender,
    backlog: Backlog,
    /// The datagram that the kernel asks its next hop for.
    trial: Option<Trial>,
    reports: Reports,
    /// Whether epoll tells when the kernel takes more.
    watched: bool,
    /// Until when what waits may wait for more (gather).
    due: Option<Instant>,
    /// When its socket last looked for another address of this machine.
    renewed: Option<Instant>,
}

impl Egress {
    /// An empty one.
    pub(super) fn new(worker: usize, outlet: &Outlet, socket: EgressSocket, workers: usize) -> Self {
        Self {
            worker,
            book: Arc::clone(&outlet.book),
            health: Arc::clone(&outlet.health),
            source: outlet.settings.source,
            limit: outlet.settings.queue,
            sender: Sender::new(outlet, socket, workers),
            backlog: Backlog::default(),
            trial: None,
            reports: Reports::default(),
            watched: false,
            due: None,
            renewed: None,
        }
    }

    /// Goes on with other options and perhaps another socket; what waits, waits on. It must not be watched.
    pub(super) fn adapt(&mut self, outlet: &Outlet, socket: EgressSocket, workers: usize, turn: &Turn<'_>) {
        self.health = Arc::clone(&outlet.health);
        self.source = outlet.settings.source;
        self.limit = outlet.settings.queue;
        match (&mut self.sender, socket, share(outlet, workers)) {
            (Sender::Sessions(sessions), EgressSocket::Sessions(options), Some(replies)) => {
                sessions.adapt(&outlet.settings, options, replies);
            }
            (_, socket, _) => {
                self.close_sessions();
                self.sender = Sender::new(outlet, socket, workers);
            }
        }
        self.count_sessions();
        if matches!(self.sender, Sender::None) {
            self.abandon(turn);
        }
    }

    /// What it counts.
    fn count(&self) -> &Cell<CarriedTerms> {
        self.book.carried(self.worker)
    }

    /// Whether something waits, here or for an answer of the next hop.
    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty() || self.trial.is_some()
    }

    /// Whether something waits for room in the socket, or for the next hop, not for company.
    pub(super) fn is_blocked(&self) -> bool {
        !self.backlog.is_empty() && self.due.is_none()
    }

    /// Until when what waits may wait for company; `None`: it does not.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Makes what waits for company wait for room only.
    pub(super) fn stop_gathering(&mut self) {
        self.due = None;
    }

    /// Has epoll tell when the socket takes more, exactly as long as something waits for that. At other times the kernel
    /// shall not tell: every packet that leaves an interface would wake us. Returns whether something waits for the next hop
    /// instead.
    pub(super) fn watch(&mut self, events: &Events, token: Token) -> bool {
        let waits_for_hop = self.has_backlog() && self.health.hop().gate != Gate::Open;
        if !self.is_blocked() || waits_for_hop {
            self.unwatch(events);
        } else if !self.watched
            && let Some(descriptor) = self.sender.descriptor()
        {
            self.watched = events.watch_room(descriptor, token);
        }
        waits_for_hop
    }

    /// Has epoll tell no more: who stands for the socket is about to change.
    pub(super) fn unwatch(&mut self, events: &Events) {
        if std::mem::take(&mut self.watched)
            && let Some(descriptor) = self.sender.descriptor()
        {
            events.unwatch_room(descriptor);
        }
    }

    /// Sends what of the batch goes here. Behind what waits already, it waits as well.
    pub(super) fn flush(&mut self, pending: &mut Pending, batch: &Batch, turn: &mut Turn<'_>) {
        let hop = self.health.hop();
        if self.backlog.is_empty() {
            let source = self.source;
            if self.remembers() {
                self.reports.remember(pending.rest().iter().map(|part| part.run(batch, source).0));
            }
            if hop.gate == Gate::Open {
                let runs = pending.rest().iter().map(|part| part.run(batch, source));
                if let Some(statistics) = self.sender.send(runs, turn.scratch) {
                    self.account(turn.scratch, statistics, |_, carried, count| take(pending, carried, count));
                }
            }
            // One that was refused asks nobody.
            while hop.gate != Gate::Open && !pending.rest().is_empty() && self.may_ask(hop.gate) {
                let first = pending.rest().iter().flat_map(|part| part.singles()).take(1);
                let runs = first.map(|part| part.run(batch, source));
                let Some(statistics) = self.sender.send(runs, turn.scratch) else { break };
                let sent = (&*turn.scratch, statistics);
                match self.account_trial(hop, sent, |_, carried, count| take(pending, carried, count)) {
                    Some(Reason::Unreachable) => return self.refuse(pending),
                    Some(_) => {}
                    None => break,
                }
            }
        }
        if hop.gate == Gate::Failed {
            self.refuse(pending);
        } else {
            self.keep(pending, batch);
        }
    }

    /// Drops what of the batch goes here: it would not leave.
    fn refuse(&mut self, pending: &mut Pending) {
        let count: u64 = pending.rest().iter().map(|part| part.datagrams() as u64).sum();
        pending.clear();
        if count > 0 {
            self.count().change(|carried| {
                carried.taken.add(count);
                carried.drops.add(Reason::Unreachable, count);
            });
        }
    }

    /// Copies what of the batch goes here, to leave in company: when there is enough of it, or this much later. Returns
    /// until when it waits, if it begins to now.
    pub(super) fn gather(
        &mut self,
        pending: &mut Pending,
        batch: &Batch,
        wait: Duration,
        turn: &mut Turn<'_>,
    ) -> Option<Instant> {
        self.keep(pending, batch);
        let enough = self.backlog.len() >= MAX_SEGMENTS || self.backlog.occupied() >= MAX_RUN_BYTES;
        if enough {
            self.drain(turn);
        } else if self.has_backlog() && self.due.is_none() {
            self.due = Some(Instant::now() + wait);
            return self.due;
        }
        None
    }

    /// Goes on with what waits: the socket takes more. `broken`: it has an error to tell first.
    pub(super) fn resume(&mut self, broken: bool, turn: &mut Turn<'_>) {
        if broken {
            self.hear(0);
        }
        self.drain(turn);
    }

    /// Looks what became of the datagram that the next hop was asked for, and goes on.
    pub(super) fn look(&mut self, turn: &mut Turn<'_>) {
        self.settle();
        if self.is_blocked() {
            self.drain(turn);
        }
    }

    /// Sends some of what waits, the oldest first.
    pub(super) fn drain(&mut self, turn: &mut Turn<'_>) {
        let hop = self.health.hop();
        if hop.gate != Gate::Open {
            return self.drain_closed(hop, turn);
        }
        if self.remembers() {
            self.reports.remember(self.backlog.runs().take(DRAINED).map(|(run, _)| run));
        }
        // Nobody tells when sessions take more.
        let most = if matches!(self.sender, Sender::Sessions(_)) { usize::MAX } else { DRAINED };
        let Some(statistics) = self.sender.send(self.backlog.runs().take(most), turn.scratch) else {
            return self.abandon(turn);
        };
        self.account(turn.scratch, statistics, take_waiting);
        self.due = None;
    }

    /// The same where the next hop is not known to answer.
    fn drain_closed(&mut self, hop: Hop, turn: &mut Turn<'_>) {
        self.due = None;
        if hop.gate == Gate::Failed {
            return self.discard(Reason::Unreachable);
        }
        while !self.backlog.is_empty() && self.may_ask(hop.gate) {
            let Some(statistics) = self.sender.send(self.backlog.runs().take(1), turn.scratch) else {
                return self.abandon(turn);
            };
            match self.account_trial(hop, (&*turn.scratch, statistics), take_waiting) {
                Some(Reason::Unreachable) => return self.discard(Reason::Unreachable),
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Gives up what waits.
    pub(super) fn abandon(&mut self, _: &Turn<'_>) {
        self.end_trial(Some(Reason::Abandoned));
        self.discard(Reason::Abandoned);
    }

    /// Gives up the datagram that the next hop was asked for, where nothing waits behind it.
    pub(super) fn abandon_trial(&mut self, _: &Turn<'_>) {
        self.settle();
        if self.backlog.is_empty() {
            self.end_trial(Some(Reason::Abandoned));
        }
    }

    /// Drops what waits here.
    fn discard(&mut self, reason: Reason) {
        let count = self.backlog.len();
        self.backlog.pop(count);
        if count > 0 {
            self.count().change(|carried| {
                carried.queued.sub(count as u64);
                carried.drops.add(reason, count as u64);
                carried.queued_bytes.set(0);
            });
        }
        self.due = None;
    }

    /// Whether the next hop is to be asked for one more datagram.
    fn may_ask(&mut self, gate: Gate) -> bool {
        self.settle();
        self.trial.is_none() && matches!(gate, Gate::Asking | Gate::Failed)
    }

    /// Counts a datagram that was sent, so that the kernel asks the next hop, which was as it is here before. It is queued
    /// until it is known what became of it; `pop` takes it out of where it waits and tells its bytes. Returns why it was
    /// dropped if it was.
    fn account_trial(
        &mut self,
        hop: Hop,
        (scratch, statistics): (&Scratch, SendStatistics),
        mut pop: impl FnMut(&mut Backlog, &CarriedTerms, usize) -> u64,
    ) -> Option<Reason> {
        if !scratch.send.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Sent(1..))) {
            self.account(scratch, statistics, pop);
            return scratch.send.outcomes.iter().find_map(|outcome| match *outcome {
                Outcome::Dropped(_, reason) => Some(reason),
                Outcome::Sent(_) => None,
            });
        }
        let Self { worker, book, backlog, .. } = self;
        let bytes = book.carried(*worker).change(|carried| {
            carried.calls.add(statistics.calls);
            carried.queued.add(1);
            pop(backlog, carried, 1)
        });
        self.trial = Some(Trial::new(bytes, hop));
        self.health.ask();
        self.count_sessions();
        if statistics.icmp > 0 {
            self.hear(statistics.icmp);
        }
        None
    }

    /// Looks whether it is known by now what became of the datagram that the next hop was asked for.
    fn settle(&mut self) {
        let Some(trial) = &mut self.trial else { return };
        let sender = &self.sender;
        let fate = trial.fate(&self.health, Instant::now(), || sender.send_queue());
        if fate == Some(Fate::Elsewhere) {
            self.health.free();
        }
        match fate {
            None => {}
            Some(Fate::Sent | Fate::Elsewhere) => self.end_trial(None),
            Some(Fate::Lost) => self.end_trial(Some(Reason::Unreachable)),
        }
    }

    /// Counts the datagram that the next hop was asked for as sent, or as dropped.
    fn end_trial(&mut self, dropped: Option<Reason>) {
        let Some(trial) = self.trial.take() else { return };
        self.count().change(|carried| {
            carried.queued.sub(1);
            match dropped {
                None => {
                    carried.sent.add(1);
                    carried.sent_bytes.add(trial.bytes);
                }
                Some(reason) => carried.drops.add(reason, 1),
            }
        });
    }

    /// Copies what of the batch goes here, to be sent later.
    fn keep(&mut self, pending: &mut Pending, batch: &Batch) {
        let (mut kept, mut refused) = (0, 0);
        for part in pending.rest() {
            let (run, source) = part.run(batch, self.source);
            for single in run.singles() {
                if self.backlog.push(single, source, self.limit) {
                    kept += 1;
                } else {
                    refused += 1;
                }
            }
        }
        pending.clear();
        if kept + refused > 0 {
            self.count_kept(kept, refused);
        }
    }

    /// Counts what was put into the backlog, and what it had no room for.
    fn count_kept(&self, kept: u64, refused: u64) {
        self.count().change(|carried| {
            carried.taken.add(kept + refused);
            carried.queued.add(kept);
            carried.queued_bytes.set(self.backlog.occupied() as u64);
            carried.drops.add(Reason::QueueFull, refused);
        });
    }

    /// Counts what became of datagrams; `pop` takes so many out, of the backlog perhaps, counts that, and tells their bytes.
    fn account(
        &mut self,
        scratch: &Scratch,
        statistics: SendStatistics,
        mut pop: impl FnMut(&mut Backlog, &CarriedTerms, usize) -> u64,
    ) {
        let Self { worker, book, health, backlog, .. } = self;
        let mut unreachable = false;
        book.carried(*worker).change(|carried| {
            for outcome in &scratch.send.outcomes {
                match *outcome {
                    Outcome::Sent(0) => {}
                    Outcome::Sent(count) => {
                        carried.sent.add(count as u64);
                        carried.sent_bytes.add(pop(backlog, carried, count));
                        health.note(Evidence::Sent);
                    }
                    Outcome::Dropped(count, reason) => {
                        carried.drops.add(reason, count as u64);
                        pop(backlog, carried, count);
                        if matches!(reason, Reason::Unreachable | Reason::Refused | Reason::OtherError) {
                            health.note(Evidence::SendError);
                        }
                        unreachable |= matches!(reason, Reason::Unreachable | Reason::OtherError);
                    }
                }
            }
            carried.calls.add(statistics.calls);
            carried.joined.add(statistics.joined);
        });
        if statistics.icmp > 0 {
            self.hear(statistics.icmp);
        }
        self.count_sessions();
        if unreachable {
            self.renew();
        }
    }

    /// Has the socket find out, now and then, whether this machine's address is another since it was connected.
    fn renew(&mut self) {
        let (Sender::Connected(socket) | Sender::Guarded(socket, _)) = &self.sender else { return };
        let now = Instant::now();
        if self.renewed.is_none_or(|last| now - last >= RENEWAL) {
            self.renewed = Some(now);
            // Without a route the next sends fail as these did.
            let _ = socket.renew();
        }
    }
}

/// Takes so many out of what of a batch goes here, counts that, and tells their bytes.
fn take(pending: &mut Pending, carried: &CarriedTerms, count: usize) -> u64 {
    carried.taken.add(count as u64);
    pending.pop(count)
}

/// The same of what waits.
fn take_waiting(backlog: &mut Backlog, carried: &CarriedTerms, count: usize) -> u64 {
    carried.queued.sub(count as u64);
    let bytes = backlog.pop(count);
    carried.queued_bytes.set(backlog.occupied() as u64);
    bytes
}

/// Datagrams of a backlog that are sent before others have their turn.
const DRAINED: usize = 512;

/// Between two looks for another address of this machine.
const RENEWAL: Duration = Duration::from_millis(50);
