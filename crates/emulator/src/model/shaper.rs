//! Capacity and the drop-tail queue before it: none, a token bucket or a trace, changing by a plan.
//!
//! A packet's release is computed when it arrives. As the plan is known, that holds for packets that wait through a
//! change, too: up to it they are served by what holds before, from then on by what holds after.
//!
//! - From one rate to another, the bucket keeps its tokens, as far as the new one holds them, or its debt in bits.
//! - A bucket that follows a trace, or no limit, begins full.
//! - Without a limit everything that waits leaves at once.
//! - A trace counts its opportunities from time 0 of the plan, whenever it comes to hold; one that goes on is not
//!   disturbed by a step. What an earlier trace has delivered of a packet need not be delivered again.

use std::collections::VecDeque;
use std::sync::Arc;

use super::bucket::{Bucket, ExactTime};
use super::timetable::{Stay, Timetable};
use super::turns::{Place, Turns};
use super::{Impairments, Nanos, QueueLimit, Rate, Trace};

/// Packets wait here for their turn.
#[derive(Clone, Debug)]
pub(super) struct Shaper {
    /// What limits each phase.
    capacities: Arc<[Capacity]>,
    /// What limits the packet accepted last, when its turn comes.
    server: Server,
    /// When that is so.
    stay: Stay,
    /// Release of the packet accepted last.
    latest: Nanos,
    /// Whether nothing limits the packets that arrive now.
    open: bool,
    limit: QueueLimit,
    /// Turn and size of what waits, in order, and of what left since the last arrival.
    waiting: VecDeque<(Nanos, u32)>,
    waiting_bytes: u64,
}

/// What waits for a shaper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// IP packets, the one being sent not included.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
}

/// What a phase of the plan lets through.
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
    Turns(Turns),
}

/// When a packet is served.
#[derive(Clone, Copy, Debug)]
struct Service {
    /// When its turn comes, and it no longer waits.
    begins: Nanos,
    /// When it is released.
    release: Nanos,
    /// The release, not rounded up.
    exact: Nanos,
    after: After,
}

/// What to write down once the packet is let through.
#[derive(Clone, Copy, Debug)]
enum After {
    Nothing,
    FullAt(ExactTime),
    Place(Place),
}

impl Capacity {
    /// Of a phase. Settings with both, which `validate` refuses, count as a trace.
    pub(super) fn of(impairments: &Impairments) -> Self {
        match (&impairments.trace, impairments.rate) {
            (Some(trace), _) => Capacity::Trace(Arc::clone(trace)),
            (None, Some(rate)) => Capacity::Rate(rate),
            (None, None) => Capacity::Unlimited,
        }
    }
}

impl Shaper {
    /// The shaper of a plan whose phases have these capacities, before time 0; `None` if there is nothing to shape.
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

    /// The plan starts at `zero`; what holds now ends then. Packets accepted before keep their releases.
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

    /// When a packet that arrives `now` leaves; `None` if the queue has no room for it. A packet that can leave at once
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
        // Only what was accepted before time 0 was set may leave later than its turn.
        let begins = service.begins.max(self.latest);
        if !self.admit(now, begins, bytes) {
            return None;
        }
        self.server.take(service.after);
        self.latest = service.release.max(self.latest);
        Some(self.latest)
    }

    /// What waits at `time`, which lies not before the last arrival.
    pub(super) fn waiting(&self, time: Nanos) -> Waiting {
        let left = self.waiting.partition_point(|&(turn, _)| turn <= time);
        let still = self.waiting.range(left..);
        Waiting { packets: still.len() as u64, bytes: still.map(|&(_, bytes)| u64::from(bytes)).sum() }
    }

    /// Brings the server, which has nothing to serve before `now`, to the stay of `now`.
    #[cold]
    fn catch_up(&mut self, timetable: &Timetable, now: Nanos) {
        let target = timetable.at(now);
        if target.number.saturating_sub(self.stay.number) > MAX_STAYS {
            // By now it is full.
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
            (Server::Turns(turns), Capacity::Trace(trace)) if turns.is(trace, origin) => server.clone(),
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
            QueueLimit::Bytes(most) => self.waiting_bytes + u64::from(bytes) <= most,
            QueueLimit::Packets(most) => (self.waiting.len() as u64) < most,
        }
    }
}

impl Server {
    /// One that nothing has passed yet; a trace begins at `origin`.
    fn new(capacity: &Capacity, origin: Nanos) -> Self {
        match capacity {
            Capacity::Unlimited => Server::Unlimited,
            Capacity::Rate(rate) => Server::Bucket(Bucket::new(*rate)),
            Capacity::Trace(trace) => Server::Turns(Turns::new(Arc::clone(trace), origin)),
        }
    }

    /// Serves a packet that arrives `now`, of which an earlier trace has `delivered` some, in a stay that begins then.
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
            Server::Turns(turns) => {
                let turn = turns.turn(later_than(stay_begins, now), on_trace(bytes) - delivered);
                Service { begins: turn.begins, release: turn.ends, exact: turn.ends, after: After::Place(turn.after) }
            }
        }
    }

    /// How much more of a packet is delivered before `end`, its service ending later.
    fn delivered_before(&self, stay_begins: Nanos, now: Nanos, bytes: u32, delivered: u64, end: Nanos) -> u64 {
        match self {
            Server::Unlimited | Server::Bucket(_) => 0,
            Server::Turns(turns) => {
                // Something is left, or the service would have ended.
                let rest = on_trace(bytes) - delivered;
                turns.delivered_before(later_than(stay_begins, now), end).min(rest - 1)
            }
        }
    }

    #[inline]
    fn take(&mut self, after: After) {
        match (self, after) {
            (Server::Bucket(bucket), After::FullAt(full_after)) => bucket.take(full_after),
            (Server::Turns(turns), After::Place(place)) => turns.take(place),
            _ => {}
        }
    }
}

/// What a packet takes of a trace's opportunities.
#[inline]
fn on_trace(bytes: u32) -> u64 {
    u64::from(bytes) + u64::from(Trace::HEADER)
}

/// The opportunity of the very instant in which a packet arrives is missed; that of the stay's first instant is there
/// for what has waited.
#[inline]
fn later_than(stay_begins: Nanos, now: Nanos) -> Nanos {
    now.max(stay_begins.saturating_sub(1))
}

/// Stays of a plan that one packet may wait through, or that a bucket may take to be full again: 16 s of a plan that
/// changes every millisecond. A packet that would wait longer is served as if the last of them went on.
const MAX_STAYS: u64 = 16_384;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Plan;
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn without_burst_packets_are_spaced_evenly() {
        let mut shaper = shaper(8_000_000, 0, QueueLimit::Unlimited);
        let releases = [1000, 1000, 500, 1000].map(|bytes| shaper.offer(0, bytes));
        assert_eq!(releases, [Some(0), Some(1_000_000), Some(2_000_000), Some(2_500_000)]);
    }

    #[test]
    fn burst_leaves_at_once() {
        let mut shaper = shaper(8_000_000, 3000, QueueLimit::Unlimited);
        let releases = [1000; 5].map(|bytes| shaper.offer(0, bytes));
        assert_eq!(releases, [Some(0), Some(0), Some(0), Some(1_000_000), Some(2_000_000)]);
        assert_eq!(shaper.offer(SECOND, 3000), Some(SECOND), "full again");
    }

    #[test]
    fn packet_larger_than_the_bucket_leaves_it_in_debt() {
        let mut shaper = shaper(8_000_000, 1000, QueueLimit::Unlimited);
        assert_eq!(shaper.offer(0, 3000), Some(0));
        assert_eq!(shaper.offer(0, 1000), Some(3_000_000), "2 ms of debt, 1 ms for its own bytes");
    }

    #[test]
    fn packet_being_sent_takes_no_room() {
        for limit in [QueueLimit::Packets(1), QueueLimit::Bytes(1999)] {
            let mut shaper = shaper(8_000_000, 0, limit);
            let releases = [0, 0, 0, 1_000_000].map(|now| shaper.offer(now, 1000));
            assert_eq!(releases, [Some(0), Some(1_000_000), None, Some(2_000_000)], "{limit:?}");
        }
    }

    #[test]
    fn what_need_not_wait_needs_no_room() {
        let mut shaper = shaper(8_000_000, 0, QueueLimit::Bytes(10));
        assert_eq!(shaper.offer(0, 1000), Some(0));
        assert_eq!(shaper.offer(999_999, 1000), None);
        assert_eq!(shaper.offer(1_000_000, 1000), Some(1_000_000));
    }

    #[test]
    fn waiting_counts_what_has_not_left() {
        let mut shaper = shaper(8_000_000, 0, QueueLimit::Unlimited);
        for bytes in [1000, 1000, 500] {
            shaper.offer(0, bytes);
        }
        assert_eq!(shaper.waiting(0), Waiting { packets: 2, bytes: 1500 });
        assert_eq!(shaper.waiting(1_000_000), Waiting { packets: 1, bytes: 500 });
        assert_eq!(shaper.waiting(2_000_000), Waiting::default());
    }

    /// A rate that divides nothing, for 5 hours: each packet leaves in the very nanosecond in which it should.
    #[test]
    fn rate_is_exact_for_hours() {
        const RATE: u64 = 999_983;
        for burst in [0, 15_000] {
            let mut shaper = shaper(RATE, burst, QueueLimit::Unlimited);
            let free = u128::from(burst / 1500).saturating_sub(1);
            for packet in 0..1_500_000u128 {
                let paced = packet.saturating_sub(free);
                let expected = (paced * 1500 * 8 * u128::from(SECOND)).div_ceil(u128::from(RATE));
                // Arrives in time, but far from all at once: what waits stays small.
                let arrival = expected.saturating_sub(40_000_000) as Nanos;
                assert_eq!(shaper.offer(arrival, 1500), Some(expected as Nanos), "packet {packet}, burst {burst}");
            }
        }
    }

    proptest! {
        /// Over every window of releases: at most burst + rate x window + a packet. A window counts both its ends, as
        /// releases are whole nanoseconds.
        #[test]
        fn never_faster_than_the_rate(
            rate in any_rate(), burst in any_burst(), arrivals in any_arrivals(), limit in any_limit(),
        ) {
            let sent = run(rate, burst, limit, &arrivals);
            for (first, &(start, _)) in sent.iter().enumerate() {
                let mut bytes = 0;
                for &(end, size) in &sent[first..] {
                    bytes += u128::from(size);
                    let allowed = u128::from(burst) * BIT_NANOS + work(rate, end - start + 1) + u128::from(size) * BIT_NANOS;
                    prop_assert!(bytes * BIT_NANOS <= allowed);
                }
            }
        }

        /// While something waits, over every window: at least rate x window - a packet.
        #[test]
        fn never_slower_than_the_rate(
            rate in any_rate(), burst in any_burst(), sizes in prop::collection::vec(1..=65_535u32, 2..60),
        ) {
            let arrivals: Vec<_> = sizes.iter().map(|&size| (0, size)).collect();
            let sent = run(rate, burst, QueueLimit::Unlimited, &arrivals);
            let largest = u128::from(*sizes.iter().max().expect("not empty"));
            for (first, &(start, _)) in sent.iter().enumerate() {
                let mut bytes = 0;
                for &(end, size) in &sent[first..] {
                    // The window ends just before this packet leaves.
                    let due = work(rate, (end - start).saturating_sub(1));
                    prop_assert!((bytes + largest) * BIT_NANOS >= due);
                    bytes += u128::from(size);
                }
            }
        }

        /// The same as filling a bucket with tokens, in fractions of which nothing is ever lost.
        #[test]
        fn agrees_with_a_bucket_of_tokens(rate in any_rate(), burst in any_burst(), arrivals in any_arrivals()) {
            // Tokens in bit nanoseconds per second times the rate, so that the time a packet waits is whole.
            let (mut tokens, mut at) = (i128::from(burst) * 8_000_000_000, 0i128);
            let depth = tokens;
            let scale = i128::from(rate);
            let sent = run(rate, burst, QueueLimit::Unlimited, &arrivals);
            for (&(arrival, size), &(release, _)) in arrivals.iter().zip(&sent) {
                // `at` counts in 1/rate nanoseconds.
                let start = at.max(i128::from(arrival) * scale);
                tokens = (tokens + (start - at)).min(depth);
                let needed = (i128::from(size) * 8_000_000_000).min(depth);
                let wait = (needed - tokens).max(0);
                at = start + wait;
                tokens += wait - i128::from(size) * 8_000_000_000;
                prop_assert_eq!(i128::from(release), (at + scale - 1) / scale);
            }
        }

        /// What waits stays within the limit, counted from the releases alone.
        #[test]
        fn queue_never_holds_more_than_its_limit(
            rate in any_rate(), burst in any_burst(), arrivals in any_arrivals(), limit in any_limit(),
        ) {
            let mut shaper = shaper(rate, burst, limit);
            let mut accepted: Vec<(Nanos, u32)> = Vec::new();
            for &(now, size) in &arrivals {
                let before = still(&accepted, now);
                let release = shaper.offer(now, size);
                accepted.extend(release.map(|release| (release, size)));
                let after = still(&accepted, now);
                prop_assert_eq!(after, shaper.waiting(now));
                let refused = release.is_none();
                match limit {
                    QueueLimit::Unlimited => prop_assert!(!refused),
                    QueueLimit::Packets(most) => {
                        prop_assert!(after.packets <= most);
                        prop_assert!(!refused || before.packets == most);
                    }
                    QueueLimit::Bytes(most) => {
                        prop_assert!(after.bytes <= most);
                        prop_assert!(!refused || before.bytes + u64::from(size) > most);
                    }
                }
            }
        }

        #[test]
        fn keeps_order(rate in any_rate(), burst in any_burst(), arrivals in any_arrivals(), limit in any_limit()) {
            prop_assert!(run(rate, burst, limit, &arrivals).is_sorted_by_key(|&(release, _)| release));
        }

        #[test]
        fn survives_any_number(
            rate in any::<u64>(), burst in any::<u64>(),
            mut arrivals in prop::collection::vec((any::<u64>(), any::<u32>()), 1..20),
        ) {
            arrivals.sort_unstable();
            for (release, arrival) in run(rate, burst, QueueLimit::Unlimited, &arrivals).iter().zip(&arrivals) {
                prop_assert!(release.0 >= arrival.0);
            }
        }
    }

    /// Bits that the rate carries in a nanosecond, times a second over a nanosecond.
    fn work(rate: u64, window: Nanos) -> u128 {
        u128::from(rate) * u128::from(window)
    }

    /// A byte, in the same unit.
    const BIT_NANOS: u128 = 8 * SECOND as u128;

    /// A shaper with a timetable in which nothing changes.
    struct Steady(Shaper, Timetable);

    impl Steady {
        fn offer(&mut self, now: Nanos, bytes: u32) -> Option<Nanos> {
            self.0.offer(&self.1, now, bytes)
        }

        fn waiting(&self, time: Nanos) -> Waiting {
            self.0.waiting(time)
        }
    }

    fn shaper(bits_per_second: u64, burst_bytes: u64, limit: QueueLimit) -> Steady {
        let capacities = [Capacity::Rate(Rate { bits_per_second, burst_bytes })].into();
        let (_, timetable) = Timetable::new(&Plan::default());
        Steady(Shaper::new(capacities, limit).expect("there is a rate"), timetable)
    }

    /// Releases and sizes of what was not dropped.
    fn run(rate: u64, burst: u64, limit: QueueLimit, arrivals: &[(Nanos, u32)]) -> Vec<(Nanos, u32)> {
        let mut shaper = shaper(rate, burst, limit);
        arrivals.iter().filter_map(|&(now, size)| Some((shaper.offer(now, size)?, size))).collect()
    }

    fn still(accepted: &[(Nanos, u32)], now: Nanos) -> Waiting {
        let waiting = accepted.iter().filter(|&&(release, _)| release > now);
        let bytes = waiting.clone().map(|&(_, size)| u64::from(size)).sum();
        Waiting { packets: waiting.count() as u64, bytes }
    }

    fn any_rate() -> impl Strategy<Value = u64> {
        prop_oneof![1..20u64, 1_000..10_000_000u64, 10_000_000..100_000_000_000u64]
    }

    fn any_burst() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), 1..200_000u64]
    }

    fn any_limit() -> impl Strategy<Value = QueueLimit> {
        prop_oneof![
            Just(QueueLimit::Unlimited),
            (0..10u64).prop_map(QueueLimit::Packets),
            (0..200_000u64).prop_map(QueueLimit::Bytes),
        ]
    }

    /// Arrival times, ascending, and sizes. Gaps from none to seconds.
    fn any_arrivals() -> impl Strategy<Value = Vec<(Nanos, u32)>> {
        let gap = prop_oneof![Just(0), 1..100_000u64, 1..SECOND];
        let size = prop_oneof![Just(1500), 1..=65_535u32];
        prop::collection::vec((gap, size), 1..60).prop_map(|steps| {
            let arrive = |now: &mut Nanos, (gap, size)| {
                *now += gap;
                Some((*now, size))
            };
            steps.into_iter().scan(0, arrive).collect()
        })
    }
}
