//! What holds for any settings and any traffic.

use proptest::prelude::*;

use super::*;

proptest! {
    /// Each packet has one fate, and only what was made is counted: the ledger closes.
    #[test]
    fn every_packet_is_accounted_for(impairments in any_impairments(), traffic in any_traffic(), seed: u64) {
        let mut direction = Direction::new(&impairments.clone().into(), forward(seed));
        let (mut delivered, mut copies, mut lost, mut queue_dropped) = (0u64, 0u64, 0u64, 0u64);
        for packet in &traffic {
            match packet.decide(&mut direction) {
                Decision::Drop(Cause::Loss) => lost += 1,
                Decision::Drop(Cause::Queue) => queue_dropped += 1,
                Decision::Pass { release, copy, .. } => {
                    prop_assert!(release >= packet.arrival + nanos(impairments.delay));
                    prop_assert!(copy.is_none_or(|copy| copy >= packet.arrival + nanos(impairments.delay)));
                    delivered += 1;
                    copies += u64::from(copy.is_some());
                }
            }
        }
        prop_assert_eq!(traffic.len() as u64, delivered + lost + queue_dropped);
        let listed: usize = direction.drops().iter().map(|flow| flow.indexes.len()).sum();
        prop_assert_eq!(listed as u64, lost);
        let counted: u64 = direction.drops().iter().map(|flow| flow.packets).sum();
        prop_assert_eq!(counted, traffic.len() as u64);
        prop_assert!(is_limited(&impairments) || queue_dropped == 0);
        prop_assert!(impairments.duplicate > 0.0 || copies == 0);
        if impairments.duplicate == 1.0 && !is_limited(&impairments) {
            prop_assert_eq!(copies, delivered);
        }
    }

    /// Releases decrease only where the direction says that they may.
    #[test]
    fn order_is_kept(impairments in any_impairments(), traffic in any_traffic(), seed: u64) {
        let mut direction = Direction::new(&impairments.clone().into(), forward(seed));
        let mut releases = Vec::new();
        for packet in &traffic {
            if packet.control {
                releases.push(direction.control(packet.arrival));
            } else if let Some(release) = packet.pass_run(&mut direction) {
                releases.push(release);
            } else if let Decision::Pass { release, copy, .. } = packet.decide(&mut direction) {
                releases.push(release);
                releases.extend(copy);
            }
        }
        prop_assert!(!direction.keeps_order() || releases.is_sorted(), "{releases:?}");
    }

    /// Neither time nor size nor any other impairment has a say in what is lost.
    #[test]
    fn same_key_loses_the_same(
        impairments in any_impairments(), other in any_impairments(), traffic in any_traffic(),
        arrivals in prop::collection::vec(any::<u32>(), 80), seed: u64,
    ) {
        let other = Impairments { loss: impairments.loss.clone(), ..other };
        let mut first = Direction::new(&impairments.clone().into(), forward(seed));
        let mut second = Direction::new(&other.clone().into(), forward(seed));
        for (packet, &arrival) in traffic.iter().zip(&arrivals) {
            packet.decide(&mut first);
            let elsewhen = Packet { arrival: u64::from(arrival), bytes: arrival % 1400 + 28, ..*packet };
            elsewhen.decide(&mut second);
            second.control(elsewhen.arrival);
        }
        let planned = |direction: &Direction| -> Vec<FlowDrops> {
            direction.drops().into_iter().map(|flow| FlowDrops { queue_dropped: 0, ..flow }).collect()
        };
        prop_assert_eq!(planned(&first), planned(&second));
    }

    /// A run that ends earlier loses a prefix of what the longer one loses.
    #[test]
    fn shorter_run_loses_a_prefix(impairments in any_impairments(), traffic in any_traffic(), cut: prop::sample::Index, seed: u64) {
        let losses = |traffic: &[Packet]| {
            let mut direction = Direction::new(&impairments.clone().into(), forward(seed));
            for packet in traffic {
                packet.decide(&mut direction);
            }
            direction.drops()
        };
        let (shorter, longer) = (losses(&traffic[..cut.index(traffic.len())]), losses(&traffic));
        for (shorter, longer) in shorter.iter().zip(&longer) {
            prop_assert_eq!(shorter.flow, longer.flow);
            prop_assert!(longer.indexes.starts_with(&shorter.indexes));
            let late = longer.indexes.get(shorter.indexes.len());
            prop_assert!(late.is_none_or(|&index| index >= shorter.packets));
        }
    }

    /// What else is on the link has no say in what a flow loses.
    #[test]
    fn flows_do_not_disturb_one_another(loss in any_loss(), traffic in any_traffic(), seed: u64) {
        let mut together = Direction::new(&only_loss(loss.clone()).into(), forward(seed));
        for packet in &traffic {
            packet.decide(&mut together);
        }
        for flow in together.drops() {
            let mut alone = Direction::new(&only_loss(loss.clone()).into(), forward(seed));
            for packet in traffic.iter().filter(|packet| udp(packet.port) == flow.flow) {
                packet.decide(&mut alone);
            }
            prop_assert_eq!(alone.drops(), vec![flow]);
        }
    }

    /// Another kernel, other ephemeral ports: the flows are told apart by their order, and lose the same.
    #[test]
    fn ephemeral_ports_do_not_matter(loss in any_loss(), order in prop::collection::vec(0..3usize, 1..80), seed: u64) {
        let losses = |ports: [u16; 3]| {
            let mut direction = Direction::new(&only_loss(loss.clone()).into(), forward(seed));
            for &flow in &order {
                let flow = direction.flow(&udp(ports[flow]));
                direction.decide(flow, 0, 100);
            }
            direction.drops().into_iter().map(|flow| (flow.identity, flow.indexes)).collect::<Vec<_>>()
        };
        prop_assert_eq!(losses([32_768, 40_000, 60_999]), losses([51_234, 33_333, 40_000]));
    }

    /// Passing a run at once is the same as passing its packets one by one.
    #[test]
    fn run_passes_like_its_packets(impairments in any_impairments(), traffic in any_traffic(), seed: u64) {
        let mut in_runs = Direction::new(&impairments.clone().into(), forward(seed));
        let mut one_by_one = in_runs.clone();
        for packet in &traffic {
            match packet.pass_run(&mut in_runs) {
                Some(release) => {
                    let pass = Decision::Pass { release, alterations: Alterations::default(), copy: None };
                    for _ in 0..packet.segments() {
                        prop_assert_eq!(packet.decide(&mut one_by_one), pass);
                    }
                }
                None => prop_assert_eq!(packet.decide(&mut in_runs), packet.decide(&mut one_by_one)),
            }
        }
        prop_assert_eq!(in_runs.drops(), one_by_one.drops());
    }

    /// Stamps that go backwards count as the latest; at the end of time nothing overflows.
    #[test]
    fn any_arrival_is_survived(
        impairments in any_impairments(), arrivals in prop::collection::vec(any::<u64>(), 1..40), seed: u64,
    ) {
        let mut direction = Direction::new(&impairments.clone().into(), forward(seed));
        let mut clamped = direction.clone();
        let flow = direction.flow(&udp(5000));
        clamped.flow(&udp(5000));
        let mut latest = 0;
        for &arrival in arrivals.iter().chain(&[u64::MAX, 0]) {
            latest = latest.max(arrival);
            prop_assert_eq!(direction.decide(flow, arrival, u32::MAX), clamped.decide(flow, latest, u32::MAX));
            prop_assert_eq!(direction.control(arrival), clamped.control(latest));
            prop_assert_eq!(direction.waiting(latest), clamped.waiting(latest));
        }
    }

    /// Settings that `validate` would refuse still do not panic.
    #[test]
    fn nonsense_does_not_panic(shares in any::<[f64; 6]>(), traffic in any_traffic()) {
        let [to_bad, to_good, good, bad, duplicate, share] = shares;
        let forever = Duration::MAX;
        let impairments = Impairments {
            loss: Loss::GilbertElliott { to_bad, to_good, good, bad },
            delay: forever,
            variation: Some(Variation { distribution: Distribution::Normal(forever, forever), order: Order::Reorder }),
            rate: Some(Rate { bits_per_second: 0, burst_bytes: u64::MAX }),
            trace: Trace::parse("1").ok().map(Arc::new),
            queue: QueueLimit::Bytes(u64::MAX),
            duplicate,
            alterations: Alterations::each(|_| share),
            reorder: Some(Reorder { probability: f64::INFINITY, by: forever }),
        };
        let mut direction = Direction::new(&impairments.clone().into(), forward(0));
        for packet in &traffic {
            packet.decide(&mut direction);
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) port: u16,
    pub(super) arrival: Nanos,
    pub(super) bytes: u32,
    pub(super) control: bool,
}

impl Packet {
    pub(super) fn decide(&self, direction: &mut Direction) -> Decision {
        let flow = direction.flow(&udp(self.port));
        direction.decide(flow, self.arrival, self.bytes)
    }

    pub(super) fn pass_run(&self, direction: &mut Direction) -> Option<Nanos> {
        let flow = direction.flow(&udp(self.port));
        direction.pass_run(flow, self.arrival, self.segments())
    }

    pub(super) fn segments(&self) -> u32 {
        self.bytes % 45 + 1
    }
}

pub(super) fn any_traffic() -> impl Strategy<Value = Vec<Packet>> {
    let gap = prop_oneof![Just(0), 1..10_000u64, 1..100 * MILLISECOND];
    let step = (5000..5003u16, gap, 28..=1500u32, prop::bool::weighted(0.1));
    prop::collection::vec(step, 1..80).prop_map(|steps| {
        let arrive = |now: &mut Nanos, (port, gap, bytes, control)| {
            *now += gap;
            Some(Packet { port, arrival: *now, bytes, control })
        };
        steps.into_iter().scan(0, arrive).collect()
    })
}

pub(super) fn any_impairments() -> impl Strategy<Value = Impairments> {
    let delays = (any_delay(), prop::option::of(any_variation()), prop::option::of(any_reorder()));
    let shaper = (any_capacity(), any_queue());
    (any_loss(), delays, shaper, any_share(), any_alterations()).prop_map(
        |(loss, (delay, variation, reorder), ((rate, trace), queue), duplicate, alterations)| {
            let impairments =
                Impairments { loss, delay, variation, rate, trace, queue, duplicate, alterations, reorder };
            assert_eq!(impairments.validate(), Ok(()));
            impairments
        },
    )
}

fn any_alterations() -> impl Strategy<Value = Alterations<Probability>> {
    prop::collection::vec(any_share(), Alteration::ALL.len())
        .prop_map(|shares| Alterations::each(|kind| shares[kind as usize]))
}

fn any_capacity() -> impl Strategy<Value = (Option<Rate>, Option<Arc<Trace>>)> {
    prop_oneof![
        Just((None, None)),
        any_rate().prop_map(|rate| (Some(rate), None)),
        any_trace().prop_map(|(trace, _)| (None, Some(trace))),
    ]
}

/// A trace, and the times it was made of in milliseconds.
pub(super) fn any_trace() -> impl Strategy<Value = (Arc<Trace>, Vec<u64>)> {
    let gap = prop_oneof![3 => Just(0), 3 => 1..4u64, 1 => 1..200u64];
    (prop::collection::vec(gap, 0..20), 1..10u64).prop_map(|(gaps, last)| {
        let mut at = 0;
        let mut times: Vec<u64> = Vec::new();
        for gap in gaps.into_iter().chain([last]) {
            at += gap;
            times.push(at);
        }
        let text: String = times.iter().map(|at| format!("{at}\n")).collect();
        (Arc::new(Trace::parse(&text).expect("ascending")), times)
    })
}

fn is_limited(impairments: &Impairments) -> bool {
    impairments.rate.is_some() || impairments.trace.is_some()
}

fn any_share() -> impl Strategy<Value = Probability> {
    prop_oneof![3 => Just(0.0), 1 => Just(1.0), 3 => 0.0..1.0]
}

pub(super) fn any_loss() -> impl Strategy<Value = Loss> {
    let chain = (any_share(), any_share(), any_share(), any_share());
    prop_oneof![
        Just(Loss::None),
        any_share().prop_map(Loss::Bernoulli),
        chain.prop_map(|(to_bad, to_good, good, bad)| Loss::GilbertElliott { to_bad, to_good, good, bad }),
        prop::collection::vec(0..80u64, 0..20).prop_map(Loss::List),
    ]
}

fn any_delay() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(Duration::ZERO), (0..200 * MILLISECOND).prop_map(Duration::from_nanos)]
}

fn any_variation() -> impl Strategy<Value = Variation> {
    let distribution = prop_oneof![
        any_delay().prop_map(Distribution::Uniform),
        (any_delay(), any_delay()).prop_map(|(mean, deviation)| Distribution::Normal(mean, deviation)),
        any_delay().prop_map(Distribution::Exponential),
    ];
    let order = prop_oneof![Just(Order::Keep), Just(Order::Reorder)];
    (distribution, order).prop_map(|(distribution, order)| Variation { distribution, order })
}

fn any_reorder() -> impl Strategy<Value = Reorder> {
    (any_share(), any_delay()).prop_map(|(probability, by)| Reorder { probability, by })
}

pub(super) fn any_rate() -> impl Strategy<Value = Rate> {
    (10_000..1_000_000_000u64, prop_oneof![Just(0), 0..20_000u64])
        .prop_map(|(bits_per_second, burst_bytes)| Rate { bits_per_second, burst_bytes })
}

pub(super) fn any_queue() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        Just(QueueLimit::Unlimited),
        (0..5_000u64).prop_map(QueueLimit::Bytes),
        (0..5u64).prop_map(QueueLimit::Packets),
    ]
}

fn nanos(duration: Duration) -> Nanos {
    duration.as_nanos() as Nanos
}
