//! Packets use the delivery opportunities of a trace.

use std::sync::Arc;

use super::trace::Spot;
use super::{Nanos, Trace};

/// A trace after the packets it has carried.
#[derive(Clone, Debug)]
pub(super) struct Opportunities {
    trace: Arc<Trace>,
    /// When the trace began.
    origin: Nanos,
    /// The opportunity used last, or to be used next.
    place: Place,
}

/// An opportunity and its free room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    spot: Spot,
    left: u32,
}

/// The turn of one packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// When its first byte is delivered.
    pub(super) begins: Nanos,
    /// When its last is.
    pub(super) ends: Nanos,
    /// The state to [`take`](Opportunities::take) if it passes.
    pub(super) after: Place,
}

impl Opportunities {
    /// None has been used yet.
    pub(super) fn new(trace: Arc<Trace>, origin: Nanos) -> Self {
        Opportunities { trace, origin, place: Place { spot: Spot::default(), left: Trace::OPPORTUNITY } }
    }

    /// Whether it is this trace, started at this time.
    pub(super) fn is(&self, trace: &Arc<Trace>, origin: Nanos) -> bool {
        self.origin == origin && (Arc::ptr_eq(&self.trace, trace) || self.trace == *trace)
    }

    /// When `cost` bytes are delivered by opportunities later than `after`.
    #[inline]
    pub(super) fn turn(&self, after: Nanos, cost: u64) -> Turn {
        let Place { spot, left } = self.next(after);
        let left = u64::from(left);
        let more = cost.saturating_sub(left).div_ceil(OPPORTUNITY);
        let last = self.trace.ahead(spot, more);
        let place = Place { spot: last, left: (left + more * OPPORTUNITY - cost) as u32 };
        Turn { begins: self.time(spot), ends: self.time(last), after: place }
    }

    /// How many of the packet's `cost` bytes are delivered before `end`, with `after` as in its [turn](Self::turn),
    /// which ends later.
    pub(super) fn delivered_before(&self, after: Nanos, end: Nanos) -> u64 {
        let Place { spot, left } = self.next(after);
        if self.time(spot) >= end {
            return 0;
        }
        let first_late = self.trace.find_after(end.saturating_sub(self.origin).saturating_sub(1));
        u64::from(left) + (self.trace.count(spot, first_late).saturating_sub(1)).saturating_mul(OPPORTUNITY)
    }

    /// Lets the packet of a turn through.
    #[inline]
    pub(super) fn take(&mut self, after: Place) {
        self.place = after;
    }

    /// The first opportunity after `time` that has room left.
    #[inline]
    fn next(&self, time: Nanos) -> Place {
        let Place { spot, left } = self.place;
        if self.time(spot) > time {
            if left > 0 {
                return self.place;
            }
            return Place { spot: self.trace.ahead(spot, 1), left: Trace::OPPORTUNITY };
        }
        let spot = self.trace.first_after(spot, time - self.origin);
        Place { spot, left: Trace::OPPORTUNITY }
    }

    #[inline]
    fn time(&self, spot: Spot) -> Nanos {
        self.origin.saturating_add(self.trace.time(spot))
    }
}

const OPPORTUNITY: u64 = Trace::OPPORTUNITY as u64;
