//! What flows cost. `cargo test --release -p weir-sflow flows::tests::cost -- --ignored --nocapture`

use std::hint::black_box;
use std::time::Instant;

use super::*;

/// Half of them take an IPv4 packet of UDP, half are filtered away.
const TYPICAL: [(&str, &str, &str); 20] = [
    ("ipsource,ipdestination", "bytes", ""),
    ("ipsource", "bytes", "first:stack:.:ip:ip6=ip"),
    ("ipdestination", "frames", "first:stack:.:ip:ip6=ip"),
    ("macsource,macdestination", "bytes", ""),
    (
        "ipsource,ipdestination,ipprotocol,or:tcpsourceport:udpsourceport,or:tcpdestinationport:udpdestinationport",
        "bytes",
        "",
    ),
    ("stack", "bytes", ""),
    ("ipdestination,udpsourceport", "frames", "ipprotocol=17"),
    ("group:ipsource:campus,group:ipdestination:campus", "bytes", ""),
    ("ipprotocol", "bytes", "direction=ingress"),
    ("", "bytes", ""),
    ("ip6source,ip6destination", "bytes", "first:stack:.:ip:ip6=ip6"),
    ("ipdestination,tcpdestinationport", "frames", "ipprotocol=6"),
    ("ipdestination,tcpsourceport", "frames", "ipprotocol=6&tcpflags~....1..1."),
    ("ipdestination,icmptype", "frames", "ipprotocol=1"),
    ("ipdestination", "frames", "(ipflags=001|range:ipfragoffset:1=true)&first:stack:.:ip:ip6=ip"),
    ("ip6destination,ip6nexthdr", "frames", "first:stack:.:ip:ip6=ip6"),
    ("arpipsender,arpiptarget", "frames", "ethernetprotocol=2054"),
    ("macsource", "bytes", "isbroadcast=true"),
    ("vni,ipsource.1,ipdestination.1", "bytes", "vni!=null"),
    ("vlan", "bytes", "vlan!=null"),
];

fn typical(flows: &mut Flows, count: usize) {
    for (at, (keys, value, filter)) in TYPICAL.iter().cycle().take(count).enumerate() {
        flows.define(&at.to_string(), checked(keys, value, filter), 0.0);
    }
}

#[test]
#[ignore = "a measurement: in release, on a quiet machine"]
fn a_sample_through_definitions() {
    let mut source = Source(1);
    let frames: Vec<Vec<u8>> = (0..64)
        .map(|_| {
            let mut bytes = frame([10, 0, 0, source.bits() as u8], [10, 0, 1, source.bits() as u8 % 8], 53);
            bytes.resize(128, 0);
            bytes
        })
        .collect();
    for count in [0, 1, 10, 20, 40] {
        let mut flows = shard(FLOWS);
        typical(&mut flows, count);
        let mut best = f64::INFINITY;
        for round in 0..20 {
            let begin = Instant::now();
            for at in 0..20_000u32 {
                let now = f64::from(round * 20_000 + at) / 1e5;
                flows.observe(now, 1000.0, black_box(&packet(1, 1 + at % 4, &frames[at as usize % 64])));
            }
            best = best.min(begin.elapsed().as_secs_f64() / 20_000.0);
        }
        println!("{count} definitions: {:.0} ns a sample", best * 1e9);
    }
    let begin = Instant::now();
    for at in 0..2_000_000 {
        black_box(Frame::parse(Start::Ethernet, black_box(&frames[at % 64])));
    }
    println!("headers alone: {:.0} ns", begin.elapsed().as_secs_f64() * 500.0);
}

#[test]
#[ignore = "a measurement: in release, on a quiet machine"]
fn the_largest_of_a_million() {
    let mut flows = shard(FLOWS);
    flows.define("pairs", checked("ipsource,ipdestination", "bytes", ""), 0.0);
    let mut source = Source(1);
    let begin = Instant::now();
    for at in 0..1_000_000u32 {
        let [_, a, b, c] = at.to_be_bytes();
        let bytes = frame([10, a, b, c], [10, 0, 0, 1], 53);
        flows.observe(1.0, 1.0 / (1e-6 + source.uniform()), &packet(1, 1 + at % 50, &bytes));
    }
    println!("a new flow: {:.0} ns", begin.elapsed().as_secs_f64() * 1e3);
    for mode in [AggMode::Max, AggMode::Sum] {
        let mut times: Vec<f64> = Vec::new();
        let mut longest: f64 = 0.0;
        for _ in 0..200 {
            let begin = Instant::now();
            let mut ranking = Ranking::new(mode, 100, 0.0);
            while ranking.next_pass() {
                let mut from = Some(0);
                while let Some(at) = from {
                    let held = Instant::now();
                    from = flows.scan("pairs", 1.0).unwrap().slice(at, 10_000, |flow| ranking.offer(flow));
                    longest = longest.max(held.elapsed().as_secs_f64());
                }
            }
            assert_eq!(black_box(ranking.finish()).len(), 100);
            times.push(begin.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        let (p50, p99) = (times[100] * 1e3, times[198] * 1e3);
        println!("{mode:?}: p50 {p50:.1} ms, p99 {p99:.1} ms; held at most {:.2} ms", longest * 1e3);
    }
}
