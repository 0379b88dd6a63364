//! A lane, from one worker to one outlet: what of a batch goes there, and the egress.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::{Batch, Origin, Part, Pending};
use super::egress::Egress;
use super::random::Random;
use super::turn::Turn;
use crate::counters::OutletBook;
use crate::drops::{Drops, Reason};
use crate::limit::{Limiter, Nth};
use crate::plan::Outlet;
use crate::sockets::EgressSocket;

/// A lane from one worker to one outlet.
pub(super) struct Lane {
    worker: usize,
    book: Arc<OutletBook>,
    limiter: Option<Arc<Limiter>>,
    nth: Option<Arc<Nth>>,
    sample: u32,
    access: Access,
    /// Whether every datagram goes this way.
    takes_all: bool,
    /// Whether the hops that a datagram has left count.
    guarded: bool,
    /// What of the batch was asked of it, not counted yet.
    asked: Asked,
    /// What of the batch goes here.
    pending: Pending,
    pub(super) egress: Egress,
    /// Until when what waits may still leave, since the plan has no such outlet any more.
    pub(super) leaving: Option<Instant>,
}

/// What a batch asks of a lane, and what of it is dropped at once.
#[derive(Clone, Copy, Default)]
struct Asked {
    copies: u64,
    bytes: u64,
    drops: Drops,
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

impl Lane {
    /// A lane with an egress of its own.
    pub(super) fn new(worker: usize, outlet: &Outlet, socket: EgressSocket, workers: usize) -> Self {
        Self {
            worker,
            book: Arc::clone(&outlet.book),
            limiter: outlet.limiter.clone(),
            nth: outlet.nth.clone(),
            sample: outlet.settings.sample.get(),
            access: Access::new(outlet, &socket),
            takes_all: takes_all(outlet, &socket),
            guarded: outlet.settings.hop_guard,
            asked: Asked::default(),
            pending: Pending::default(),
            egress: Egress::new(worker, outlet, socket, workers),
            leaving: None,
        }
    }

    /// Goes on with other options and perhaps another socket. It must not be watched.
    pub(super) fn adapt(&mut self, outlet: &Outlet, socket: EgressSocket, workers: usize, turn: &Turn<'_>) {
        self.limiter.clone_from(&outlet.limiter);
        self.nth.clone_from(&outlet.nth);
        self.sample = outlet.settings.sample.get();
        self.access = Access::new(outlet, &socket);
        self.takes_all = takes_all(outlet, &socket);
        self.guarded = outlet.settings.hop_guard;
        self.leaving = None;
        self.egress.adapt(outlet, socket, workers, turn);
    }

    /// What tells it from others in every plan: the book of its outlet.
    pub(super) fn identity(&self) -> *const OutletBook {
        Arc::as_ptr(&self.book)
    }

    /// Whether something waits here.
    pub(super) fn has_backlog(&self) -> bool {
        self.egress.has_backlog()
    }

    /// Whether something of the batch is still to go here.
    pub(super) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether the batch asked anything of it that has not been counted.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.copies > 0
    }

    /// Sends a datagram that came alone at once, if its way is clear: it is asked for, given and sent in one go, and nothing of
    /// it waits for the end of the batch. Returns whether something waits for room now; `None`: the way is not clear.
    pub(super) fn pass(&mut self, payload: &[u8], origin: Origin, turn: &mut Turn<'_>) -> Option<bool> {
        if !self.takes_all || !self.egress.is_clear() {
            return None;
        }
        self.book.asked(self.worker).change(|asked| {
            asked.copies.add(1);
            asked.copies_bytes.add(payload.len() as u64);
            asked.given.add(1);
        });
        self.egress.pass(payload, origin, turn);
        Some(self.egress.is_blocked())
    }

    /// Takes a part of a message, as far as the destination wants it. `each`: bytes of each datagram of the run that a
    /// single one is from.
    pub(super) fn offer(&mut self, part: Part, each: Option<NonZeroU16>, arrived: Arrived, turn: &mut Turn<'_>) {
        let datagrams = part.datagrams() as u64;
        self.asked.copies += datagrams;
        self.asked.bytes += (part.end - part.start) as u64;
        if let Some(reason) = self.refuses(arrived) {
            self.asked.drops.add(reason, datagrams);
        } else if self.sample == 1 && self.limiter.is_none() && self.nth.is_none() {
            self.pending.add(part, each);
        } else {
            self.choose(part, each, &mut turn.scratch.random);
        }
    }

    fn refuses(&self, arrived: Arrived) -> Option<Reason> {
        if arrived.returns {
            return Some(Reason::Loop);
        }
        let hops = (self.guarded && arrived.is_last_hop).then_some(Reason::Hops);
        hops.or_else(|| self.access.refuses(arrived.source))
    }

    /// Counts what the batch asked of it.
    pub(super) fn count(&mut self, _: &Turn<'_>) {
        let Asked { copies, bytes, drops } = std::mem::take(&mut self.asked);
        let dropped = drops.total();
        self.book.asked(self.worker).change(|asked| {
            asked.copies.add(copies);
            asked.copies_bytes.add(bytes);
            asked.given.add(copies - dropped);
            if dropped > 0 {
                Reason::ALL.iter().for_each(|&reason| asked.drops.add(reason, drops[reason]));
            }
        });
    }

    /// Sends what of the batch goes here. `gather`: how long it may wait for company. Returns until when it does, if it
    /// begins to now.
    pub(super) fn send(&mut self, batch: &Batch, gather: Duration, turn: &mut Turn<'_>) -> Option<Instant> {
        let egress = &mut self.egress;
        if gather.is_zero() || egress.is_blocked() {
            egress.flush(&mut self.pending, batch, turn);
            return None;
        }
        egress.gather(&mut self.pending, batch, gather, turn)
    }

    /// Decides for each datagram on its own.
    fn choose(&mut self, part: Part, each: Option<NonZeroU16>, random: &mut Random) {
        let now = self.limiter.as_ref().map_or(0, |limiter| limiter.now());
        for single in part.singles() {
            let is_sampled = self.nth.as_ref().is_none_or(|nth| nth.take());
            if !is_sampled || self.sample > 1 && !random.one_in(self.sample) {
                self.asked.drops.add(Reason::SampledOut, 1);
            } else if self.limiter.as_ref().is_some_and(|limiter| !limiter.take(now, single.end - single.start)) {
                self.asked.drops.add(Reason::RateLimited, 1);
            } else {
                self.pending.add(single, part.segment.or(each));
            }
        }
    }
}

/// Whether every datagram goes to an outlet: nothing chooses among them.
fn takes_all(outlet: &Outlet, socket: &EgressSocket) -> bool {
    let chooses = outlet.limiter.is_some() || outlet.nth.is_some() || outlet.settings.sample.get() > 1;
    matches!(Access::new(outlet, socket), Access::Any) && !chooses && !outlet.settings.hop_guard
}
