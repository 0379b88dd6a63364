//! Traces against mahimahi's own way of reading them: opportunity by opportunity, byte by byte.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::properties::{Packet, any_queue, any_trace, any_traffic};
use super::*;

/// A link by the letter of mahimahi's `LinkQueue`: it looks at one opportunity after the other.
struct Mahimahi {
    /// In nanoseconds, all that will ever be needed.
    opportunities: VecDeque<Nanos>,
    limit: QueueLimit,
    /// Number and size of what waits.
    queue: VecDeque<(usize, u64)>,
    /// Number and bytes left of what is being delivered.
    in_transit: Option<(usize, u64)>,
    /// Number and time of what was delivered.
    delivered: Vec<(usize, Nanos)>,
}

impl Mahimahi {
    fn new(opportunities: Vec<Nanos>, limit: QueueLimit) -> Self {
        let (queue, in_transit, delivered) = (VecDeque::new(), None, Vec::new());
        Mahimahi { opportunities: opportunities.into(), limit, queue, in_transit, delivered }
    }

    /// Uses every opportunity up to `now`.
    fn rationalize(&mut self, now: Nanos) {
        while let Some(at) = self.opportunities.pop_front_if(|at| *at <= now) {
            let mut left = 1504;
            while left > 0 {
                let Some((number, bytes)) = self.in_transit.or_else(|| self.queue.pop_front()) else { break };
                let sent = left.min(bytes);
                left -= sent;
                self.in_transit = (bytes > sent).then_some((number, bytes - sent));
                if self.in_transit.is_none() {
                    self.delivered.push((number, at));
                }
            }
        }
    }

    /// Offers a packet; returns whether there was room.
    fn offer(&mut self, number: usize, now: Nanos, bytes: u32) -> bool {
        self.rationalize(now);
        let waiting: u64 = self.queue.iter().map(|(_, bytes)| bytes - 4).sum();
        let room = match self.limit {
            QueueLimit::Unlimited => true,
            QueueLimit::Packets(max) => (self.queue.len() as u64) < max,
            QueueLimit::Bytes(max) => waiting + u64::from(bytes) <= max,
        };
        if room {
            self.queue.push_back((number, u64::from(bytes) + 4));
        }
        room
    }
}

proptest! {
    /// Any traffic, any trace, any queue, steps from one trace to the next: each packet leaves at the opportunity at
    /// which mahimahi would let it go.
    #[test]
    fn traces_deliver_like_mahimahi(
        traces in prop::collection::vec(any_trace(), 1..4), lengths in prop::collection::vec(1..100u64, 3),
        repeats: bool, traffic in any_traffic(), limit in any_queue(), zero in 0..20 * MILLISECOND,
    ) {
        let mut phases = traces.iter().map(|(trace, _)| Impairments {
            trace: Some(Arc::clone(trace)), queue: limit, ..Impairments::default()
        });
        let mut plan = Plan::from(phases.next().expect("at least one"));
        let mut begins = vec![0];
        for (impairments, length) in phases.zip(&lengths) {
            let after = begins[begins.len() - 1] + length * MILLISECOND;
            begins.push(after);
            plan.steps.push(Step { after: Duration::from_nanos(after), impairments });
        }
        let end = begins[begins.len() - 1] + lengths[2] * MILLISECOND;
        plan.repeat = (repeats && begins.len() > 1).then(|| Duration::from_nanos(end));
        prop_assert_eq!(plan.validate(), Ok(()));

        let mut direction = Direction::new(&plan, forward(1));
        direction.start_clock(zero);
        // Without opportunities before time 0, which mahimahi does not have.
        let traffic: Vec<Packet> =
            traffic.iter().map(|packet| Packet { arrival: zero + packet.arrival, ..*packet }).collect();
        let last = traffic[traffic.len() - 1].arrival;
        // Enough for nearly all: the slowest has an opportunity in each period.
        let slowest = traces.iter().map(|(trace, _)| trace.period()).max().expect("at least one");
        let enough = (last - zero) / MILLISECOND + traffic.len() as u64 * (slowest / MILLISECOND + end / MILLISECOND);
        let mut opportunities = Vec::new();
        for at in 0..=enough {
            let phase_at = plan.repeat.map_or(at, |repeat| at % (repeat.as_millis() as u64));
            let phase = begins.partition_point(|begins| begins / MILLISECOND <= phase_at) - 1;
            let (times, period) = (&traces[phase].1, traces[phase].0.period() / MILLISECOND);
            // A time at the very end of a period also is the next one's 0.
            let here = times.iter().filter(|&&time| (at >= time) && (at - time) % period == 0 && time < period);
            let ends = times.iter().filter(|&&time| time == period && at > 0 && at % period == 0);
            opportunities.extend(here.chain(ends).map(|_| zero + at * MILLISECOND));
        }
        let mut mahimahi = Mahimahi::new(opportunities, limit);

        let mut ours = Vec::new();
        for (number, packet) in traffic.iter().enumerate() {
            let room = mahimahi.offer(number, packet.arrival, packet.bytes);
            match packet.decide(&mut direction) {
                Decision::Pass { release, alterations, copy: None } if room && alterations.is_none() => ours.push((number, release)),
                Decision::Drop(Cause::Queue) if !room => {}
                decision => prop_assert!(false, "{decision:?}, mahimahi had room: {room}"),
            }
            let waiting = direction.waiting(packet.arrival);
            prop_assert_eq!(waiting.packets, mahimahi.queue.len() as u64);
        }
        mahimahi.rationalize(Nanos::MAX);
        // A trace whose phase is shorter than its period may have its opportunities when another phase is on.
        prop_assume!(mahimahi.queue.is_empty() && mahimahi.in_transit.is_none());
        prop_assert_eq!(ours, mahimahi.delivered);
    }
}

/// Full-sized packets that wait all the time leave at the trace's times, one at each, over any number of periods.
#[test]
fn backlogged_trace_delivers_a_full_packet_each_time() {
    let times = [0, 0, 3, 7, 7, 7, 20];
    let text: String = times.iter().map(|at| format!("{at}\n")).collect();
    let trace = Some(Arc::new(Trace::parse(&text).unwrap()));
    let mut direction = Direction::new(&Impairments { trace, ..Impairments::default() }.into(), forward(1));
    let zero = 1_234_567_890_123;
    direction.start_clock(zero);
    let flow = direction.flow(&udp(5000));
    let expected = (0..1000).flat_map(|round| times.map(|at| zero + (20 * round + at) * MILLISECOND));
    for (packet, expected) in expected.enumerate() {
        // All arrive before time 0, which opens the trace.
        let Decision::Pass { release, .. } = direction.decide(flow, zero - 1, 1500) else { panic!("packet {packet}") };
        if packet == 0 {
            assert_eq!(release.checked_sub(zero - 1), Some(release - zero + 1));
        }
        assert_eq!(release, expected, "packet {packet}");
    }
}

#[test]
fn small_packets_share_an_opportunity_and_large_ones_take_several() {
    let trace = Some(Arc::new(Trace::parse("10").unwrap()));
    let mut direction = Direction::new(&Impairments { trace, ..Impairments::default() }.into(), forward(1));
    direction.start_clock(0);
    let flow = direction.flow(&udp(5000));
    let mut release = |arrival, bytes| match direction.decide(flow, arrival * MILLISECOND, bytes) {
        Decision::Pass { release, .. } => release / MILLISECOND,
        drop => panic!("{drop:?}"),
    };
    // 3 x (496 + 4) and 4 bytes left, of which the next takes its first; then 2 x 1504 more and 1 byte.
    assert_eq!([496, 496, 496, 3009].map(|bytes| release(0, bytes)), [10, 10, 10, 40]);
    assert_eq!([release(5, 1499), release(5, 1)], [40, 50]);
    assert_eq!(release(100, 1500), 110, "the opportunity of its arrival is missed");
    assert_eq!(release(119, 1500), 120, "what nobody waited for is lost");
}

/// Periods are whole nanoseconds, so that a year later the opportunities are where they should be, and found at once.
#[test]
fn years_of_silence_cost_no_time_and_no_drift() {
    let trace = Some(Arc::new(Trace::parse("1\n3\n7").unwrap()));
    let mut direction = Direction::new(&Impairments { trace, ..Impairments::default() }.into(), forward(1));
    direction.start_clock(500);
    let flow = direction.flow(&udp(5000));
    for year in 1..500u64 {
        let periods = year * 365 * 24 * 3600 * 1000 / 7;
        let arrival = 500 + periods * 7 * MILLISECOND + 2 * MILLISECOND;
        let decision = direction.decide(flow, arrival, 1500);
        assert_eq!(
            decision,
            Decision::Pass { release: arrival + MILLISECOND, alterations: Alterations::default(), copy: None }
        );
    }
}
