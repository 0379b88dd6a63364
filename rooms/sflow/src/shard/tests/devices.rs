//! Devices as they are, with bytes made for it: what the analyser and the room that protects are told.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weir_detect::queue::Listed;
use weir_protect::model::{Why, Word};
use weir_protect::room::{Inlet, News, queue};
use weir_testbed::random::Source as Random;
use weir_wire::sflow::encode::{self, Counters, Flow, Header};
use weir_wire::sflow::{DataFormat, DataSource, Interface};

use crate::config::Settings;
use crate::events::Log;
use crate::fate::Fate;
use crate::flows::{Definition, Estimate};
use crate::names::Lookups;
use crate::shard::{Now, Shard};

const AGENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const START: u64 = 1_000_000_000_000;
const SECOND: u64 = 1_000_000_000;
const PORT: DataSource = DataSource { class: 0, index: 3 };
const HERE: Interface = Interface::Index(3);
const THERE: Interface = Interface::Index(4);

/// A shard, what it tells, and the time.
struct Scene {
    shard: Shard,
    inlet: Inlet,
    port: u16,
    ms: u64,
    passed: u32,
    words: Vec<Word>,
    contested: Vec<Why>,
}

/// What samples packets at a data source.
struct Sampling {
    source: DataSource,
    ways: (Interface, Interface),
    rate: u32,
    number: u32,
    pool: u32,
    /// Another pool that some of its samples are of; 0: none.
    second: u32,
}

impl Sampling {
    fn new(source: DataSource, input: Interface, output: Interface) -> Self {
        Self { source, ways: (input, output), rate: 100, number: 0, pool: 0, second: 0 }
    }

    fn next(&mut self, passed: u32) -> Flow {
        self.number += 1;
        if self.second != 0 && self.number % 3 == 1 {
            std::mem::swap(&mut self.pool, &mut self.second);
        }
        self.pool = self.pool.wrapping_add(passed);
        let Self { source, ways: (input, output), rate, number, pool, .. } = *self;
        let (sampling_rate, sample_pool, sequence) = (rate, pool, number);
        Flow { sequence, source, sampling_rate, sample_pool, drops: 0, input, output, expanded: false }
    }
}

impl Scene {
    fn new() -> Self {
        Self::of("")
    }

    fn of(configuration: &str) -> Self {
        let settings = Settings::read("a file", configuration).unwrap();
        let mut shard = Shard::new(
            &settings.config.limits,
            (0, 1),
            Arc::<Lookups>::default(),
            Arc::new(Log::new(10)),
            Now::default(),
        );
        let network = "192.0.2.0/24".parse().unwrap();
        let (mut outlet, inlet) = queue(4_096, &[network], Arc::default());
        outlet.listen(Arc::new(Listed::new([(AGENT.into(), None)], 60 * SECOND)));
        shard.protect(outlet);
        let definition = Definition { value: "frames".into(), keys: "ipdestination".into(), t: 5.0, ..<_>::default() };
        let checked = Arc::new(definition.check().unwrap());
        shard.define(Now::default(), |flows, now| flows.define("all", checked, now));
        Self { shard, inlet, port: 6343, ms: 0, passed: 0, words: Vec::new(), contested: Vec::new() }
    }

    fn now(&self) -> Now {
        let nanos = START + self.ms * 1_000_000;
        Now { nanos, unix_ms: nanos / 1_000_000 }
    }

    /// A datagram comes from a port, with samples of packets of 500 bytes, and counters of `(index, packets in)`.
    fn send(&mut self, port: u16, sequence: u32, flows: &[Flow], counted: &[(u32, u32)]) -> Fate {
        let mut bytes = Vec::new();
        let uptime = 77 + self.ms as u32;
        let mut samples = encode::datagram(&mut bytes, &Header { agent: AGENT, sub_agent: 0, sequence, uptime });
        for flow in flows {
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
            frame.extend([0x45, 0, 1, 230, 0, 1, 0, 0, 64, 17, 0, 0, 203, 0, 113, 9, 192, 0, 2, 7]);
            frame.extend([0, 53, 4, 0, 1, 210, 0, 0]);
            frame.resize(64, 0);
            let words = [1, 500, 4, frame.len() as u32].map(u32::to_be_bytes).concat();
            samples.flow(flow).raw(DataFormat { enterprise: 0, format: 1 }, &[words, frame].concat());
        }
        for &(index, packets) in counted {
            let octets = u64::from(packets) * 500;
            // Speed 10 Mbit/s; octets and unicasts in, multicasts and broadcasts are not counted; nothing out.
            let interface = [index, 6, 0, 10_000_000, 1, 3, (octets >> 32) as u32, octets as u32, packets];
            let words: Vec<u32> = interface.into_iter().chain([u32::MAX; 2]).chain([0; 11]).collect();
            let body: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
            let source = DataSource { class: 0, index };
            let of = Counters { sequence: 1, source, expanded: false };
            samples.counters(&of).raw(DataFormat { enterprise: 0, format: 1 }, &body);
        }
        let fate = self.shard.datagram(&bytes, SocketAddr::new(AGENT, port), self.now());
        let Self { inlet, words, contested, .. } = self;
        inlet.take(4_096, u64::MAX, |news| match news {
            News::Seen(seen) => words.push(seen.sighting().word),
            News::Contested(told) => contested.push(told.why),
            News::Alive(_) => {}
        });
        fate
    }

    /// Packets a second, and whether they are known within bounds.
    fn rate(&self) -> (f64, bool) {
        let scan = self.shard.scan("all", self.now()).unwrap();
        let mut sum = 0.0;
        let mut is_known = true;
        scan.slice(0, 100, |flow| {
            let Estimate { value, high, .. } = flow.estimate().unwrap();
            sum += value;
            is_known &= high.is_finite();
        });
        (sum, is_known)
    }
}

/// Ten datagrams a second for so long, with the samples of 2,000 packets each second, and counters each 20 s of what passed.
fn run(scene: &mut Scene, samplings: &mut [Sampling], seconds: u64, counters: &[u32], true_share: f64) {
    let mut random = Random::drawn();
    let begun = scene.ms / 100;
    for turn in begun..begun + seconds * 10 {
        scene.ms = turn * 100;
        let mut flows = Vec::new();
        for _ in 0..2 * samplings.len() {
            let one = &mut samplings[random.number(0..samplings.len() as u64) as usize];
            flows.push(one.next(100));
            scene.passed += (100.0 * true_share) as u32;
        }
        let counted: Vec<_> = counters.iter().map(|&index| (index, scene.passed)).collect();
        let fate = scene.send(scene.port, turn as u32 + 1, &flows, if turn % 200 == 0 { &counted } else { &[] });
        assert_eq!(fate, Fate::Analysed);
    }
}

/// Strangers fill the table; they go for an agent that is listed, which does not go for them.
#[test]
fn listed_agents_have_room_before_others() {
    let mut scene = Scene::of("[limits]\nagents = 2");
    let stranger = |scene: &mut Scene, last: u8, sequence: u32| {
        let mut bytes = Vec::new();
        let agent = IpAddr::from([10, 66, 0, last]);
        let _ = encode::datagram(&mut bytes, &Header { agent, sub_agent: 0, sequence, uptime: 77 });
        scene.shard.datagram(&bytes, SocketAddr::new(agent, 6343), scene.now())
    };
    for (last, sequence) in [1, 2].into_iter().flat_map(|last| (1..=8).map(move |sequence| (last, sequence))) {
        assert_eq!(stranger(&mut scene, last, sequence), Fate::Analysed);
    }
    assert_eq!(stranger(&mut scene, 3, 1), Fate::NoRoom);
    for sequence in 1..=8 {
        assert_eq!(scene.send(6343, sequence, &[], &[]), Fate::Analysed);
    }
    let fates: Vec<_> = (1..=3).map(|last| stranger(&mut scene, last, 9)).collect();
    assert_eq!(fates.iter().filter(|fate| **fate == Fate::Analysed).count(), 1, "{fates:?}");
    assert_eq!(scene.send(6343, 9, &[], &[]), Fate::Analysed);
}

#[test]
fn samples_of_a_bridge_are_compared_with_the_counters_of_its_ports() {
    let mut scene = Scene::new();
    let bridge = DataSource { class: 2, index: 1_000 };
    run(&mut scene, &mut [Sampling::new(bridge, HERE, THERE)], 150, &[3, 4], 1.0);
    let after = scene.words.len() * 2 / 3;
    assert!(scene.words[after..].iter().all(|word| *word == Word::Good), "{:?}", scene.words.last());
    assert_eq!((scene.contested, scene.words[0]), (vec![], Word::Uncounted));
}

/// As hsflowd, pmacct and containers do: what it tells is tested at once, and waits for a person until it has settled.
#[test]
fn an_agent_that_restarts_with_another_port_is_heard_at_once() {
    let mut scene = Scene::new();
    let mut samplings = [Sampling::new(PORT, HERE, THERE)];
    run(&mut scene, &mut samplings, 80, &[3], 1.0);
    scene.words.clear();
    (scene.port, scene.ms) = (7_000, 80_000);
    run(&mut scene, &mut samplings, 80, &[3], 1.0);
    assert_eq!(scene.words.len(), 1_600);
    scene.words.dedup();
    assert_eq!((scene.words, scene.contested), (vec![Word::Uncounted, Word::New, Word::Good], vec![]));
}

#[test]
fn samples_without_counters_are_uncounted_and_those_that_exceed_them_are_contested() {
    let mut scene = Scene::new();
    run(&mut scene, &mut [Sampling::new(PORT, HERE, THERE)], 100, &[], 1.0);
    assert_eq!(scene.words.last(), Some(&Word::Uncounted));
    let mut scene = Scene::new();
    run(&mut scene, &mut [Sampling::new(PORT, HERE, THERE)], 120, &[3], 0.2);
    assert_eq!((scene.words.last(), scene.contested), (Some(&Word::Counters), vec![Why::Counters]));
    let mut scene = Scene::new();
    run(&mut scene, &mut [Sampling::new(PORT, HERE, THERE)], 120, &[3], 5.0);
    assert_eq!((scene.words.last(), &scene.contested[..]), (Some(&Word::Good), &[Why::Short][..]));
    assert!(!scene.rate().1, "an interval would not have the truth");
}

/// Ways in and out are sampled each for itself, with pools and numbers apart: each way counts.
#[test]
fn either_way_has_a_sampler_of_its_own() {
    let mut scene = Scene::new();
    let mut egress = Sampling::new(PORT, THERE, HERE);
    (egress.number, egress.pool) = (70_000, 500_000_000);
    run(&mut scene, &mut [Sampling::new(PORT, HERE, THERE), egress], 60, &[], 1.0);
    let (rate, is_known) = scene.rate();
    assert!((3_000.0..5_000.0).contains(&rate) && is_known, "{rate}");
}

/// Two that sample the same way with a pool each, their numbers apart or in common: the estimate is near the truth, or says that it is contradicted.
#[test]
fn two_pools_of_one_way_make_up_no_traffic() {
    let one = || Sampling::new(PORT, HERE, THERE);
    let cases = [
        (vec![one(), Sampling { number: 70_000, pool: 500_000_000, ..one() }], 4_000.0),
        (vec![one(), one()], 4_000.0),
        (vec![Sampling { second: 500_000_000, ..one() }], 2_000.0),
        (vec![Sampling { second: 30_000_000, ..one() }], 2_000.0),
    ];
    for (case, (mut samplings, truth)) in cases.into_iter().enumerate() {
        let mut scene = Scene::new();
        let truthful = |scene: &Scene| {
            let (rate, is_known) = scene.rate();
            (0.75..1.25).contains(&(rate / truth)) || !is_known
        };
        run(&mut scene, &mut samplings, 220, &[3], 1.0);
        if !truthful(&scene) {
            // Samples and counters are compared over three polling intervals at least.
            scene.ms = 220_000;
            run(&mut scene, &mut samplings, 80, &[3], 1.0);
        }
        assert!(truthful(&scene), "{case}: {:?}", scene.rate());
    }
}

#[test]
fn the_pool_counts_whatever_rate_is_told() {
    for rate in [0, 800, 2_000_000] {
        let mut scene = Scene::new();
        let mut sampling = Sampling::new(PORT, HERE, THERE);
        sampling.rate = rate;
        run(&mut scene, &mut [sampling], 120, &[], 1.0);
        let (value, is_known) = scene.rate();
        assert!((1_500.0..2_500.0).contains(&value) && is_known, "told {rate}: {value}");
    }
}

/// Many senders behind one agent address, begun at once: all are analysed, and for protection nobody knows who the agent is.
#[test]
fn senders_behind_one_address_are_all_analysed() {
    let mut scene = Scene::new();
    let mut samplings: Vec<_> = (0..20).map(|_| Sampling::new(PORT, HERE, THERE)).collect();
    for turn in 1..=400 {
        scene.ms += 100;
        for (port, sampling) in (1..).zip(&mut samplings) {
            assert_eq!(scene.send(port, turn, &[sampling.next(100)], &[]), Fate::Analysed);
        }
    }
    let (rate, _) = scene.rate();
    assert!((18_000.0..22_000.0).contains(&rate), "{rate}");
    assert_eq!(scene.words.last(), Some(&Word::Contested));
    let fates: Vec<_> = (100..200).map(|port| scene.send(port, 1, &[], &[])).collect();
    assert_eq!(fates.iter().filter(|fate| **fate == Fate::Crowded).count(), 100 - 44);
}
