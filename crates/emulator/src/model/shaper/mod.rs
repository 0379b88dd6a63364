//! The capacity and its drop-tail queue: none, a token bucket or a trace, changing by a plan.
//!
//! A packet's release is computed at its arrival. As the plan is known, that includes packets that wait through a
//! change: before it the old capacity serves them, after it the new one.
//!
//! - From one rate to another, the bucket keeps its tokens, up to the new size, or its debt in bits.
//! - A bucket that follows a trace, or no limit, begins full.
//! - Without a limit everything that waits leaves at once.
//! - A trace counts its opportunities from time 0 of the plan, even if it starts later; a step does not disturb a trace
//!   that continues. Bytes of a packet that an earlier trace has delivered count as delivered.

use std::collections::VecDeque;
use std::sync::Arc;

use super::bucket::{Bucket, ExactTime};
use super::opportunities::{Opportunities, Place};
use super::timetable::{Stay, Timetable};
use super::{Impairments, Nanos, QueueLimit, Rate, Trace};

/// Packets wait here for their turn.
#[derive(Clone, Debug)]
pub(super) struct Shaper {
    /// The capacity of each phase.
    capacities: Arc<[Capacity]>,
    /// The capacity for the last accepted packet at its turn.
    server: Server,
    /// The time of that.
    stay: Stay,
    /// Release of the packet accepted last.
    latest: Nanos,
    /// Whether packets that arrive now are unlimited.
    open: bool,
    limit: QueueLimit,
    /// Turn and size of waiting packets, in order, and of those that left since the last arrival.
    waiting: VecDeque<(Nanos, u32)>,
    waiting_bytes: u64,
}

/// The backlog of a shaper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// IP packets, the one being sent not included.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
}

/// The capacity of a phase of the plan.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Capacity {
    Unlimited,
    Rate(Rate),
    Trace(Arc<Trace>),
}

/// A capacity in use.
#[derive(Clone, Debug)]
enum Server {
    Unlimited,
    Bucket(Bucket),
    Opportunities(Opportunities),
}

/// When a packet is served.
#[derive(Clone, Copy, Debug)]
struct Service {
    /// When its turn comes and it leaves the queue.
    begins: Nanos,
    /// When it is released.
    release: Nanos,
    /// The release, not rounded up.
    exact: Nanos,
    after: After,
}

/// The state to store once the packet passes.
#[derive(Clone, Copy, Debug)]
enum After {
    Nothing,
    FullAt(ExactTime),
    Place(Place),
}

impl Capacity {
    /// The capacity of a phase. Settings with both, which `validate` refuses, count as a trace.
    pub(super) fn of(impairments: &Impairments) -> Self {
        match (&impairments.trace, impairments.rate) {
            (Some(trace), _) => Capacity::Trace(Arc::clone(trace)),
            (None, Some(rate)) => Capacity::Rate(rate),
            (None, None) => Capacity::Unlimited,
        }
    }
}

impl Shaper {
    /// The shaper of a plan with these capacities, before time 0. `None`: there is nothing to shape.
    pub(super) fn new(capacities: Arc<[Capacity]>, limit: QueueLimit) -> Option<Self> {
        if capacities.iter().all(|capacity| *capacity == Capacity::Unlimited) {
            return None;
        }
        Some(Shaper {
            server: Server::new(&capacities[0], 0),
            stay: Stay { number: 0, phase: 0, begins: 0, ends: Nanos::MAX },
            latest: 0,
            open: capacities[0] == Capacity::Unlimited,
            limit,
            capacities,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        })
    }

    /// Replaces `old` by this shaper from `now` on. Packets in `old` keep their turn, and the first packet of this one
    /// is served after them.
    pub(super) fn in_place_of(mut self, old: Option<Shaper>, timetable: &Timetable, now: Nanos) -> Self {
        let stay = timetable.at(now);
        self.server = Server::new(&self.capacities[stay.phase], timetable.origin(&stay));
        self.stay = stay;
        let Some(old) = old else { return self };
        let after = old.latest.max(now);
        match (&old.server, &self.capacities[stay.phase]) {
            (Server::Bucket(bucket), Capacity::Rate(rate)) => {
                self.server = Server::Bucket(bucket.replaced(*rate, after));
            }
            (Server::Opportunities(turns), Capacity::Trace(trace)) if turns.is(trace, timetable.origin(&stay)) => {
                self.server = old.server;
            }
            _ => {}
        }
        self.stay.begins = stay.begins.max(old.latest);
        Shaper { latest: old.latest, waiting: old.waiting, waiting_bytes: old.waiting_bytes, ..self }
    }

    /// The plan starts at `zero`; the present phase ends then. Packets accepted before keep their releases.
    pub(super) fn start(&mut self, zero: Nanos) {
        self.stay = Stay { number: 0, ends: zero, ..self.stay };
    }

    /// Packets arrive in `phase` from now on.
    pub(super) fn enter(&mut self, phase: usize, limit: QueueLimit) {
        self.open = self.capacities[phase] == Capacity::Unlimited;
        self.limit = limit;
    }

    /// Whether packets that arrive `now` pass unhindered.
    #[inline]
    pub(super) fn lets_all_pass(&self, now: Nanos) -> bool {
        self.open && self.latest <= now
    }

    /// When a packet that arrives `now` leaves. `None`: the queue has no room for it. A packet that can leave at once
    /// needs no room. `now` never decreases.
    #[inline]
    pub(super) fn offer(&mut self, timetable: &Timetable, now: Nanos, bytes: u32) -> Option<Nanos> {
        self.forget_until(now);
        if now >= self.stay.ends {
            self.catch_up(timetable, now);
        }
        let service = self.server.serve(self.stay.begins, now, bytes, 0);
        if service.exact >= self.stay.ends {
            return self.offer_across(timetable, now, bytes);
        }
        // Only packets accepted before time 0 was set may leave later than their turn.
        let begins = service.begins.max(self.latest);
        if !self.admit(now, begins, bytes) {
            return None;
        }
        self.server.take(service.after);
        self.latest = service.release.max(self.latest);
        Some(self.latest)
    }

    /// The backlog at `time`, which must not be before the last arrival.
    pub(super) fn waiting(&self, time: Nanos) -> Waiting {
        let left = self.waiting.partition_point(|&(turn, _)| turn <= time);
        let still = self.waiting.range(left..);
        Waiting { packets: still.len() as u64, bytes: still.map(|&(_, bytes)| u64::from(bytes)).sum() }
    }

    /// Advances the server, which is idle before `now`, to the stay of `now`.
    #[cold]
    fn catch_up(&mut self, timetable: &Timetable, now: Nanos) {
        let target = timetable.at(now);
        if target.number.saturating_sub(self.stay.number) > MAX_STAYS {
            // It is full by now.
            self.server = Server::new(&self.capacities[target.phase], timetable.origin(&target));
            self.stay = target;
        }
        while self.stay.number < target.number {
            (self.server, self.stay) = self.following(timetable, &self.server, timetable.at(self.stay.ends));
        }
    }

    /// [`Self::offer`] for a packet whose service does not end within the stay.
    #[cold]
    fn offer_across(&mut self, timetable: &Timetable, now: Nanos, bytes: u32) -> Option<Nanos> {
        let (mut server, mut stay) = (self.server.clone(), self.stay);
        let (mut begins, mut delivered) = (None, 0);
        let mut stays = 0;
        let service = loop {
            let service = server.serve(stay.begins, now, bytes, delivered);
            if service.exact < stay.ends || stay.ends == Nanos::MAX {
                break service;
            }
            stays += 1;
            if stays > MAX_STAYS {
                stay = timetable.at(service.exact);
                break service;
            }
            let before = server.delivered_before(stay.begins, now, bytes, delivered, stay.ends);
            if before > 0 {
                begins = begins.or(Some(service.begins));
                delivered += before;
            }
            (server, stay) = self.following(timetable, &server, timetable.at(stay.ends));
        };
        if !self.admit(now, begins.unwrap_or(service.begins).max(self.latest), bytes) {
            return None;
        }
        server.take(service.after);
        if stays > MAX_STAYS {
            (server, stay) = self.following(timetable, &server, stay);
        }
        (self.server, self.stay) = (server, stay);
        self.latest = service.release.max(self.latest);
        Some(self.latest)
    }

    /// The server in the stay `next`, taking over from `server`.
    fn following(&self, timetable: &Timetable, server: &Server, next: Stay) -> (Server, Stay) {
        let origin = timetable.origin(&next);
        let server = match (server, &self.capacities[next.phase]) {
            (Server::Bucket(bucket), Capacity::Rate(rate)) => Server::Bucket(bucket.replaced(*rate, next.begins)),
            (Server::Opportunities(turns), Capacity::Trace(trace)) if turns.is(trace, origin) => server.clone(),
            (_, capacity) => Server::new(capacity, origin),
        };
        (server, next)
    }

    /// Finds room for a packet whose turn begins then, if it has to wait.
    #[inline]
    fn admit(&mut self, now: Nanos, begins: Nanos, bytes: u32) -> bool {
        if begins > now {
            if !self.has_room(bytes) {
                return false;
            }
            self.waiting.push_back((begins, bytes));
            self.waiting_bytes += u64::from(bytes);
        }
        true
    }

    #[inline]
    fn forget_until(&mut self, now: Nanos) {
        while let Some(&(turn, bytes)) = self.waiting.front()
            && turn <= now
        {
            self.waiting.pop_front();
            self.waiting_bytes -= u64::from(bytes);
        }
    }

    #[inline]
    fn has_room(&self, bytes: u32) -> bool {
        match self.limit {
            _ if self.open => true,
            QueueLimit::Unlimited => true,
            QueueLimit::Bytes(max) => self.waiting_bytes + u64::from(bytes) <= max,
            QueueLimit::Packets(max) => (self.waiting.len() as u64) < max,
        }
    }
}

impl Server {
    /// A shaper that no packet has passed; a trace begins at `origin`.
    fn new(capacity: &Capacity, origin: Nanos) -> Self {
        match capacity {
            Capacity::Unlimited => Server::Unlimited,
            Capacity::Rate(rate) => Server::Bucket(Bucket::new(*rate)),
            Capacity::Trace(trace) => Server::Opportunities(Opportunities::new(Arc::clone(trace), origin)),
        }
    }

    /// Serves a packet that arrives `now`, of which an earlier trace has `delivered` some bytes, in a stay that begins
    /// then.
    #[inline]
    fn serve(&mut self, stay_begins: Nanos, now: Nanos, bytes: u32, delivered: u64) -> Service {
        let floor = now.max(stay_begins);
        match self {
            Server::Unlimited => Service { begins: floor, release: floor, exact: floor, after: After::Nothing },
            Server::Bucket(bucket) => {
                let rest = (on_trace(bytes) - delivered).min(u64::from(bytes));
                let (start, full_after) = bucket.turn(floor, rest as u32);
                let release = start.rounded_up().max(floor);
                let exact = start.rounded_down().max(floor);
                Service { begins: release, release, exact, after: After::FullAt(full_after) }
            }
            Server::Opportunities(turns) => {
                let turn = turns.turn(later_than(stay_begins, now), on_trace(bytes) - delivered);
                Service { begins: turn.begins, release: turn.ends, exact: turn.ends, after: After::Place(turn.after) }
            }
        }
    }

    /// How many more bytes of a packet are delivered before `end`; its service ends later.
    fn delivered_before(&self, stay_begins: Nanos, now: Nanos, bytes: u32, delivered: u64, end: Nanos) -> u64 {
        match self {
            Server::Unlimited | Server::Bucket(_) => 0,
            Server::Opportunities(turns) => {
                // Some bytes are left, or the service would have ended.
                let rest = on_trace(bytes) - delivered;
                turns.delivered_before(later_than(stay_begins, now), end).min(rest - 1)
            }
        }
    }

    #[inline]
    fn take(&mut self, after: After) {
        match (self, after) {
            (Server::Bucket(bucket), After::FullAt(full_after)) => bucket.take(full_after),
            (Server::Opportunities(turns), After::Place(place)) => turns.take(place),
            _ => {}
        }
    }
}

/// The cost of a packet in a trace's opportunities.
#[inline]
fn on_trace(bytes: u32) -> u64 {
    u64::from(bytes) + u64::from(Trace::HEADER)
}

/// An opportunity at the exact time of a packet's arrival is missed; that of the stay's first instant is available for
/// waiting packets.
#[inline]
fn later_than(stay_begins: Nanos, now: Nanos) -> Nanos {
    now.max(stay_begins.saturating_sub(1))
}

/// Max stays of a plan that one packet may wait through, or that a bucket may take to fill: 16 s of a plan that changes
/// every millisecond. A packet that would wait longer is served as if the last stay went on.
const MAX_STAYS: u64 = 16_384;

#[cfg(test)]
mod tests;
