//! A lane, from one worker to one address of a destination: what of a batch goes there, its socket, and what waits for it.
//!
//! It sends at once, from the receive buffers. When the kernel takes no more, the rest is copied into its own bounded
//! backlog, and everything after it goes behind it; epoll tells when to go on. So a lane in trouble costs the others a
//! copy at most, and no system call.
//!
//! While its next hop is not known to answer, the kernel would take what is sent and lose it without a word: it gets one
//! datagram per second, which makes it ask; that one counts as `sent_unresolved`, too.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::backlog::Backlog;
use super::batch::{Batch, Origin, Part, Pending};
use super::events::{Events, Token};
use super::join::Run;
use super::random::Random;
use super::reports::{Heard, Reports};
use super::send::{Outcome, SendStatistics, send_alone};
use super::sender::{Sender, share};
use super::turn::{Scratch, Turn};
use crate::counters::{OutletBook, OutletCell};
use crate::drops::Reason;
use crate::health::{Evidence, Gate, Health};
use crate::limit::{Limiter, Nth};
use crate::plan::Outlet;
use crate::settings::Source;
use crate::sockets::EgressSocket;

/// A lane.
pub(super) struct Lane {
    worker: usize,
    book: Arc<OutletBook>,
    health: Arc<Health>,
    filter: Filter,
    source: Source,
    /// Bytes that may wait.
    limit: usize,
    pub(super) sender: Sender,
    /// What of the batch goes here.
    pending: Pending,
    backlog: Backlog,
    pub(super) reports: Reports,
    /// Whether epoll tells when the kernel takes more.
    watched: bool,
    /// When its socket last looked for another address of this machine.
    renewed: Option<Instant>,
    /// Until when what waits may still leave, since the plan has no such outlet any more.
    pub(super) leaving: Option<Instant>,
}

/// Which datagrams a destination wants.
struct Filter {
    limiter: Option<Arc<Limiter>>,
    nth: Option<Arc<Nth>>,
    sample: u32,
    access: Access,
    /// Whether the hops that a datagram has left count.
    guarded: bool,
    /// Whether every datagram goes this way.
    takes_all: bool,
}

/// How a message came, as far as that decides whether it goes this way.
#[derive(Clone, Copy)]
pub(super) struct Arrived {
    pub(super) source: SocketAddr,
    /// Whether it came with the last hop that it had; `false` where nobody needs to know.
    pub(super) is_last_hop: bool,
    /// Whether it would go back to where it came from, and may not.
    pub(super) returns: bool,
}

/// Which datagrams can go this way at all.
enum Access {
    Any,
    /// Those of one family: the other's addresses cannot be preserved.
    Family {
        v4: bool,
    },
    None(Reason),
}

impl Access {
    fn new(outlet: &Outlet, socket: &EgressSocket) -> Self {
        match (socket, outlet.address) {
            (EgressSocket::Unresolved, _) | (_, None) => Self::None(Reason::Unresolved),
            (EgressSocket::Closed(_), _) => Self::None(Reason::Unreachable),
            (EgressSocket::Connected(_) | EgressSocket::Sessions(_), _) => Self::Any,
            (EgressSocket::Raw(_), Some(to)) => Self::Family { v4: to.ip().to_canonical().is_ipv4() },
        }
    }

    fn refuses(&self, source: SocketAddr) -> Option<Reason> {
        match *self {
            Self::Any => None,
            Self::Family { v4 } => (source.is_ipv4() != v4).then_some(Reason::Family),
            Self::None(reason) => Some(reason),
        }
    }
}

impl Filter {
    fn new(outlet: &Outlet, socket: &EgressSocket) -> Self {
        let access = Access::new(outlet, socket);
        let (limiter, nth, sample) = (outlet.limiter.clone(), outlet.nth.clone(), outlet.settings.sample);
        let guarded = outlet.settings.hop_guard;
        let chooses = limiter.is_some() || nth.is_some() || sample > 1;
        let takes_all = matches!(access, Access::Any) && !chooses && !guarded;
        Self { limiter, nth, sample, access, guarded, takes_all }
    }

    /// Why a whole message does not go this way.
    fn refuses(&self, arrived: Arrived) -> Option<Reason> {
        if arrived.returns {
            return Some(Reason::Loop);
        }
        let hops = (self.guarded && arrived.is_last_hop).then_some(Reason::Hops);
        hops.or_else(|| self.access.refuses(arrived.source))
    }

    /// Whether it chooses among the datagrams of a message.
    fn chooses(&self) -> bool {
        self.limiter.is_some() || self.nth.is_some() || self.sample > 1
    }

    /// Why a datagram of so many bytes is left out. `now`: the limiter's time.
    fn leaves_out(&self, bytes: usize, now: u64, random: &mut Random) -> Option<Reason> {
        if !self.nth.as_ref().is_none_or(|nth| nth.take()) || self.sample > 1 && !random.one_in(self.sample) {
            return Some(Reason::SampledOut);
        }
        let limited = self.limiter.as_ref().is_some_and(|limiter| !limiter.take(now, bytes));
        limited.then_some(Reason::RateLimited)
    }
}

impl Lane {
    /// An empty one.
    pub(super) fn new(worker: usize, outlet: &Outlet, socket: EgressSocket, workers: usize) -> Self {
        Self {
            worker,
            book: Arc::clone(&outlet.book),
            health: Arc::clone(&outlet.health),
            filter: Filter::new(outlet, &socket),
            source: outlet.settings.source,
            limit: outlet.settings.queue_bytes(),
            sender: Sender::new(outlet, socket, workers),
            pending: Pending::default(),
            backlog: Backlog::default(),
            reports: Reports::default(),
            watched: false,
            renewed: None,
            leaving: None,
        }
    }

    /// Goes on with other options and perhaps another socket; what waits, waits on. It must not be watched.
    pub(super) fn adapt(&mut self, outlet: &Outlet, socket: EgressSocket, workers: usize, turn: &Turn<'_>) {
        self.health = Arc::clone(&outlet.health);
        self.filter = Filter::new(outlet, &socket);
        self.source = outlet.settings.source;
        self.limit = outlet.settings.queue_bytes();
        self.leaving = None;
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

    /// What tells it from others in every plan: the book of its outlet.
    pub(super) fn identity(&self) -> *const OutletBook {
        Arc::as_ptr(&self.book)
    }

    /// What it counts.
    pub(super) fn count(&self) -> &OutletCell {
        self.book.cell(self.worker)
    }

    /// Whether something waits.
    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Whether something of the batch is still to go here.
    pub(super) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Has epoll tell when the socket takes more, exactly as long as something waits for that. At other times the kernel
    /// shall not tell: every packet that leaves an interface would wake us. Returns whether something waits for the next hop
    /// instead.
    pub(super) fn watch(&mut self, events: &Events, token: Token) -> bool {
        let waits_for_hop = self.has_backlog() && self.health.hop.gate() != Gate::Open;
        if self.backlog.is_empty() || waits_for_hop {
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

    /// Takes a part of a message, as far as the destination wants it. `each`: bytes of each datagram of the run that a
    /// single one is from.
    pub(super) fn offer(&mut self, part: Part, each: Option<NonZeroU16>, arrived: Arrived, turn: &mut Turn<'_>) {
        let Self { worker, book, filter, pending, .. } = self;
        let count = book.cell(*worker);
        let datagrams = part.datagrams() as u64;
        count.copies.add(datagrams);
        count.copies_bytes.add((part.end - part.start) as u64);
        if let Some(reason) = filter.refuses(arrived) {
            count.drops.add(reason, datagrams);
        } else if !filter.chooses() {
            pending.add(part, each);
        } else {
            let now = filter.limiter.as_ref().map_or(0, |limiter| limiter.now());
            for single in part.singles() {
                match filter.leaves_out(single.end - single.start, now, &mut turn.scratch.random) {
                    Some(reason) => count.drops.add(reason, 1),
                    None => pending.add(single, part.segment.or(each)),
                }
            }
        }
    }

    /// Sends a datagram that came alone at once, straight from the receive buffer, if its way is clear. With datagrams in
    /// fragments, or far apart, this is most of what there is to do for them. If the kernel does not take it, it waits.
    /// Returns whether something waits now; `None`: the way is not clear.
    pub(super) fn pass(&mut self, payload: &[u8], origin: Origin, turn: &mut Turn<'_>) -> Option<bool> {
        if !self.filter.takes_all
            || !self.backlog.is_empty()
            || self.source.is_headed()
            || self.reports.has_memory()
            || self.health.hop.gate() != Gate::Open
        {
            return None;
        }
        let statistics = send_alone(self.sender.plain()?, payload, &mut turn.scratch.send);
        let count = self.count();
        count.copies.add(1);
        count.copies_bytes.add(payload.len() as u64);
        self.account(Gate::Open, turn.scratch, statistics, |_, _| payload.len() as u64);
        if statistics.blocked {
            let kept = self.backlog.push(Run { body: payload, ..Run::default() }, origin, self.limit);
            self.count_kept(kept.into(), (!kept).into());
        }
        Some(!self.backlog.is_empty())
    }

    /// Sends what of the batch goes here. Behind what waits already, it waits as well.
    pub(super) fn flush(&mut self, batch: &Batch, turn: &mut Turn<'_>) {
        let (gate, source) = (self.health.hop.gate(), self.source);
        // One that was refused asks nobody: then the next is tried.
        while self.backlog.is_empty() && !self.pending.rest().is_empty() {
            let first = self.pending.rest().iter().flat_map(|part| part.singles()).next();
            let parts = match gate {
                Gate::Open => self.pending.rest(),
                _ if self.health.hop.take_ask() => first.as_slice(),
                _ => &[],
            };
            let runs = || parts.iter().map(|part| part.run(batch, source));
            if self.reports.has_memory() {
                self.reports.remember(runs().map(|(run, _)| run));
            }
            if parts.is_empty() {
                break;
            }
            let Some(statistics) = self.sender.send(runs(), turn.scratch) else { break };
            if !self.account(gate, turn.scratch, statistics, Self::take_pending) {
                break;
            }
        }
        if gate == Gate::Silent {
            self.refuse();
        } else {
            self.keep(batch);
        }
    }

    /// Drops what of the batch goes here: it would not leave.
    fn refuse(&mut self) {
        let count: u64 = self.pending.rest().iter().map(|part| part.datagrams() as u64).sum();
        self.pending.clear();
        self.count().drops.add(Reason::Unreachable, count);
    }

    /// Copies what of the batch goes here, to be sent later.
    fn keep(&mut self, batch: &Batch) {
        let (mut kept, mut refused) = (0, 0);
        for part in self.pending.rest() {
            let (run, source) = part.run(batch, self.source);
            for single in run.singles() {
                if self.backlog.push(single, source, self.limit) {
                    kept += 1;
                } else {
                    refused += 1;
                }
            }
        }
        self.pending.clear();
        if kept + refused > 0 {
            self.count_kept(kept, refused);
        }
    }

    /// Goes on with what waits: the socket takes more. `broken`: it has an error to tell first.
    pub(super) fn resume(&mut self, broken: bool, turn: &mut Turn<'_>) {
        if broken {
            self.hear(0);
        }
        self.drain(turn);
    }

    /// Sends some of what waits, the oldest first.
    pub(super) fn drain(&mut self, turn: &mut Turn<'_>) {
        let gate = self.health.hop.gate();
        while !self.backlog.is_empty() {
            let most = match (gate, &self.sender) {
                // Nobody tells when sessions take more.
                (Gate::Open, Sender::Sessions(_)) => usize::MAX,
                (Gate::Open, _) => DRAINED,
                _ => usize::from(self.health.hop.take_ask()),
            };
            if most == 0 {
                break;
            }
            if self.reports.has_memory() {
                self.reports.remember(self.backlog.runs().take(most).map(|(run, _)| run));
            }
            let Some(statistics) = self.sender.send(self.backlog.runs().take(most), turn.scratch) else {
                return self.abandon(turn);
            };
            if !self.account(gate, turn.scratch, statistics, Self::take_waiting) {
                break;
            }
        }
        if gate == Gate::Silent {
            self.discard(Reason::Unreachable);
        }
    }

    /// Gives up what waits.
    pub(super) fn abandon(&mut self, _: &Turn<'_>) {
        self.discard(Reason::Abandoned);
    }

    /// Drops what waits here.
    fn discard(&mut self, reason: Reason) {
        let waiting = self.backlog.len();
        self.take_waiting(waiting);
        self.count().drops.add(reason, waiting as u64);
    }

    /// Counts what was put into the backlog, and what it had no room for.
    fn count_kept(&self, kept: u64, refused: u64) {
        let count = self.count();
        count.queued.add(kept);
        count.queued_bytes.set(self.backlog.occupied() as u64);
        count.drops.add(Reason::QueueFull, refused);
    }

    /// Counts what became of datagrams that were sent at this gate; `pop` takes so many out of where they are, and tells their
    /// bytes. Returns whether the next hop is still to be asked, since all were refused.
    fn account(
        &mut self,
        gate: Gate,
        scratch: &Scratch,
        statistics: SendStatistics,
        mut pop: impl FnMut(&mut Self, usize) -> u64,
    ) -> bool {
        let (mut all_sent, mut unreachable) = (0, false);
        for outcome in &scratch.send.outcomes {
            match *outcome {
                Outcome::Sent(0) => {}
                Outcome::Sent(sent) => {
                    let bytes = pop(self, sent);
                    self.count().sent.add(sent as u64);
                    self.count().sent_bytes.add(bytes);
                    self.health.note(Evidence::Sent);
                    all_sent += sent as u64;
                }
                Outcome::Dropped(dropped, reason) => {
                    pop(self, dropped);
                    self.count().drops.add(reason, dropped as u64);
                    if matches!(reason, Reason::Unreachable | Reason::Refused | Reason::OtherError) {
                        self.health.note(Evidence::SendError);
                    }
                    unreachable |= matches!(reason, Reason::Unreachable | Reason::OtherError);
                }
            }
        }
        match (gate, all_sent) {
            (Gate::Open, _) => {}
            (_, 0) => self.health.hop.let_ask(),
            (_, sent) => {
                self.count().sent_unresolved.add(sent);
                self.health.ask();
            }
        }
        self.count().calls.add(statistics.calls);
        self.count().joined.add(statistics.joined);
        if statistics.icmp > 0 {
            self.hear(statistics.icmp);
        }
        self.count_sessions();
        if unreachable {
            self.renew();
        }
        gate != Gate::Open && all_sent == 0 && !statistics.blocked && !unreachable
    }

    /// Takes so many out of what of a batch goes here, and tells their bytes.
    fn take_pending(&mut self, count: usize) -> u64 {
        self.pending.pop(count)
    }

    /// The same of what waits, which is counted.
    fn take_waiting(&mut self, count: usize) -> u64 {
        let bytes = self.backlog.pop(count);
        self.count().queued.sub(count as u64);
        self.count().queued_bytes.set(self.backlog.occupied() as u64);
        bytes
    }

    /// Has the socket find out, now and then, whether this machine's address is another since it was connected.
    fn renew(&mut self) {
        let Sender::Connected { socket, .. } = &self.sender else { return };
        let now = Instant::now();
        if self.renewed.is_none_or(|last| now - last >= RENEWAL) {
            self.renewed = Some(now);
            // Without a route the next sends fail as these did.
            let _ = socket.renew();
        }
    }

    /// Reads what the network reported about earlier datagrams; at least `known` reports have come.
    fn hear(&mut self, known: u64) {
        let mut heard = match &self.sender {
            Sender::Connected { socket, .. } => self.reports.hear(socket),
            // Epoll tells which of them it is about, which may send no more: see `answer`.
            _ => return,
        };
        heard.reports = heard.reports.max(known);
        self.believe(heard);
    }

    /// Counts what was reported, and believes what is to be believed.
    pub(super) fn believe(&mut self, heard: Heard) {
        if heard == Heard::default() {
            return;
        }
        if let Some(evidence) = heard.evidence {
            self.health.note(evidence);
        }
        self.count().icmp_errors.add(heard.reports);
        self.count().icmp_unproven.add(heard.unproven);
    }
}

/// Datagrams of a backlog that are sent before others have their turn.
const DRAINED: usize = 512;

/// Between two looks for another address of this machine.
const RENEWAL: Duration = Duration::from_millis(50);
