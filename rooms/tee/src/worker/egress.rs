//! The egress of a lane: its socket, and what waits for it.
//!
//! It sends at once, from the receive buffers. When the kernel takes no more, the rest is copied into its own bounded
//! backlog, and everything after it goes behind it; epoll tells when to go on. So a lane in trouble costs the others a
//! copy at most, and no system call.
//!
//! It has one holder at a time: mostly the worker whose lane it is, else one that has time for it (see `sharing`).

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::libc;
use weir_dgram::{MAX_RUN_BYTES, MAX_SEGMENTS, Origin, RawSender, Socket};

use super::backlog::Backlog;
use super::batch::{Batch, Pending};
use super::events::{Events, Token};
use super::join::Run;
use super::packetize::{Packetizer, Preserved};
use super::send::{Outcome, SendStatistics, send};
use super::turn::{Scratch, Turn};
use crate::counters::{CarriedCell, OutletBook};
use crate::drops::Reason;
use crate::health::{Evidence, Health};
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
    /// Whether epoll tells when the kernel takes more.
    watched: bool,
    /// Until when what waits may wait for more (gather).
    due: Option<Instant>,
    /// When its socket last looked for another address of this machine.
    renewed: Option<Instant>,
}

/// How datagrams leave.
enum Sender {
    /// Not at all: there is no socket.
    None,
    Connected(Arc<Socket>),
    Raw(Arc<RawSender>, Packetizer),
}

impl Egress {
    /// An empty one.
    pub(super) fn new(worker: usize, outlet: &Outlet, socket: EgressSocket) -> Self {
        Self {
            worker,
            book: Arc::clone(&outlet.book),
            health: Arc::clone(&outlet.health),
            source: outlet.settings.source,
            limit: outlet.settings.queue,
            sender: Sender::new(outlet, socket),
            backlog: Backlog::default(),
            watched: false,
            due: None,
            renewed: None,
        }
    }

    /// Goes on with other options and perhaps another socket; what waits, waits on. It must not be watched.
    pub(super) fn adapt(&mut self, outlet: &Outlet, socket: EgressSocket, turn: &Turn<'_>) {
        self.health = Arc::clone(&outlet.health);
        self.source = outlet.settings.source;
        self.limit = outlet.settings.queue;
        self.sender = Sender::new(outlet, socket);
        if self.sender.descriptor().is_none() {
            self.abandon(turn);
        }
    }

    /// What its holder counts.
    pub(super) fn count(&self) -> &CarriedCell {
        self.book.carried(self.worker)
    }

    /// Whether something waits.
    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Whether something waits for room in the socket, not for company.
    pub(super) fn is_blocked(&self) -> bool {
        self.has_backlog() && self.due.is_none()
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
    /// shall not tell: every packet that leaves an interface would wake us.
    pub(super) fn watch(&mut self, events: &Events, token: Token) {
        if !self.is_blocked() {
            self.unwatch(events);
        } else if !self.watched
            && let Some(descriptor) = self.sender.descriptor()
        {
            self.watched = events.watch_room(descriptor, token);
        }
    }

    /// Has epoll tell no more: who stands for the socket is about to change.
    pub(super) fn unwatch(&mut self, events: &Events) {
        if std::mem::take(&mut self.watched)
            && let Some(descriptor) = self.sender.descriptor()
        {
            events.unwatch(descriptor);
        }
    }

    /// Sends what of the batch goes here. Behind what waits already, it waits as well.
    pub(super) fn flush(&mut self, pending: &mut Pending, batch: Batch<'_>, turn: &mut Turn<'_>) {
        if self.backlog.is_empty() {
            let source = self.source;
            let runs = pending.rest().iter().map(|part| part.run(batch, source));
            if let Some(statistics) = self.sender.send(runs, turn.scratch) {
                self.account(turn.scratch, statistics, |_, count| pending.pop(count));
            }
        }
        self.keep(pending, batch);
    }

    /// Copies what of the batch goes here, to leave in company: when there is enough of it, or this much later. Returns
    /// whether it waits from now on.
    pub(super) fn gather(
        &mut self,
        pending: &mut Pending,
        batch: Batch<'_>,
        wait: Duration,
        turn: &mut Turn<'_>,
    ) -> bool {
        self.keep(pending, batch);
        let enough = self.backlog.len() >= MAX_SEGMENTS || self.backlog.occupied() >= MAX_RUN_BYTES;
        if enough {
            self.drain(turn);
        } else if self.has_backlog() && self.due.is_none() {
            self.due = Some(Instant::now() + wait);
            return true;
        }
        false
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
        let Some(statistics) = self.sender.send(self.backlog.runs().take(DRAINED), turn.scratch) else {
            return self.abandon(turn);
        };
        let before = self.backlog.len();
        self.account(turn.scratch, statistics, Backlog::pop);
        self.count().queued.sub((before - self.backlog.len()) as u64);
        self.count().queued_bytes.set(self.backlog.occupied() as u64);
        self.due = None;
    }

    /// Gives up what waits.
    pub(super) fn abandon(&mut self, _: &Turn<'_>) {
        let (carried, count) = (self.book.carried(self.worker), self.backlog.len());
        carried.queued.sub(count as u64);
        carried.drops.add(Reason::Abandoned, count as u64);
        self.backlog.pop(count);
        carried.queued_bytes.set(0);
        self.due = None;
    }

    /// Copies what of the batch goes here, to be sent later.
    fn keep(&mut self, pending: &mut Pending, batch: Batch<'_>) {
        let carried = self.book.carried(self.worker);
        for part in pending.rest() {
            let (run, source) = part.run(batch, self.source);
            for Run { head, body, .. } in run.singles() {
                if self.backlog.push(head, body, source, self.limit) {
                    carried.queued.add(1);
                } else {
                    carried.drops.add(Reason::QueueFull, 1);
                }
            }
        }
        carried.queued_bytes.set(self.backlog.occupied() as u64);
        pending.clear();
    }

    /// Counts what became of datagrams; `pop` takes so many out, of the backlog perhaps, and tells their bytes.
    fn account(
        &mut self,
        scratch: &Scratch,
        statistics: SendStatistics,
        mut pop: impl FnMut(&mut Backlog, usize) -> u64,
    ) {
        let carried = self.book.carried(self.worker);
        let mut unreachable = false;
        for outcome in &scratch.send.outcomes {
            match *outcome {
                Outcome::Sent(0) => {}
                Outcome::Sent(count) => {
                    carried.sent.add(count as u64);
                    carried.sent_bytes.add(pop(&mut self.backlog, count));
                    self.health.note(Evidence::Sent);
                }
                Outcome::Dropped(count, reason) => {
                    carried.drops.add(reason, count as u64);
                    pop(&mut self.backlog, count);
                    if matches!(reason, Reason::Unreachable | Reason::Refused | Reason::OtherError) {
                        self.health.note(Evidence::SendError);
                    }
                    unreachable |= matches!(reason, Reason::Unreachable | Reason::OtherError);
                }
            }
        }
        carried.calls.add(statistics.calls);
        carried.joined.add(statistics.joined);
        if statistics.icmp > 0 {
            self.hear(statistics.icmp);
        }
        if unreachable {
            self.renew();
        }
    }

    /// Has the socket find out, now and then, whether this machine's address is another since it was connected.
    fn renew(&mut self) {
        let Sender::Connected(socket) = &self.sender else { return };
        let now = Instant::now();
        if self.renewed.is_none_or(|last| now - last >= RENEWAL) {
            self.renewed = Some(now);
            // Without a route the next sends fail as these did.
            let _ = socket.renew();
        }
    }

    /// Reads what the network reported about earlier datagrams; at least `known` reports have come.
    fn hear(&self, known: u64) {
        let Sender::Connected(socket) = &self.sender else { return };
        let mut heard = 0;
        // Bounded, for whoever sends them may do so faster than we read.
        for _ in 0..REPORTS {
            let Ok(Some(report)) = socket.next_error() else { break };
            if report.origin != Origin::Local {
                heard += 1;
                if report.errno == libc::ECONNREFUSED {
                    self.health.note(Evidence::PortUnreachable);
                }
            }
        }
        self.count().icmp_errors.add(heard.max(known));
    }
}

impl Sender {
    fn new(outlet: &Outlet, socket: EgressSocket) -> Self {
        match (socket, outlet.address) {
            (EgressSocket::Connected(socket), _) => Self::Connected(socket),
            (EgressSocket::Raw(sender), Some(to)) => {
                Self::Raw(sender, Packetizer::new(to, outlet.settings.ttl, outlet.settings.dscp))
            }
            (EgressSocket::Raw(_), None) | (EgressSocket::Unresolved | EgressSocket::Closed(_), _) => Self::None,
        }
    }

    /// What epoll watches while the lane is blocked.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Connected(socket) => Some(socket.as_fd()),
            Self::Raw(sender, _) => Some(sender.as_fd()),
            Self::None => None,
        }
    }

    /// Sends runs, each with its sender, in order; `None`: there is no socket.
    fn send<'a>(
        &mut self,
        runs: impl Iterator<Item = (Run<'a>, SocketAddr)>,
        scratch: &mut Scratch,
    ) -> Option<SendStatistics> {
        match self {
            Self::None => None,
            Self::Connected(socket) => Some(send(socket, runs.map(|(run, _)| run), &mut scratch.send)),
            Self::Raw(sender, packetizer) => {
                let preserved = runs.flat_map(|(run, source)| {
                    run.singles().map(move |Run { head, body, .. }| Preserved { source, parts: [head, body] })
                });
                // Not the fast way: a list a batch is little beside a packet and its checksum for each datagram.
                let preserved: Vec<_> = preserved.collect();
                Some(packetizer.send(sender, &preserved, &mut scratch.packing, &mut scratch.send.outcomes))
            }
        }
    }
}

/// Datagrams of a backlog that are sent before others have their turn.
const DRAINED: usize = 512;

/// Between two looks for another address of this machine.
const RENEWAL: Duration = Duration::from_secs(1);

/// Reports that are read at once.
const REPORTS: usize = 64;
