//! One direction of a link: the impairments in the order in which a packet meets them.

use super::delay::{CopyKind, Delay};
use super::flows::Flows;
use super::loss::LossProcess;
use super::random::{Chance, Purpose, StreamKey};
use super::shaper::{Capacity, Shaper};
use super::timetable::Timetable;
use super::{
    Alterations, Cause, Decision, FlowDrops, FlowHandle, FlowTuple, Impairments, Key, Nanos, Plan, QueueLimit, Waiting,
};

/// The state of one direction of an emulated link.
///
/// Its clock is that of the arrivals. They may go slightly backwards, like kernel stamps: an arrival before an earlier
/// one counts as simultaneous with it.
#[derive(Clone, Debug)]
pub struct Direction {
    /// The impairments of packets that arrive now, except for the delay.
    phase: Phase,
    delay: Delay,
    shaper: Option<Shaper>,
    flows: Flows,
    /// Latest arrival.
    now: Nanos,
    /// When the phase ends.
    changes_at: Nanos,
    phases: Box<[Phase]>,
    timetable: Timetable,
}

/// Prepared impairments; capacities are in the shaper.
#[derive(Clone, Debug)]
struct Phase {
    loss: LossProcess,
    duplicate: Chance,
    alterations: Alterations<Chance>,
    queue: QueueLimit,
    delay: Delay,
}

impl Phase {
    fn new(impairments: &Impairments) -> Self {
        Phase {
            loss: LossProcess::new(&impairments.loss),
            duplicate: Chance::new(impairments.duplicate),
            alterations: Alterations::each(|kind| Chance::new(impairments.alterations[kind])),
            queue: impairments.queue,
            delay: Delay::new(impairments),
        }
    }
}

impl Direction {
    /// A direction that no packet has passed. The plan should have passed [`Plan::validate`]; otherwise a probability
    /// counts as the nearest valid one, a rate of 0 as 1 bit/s, a rate besides a trace as none; steps are sorted by
    /// time, and those at or after the repetition ignored.
    pub fn new(plan: &Plan, key: Key) -> Self {
        let (phases, shaper, timetable) = ready(plan);
        let phase = phases[0].clone();
        Direction {
            delay: phase.delay.clone(),
            shaper,
            phase,
            flows: Flows::new(StreamKey::of(key)),
            now: 0,
            changes_at: Nanos::MAX,
            phases,
            timetable,
        }
    }

    /// Sets time 0 of the plan. Before it, the present impairments continue, which are the plan's first ones until the
    /// clock is first started; packets accepted before this call keep their release. Called again, the plan starts
    /// again.
    pub fn start_clock(&mut self, at: Nanos) {
        self.timetable.start(at);
        self.changes_at = at;
        if let Some(shaper) = &mut self.shaper {
            shaper.start(at);
        }
    }

    /// Follows another plan from `at` on, or from the last arrival if that is later; the old one's clock continues.
    /// Packets accepted before keep their release, and if order is kept none overtakes them; random sequences continue.
    pub fn change_plan(&mut self, plan: &Plan, at: Nanos) {
        let (phases, shaper, timetable) = ready(plan);
        self.now = self.now.max(at);
        self.timetable = timetable.on_clock_of(&self.timetable);
        let old = self.shaper.take();
        self.shaper = shaper.map(|shaper| shaper.in_place_of(old, &self.timetable, self.now));
        self.phases = phases;
        self.change();
    }

    /// Finds a flow, or adds it. Flows beyond 65,536 share one.
    #[inline]
    pub fn flow(&mut self, tuple: &FlowTuple) -> FlowHandle {
        self.flows.find(tuple)
    }

    /// Decides the fate of a flow's next packet. Called once per packet (not per super-packet), in order of arrival.
    ///
    /// `bytes` counts from the IP header on. A copy takes its place in queue and rate right after the original; if the
    /// queue has no room for it, it is not made, and counts neither as duplicated nor as dropped.
    ///
    /// # Panics
    /// May panic if the flow is another direction's.
    #[inline]
    pub fn decide(&mut self, flow: FlowHandle, arrival: Nanos, bytes: u32) -> Decision {
        let now = self.advance(arrival);
        let state = self.flows.get(flow);
        let (key, index) = (state.key, state.packets);
        state.packets += 1;
        if self.phase.loss.loses(&mut state.loss, key, index) {
            self.flows.record_drop(flow, index);
            return Decision::Drop(Cause::Loss);
        }
        let Some(sent) = self.shape(now, bytes) else {
            self.flows.get(flow).queue_dropped += 1;
            return Decision::Drop(Cause::Queue);
        };
        let release = self.delay.release(sent, key, index, CopyKind::Original);
        let copied = self.phase.duplicate.hits(key, Purpose::Duplicate, index);
        let copy_sent = if copied { self.shape(now, bytes) } else { None };
        let copy = copy_sent.map(|sent| self.delay.release(sent, key, index, CopyKind::Copy));
        let alterations = Alterations::each(|kind| {
            let hit = self.phase.alterations[kind].hits(key, Purpose::Alteration(kind), index);
            hit.then(|| key.draw(Purpose::Choice(kind), index))
        });
        Decision::Pass { release, alterations, copy }
    }

    /// When a control packet (ARP, ND, IGMP, MLD) leaves. It is never dropped, uses no rate, and has no flow; it does
    /// not overtake earlier packets, unless the direction [keeps no order](Self::keeps_order).
    pub fn control(&mut self, arrival: Nanos) -> Nanos {
        let now = self.advance(arrival);
        self.delay.plain(now)
    }

    /// When the flow's next `segments` packets leave, all together. `None`: each must be [decided](Self::decide)
    /// separately; then only the clock has advanced.
    /// # Panics
    /// May panic if the flow is another direction's.
    #[inline]
    pub fn pass_run(&mut self, flow: FlowHandle, arrival: Nanos, segments: u32) -> Option<Nanos> {
        let now = self.advance(arrival);
        if !self.treats_all_alike(now) {
            return None;
        }
        self.flows.get(flow).packets += u64::from(segments);
        Some(self.delay.plain(now))
    }

    /// Min time from a packet's arrival to its release, in any phase of the plan.
    pub fn least_delay(&self) -> Nanos {
        self.phases.iter().map(|phase| phase.delay.constant()).min().unwrap_or(0)
    }

    /// Whether releases, including those of copies and control packets, never decrease, in any phase of the plan or
    /// between phases. If not, waiting packets need a heap instead of a queue.
    pub fn keeps_order(&self) -> bool {
        self.phases.iter().all(|phase| phase.delay.keeps_order())
    }

    /// Every flow with its planned drops, in order of appearance. At most 100,000 per flow and 1,000,000 in all are
    /// listed; see [`FlowDrops::complete`].
    pub fn drops(&self) -> Vec<FlowDrops> {
        self.flows.drops()
    }

    /// Flows that found the table full and share one drop pattern. Counts up to 2^20.
    pub fn unlisted_flows(&self) -> u64 {
        self.flows.unlisted()
    }

    /// The shaper's backlog at `time`, which must not be before the last arrival.
    pub fn waiting(&self, time: Nanos) -> Waiting {
        self.shaper.as_ref().map_or(Waiting::default(), |shaper| shaper.waiting(time))
    }

    #[inline]
    fn advance(&mut self, arrival: Nanos) -> Nanos {
        self.now = self.now.max(arrival);
        if self.now >= self.changes_at {
            self.change();
        }
        self.now
    }

    /// Enters the phase of the latest arrival.
    #[cold]
    fn change(&mut self) {
        let stay = self.timetable.at(self.now);
        self.phase = self.phases[stay.phase].clone();
        self.delay.change_to(&self.phase.delay);
        if let Some(shaper) = &mut self.shaper {
            shaper.enter(stay.phase, self.phase.queue);
        }
        self.changes_at = stay.ends;
    }

    #[inline]
    fn shape(&mut self, now: Nanos, bytes: u32) -> Option<Nanos> {
        match &mut self.shaper {
            None => Some(now),
            Some(shaper) => shaper.offer(&self.timetable, now, bytes),
        }
    }

    #[inline]
    fn treats_all_alike(&self, now: Nanos) -> bool {
        self.shaper.as_ref().is_none_or(|shaper| shaper.lets_all_pass(now))
            && self.phase.loss.is_none()
            && self.phase.duplicate.is_never()
            && self.phase.alterations.iter().all(|(_, chance)| chance.is_never())
            && self.delay.is_constant()
    }
}

/// The phases of a plan in the order of their times, their capacities, and their times.
fn ready(plan: &Plan) -> (Box<[Phase]>, Option<Shaper>, Timetable) {
    let (order, timetable) = Timetable::new(plan);
    let all: Vec<&Impairments> = plan.phases().collect();
    let phases: Box<[Phase]> = order.iter().map(|&phase| Phase::new(all[phase])).collect();
    let capacities = order.iter().map(|&phase| Capacity::of(all[phase])).collect();
    let shaper = Shaper::new(capacities, phases[0].queue);
    (phases, shaper, timetable)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use super::super::{Distribution, Loss, Order, QueueLimit, Rate, Reorder, Variation, Way};
    use super::*;

    /// 1000 bytes a millisecond, evenly spaced.
    const RATE: Option<Rate> = Some(Rate { bits_per_second: 8_000_000, burst_bytes: 0 });
    const MILLISECOND: Nanos = 1_000_000;
    const DELAY: Duration = Duration::from_millis(10);

    #[test]
    fn copy_takes_queue_and_rate_behind_its_original() {
        let mut link = Link::new(&Impairments { rate: RATE, duplicate: 1.0, ..Impairments::default() });
        assert_eq!(link.packet(0), passes(0, Some(1)));
        assert_eq!(link.packet(0), passes(2, Some(3)));
        assert_eq!(link.direction.waiting(0), Waiting { packets: 3, bytes: 3000 });
    }

    #[test]
    fn copy_without_room_is_not_made() {
        let queue = QueueLimit::Packets(1);
        let mut link = Link::new(&Impairments { rate: RATE, queue, duplicate: 1.0, ..Impairments::default() });
        assert_eq!(link.packet(0), passes(0, Some(1)));
        assert_eq!(link.packet(0), Decision::Drop(Cause::Queue));
        assert_eq!(link.packet(1), passes(2, None), "itself fills the queue");
        assert_eq!(link.packet(2), passes(3, None), "the copy that was not made took no rate");
    }

    #[test]
    fn lost_packet_takes_neither_rate_nor_queue() {
        let (loss, queue) = (Loss::List(vec![1, 2]), QueueLimit::Packets(1));
        let mut link = Link::new(&Impairments { loss, rate: RATE, queue, ..Impairments::default() });
        let fates = [0; 5].map(|arrival| link.packet(arrival));
        let (lost, no_room) = (Decision::Drop(Cause::Loss), Decision::Drop(Cause::Queue));
        assert_eq!(fates, [passes(0, None), lost, lost, passes(1, None), no_room]);
        let drops = &link.direction.drops()[0];
        assert_eq!((drops.packets, drops.lost, drops.queue_dropped), (5, 2, 1));
        let drops = &link.direction.drops()[0];
        assert_eq!((drops.packets, &drops.indexes[..]), (5, &[1, 2][..]), "what had no room is not planned");
    }

    #[test]
    fn control_packet_takes_no_rate_but_stays_in_order() {
        let mut link = Link::new(&Impairments { delay: DELAY, rate: RATE, ..Impairments::default() });
        assert_eq!(link.control(0), 10);
        assert_eq!([link.packet(0), link.packet(0)], [passes(10, None), passes(11, None)]);
        assert_eq!(link.control(0), 11, "behind what came before it");
        assert_eq!(link.packet(0), passes(12, None));
        assert_eq!(link.control(5), 15);
    }

    #[test]
    fn control_packet_is_neither_varied_nor_held() {
        let variation = Variation { distribution: Distribution::Uniform(DELAY), order: Order::Reorder };
        let reorder = Reorder { probability: 1.0, by: DELAY };
        let (variation, reorder) = (Some(variation), Some(reorder));
        let mut link = Link::new(&Impairments { delay: DELAY, variation, reorder, ..Impairments::default() });
        for arrival in 0..100 {
            link.packet(arrival);
            assert_eq!(link.control(arrival), arrival + 10);
        }
    }

    #[test]
    fn held_packet_is_overtaken() {
        let reorder = Some(Reorder { probability: 1.0, by: Duration::from_millis(5) });
        let mut link = Link::new(&Impairments { delay: DELAY, reorder, ..Impairments::default() });
        assert_eq!(link.packet(0), passes(15, None));
        assert_eq!(link.control(1), 11);
        assert!(!link.direction.keeps_order());
    }

    #[test]
    fn what_waits_keeps_its_turn_when_the_plan_is_changed() {
        let shaped = Impairments { delay: DELAY, rate: RATE, ..Impairments::default() };
        let mut link = Link::new(&shaped);
        assert_eq!([0; 3].map(|arrival| link.packet(arrival)), [10, 11, 12].map(|release| passes(release, None)));
        // Twice the rate: behind the packet that leaves the shaper at 2, which takes its time at the old rate.
        let fast = Impairments { rate: Some(Rate { bits_per_second: 16_000_000, burst_bytes: 0 }), ..shaped.clone() };
        link.direction.change_plan(&fast.clone().into(), MILLISECOND);
        assert_eq!(link.direction.waiting(MILLISECOND), Waiting { packets: 1, bytes: 1000 });
        let half = MILLISECOND / 2;
        let releases = [1; 3].map(|arrival| match link.packet(arrival) {
            Decision::Pass { release, .. } => release,
            dropped => panic!("{dropped:?}"),
        });
        assert_eq!(releases.map(|release| release / half), [25, 26, 27], "in halves of a millisecond");
        // Without delay and limit it does not overtake; what is lost from now on has the index that it would have had.
        let lossy = Impairments { loss: Loss::List(vec![7]), ..Impairments::default() };
        link.direction.change_plan(&lossy.into(), 2 * MILLISECOND);
        assert!(matches!(link.packet(2), Decision::Pass { release, .. } if release >= releases[2]));
        assert_eq!(link.packet(3), Decision::Drop(Cause::Loss));
    }

    #[test]
    fn a_changed_plan_goes_on_by_the_clock_of_the_old_one() {
        let mut link = Link::new(&Impairments::default());
        link.direction.start_clock(100 * MILLISECOND);
        let late = Impairments { delay: DELAY, ..Impairments::default() };
        let step = super::super::Step { after: Duration::from_millis(5), impairments: late };
        let plan = Plan { first: Impairments::default(), steps: vec![step], repeat: Some(Duration::from_millis(10)) };
        link.direction.change_plan(&plan, 103 * MILLISECOND);
        assert_eq!([104, 105, 110].map(|arrival| link.packet(arrival)), [104, 115, 115].map(|at| passes(at, None)));
    }

    #[test]
    fn settings_without_effect_let_runs_pass() {
        let variation =
            Variation { distribution: Distribution::Normal(Duration::ZERO, Duration::ZERO), order: Order::Reorder };
        let without_effect = Impairments {
            loss: Loss::Bernoulli(0.0),
            delay: DELAY,
            variation: Some(variation),
            reorder: Some(Reorder { probability: 0.5, by: Duration::ZERO }),
            queue: QueueLimit::Packets(0),
            ..Impairments::default()
        };
        let mut link = Link::new(&without_effect);
        assert!(link.direction.keeps_order());
        assert_eq!(link.direction.pass_run(link.flow, 5, 45), Some(5 + 10 * MILLISECOND));
        assert_eq!(link.direction.drops()[0].packets, 45);
    }

    /// A direction with one flow of packets of 1000 bytes, whose times are whole milliseconds.
    struct Link {
        direction: Direction,
        flow: FlowHandle,
    }

    impl Link {
        fn new(impairments: &Impairments) -> Self {
            let mut direction =
                Direction::new(&impairments.clone().into(), Key { seed: 1, link: 0, direction: Way::Forward });
            let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let flow = FlowTuple { protocol: Some(17), source: address, destination: address, ports: Some((1, 2)) };
            let flow = direction.flow(&flow);
            Link { direction, flow }
        }

        fn packet(&mut self, arrival: u64) -> Decision {
            self.direction.decide(self.flow, arrival * MILLISECOND, 1000)
        }

        fn control(&mut self, arrival: u64) -> u64 {
            self.direction.control(arrival * MILLISECOND) / MILLISECOND
        }
    }

    fn passes(release: u64, copy: Option<u64>) -> Decision {
        Decision::Pass {
            release: release * MILLISECOND,
            alterations: Alterations::default(),
            copy: copy.map(|copy| copy * MILLISECOND),
        }
    }
}
