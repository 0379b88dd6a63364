//! Somebody else speaks in an agent's name: what the room that protects is told of either.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weir_protect::evidence::Speakers;
use weir_protect::model::Stream;
use weir_protect::room::{Inlet, News, queue};
use weir_wire::sflow::encode::{self, Flow, Header};
use weir_wire::sflow::{DataFormat, DataSource, Interface};

use crate::config::Config;
use crate::events::Log;
use crate::names::Lookups;
use crate::shard::{Now, Shard};

const AGENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
/// What the agent samples goes here, what others make up there.
const HERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const THERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 8);
const START: u64 = 1_000_000_000_000;

/// A shard, what it tells, and what it has told by stream.
struct Scene {
    shard: Shard,
    inlet: Inlet,
    seen: BTreeMap<Ipv4Addr, BTreeSet<Stream>>,
    /// Streams of which nothing but good was told, or at times.
    troubles: BTreeMap<Stream, BTreeSet<Option<String>>>,
    /// When trouble was last told, ms.
    troubled: u64,
}

impl Scene {
    fn new() -> Self {
        let settings = Config::read("defaults", "").unwrap().settings;
        let mut shard = Shard::new(&settings, 0, Arc::<Lookups>::default(), Arc::new(Log::new(10)), Now::default());
        let (outlet, inlet) = queue(1_024, &["192.0.2.0/24".parse().unwrap()], Arc::default());
        shard.protect(outlet);
        Self { shard, inlet, seen: BTreeMap::new(), troubles: BTreeMap::new(), troubled: 0 }
    }

    /// A datagram of a sub-agent with one sample of a packet to an address.
    fn send(&mut self, ms: u64, from: IpAddr, sub_agent: u32, (sequence, uptime): (u32, u32), to: Ipv4Addr) {
        let mut bytes = Vec::new();
        let header = Header { agent: AGENT, sub_agent, sequence, uptime };
        let mut samples = encode::datagram(&mut bytes, &header);
        let mut sample = samples.flow(&Flow {
            sequence,
            source: DataSource { class: 0, index: 3 },
            sampling_rate: 1_000,
            sample_pool: 1_000_u32.wrapping_mul(sequence),
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
        let nanos = START + ms * 1_000_000;
        self.shard.datagram(&bytes, SocketAddr::new(from, 6343), Now { nanos, unix_ms: nanos / 1_000_000 });
        let Self { inlet, seen, troubles, troubled, .. } = self;
        inlet.take(1_024, u64::MAX, |news| match news {
            News::Seen(packet) => {
                let sighting = packet.sighting();
                let IpAddr::V4(to) = sighting.packet.destination else { return };
                seen.entry(to).or_default().insert(sighting.stream);
            }
            News::Heard(heard) => {
                let trouble = heard.trouble.map(|trouble| trouble.to_string());
                *troubled = if trouble.is_some() { ms } else { *troubled };
                troubles.entry(heard.stream).or_default().insert(trouble);
            }
            News::Counts(_) => {}
        });
    }

    fn is_in_trouble(&self, stream: Stream) -> bool {
        self.troubles[&stream].iter().any(Option::is_some)
    }
}

#[test]
fn an_agents_stream_stays_its_own_whoever_else_speaks_in_its_name() {
    type Forged = fn(u32) -> (u32, bool);
    // One that goes on, as old as the agent; and another each time, which has just begun or is as old.
    let (going_on, anew): (Forged, Forged) =
        (|turn| (777_000_000 + 2 * turn, false), |turn| (0x9e37_79b9_u32.wrapping_mul(turn + 1), turn % 2 == 0));
    for forged in [going_on, anew] {
        let mut scene = Scene::new();
        for step in 0..1_200u64 {
            let ms = step * 100;
            let uptime = 500_000 + ms as u32;
            scene.send(ms, AGENT, 0, (5_000 + step as u32, uptime), HERE);
            // From 40 s on: until then nobody could tell which of them is the agent.
            if step >= 400 && step % 20 == 0 {
                let (number, is_young) = forged(step as u32 / 20);
                let uptime = if is_young { 10 } else { uptime + 50 };
                scene.send(ms + 50, AGENT, 0, (number, uptime), THERE);
                scene.send(ms + 51, AGENT, 0, (number + 1, uptime + 1), THERE);
            }
        }
        assert!(scene.seen[&HERE].iter().all(|&stream| !scene.is_in_trouble(stream)), "{:#?}", scene.troubles);
        // Those of which there are but two are nobody's.
        let theirs = scene.seen.get(&THERE).into_iter().flatten();
        assert!(theirs.clone().count() <= 1, "{:#?}", scene.seen);
        assert!(theirs.clone().all(|&stream| scene.is_in_trouble(stream)), "{:#?}", scene.troubles);
    }
}

/// He begins between two datagrams of an agent that sends one in a second, so far behind that its numbers are not looked at any more, sends more
/// than the agent, and goes on when he has reached its numbers.
#[test]
fn who_overtakes_an_agent_is_believed_nowhere() {
    let mut scene = Scene::new();
    for step in 0..200u32 {
        let (ms, uptime) = (u64::from(step) * 1_000, 500_000 + 1_000 * step);
        scene.send(ms, AGENT, 0, (5_000 + step, uptime), HERE);
        for turn in (0..10).filter(|_| step >= 60) {
            let (later, number) = (300 + 20 * turn, 4_860 + 10 * (step - 60) + turn);
            scene.send(ms + u64::from(later), AGENT, 0, (number, uptime + later), THERE);
        }
        if step == 65 {
            assert!(scene.seen[&HERE].is_disjoint(&scene.seen[&THERE]), "{:?}", scene.seen);
            assert!(scene.seen[&HERE].iter().all(|&stream| !scene.is_in_trouble(stream)), "{:#?}", scene.troubles);
        }
    }
    assert!(scene.seen[&THERE].iter().all(|&stream| scene.is_in_trouble(stream)), "{:#?}", scene.troubles);
    // It is told of for as long as he goes on, and longer.
    assert!(scene.troubled >= 198_000, "{}", scene.troubled);
}

/// He takes the numbers of an agent that sends one datagram in twenty seconds, so many that the agent's next one is too far behind.
#[test]
fn who_runs_away_from_an_agent_that_is_seldom_heard_is_found_with_its_next_datagram() {
    let mut scene = Scene::new();
    for step in 0..20u32 {
        let (ms, uptime) = (u64::from(step) * 20_000, 500_000 + 20_000 * step);
        scene.send(ms, AGENT, 0, (5_000 + step, uptime), HERE);
        if step >= 11 {
            assert_eq!(scene.troubled, ms, "{:#?}", scene.troubles);
            return;
        }
        for turn in (1..=390).filter(|_| step == 10) {
            scene.send(ms + u64::from(50 * turn), AGENT, 0, (5_000 + step + turn, uptime + 50 * turn), THERE);
        }
    }
}

/// He runs two streams of his own, far from the agent's numbers, which share theirs.
#[test]
fn what_others_streams_have_in_common_speaks_against_no_agent() {
    let mut scene = Scene::new();
    for step in 0..1_000u32 {
        let (ms, uptime) = (u64::from(step) * 100, 500_000 + 100 * step);
        scene.send(ms, AGENT, 0, (10_000_000 + step, uptime), HERE);
        if (400..450).contains(&step) {
            scene.send(ms + 20, AGENT, 0, (step - 398, uptime + 20), THERE);
            scene.send(ms + 40, AGENT, 0, (step - 399, uptime + 40), THERE);
            scene.send(ms + 60, AGENT, 0, (step - 399, 0), THERE);
            scene.send(ms + 70, AGENT, 0, (step - 398, 0), THERE);
        }
    }
    assert!(scene.seen[&HERE].iter().all(|&stream| !scene.is_in_trouble(stream)), "{:#?}", scene.troubles);
}

#[test]
fn streams_of_one_name_that_begin_together_are_both_in_trouble() {
    let mut scene = Scene::new();
    for step in 0..100u32 {
        let ms = u64::from(step) * 100;
        scene.send(ms, AGENT, 0, (5_000 + step, 500_000 + 100 * step), HERE);
        scene.send(ms + 50, AGENT, 0, (777_000 + step, 9_000_000 + 100 * step), THERE);
    }
    assert!(scene.seen.values().flatten().all(|&stream| scene.is_in_trouble(stream)), "{:#?}", scene.troubles);
}

#[test]
fn what_comes_from_elsewhere_or_of_another_sub_agent_is_another_stream() {
    let mut scene = Scene::new();
    for step in 0..100u32 {
        let (ms, uptime) = (u64::from(step) * 100, 500_000 + 100 * step);
        scene.send(ms, AGENT, 0, (5_000 + 2 * step, uptime), HERE);
        // It knows the agent's numbers.
        scene.send(ms + 10, "10.0.0.66".parse().unwrap(), 0, (5_001 + 2 * step, uptime), THERE);
        scene.send(ms + 20, AGENT, 5, (5_000 + step, uptime), THERE);
    }
    assert!(scene.seen[&HERE].is_disjoint(&scene.seen[&THERE]));
    assert_eq!((scene.seen[&HERE].len(), scene.seen[&THERE].len()), (1, 2), "{:?}", scene.seen);
}

/// Somebody knows the agent's numbers, its uptime and those of its samples, and takes places in its stream.
#[test]
fn who_takes_places_in_an_agents_stream_is_found_out_at_once() {
    // By how much he is ahead, how often he sends, and after how many datagrams of the agent, one each 100 ms, it shows.
    for (ahead, every, within) in [(1, 10, 1), (1, 1, 1), (20, 10, 2), (40, 1, 40), (3, 100, 2)] {
        let mut scene = Scene::new();
        let mut found = None;
        for step in 0..1_000u32 {
            let (ms, uptime) = (u64::from(step) * 100, 500_000 + 100 * step);
            scene.send(ms, AGENT, 0, (5_000 + step, uptime), HERE);
            if step >= 400 && step % every == 0 {
                scene.send(ms + 20, AGENT, 0, (5_000 + step + ahead, uptime + 20), THERE);
            }
            let is_found = |(_, told): (&Stream, &BTreeSet<Option<String>>)| {
                told.iter().flatten().any(|trouble| trouble.starts_with("somebody else speaks"))
            };
            if found.is_none() && scene.troubles.iter().any(is_found) {
                found = Some(step);
            }
        }
        let found = found.unwrap_or(u32::MAX);
        assert!((400..=400 + within).contains(&found), "{ahead} ahead, each {every}: at {found}");
        // The agent is heard all the same, in the stream that is not believed.
        assert!(scene.seen[&HERE].iter().any(|&stream| scene.is_in_trouble(stream)));
    }
}

#[test]
fn what_the_network_doubles_or_puts_out_of_order_is_nobody_else() {
    let mut scene = Scene::new();
    for step in 0..1_000u32 {
        // Of three the first comes last, and each comes twice.
        let number = if step % 3 == 0 { step + 2 } else { step - 1 };
        for copy in 0..2 {
            let ms = u64::from(step) * 100 + copy * 50;
            scene.send(ms, AGENT, 0, (5_000 + number, 500_000 + 100 * number), HERE);
        }
    }
    let troubles: BTreeSet<_> = scene.troubles.values().flatten().flatten().collect();
    assert!(troubles.is_empty(), "{troubles:?}");
}

/// He sends more often than the agent, in a stream that goes on: of his own, or a leap ahead in the agent's.
#[test]
fn who_sends_more_often_than_the_agent_is_not_taken_for_it() {
    for number in [900_000, 5_700, 6_000, 9_000] {
        let mut scene = Scene::new();
        for step in 0..16_000u32 {
            let (ms, uptime) = (u64::from(step) * 10, 500_000 + 10 * step);
            if step % 20 == 0 {
                scene.send(ms, AGENT, 0, (5_000 + step / 20, uptime), HERE);
            }
            // A second later everybody knows.
            if step == 4_100 {
                scene.seen.clear();
            }
            if step >= 4_000 {
                scene.send(ms + 5, AGENT, 0, (number + step - 4_000, uptime + 5), THERE);
            }
            // For as long as he goes on.
            if step % 1_000 == 999 && step > 4_100 {
                let is_told = scene.seen.get(&THERE).into_iter().flatten().all(|&stream| scene.is_in_trouble(stream));
                assert!(is_told, "{number}, {step}: {:#?} {:?}", scene.troubles, scene.seen);
                scene.seen.clear();
                scene.troubles.clear();
            }
        }
    }
}

/// He takes none of the numbers that come soon, and tells a time at which the agent's own datagrams look as if they were late.
#[test]
fn who_stays_ahead_of_the_agent_is_found_out() {
    // By how many numbers he is ahead, how often he sends, ms, and how far his clock is ahead, ms.
    for (ahead, every, clock) in
        [(300, 1_000, 4_500), (300, 50, 4_900), (100, 200, 4_500), (63, 10, 900), (60, 20, 0), (2_000, 100, 1_200)]
    {
        let mut scene = Scene::new();
        let mut found = None;
        for step in 0..6_000u32 {
            let (ms, uptime) = (u64::from(step) * 10, 500_000 + 10 * step);
            if step % 10 == 0 {
                scene.send(ms, AGENT, 0, (5_000 + step / 10, uptime), HERE);
            }
            let since = step.saturating_sub(4_003) * 10;
            if step >= 4_003 && since % every == 0 {
                let number = 5_400 + ahead + since / every * every.div_ceil(100);
                scene.send(ms + 1, AGENT, 0, (number, uptime + clock), THERE);
            }
            let is_found = |(_, told): (&Stream, &BTreeSet<Option<String>>)| {
                told.iter().flatten().any(|trouble| trouble.starts_with("somebody else speaks"))
            };
            if found.is_none() && scene.troubles.iter().any(is_found) {
                found = Some(step);
            }
        }
        let found = found.unwrap_or(u32::MAX);
        assert!((4_000..4_150).contains(&found), "{ahead} ahead each {every} ms, clock {clock} ms: at {found}");
        assert!(scene.seen[&THERE].iter().all(|&stream| scene.is_in_trouble(stream)), "{:#?}", scene.troubles);
    }
}

/// He takes the numbers that come next, and tells a time that is not the agent's.
#[test]
fn who_takes_the_next_numbers_and_tells_another_time_is_found_out() {
    type Told = fn(u32) -> u32;
    let told: [Told; 3] = [|uptime| uptime + 30_000, |uptime| uptime + 10_000_000, |_| 5];
    // How often the agent sends, ms: of one that is seldom heard it is not known how its clock goes.
    for (every, told) in [100, 20_000].into_iter().flat_map(|every| told.map(|told| (every, told))) {
        let mut scene = Scene::new();
        let at = |step: u32| (u64::from(step * every), 500_000 + step * every);
        for step in 0..=400 {
            let (ms, uptime) = at(step);
            scene.send(ms, AGENT, 0, (5_000 + step, uptime), HERE);
        }
        let own = scene.seen[&HERE].clone();
        assert!(own.len() == 1 && !own.iter().any(|&stream| scene.is_in_trouble(stream)), "{:#?}", scene.troubles);
        for turn in 0..20 {
            let (ms, uptime) = at(400);
            scene.send(ms + 5 + u64::from(turn), AGENT, 0, (5_401 + turn, told(uptime + turn)), THERE);
        }
        let is_found = |scene: &Scene| {
            let mut troubles = own.iter().flat_map(|stream| scene.troubles[stream].iter().flatten());
            troubles.any(|trouble| trouble.starts_with("somebody else speaks"))
        };
        assert_eq!(is_found(&scene), every == 100, "{every}: {:#?}", scene.troubles);
        let (ms, uptime) = at(401);
        scene.send(ms, AGENT, 0, (5_401, uptime), HERE);
        assert!(is_found(&scene), "{every}: {:#?}", scene.troubles);
        if every == 20_000 {
            continue;
        }
        // For as long as he goes on.
        for step in 402..1_600 {
            let (ms, uptime) = at(step);
            scene.send(ms, AGENT, 0, (5_000 + step, uptime), HERE);
            scene.send(ms + 5, AGENT, 0, (5_019 + step, told(uptime)), THERE);
            if step % 100 == 99 {
                let is_told = scene.seen[&THERE].iter().all(|&stream| scene.is_in_trouble(stream));
                assert!(is_told, "{step}: {:#?} {:?}", scene.troubles, scene.seen);
                scene.seen.clear();
                scene.troubles.clear();
            }
        }
    }
}

/// Nobody reads for eight seconds, and then all that waited is read at once: no clock has leapt.
#[test]
fn a_standstill_is_no_clock_that_leaps() {
    for every in [100, 4_000] {
        let mut scene = Scene::new();
        for step in 0..1_000u32 {
            let sent = u64::from(step * every);
            let read = if (60_000..68_000).contains(&(sent % 120_000)) { sent - sent % 120_000 + 68_000 } else { sent };
            scene.send(read, AGENT, 0, (5_000 + step, 500_000 + step * every), HERE);
        }
        let troubles: BTreeSet<_> = scene.troubles.values().flatten().flatten().collect();
        assert!(troubles.is_empty(), "{every}: {troubles:?}");
    }
}

/// He knows numbers and uptime of the agent and of its samples, and is always before it, at another address than the one that is listed.
#[test]
fn who_speaks_from_elsewhere_disturbs_no_agent() {
    let mut scene = Scene::new();
    let speakers = Speakers::new([(AGENT.into(), None)]);
    scene.shard.protect_others(&["192.0.2.0/24".parse().unwrap()], Arc::new(speakers));
    let elsewhere = "10.0.0.66".parse().unwrap();
    for step in 0..1_000u32 {
        let (ms, uptime) = (u64::from(step) * 100, 500_000 + 100 * step);
        scene.send(ms, AGENT, 0, (5_000 + step, uptime), HERE);
        if step >= 400 {
            scene.send(ms + 90, elsewhere, 0, (5_001 + step, uptime + 90), THERE);
        }
    }
    assert!(scene.seen[&HERE].is_disjoint(&scene.seen[&THERE]), "{:?}", scene.seen);
    assert!(scene.seen[&HERE].iter().all(|&stream| !scene.is_in_trouble(stream)), "{:#?}", scene.troubles);
    let agent = scene.shard.agents_at(AGENT).next().unwrap();
    let own = agent.streams().iter().find(|stream| !stream.is_foreign).unwrap().ledger();
    assert_eq!((own.received, own.lost, own.duplicates, own.late), (1_000, 0, 0, 0));
}
