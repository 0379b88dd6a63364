//! The far part of a lane: its socket, and what waits for it.
//!
//! A carrier sends at once, from the receive buffers. When the kernel takes no more, the rest is copied into its own
//! bounded backlog, and everything after it goes behind it; epoll tells when to go on. So a lane in trouble costs the
//! others a copy at most, and no system call.
//!
//! A carrier has one holder at a time: mostly the worker whose lane it is, else one that has time for it (see `lend`).

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::libc;
use weir_dgram::{MAX_RUN_BYTES, MAX_SEGMENTS, Origin, RawSender};

use super::backlog::Backlog;
use super::batch::{Batch, Pending};
use super::join::Run;
use super::kept::{Forge, Kept, Packing};
use super::push::{Fate, Pushed, Scratch, push};
use super::random::Random;
use crate::counters::{CarriedCell, OutletBook};
use crate::drops::Reason;
use crate::health::{Evidence, Health};
use crate::plan::Outlet;
use crate::settings::Source;
use crate::sockets::Way;

/// The far part of a lane.
pub(super) struct Carrier {
    /// Whose lane it is.
    worker: usize,
    book: Arc<OutletBook>,
    health: Arc<Health>,
    source: Source,
    /// Bytes that may wait.
    limit: usize,
    way: Way,
    forge: Option<Forge>,
    backlog: Backlog,
    /// Whether epoll tells when the kernel takes more.
    pub(super) watched: bool,
    /// Until when what waits may wait for more (gather).
    pub(super) due: Option<Instant>,
    /// When its socket last looked for another address of this machine.
    renewed: Option<Instant>,
}

/// What all carriers of a worker share.
#[derive(Default)]
pub(super) struct Tools {
    scratch: Scratch,
    packing: Packing,
    pub(super) random: Random,
}

impl Carrier {
    /// An empty one.
    pub(super) fn new(worker: usize, outlet: &Outlet, way: Way) -> Self {
        let mut carrier = Self {
            worker,
            book: Arc::clone(&outlet.book),
            health: Arc::clone(&outlet.health),
            source: Source::Own,
            limit: 0,
            way: Way::Unresolved,
            forge: None,
            backlog: Backlog::default(),
            watched: false,
            due: None,
            renewed: None,
        };
        carrier.adapt(outlet, way);
        carrier
    }

    /// Goes on with other options and perhaps another socket; what waits, waits on. It must not be watched.
    pub(super) fn adapt(&mut self, outlet: &Outlet, way: Way) {
        let settings = &outlet.settings;
        self.health = Arc::clone(&outlet.health);
        self.source = settings.source;
        self.limit = settings.queue;
        self.forge = match (&way, outlet.address) {
            (Way::Raw(_), Some(to)) => Some(Forge::new(to, settings.ttl, settings.dscp)),
            _ => None,
        };
        self.way = way;
        if self.descriptor().is_none() {
            self.abandon();
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

    /// What epoll watches while the lane is blocked.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.way {
            Way::Socket(socket) => Some(socket.as_fd()),
            Way::Raw(sender) => Some(sender.as_fd()),
            Way::Unresolved | Way::Closed(_) => None,
        }
    }

    /// Sends what of the batch goes here. Behind what waits already, it waits as well.
    pub(super) fn flush(&mut self, pending: &mut Pending, batch: Batch<'_>, tools: &mut Tools) {
        if self.backlog.is_empty() {
            let parts = pending.rest().iter();
            let pushed = match &self.way {
                Way::Socket(socket) => {
                    let headed = self.source == Source::Proxy;
                    push(socket, parts.map(|part| part.run(batch, headed)), &mut tools.scratch)
                }
                Way::Raw(sender) => {
                    let kept = parts.flat_map(|part| {
                        let (source, body) = (batch.sources[part.message], batch.bodies[part.message]);
                        part.singles().map(move |one| Kept { source, parts: [&body[one.start..one.end], &[]] })
                    });
                    push_kept(self.forge.as_mut(), sender, kept, tools)
                }
                Way::Unresolved | Way::Closed(_) => return self.keep(pending, batch),
            };
            account(self.book.carried(self.worker), &self.health, &tools.scratch.fates, |count| pending.pop(count));
            self.finish(pushed, tools);
        }
        self.keep(pending, batch);
    }

    /// Copies what of the batch goes here, to be sent later.
    fn keep(&mut self, pending: &mut Pending, batch: Batch<'_>) {
        let headed = self.source == Source::Proxy;
        let carried = self.book.carried(self.worker);
        for part in pending.rest() {
            let source = batch.sources[part.message];
            for single in part.singles() {
                let Run { head, body, .. } = single.run(batch, headed);
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

    /// Copies what of the batch goes here, to leave in company: when there is enough of it, or this much later. Returns
    /// whether it waits from now on.
    pub(super) fn gather(
        &mut self,
        pending: &mut Pending,
        batch: Batch<'_>,
        wait: Duration,
        tools: &mut Tools,
    ) -> bool {
        self.keep(pending, batch);
        let enough = self.backlog.len() >= MAX_SEGMENTS || self.backlog.occupied() >= MAX_RUN_BYTES;
        if enough {
            self.drain(tools);
        } else if self.has_backlog() && self.due.is_none() {
            self.due = Some(Instant::now() + wait);
            return true;
        }
        false
    }

    /// Sends some of what waits, the oldest first.
    pub(super) fn drain(&mut self, tools: &mut Tools) {
        if self.descriptor().is_none() {
            return self.abandon();
        }
        let runs = self.backlog.runs().take(DRAINED);
        let pushed = match &self.way {
            Way::Socket(socket) => push(socket, runs, &mut tools.scratch),
            Way::Raw(sender) => {
                let entries = self.backlog.entries();
                let kept =
                    runs.zip(entries).map(|(run, entry)| Kept { source: entry.source, parts: [run.head, run.body] });
                push_kept(self.forge.as_mut(), sender, kept, tools)
            }
            Way::Unresolved | Way::Closed(_) => return,
        };
        let carried = self.book.carried(self.worker);
        let backlog = &mut self.backlog;
        account(carried, &self.health, &tools.scratch.fates, |count| {
            carried.queued.sub(count as u64);
            backlog.pop(count)
        });
        carried.queued_bytes.set(self.backlog.occupied() as u64);
        self.finish(pushed, tools);
        self.due = None;
    }

    /// Gives up what waits.
    pub(super) fn abandon(&mut self) {
        let (carried, count) = (self.book.carried(self.worker), self.backlog.len());
        carried.queued.sub(count as u64);
        carried.drops.add(Reason::Abandoned, count as u64);
        self.backlog.pop(count);
        carried.queued_bytes.set(0);
        self.due = None;
    }

    fn finish(&mut self, pushed: Pushed, tools: &Tools) {
        let carried = self.book.carried(self.worker);
        carried.calls.add(pushed.calls);
        carried.joined.add(pushed.joined);
        if pushed.icmp > 0 {
            self.hear(pushed.icmp);
        }
        let lost = |fate: &Fate| matches!(fate, Fate::Dropped(_, Reason::Unreachable | Reason::OtherError));
        if tools.scratch.fates.iter().any(lost) {
            self.renew();
        }
    }

    /// Has the socket find out, now and then, whether this machine's address is another since it was connected.
    fn renew(&mut self) {
        let Way::Socket(socket) = &self.way else { return };
        let now = Instant::now();
        if self.renewed.is_none_or(|last| now - last >= RENEWAL) {
            self.renewed = Some(now);
            // Without a route the next sends fail as these did.
            let _ = socket.renew();
        }
    }

    /// Reads what the network reported about earlier datagrams; at least `known` reports have come.
    pub(super) fn hear(&mut self, known: u64) {
        let Way::Socket(socket) = &self.way else { return };
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
        self.book.carried(self.worker).icmp_errors.add(heard.max(known));
    }
}

/// Counts what became of datagrams; `pop` takes so many out and tells their bytes.
fn account(carried: &CarriedCell, health: &Health, fates: &[Fate], mut pop: impl FnMut(usize) -> u64) {
    for fate in fates {
        match *fate {
            Fate::Sent(0) => {}
            Fate::Sent(count) => {
                carried.sent.add(count as u64);
                carried.sent_bytes.add(pop(count));
                health.note(Evidence::Sent);
            }
            Fate::Dropped(count, reason) => {
                carried.drops.add(reason, count as u64);
                pop(count);
                if matches!(reason, Reason::Unreachable | Reason::Refused | Reason::OtherError) {
                    health.note(Evidence::SendError);
                }
            }
        }
    }
}

fn push_kept<'a>(
    forge: Option<&mut Forge>,
    sender: &RawSender,
    kept: impl Iterator<Item = Kept<'a>>,
    tools: &mut Tools,
) -> Pushed {
    // Not the fast way: a list a batch is little beside a packet and its checksum for each datagram.
    let kept: Vec<_> = kept.collect();
    match forge {
        Some(forge) => forge.push(sender, &kept, &mut tools.packing, &mut tools.scratch.fates),
        None => Pushed::default(),
    }
}

/// Datagrams of a backlog that are sent before others have their turn.
const DRAINED: usize = 512;

/// Between two looks for another address of this machine.
const RENEWAL: Duration = Duration::from_secs(1);

/// Reports that are read at once.
const REPORTS: usize = 64;
