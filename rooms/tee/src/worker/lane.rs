//! A lane, from one worker to one outlet: what of a batch goes there, and the egress, or who holds it.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use super::batch::{Batch, Part, Pending};
use super::egress::Egress;
use super::random::Random;
use super::turn::Turn;
use crate::counters::OutletBook;
use crate::drops::Reason;
use crate::limit::Limiter;
use crate::plan::Outlet;
use crate::sockets::EgressSocket;

/// A lane from one worker to one outlet.
pub(super) struct Lane {
    worker: usize,
    book: Arc<OutletBook>,
    limiter: Option<Arc<Limiter>>,
    sample: u32,
    access: Access,
    /// What of the batch goes here.
    pending: Pending,
    place: Place,
    /// Datagrams that came this way since somebody looked.
    given: u64,
}

/// Who holds the egress of a lane.
enum Place {
    /// The worker itself.
    Here(Box<Egress>),
    /// The worker of this number.
    Lent(usize),
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
            (EgressSocket::Connected(_), _) => Self::Any,
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
    pub(super) fn new(worker: usize, outlet: &Outlet, socket: EgressSocket) -> Self {
        Self {
            worker,
            book: Arc::clone(&outlet.book),
            limiter: outlet.limiter.clone(),
            sample: outlet.settings.sample.get(),
            access: Access::new(outlet, &socket),
            pending: Pending::default(),
            place: Place::Here(Box::new(Egress::new(worker, outlet, socket))),
            given: 0,
        }
    }

    /// Goes on with other options and perhaps another socket. The egress must be here and not be watched.
    pub(super) fn adapt(&mut self, outlet: &Outlet, socket: EgressSocket, turn: &Turn<'_>) {
        self.limiter.clone_from(&outlet.limiter);
        self.sample = outlet.settings.sample.get();
        self.access = Access::new(outlet, &socket);
        if let Some(egress) = self.egress() {
            egress.adapt(outlet, socket, turn);
        }
    }

    /// Whether it is the lane of this outlet.
    pub(super) fn is_to(&self, outlet: &Outlet) -> bool {
        Arc::ptr_eq(&self.book, &outlet.book)
    }

    /// The egress, if it is here.
    pub(super) fn egress(&mut self) -> Option<&mut Egress> {
        match &mut self.place {
            Place::Here(egress) => Some(egress),
            Place::Lent(_) => None,
        }
    }

    /// The same, for good.
    pub(super) fn into_egress(self) -> Option<Box<Egress>> {
        match self.place {
            Place::Here(egress) => Some(egress),
            Place::Lent(_) => None,
        }
    }

    /// Lends the egress to another worker; `None`: it is lent already.
    pub(super) fn lend(&mut self, holder: usize) -> Option<Box<Egress>> {
        match std::mem::replace(&mut self.place, Place::Lent(holder)) {
            Place::Here(egress) => Some(egress),
            lent @ Place::Lent(_) => {
                self.place = lent;
                None
            }
        }
    }

    /// Has the egress back.
    pub(super) fn take_back(&mut self, egress: Box<Egress>) {
        self.place = Place::Here(egress);
    }

    /// Whether something waits here.
    pub(super) fn has_backlog(&self) -> bool {
        matches!(&self.place, Place::Here(egress) if egress.has_backlog())
    }

    /// Whether something of the batch is still to go here.
    pub(super) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Datagrams that came this way since the last call; 0 if it is lent.
    pub(super) fn take_given(&mut self) -> u64 {
        let given = std::mem::take(&mut self.given);
        if matches!(self.place, Place::Here(_)) { given } else { 0 }
    }

    /// Takes a part of a message, as far as the destination wants it. `each`: bytes of each datagram of the run that a
    /// single one is from.
    pub(super) fn offer(&mut self, part: Part, each: Option<NonZeroU16>, source: SocketAddr, turn: &mut Turn<'_>) {
        let datagrams = part.datagrams() as u64;
        let asked = self.book.asked(self.worker);
        asked.copies.add(datagrams);
        asked.copies_bytes.add((part.end - part.start) as u64);
        self.given += datagrams;
        if let Some(reason) = self.access.refuses(source) {
            asked.drops.add(reason, datagrams);
        } else if self.sample == 1 && self.limiter.is_none() {
            self.pending.add(part, each);
        } else {
            self.choose(part, each, &mut turn.scratch.random);
        }
    }

    /// Gives what of the batch goes to the worker that holds the egress, if it is lent.
    pub(super) fn hand_over(&mut self, give: impl FnOnce(usize, &mut Pending)) {
        if let Place::Lent(holder) = self.place {
            self.book.asked(self.worker).lent.add(self.pending.datagrams());
            give(holder, &mut self.pending);
        }
    }

    /// Sends what of the batch goes here. `gather`: how long it may wait for company. Returns whether it does from now
    /// on.
    pub(super) fn send(&mut self, batch: Batch<'_>, gather: Duration, turn: &mut Turn<'_>) -> bool {
        let Place::Here(egress) = &mut self.place else { return false };
        if gather.is_zero() || egress.is_blocked() {
            egress.flush(&mut self.pending, batch, turn);
            return false;
        }
        egress.gather(&mut self.pending, batch, gather, turn)
    }

    /// Decides for each datagram on its own.
    fn choose(&mut self, part: Part, each: Option<NonZeroU16>, random: &mut Random) {
        let now = self.limiter.as_ref().map_or(0, |limiter| limiter.now());
        let asked = self.book.asked(self.worker);
        for single in part.singles() {
            if self.sample > 1 && !random.one_in(self.sample) {
                asked.drops.add(Reason::SampledOut, 1);
            } else if self.limiter.as_ref().is_some_and(|limiter| !limiter.take(now, single.end - single.start)) {
                asked.drops.add(Reason::RateLimited, 1);
            } else {
                self.pending.add(single, part.segment.or(each));
            }
        }
    }
}
