//! The near part of a lane, the way of one worker to one outlet: what of a batch goes there.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use super::batch::{Part, Pending};
use super::carrier::Carrier;
use super::random::Random;
use crate::counters::OutletBook;
use crate::drops::Reason;
use crate::limit::Limiter;
use crate::plan::Outlet;
use crate::sockets::Way;

/// The way of one worker to one outlet.
pub(super) struct Lane {
    worker: usize,
    book: Arc<OutletBook>,
    limiter: Option<Arc<Limiter>>,
    sample: u32,
    access: Access,
    /// What of the batch goes here.
    pub(super) pending: Pending,
    /// The far part.
    pub(super) place: Place,
    /// Datagrams that came this way since somebody looked.
    pub(super) given: u64,
}

/// Who holds the far part of a lane.
pub(super) enum Place {
    /// The worker itself.
    Here(Box<Carrier>),
    /// The worker of this number.
    Lent(usize),
}

/// Which datagrams can go this way at all.
enum Access {
    Any,
    /// Those of one family: the other's addresses cannot be kept.
    Family {
        v4: bool,
    },
    None(Reason),
}

impl Access {
    fn new(outlet: &Outlet, way: &Way) -> Self {
        match (way, outlet.address) {
            (Way::Unresolved, _) | (_, None) => Self::None(Reason::Unresolved),
            (Way::Closed(_), _) => Self::None(Reason::Unreachable),
            (Way::Socket(_), _) => Self::Any,
            (Way::Raw(_), Some(to)) => Self::Family { v4: to.ip().to_canonical().is_ipv4() },
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
    /// A lane with a far part of its own.
    pub(super) fn new(worker: usize, outlet: &Outlet, way: Way) -> Self {
        Self {
            worker,
            book: Arc::clone(&outlet.book),
            limiter: outlet.limiter.clone(),
            sample: outlet.settings.sample.get(),
            access: Access::new(outlet, &way),
            pending: Pending::default(),
            place: Place::Here(Box::new(Carrier::new(worker, outlet, way))),
            given: 0,
        }
    }

    /// Goes on with other options and perhaps another socket. The far part must be here and not be watched.
    pub(super) fn adapt(&mut self, outlet: &Outlet, way: Way) {
        self.limiter.clone_from(&outlet.limiter);
        self.sample = outlet.settings.sample.get();
        self.access = Access::new(outlet, &way);
        if let Place::Here(carrier) = &mut self.place {
            carrier.adapt(outlet, way);
        }
    }

    /// Whether it is the lane of this outlet.
    pub(super) fn is_to(&self, outlet: &Outlet) -> bool {
        Arc::ptr_eq(&self.book, &outlet.book)
    }

    /// The far part, if it is here.
    pub(super) fn carrier(&mut self) -> Option<&mut Carrier> {
        match &mut self.place {
            Place::Here(carrier) => Some(carrier),
            Place::Lent(_) => None,
        }
    }

    /// Whether something waits here.
    pub(super) fn has_backlog(&self) -> bool {
        matches!(&self.place, Place::Here(carrier) if carrier.has_backlog())
    }

    /// Counts what of the batch goes to the worker that holds the far part.
    pub(super) fn count_lent(&self) {
        self.book.asked(self.worker).lent.add(self.pending.datagrams());
    }

    /// Takes a part of a message, as far as the destination wants it. `each`: bytes of each datagram of the run that a
    /// single one is from.
    pub(super) fn offer(&mut self, part: Part, each: Option<NonZeroU16>, source: SocketAddr, random: &mut Random) {
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
            self.choose(part, each, random);
        }
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
