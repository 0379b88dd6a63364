//! Flows from packet to answer.

mod cost;
mod evaluation;
mod records;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use weir_testbed::random::Source;
use weir_wire::frame::{Frame, Start};

use super::*;
use crate::names::Nameless;

/// An Ethernet frame with UDP between two addresses.
fn frame(from: [u8; 4], to: [u8; 4], port: u16) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
    bytes.extend(from);
    bytes.extend(to);
    bytes.extend([0x30, 0x39]);
    bytes.extend(port.to_be_bytes());
    bytes.extend([0, 8, 0, 0]);
    bytes
}

fn packet<'a>(agent: u32, interface: u32, bytes: &'a [u8]) -> Packet<'a> {
    let source = DataSource { class: DataSource::IF_INDEX, index: interface };
    Packet::captured(AgentId(agent), source, 1000, Frame::parse(Start::Ethernet, bytes), &Nameless)
}

fn checked(keys: &str, value: &str, filter: &str) -> Arc<Checked> {
    let definition = Definition {
        keys: keys.to_owned(),
        value: value.to_owned(),
        filter: filter.to_owned(),
        ..Definition::default()
    };
    Arc::new(definition.check().unwrap())
}

const FLOWS: usize = 4_000_000;

fn shard(limit: usize) -> Flows {
    Flows::new(limit, Arc::default())
}

/// The place of a data source, of one stream an agent.
fn place(agent: u32, interface: u32) -> u32 {
    agent * 64 + interface
}

impl Flows {
    /// A packet comes alone.
    fn observe(&mut self, now: f64, weight: f64, packet: &Packet<'_>) {
        self.gather(now, weight, packet, place(packet.agent.0, packet.source.index), 0);
        self.settle(|_, _, _| {});
    }
}

/// The largest flows of several shards, looked at in small slices.
fn rank(shards: &[Flows], name: &str, now: f64, mut ranking: Ranking) -> Vec<(String, f64)> {
    while ranking.next_pass() {
        for flows in shards {
            let mut from = Some(0);
            while let Some(at) = from {
                from = flows.scan(name, now).unwrap().slice(at, 7, |flow| ranking.offer(flow));
            }
        }
    }
    let show = |key: &[u8]| checked("", "bytes", "").show(key);
    ranking.finish().into_iter().map(|ranked| (show(&ranked.key), ranked.value)).collect()
}

/// Flows of a definition.
fn named(flows: &Flows, wanted: &str) -> Option<usize> {
    flows.turnover().find(|(name, ..)| *name == wanted).map(|(_, count, _)| count)
}

#[test]
fn a_rate_is_the_true_one_with_its_interval() {
    // 1,000 samples a second of 1:100, each of 1,000 bytes; a tenth of them to port 53.
    let mut source = Source::drawn();
    let mut flows = shard(FLOWS);
    flows.define("ports", checked("udpdestinationport", "bytes", ""), 0.0);
    let (dns, other) = (frame([10, 0, 0, 1], [10, 0, 0, 2], 53), frame([10, 0, 0, 1], [10, 0, 0, 2], 80));
    for tick in 0..20_000 {
        let bytes = if source.uniform() < 0.1 { &dns } else { &other };
        flows.observe(f64::from(tick) / 1000.0, 100.0, &packet(1, 1, bytes));
    }
    let mut seen = BTreeMap::new();
    let scan = flows.scan("ports", 20.0).unwrap();
    let rest = scan.slice(0, 100, |flow| {
        seen.insert(flow.show(), flow.estimate().unwrap());
    });
    assert_eq!(rest, None);
    let dns = seen["53"];
    // 400 samples of equal weight: six deviations are 30 %.
    assert!((dns.value / 1e7 - 1.0).abs() < 0.3, "{dns:?}");
    assert!(dns.low < dns.value && dns.value < dns.high && (200.0..700.0).contains(&dns.samples), "{dns:?}");
    assert!((seen["80"].value + dns.value - 1e8).abs() < 2e6);
    // The larger share is known better than its own count tells.
    let width = |e: &Estimate| (e.high - e.low) / e.value;
    assert!(width(&seen["80"]) < 0.3 * width(&dns));
}

#[test]
fn rankings_are_as_sorting_all() {
    let mut source = Source::drawn();
    let mut shards = [shard(FLOWS), shard(FLOWS), shard(FLOWS)];
    let mut true_sums: HashMap<(u32, u32, String), f64> = HashMap::new();
    for flows in &mut shards {
        flows.define("pairs", checked("ipsource,ipdestination", "frames", ""), 0.0);
    }
    for _ in 0..5000 {
        let (agent, interface) = (source.number(0..6) as u32, source.number(1..4) as u32);
        // Few keys have much, many have little, and every agent sees some of each.
        let a = (source.uniform().powi(3) * 200.0) as u8;
        let b = source.number(0..5) as u8;
        let weight = 1.0 + source.uniform() * 100.0;
        let bytes = frame([10, 0, 0, a], [10, 0, 1, b], 53);
        shards[agent as usize % 3].observe(1.0, weight, &packet(agent, interface, &bytes));
        *true_sums.entry((agent, interface, format!("10.0.0.{a},10.0.1.{b}"))).or_default() += weight;
    }
    // All came at once: rates are sums by one factor.
    let scale = shards[0].scan("pairs", 1.0).unwrap();
    let mut factor = 0.0;
    scale.slice(0, 1, |flow| {
        let (agent, source) = flow.seen_by();
        factor = flow.value() / true_sums[&(agent.0, source.index, flow.show())];
    });
    for mode in [AggMode::Max, AggMode::Sum, AggMode::Agent] {
        let mut expected: HashMap<String, f64> = HashMap::new();
        let mut by_agent: HashMap<(u32, String), f64> = HashMap::new();
        for ((agent, _, key), sum) in &true_sums {
            let entry = expected.entry(key.clone()).or_default();
            let of_agent = by_agent.entry((*agent, key.clone())).or_default();
            *of_agent += sum;
            *entry = match mode {
                AggMode::Max => entry.max(*sum),
                AggMode::Sum => *entry + sum,
                AggMode::Agent => entry.max(*of_agent),
            };
        }
        let mut expected: Vec<(String, f64)> = expected.into_iter().collect();
        expected.sort_by(|a, b| b.1.total_cmp(&a.1));
        for n in [1, 10, 100, 5000] {
            let ranked = rank(&shards, "pairs", 1.0, Ranking::new(mode, n, 0.0));
            assert_eq!(ranked.len(), n.min(expected.len()), "{mode:?} {n}");
            for ((key, value), (true_key, sum)) in ranked.iter().zip(&expected) {
                assert!((value / factor / sum - 1.0).abs() < 1e-9, "{mode:?} {n}: {key} {value}, not {true_key} {sum}");
            }
        }
        let bound = expected[20].1 * factor * 0.999_999;
        assert_eq!(rank(&shards, "pairs", 1.0, Ranking::new(mode, 1000, bound)).len(), 21, "{mode:?}");
    }
    let mut distinct = Distinct::default();
    for flows in &shards {
        flows.scan("pairs", 1.0).unwrap().slice(0, usize::MAX, |flow| distinct.offer(flow));
    }
    let keys: std::collections::HashSet<&String> = true_sums.keys().map(|(_, _, key)| key).collect();
    assert!((distinct.count() / keys.len() as f64 - 1.0).abs() < 0.06, "{} of {}", distinct.count(), keys.len());
}

#[test]
fn every_bound_holds() {
    let mut flows = shard(900);
    for name in ["a", "b", "c"] {
        flows.define(name, checked("ipsource", "bytes", ""), 0.0);
    }
    // In place of another.
    flows.define("a", checked("ipsource,datasource", "bytes", ""), 0.0);
    for round in 0..20_000u32 {
        let [_, a, b, c] = round.to_be_bytes();
        let bytes = frame([10, a, b, c], [10, 0, 0, 2], 53);
        // Each packet is heavier than those before: it finds room.
        let weight = 1.0 + f64::from(round);
        flows.observe(f64::from(round) / 1000.0, weight, &packet(1, round % 6, &bytes));
        let counts: Vec<usize> = flows.turnover().map(|(_, count, _)| count).collect();
        assert!(counts.iter().sum::<usize>() <= 900, "{counts:?}");
    }
    // Each has its certain share.
    assert!(flows.turnover().all(|(_, count, evicted)| count >= 150 && evicted > 1000));
}

#[test]
fn the_same_definition_keeps_its_flows() {
    let mut flows = shard(FLOWS);
    let bytes = frame([10, 0, 0, 1], [10, 0, 0, 2], 53);
    let count = |flows: &Flows| named(flows, "a");
    flows.define("a", checked("ipsource", "bytes", ""), 0.0);
    flows.observe(1.0, 1.0, &packet(1, 1, &bytes));
    flows.define("a", checked("ipsource", "bytes", ""), 1.0);
    assert_eq!(count(&flows), Some(1));
    flows.define("b", checked("ipdestination", "frames", "vlan=null"), 1.0);
    assert_eq!(count(&flows), Some(1));
    flows.define("a", checked("ipsource", "frames", ""), 1.0);
    assert_eq!(count(&flows), Some(0));
    flows.observe(1.0, 1.0, &packet(1, 1, &bytes));
    assert_eq!((count(&flows), named(&flows, "b")), (Some(1), Some(1)));
    assert!(flows.remove("a") && !flows.remove("a"));
    assert_eq!((count(&flows), flows.turnover().count()), (None, 1));
}

#[test]
fn clocks_are_no_more_than_definitions() {
    let mut flows = shard(FLOWS);
    let bytes = frame([10, 0, 0, 1], [10, 0, 0, 2], 53);
    for round in 0..100 {
        for name in ["a", "b"] {
            let t = 1.0 + f64::from(round) + if name == "a" { 0.0 } else { 0.5 };
            let definition = Definition { t, ..Definition::default() };
            flows.define(name, Arc::new(definition.check().unwrap()), f64::from(round));
        }
        flows.observe(f64::from(round) + 0.5, 1.0, &packet(1, 1, &bytes));
        for name in ["a", "b"] {
            let mut samples = 0.0;
            flows.scan(name, f64::from(round) + 0.5).unwrap().slice(0, 10, |flow| {
                samples = flow.estimate().unwrap().samples;
            });
            assert!((samples - 1.0).abs() < 1e-9, "nothing of an earlier definition is left: {samples}");
        }
    }
    assert!(flows.clocks.len() <= 2);
}

#[test]
fn a_definition_that_comes_late_does_not_say_less() {
    let mut flows = shard(FLOWS);
    let bytes = frame([10, 0, 0, 1], [10, 0, 0, 2], 53);
    flows.define("early", checked("", "frames", ""), 0.0);
    for tick in 0..1100 {
        if tick == 1000 {
            flows.define("late", checked("", "frames", ""), 10.0);
        }
        flows.observe(f64::from(tick) / 100.0, 10.0, &packet(1, 1, &bytes));
    }
    for name in ["early", "late"] {
        // 1,000 a second.
        flows.scan(name, 11.0).unwrap().slice(0, 10, |flow| {
            assert!((flow.value() / 1000.0 - 1.0).abs() < 0.02, "{name}: {}", flow.value());
        });
    }
}

#[test]
fn data_sources_that_are_gone_take_their_flows_with_them() {
    let mut flows = shard(FLOWS);
    flows.define("a", checked("ipsource", "bytes", ""), 0.0);
    let bytes = frame([10, 0, 0, 1], [10, 0, 0, 2], 53);
    for agent in 0..4 {
        flows.observe(1.0, 1.0, &packet(agent, 1, &bytes));
    }
    flows.forget(&[place(1, 1), place(2, 1), place(9, 1)]);
    let mut seen = Vec::new();
    flows.scan("a", 1.0).unwrap().slice(0, 10, |flow| seen.push(flow.seen_by().0));
    assert_eq!(seen, [AgentId(0), AgentId(3)]);
    // Its place serves another.
    flows.observe(1.0, 1.0, &packet(1, 1, &bytes));
    assert_eq!(named(&flows, "a"), Some(3));
    // What nobody sends to any more goes, too.
    for tick in 0..100 {
        flows.tick(100.0 + f64::from(tick));
    }
    assert_eq!(named(&flows, "a"), Some(0));
}

#[test]
fn logged_flows_are_told_of_with_their_names() {
    let mut flows = shard(FLOWS);
    let definition = Definition {
        keys: "ipsource,udpdestinationport".to_owned(),
        fs: "_SEP_".to_owned(),
        log: true,
        active_timeout: 10.0,
        ..Definition::default()
    };
    flows.define("logged", Arc::new(definition.check().unwrap()), 0.0);
    let bytes = frame([10, 0, 0, 1], [10, 0, 0, 2], 53);
    flows.observe(1.0, 100.0, &packet(3, 4, &bytes));
    flows.observe(2.0, 100.0, &packet(3, 4, &bytes));
    assert!(flows.take_records().is_empty());
    flows.tick(20.0);
    let records = flows.take_records();
    let [record] = &records[..] else { panic!("{records:?}") };
    assert_eq!((record.name.as_str(), record.key.as_str()), ("logged", "10.0.0.1_SEP_53"));
    assert_eq!((record.agent, record.source.index, record.samples), (AgentId(3), 4, 2));
    assert_eq!((record.first, record.last, record.value), (1.0, 2.0, 200_000.0));
}
