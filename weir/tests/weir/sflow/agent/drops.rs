//! Dropped packets are told with their reason, and counted as nft and `weir loss` count them.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use weir_testbed::await_that;
use weir_testbed::network::cable;
use weir_trace::{Detail, Filter, Tracer};

use super::{Collector, nft, nft_packets, start};

#[test]
fn drops_are_those_of_nft_and_of_the_account_to_the_datagram() {
    const FILTERED: u64 = 700;
    const UNWANTED: u64 = 300;
    let Some([one, other]) = cable(1500) else { return };
    let rule = "add table inet t; add chain inet t in { type filter hook input priority 0 ; }; \
                add rule inet t in udp dport 5001 counter drop comment \"dropped\"";
    if nft(&one, rule).is_none() {
        return;
    }
    // What `weir loss` counts by.
    let filter = Filter { ports: Vec::new(), namespaces: vec![one.ns.inode().unwrap()] };
    let mut tracer = match Tracer::start(Detail::Drops, &filter) {
        Ok(tracer) => tracer,
        Err(error) => return weir_testbed::skip(error),
    };
    let mut collector = Collector::bind(&one);
    let mut agent = start(&one, &["--polling", "1s", "--sampling", "0", "--drops", "50/s"]);
    collector.await_sample(|sample| sample.is_of("eth0"));
    let before = agent.await_ledger(|_| true);
    let sender = other.run(|| UdpSocket::bind((other.v4, 0)).unwrap());
    for number in 0..FILTERED {
        sender.send_to(&[1; 300], (one.v4, 5001)).unwrap();
        if number < UNWANTED {
            sender.send_to(&[2; 40], (one.v4, 5002)).unwrap();
        }
        thread::sleep(Duration::from_micros(500));
    }
    await_that("all to be dropped", || nft_packets(&one, "dropped") == FILTERED);
    let reached = |ledger: &serde_json::Value| {
        let packets = |reason: &str| ledger["drops"]["by_reason"][reason]["packets"].as_u64().unwrap_or(0);
        packets("NETFILTER_DROP") == FILTERED && packets("NO_SOCKET") == UNWANTED
    };
    let ledger = agent.await_ledger(reached);
    assert!(!reached(&before));
    let traced = tracer.read().unwrap();
    assert_eq!(traced.missed.total(), 0);
    let mut truth: BTreeMap<&str, u64> = BTreeMap::new();
    traced.drops.iter().for_each(|drop| *truth.entry(&drop.reason).or_default() += drop.datagrams);
    for reason in ["NETFILTER_DROP", "NO_SOCKET"] {
        assert_eq!(ledger["drops"]["by_reason"][reason]["packets"], truth[reason], "{reason}: {truth:?}");
    }

    let ledger = agent.stop();
    collector.take_rest(&ledger);
    let told: Vec<_> = collector.samples.iter().filter(|sample| sample.format == 5).collect();
    assert_eq!(ledger["drops"]["sent"], told.len());
    // 5 a look; the first looks up the functions, which takes time.
    assert!(told.len() >= 5 && told.len() < 700, "{}", told.len());
    let eth0 = one.netlink().link("eth0").unwrap().index;
    let mut by_reason: BTreeMap<(u32, String), u64> = BTreeMap::new();
    for sample in &told {
        // drops, input, output, reason.
        let reason = String::from_utf8(sample.opaque(1042, 0)).unwrap();
        if ["NETFILTER_DROP", "NO_SOCKET"].contains(&reason.as_str()) {
            assert_eq!((sample.source, sample.words[1], sample.words[2]), ((2, 1), eth0, 0));
            let header = sample.opaque(1, 3);
            assert_eq!((sample.word(1, 0), header[23]), (1, 17), "Ethernet, UDP");
            let port = u16::from_be_bytes(header[36..38].try_into().unwrap());
            // Headers of 42 bytes, payload, check sequence; which is not in the buffer.
            let length = 42 + if port == 5001 { 300 } else { 40 } + 4;
            assert_eq!((sample.word(1, 1), sample.word(1, 2)), (length, 4));
            assert_eq!(port, if reason == "NO_SOCKET" { 5002 } else { 5001 });
            assert!(!sample.opaque(1038, 0).is_empty());
        }
        *by_reason.entry((sample.words[3], reason)).or_default() += 1;
    }
    // acl, port_unreachable.
    assert!(by_reason[&(258, "NETFILTER_DROP".into())] > 0 && by_reason[&(3, "NO_SOCKET".into())] > 0, "{by_reason:?}");
    // Told and not told are all there were when the last was told. One of seven is told, or more: of the last 150 none in one run of
    // ten billion.
    let last = told.last().unwrap();
    assert_eq!(last.sequence as usize, told.len());
    let all = u64::from(last.sequence + last.words[0]);
    let packets = ledger["drops"]["packets"].as_u64().unwrap();
    assert!(all <= packets && all + 150 > packets, "{all} of {packets}");
}
