//! Somebody reads an agent's datagrams and writes others in its name, with numbers, uptime and pool that fit: what is announced for what he
//! tells, and how long that stands.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use weir_protect::guard;
use weir_protect::room::{Engine, Inlet, queue};
use weir_wire::sflow::encode::{self, Counters, Flow, Header};
use weir_wire::sflow::{DataFormat, DataSource, Interface};

use crate::config::Config;
use crate::events::Log;
use crate::names::Lookups;
use crate::shard::{Now, Shard};

const AGENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
/// Of no group, and protected.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const VICTIM: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 8);
const START: u64 = 1_000_000_000_000;
/// One packet in so many is sampled.
const SAMPLING: u32 = 1_000;

/// A shard, and those who decide, in a time of their own.
struct Scene {
    shard: Shard,
    inlet: Inlet,
    engine: Engine,
    ms: u64,
}

/// What a datagram has in it.
struct Sent {
    sequence: u32,
    uptime: u32,
    /// Number of the first sample; the pool goes with it.
    first: u32,
    to: Vec<Ipv4Addr>,
    /// Packets that the interface has counted; `None`: no counters.
    counted: Option<u32>,
}

impl Scene {
    fn new(threshold: &str) -> Self {
        let text = format!(
            "[protect]\nmode = \"automatic\"\nagents = [\"10.0.0.1\"]\njournal = \"/tmp/journal\"\n\
             [protect.speaker]\ngobgp = \"127.0.0.1:50051\"\nnext_hop = \"203.0.113.1\"\n\
             [protect.groups.web]\nnetworks = [\"192.0.2.0/24\"]\nthresholds.udp_flood.packets = \"{threshold}/s\"\n"
        );
        let settings = Config::read("text", &text).unwrap().settings;
        let mut shard = Shard::new(&settings, 0, Arc::<Lookups>::default(), Arc::new(Log::new(10)), Now::default());
        let protect = settings.protect.clone().unwrap();
        let (outlet, inlet) = queue(4_096, &protect.protected(), Arc::default());
        shard.protect(outlet);
        Self { shard, inlet, engine: Engine::new(protect), ms: 0 }
    }

    /// Time passes, and a datagram comes.
    fn send(&mut self, ms: u64, sent: &Sent) {
        self.pass(ms);
        let mut bytes = Vec::new();
        let header = Header { agent: AGENT, sub_agent: 0, sequence: sent.sequence, uptime: sent.uptime };
        let mut samples = encode::datagram(&mut bytes, &header);
        let source = DataSource { class: 0, index: 3 };
        let interface_counters = DataFormat { enterprise: 0, format: 1 };
        for (&to, number) in sent.to.iter().zip(sent.first..) {
            let mut sample = samples.flow(&Flow {
                sequence: number,
                source,
                sampling_rate: SAMPLING,
                sample_pool: number.wrapping_mul(SAMPLING),
                drops: 0,
                input: Interface::Index(3),
                output: Interface::Index(4),
                expanded: false,
            });
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
            frame.extend([0x45, 0, 3, 218, 0, 1, 0, 0, 64, 17, 0, 0, 203, 0, 113, 9]);
            frame.extend(to.octets());
            frame.extend([0, 53, 4, 0, 3, 198, 0, 0]);
            frame.resize(64, 0);
            let words = [1, 1_000, 4, frame.len() as u32].map(u32::to_be_bytes).concat();
            sample.raw(DataFormat { enterprise: 0, format: 1 }, &[words, frame].concat());
        }
        if let Some(packets) = sent.counted {
            let octets = u64::from(packets) * 1_000;
            let [high, low] = [(octets >> 32) as u32, octets as u32];
            // Speed 10 Gbit/s; octets, unicasts, multicasts, broadcasts, discards, errors and unknown protocols in; nothing out.
            let interface = [3, 6, 2, 1_410_065_408, 1, 3, high, low, packets, 0, 0, 0, 0, 0];
            let words: Vec<u32> = interface.into_iter().chain([0; 8]).collect();
            let body: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
            samples
                .counters(&Counters { sequence: sent.sequence, source, expanded: false })
                .raw(interface_counters, &body);
        }
        let nanos = START + ms * 1_000_000;
        self.shard.datagram(&bytes, SocketAddr::new(AGENT, 6343), Now { nanos, unix_ms: nanos / 1_000_000 });
        self.decide();
    }

    fn pass(&mut self, until: u64) {
        while self.ms + 100 < until {
            self.ms += 100;
            self.decide();
        }
        self.ms = until;
    }

    fn decide(&mut self) {
        let Self { inlet, engine, ms, .. } = self;
        inlet.take(4_096, u64::MAX, |news| engine.take(news));
        let nanos = START + *ms * 1_000_000;
        engine.step(guard::Now { nanos, wall: UNIX_EPOCH + Duration::from_nanos(nanos) }, nanos);
    }

    fn is_announced(&self) -> bool {
        !self.engine.guard.wanted().is_empty()
    }
}

/// An agent that sends a datagram in so many seconds: whoever takes its next numbers is the agent until then.
#[test]
fn what_was_told_in_a_pause_of_a_quiet_agent_is_withdrawn_with_its_next_datagram() {
    for pause in [5, 10, 20, 30u32] {
        let mut scene = Scene::new("40k");
        let uptime = |ms: u64| 500_000 + ms as u32;
        let own = |turn: u32| {
            let uptime = uptime(u64::from(turn * pause) * 1_000);
            Sent {
                sequence: 5_000 + turn,
                uptime,
                first: 70 + turn,
                to: vec![ELSEWHERE],
                counted: Some(turn * SAMPLING),
            }
        };
        for turn in 0..12 {
            scene.send(u64::from(turn * pause) * 1_000, &own(turn));
        }
        let began = u64::from(11 * pause) * 1_000 + 1_000;
        for turn in 0..10 {
            let ms = began + u64::from(turn) * 60;
            let to = vec![VICTIM; 20];
            let forged = Sent { sequence: 5_012 + turn, uptime: uptime(ms), first: 82 + 20 * turn, to, counted: None };
            scene.send(ms, &forged);
        }
        scene.pass(began + 1_500);
        assert!(scene.is_announced(), "{pause} s: nobody knows yet");
        let next = u64::from(12 * pause) * 1_000;
        scene.pass(next - 1);
        assert!(scene.is_announced(), "{pause} s");
        scene.send(next, &own(12));
        assert!(!scene.is_announced(), "{pause} s: it is found out");
        let whys: Vec<_> = scene.engine.guard.take_entries().into_iter().map(|entry| entry.why).collect();
        assert!(whys.iter().any(|why| why.contains("one datagram came with two contents")), "{whys:?}");
    }
}

/// One burst ahead of the agent's own numbers, by so many, in one leap or in two: its own next datagram, that fits in no stream or comes late, shows
/// it, though the attack is over by then; and who goes on in the minute after that is not heard.
#[test]
fn what_was_told_after_a_leap_is_withdrawn_with_the_agents_own_next_datagram() {
    for (pause, leap, twice) in
        [(1, 5_000, 0), (2, 5_000, 0), (5, 5_000, 0), (20, 5_000, 0), (1, 100, 0), (5, 100, 0), (2, 5_000, 5_000)]
    {
        let mut scene = Scene::new("40k");
        let uptime = |ms: u64| 500_000 + ms as u32;
        let at = |turn: u32| u64::from(turn * pause) * 1_000;
        let own = |turn: u32| {
            let counted = Some(turn * SAMPLING);
            Sent { sequence: 5_000 + turn, uptime: uptime(at(turn)), first: 70 + turn, to: vec![ELSEWHERE], counted }
        };
        let turns = 61 / pause + 12;
        (0..turns).for_each(|turn| scene.send(at(turn), &own(turn)));
        let burst = |scene: &mut Scene, began: u64, sequence: u32, first: u32| {
            for turn in 0..10 {
                let ms = began + u64::from(turn) * 60;
                let to = vec![VICTIM; 20];
                let first = first + 20 * turn;
                scene.send(ms, &Sent { sequence: sequence + turn, uptime: uptime(ms), first, to, counted: None });
            }
        };
        let (began, ahead) = (at(turns - 1) + 100, 5_000 + turns + leap);
        burst(&mut scene, began, ahead, 70 + turns);
        if twice > 0 {
            let to = vec![ELSEWHERE];
            let ms = began + 700;
            let sequence = ahead + twice;
            scene.send(ms, &Sent { sequence, uptime: uptime(ms), first: 270 + turns, to, counted: None });
        }
        scene.pass(began + 850);
        assert!(scene.is_announced(), "{pause} s, {leap}: nobody knows yet");
        scene.send(at(turns), &own(turns));
        assert!(!scene.is_announced(), "{pause} s, {leap}: it is found out");
        let board = scene.engine.board(None, weir_protect::model::Counts::default(), now(scene.ms));
        let attacks = board.attacks.iter().chain(&board.history);
        let doubts: Vec<usize> = attacks.map(|attack| attack.detection.doubts.len()).collect();
        assert!(!doubts.is_empty() && doubts.iter().all(|&doubts| doubts > 0), "{pause} s, {leap}: {doubts:?}");
        if leap == 5_000 {
            // The agent's stream is where it was, and its next numbers are as well known.
            scene.send(at(turns + 1), &own(turns + 1));
            burst(&mut scene, at(turns + 1) + 100, 5_002 + turns, 72 + turns);
            scene.pass(at(turns + 1) + 950);
            assert!(!scene.is_announced(), "{pause} s: in the minute of doubt");
        }
    }
}

/// How datagrams come of which one in four is lost, and what the others have in them.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// Nobody else sends.
    Lost,
    /// Somebody fills in what is lost, once he has seen what came behind it.
    FilledIn,
    /// He knows that it is lost before the next one comes.
    Foreseen,
    /// Nothing is lost, each second one is overtaken by the one behind it.
    Overtaken,
}

/// 100,000 packets/s for a while, of which so many in five go to the victim; packets/s that are told of it, newest.
fn told(scene: &mut Scene, way: Way, flood: usize) -> Option<f64> {
    let mut newest = None;
    let mut lost = Vec::new();
    for step in 0..1_200u32 {
        // Before the thirtieth second nobody tells of anything: interfaces, clocks and numbers are known by then.
        let is_on = step >= 600;
        let sent = |place: u32, flood: usize| {
            let to = (0..5).map(|number| if number < flood && is_on { VICTIM } else { ELSEWHERE }).collect();
            // In a datagram that comes, and in order.
            let counted = (place % 20 == 5).then_some(5 * place * SAMPLING);
            Sent { sequence: 5_000 + place, uptime: 500_000 + 50 * place, first: 70 + 5 * place, to, counted }
        };
        let ms = u64::from(step) * 50;
        let is_lost = way != Way::Overtaken && step % 4 == 3;
        match way {
            Way::Overtaken => scene.send(ms, &sent(step ^ 1, flood)),
            Way::Foreseen if is_lost => scene.send(ms, &sent(step, 5)),
            _ if is_lost => lost.push(sent(step, 5)),
            _ => scene.send(ms, &sent(step, flood)),
        }
        if !is_lost && way == Way::FilledIn {
            lost.drain(..).for_each(|forged| scene.send(ms + 1, &forged));
        }
        if is_on {
            let board = scene.engine.board(None, weir_protect::model::Counts::default(), now(scene.ms));
            let rates = board.attacks.iter().map(|attack| attack.detection.evidence.packets.value);
            newest = rates.reduce(f64::max).or(newest);
        }
    }
    newest
}

fn now(ms: u64) -> guard::Now {
    let nanos = START + ms * 1_000_000;
    guard::Now { nanos, wall: UNIX_EPOCH + Duration::from_nanos(nanos) }
}

/// He tells of 25,000 packets/s, as many as the lost samples stood for: all numbers, pools and counters agree.
#[test]
fn who_fills_in_what_was_lost_is_not_heard() {
    let mut scene = Scene::new("10k");
    assert_eq!(told(&mut scene, Way::FilledIn, 0), None);
    assert!(!scene.is_announced());
    assert!(scene.inlet.late() > 500, "{}", scene.inlet.late());
}

/// Who knows of a loss at once is the agent; he can tell of what was lost, and of nothing more.
#[test]
fn who_foresees_what_is_lost_tells_of_no_more_than_that() {
    let mut scene = Scene::new("40k");
    assert_eq!(told(&mut scene, Way::Foreseen, 0), None);
    assert!(!scene.is_announced());
}

/// What is lost or overtaken on the way is counted for by what comes in order.
#[test]
fn floods_are_as_large_as_they_are_however_datagrams_come() {
    for way in [Way::Lost, Way::Overtaken] {
        let mut scene = Scene::new("10k");
        let rate = told(&mut scene, way, 2);
        assert!(rate.is_some_and(|rate| (30e3..55e3).contains(&rate)), "{way:?}: {rate:?}");
        assert!(scene.is_announced(), "{way:?}");
    }
}
