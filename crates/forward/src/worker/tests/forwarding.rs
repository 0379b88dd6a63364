//! What comes in goes out: whole, in order, once.

use std::collections::HashMap;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use weir_dgram::{Options, Outgoing, Socket};
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_testbed::network::cable;
use weir_wire::proxy;

use super::fixture::*;
use crate::drops::Reason;
use crate::settings::{Group, Matching, Policy, Recipient, Rule, Source};

#[test]
fn every_size_arrives_whole_at_every_destination() {
    let sinks = [sink("127.0.0.1:0"), sink("[::1]:0"), sink("127.0.0.1:0")];
    let to = sinks.each_ref().map(|sink| sink.local_addr().unwrap());
    let workers = start(settings(&to));
    let source = source(address(&workers, 0));
    let sizes = [0, 1, 0, 1472, 1473, 1472, 1472, 9000, 65_507, 1, 65_507, 2, 2, 2, 1];
    let sent: Vec<_> = sizes.iter().enumerate().map(|(at, &size)| payload(at as u32, size)).collect();
    for datagram in &sent {
        source.send(datagram).unwrap();
    }
    for sink in &sinks {
        assert!(payloads(sink, sent.len()) == sent);
    }
    let ledger = finish(&workers);
    let bytes: usize = sizes.iter().sum();
    for to in to {
        let count = count(&ledger, to);
        assert_eq!((count.sent.datagrams, count.sent.bytes), (sizes.len() as u64, bytes as u64));
    }
    assert_eq!(ledger.listeners[0].received.bytes, bytes as u64);
    assert_eq!(ledger.listeners[0].kernel_drops, Some(0));
    assert_eq!(ledger.rules[0].copies, 3 * sizes.len() as u64);
    sinks.iter().for_each(assert_empty);
}

#[test]
fn runs_leave_as_they_came() {
    let sink = sink("127.0.0.1:0");
    let to = sink.local_addr().unwrap();
    let workers = start(settings(&[to]));
    let options = Options { gso: true, ..Options::default() };
    let source = Socket::connect(None, address(&workers, 0), &options).unwrap();
    // 40 of 1,000 bytes and a shorter last one; on loopback they stay one buffer all the way to the listener.
    let bytes = payload(7, 40 * 1_000 + 123);
    let taken = source.send(&[Outgoing { pieces: &[IoSlice::new(&bytes)], segment: NonZeroU16::new(1_000), to: None }]);
    assert_eq!((taken.messages, taken.joined), (1, 41));
    let expected: Vec<_> = bytes.chunks(1_000).map(<[u8]>::to_vec).collect();
    assert!(payloads(&sink, 41) == expected);
    let ledger = finish(&workers);
    let count = count(&ledger, to);
    assert_eq!((count.sent.datagrams, count.sent.bytes), (41, bytes.len() as u64));
    assert_eq!((count.calls, count.joined, count.not_joined), (1, 41, None));
}

#[test]
fn order_is_kept_for_each_source() {
    let sink = sink("127.0.0.1:0");
    let mut settings = settings(&[sink.local_addr().unwrap()]);
    settings.workers = 2;
    let workers = start(settings);
    let to = address(&workers, 0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let source = source(to);
                for number in 0..500 {
                    source.send(&payload(number, 4 + number as usize % 3 * 100)).unwrap();
                }
            });
        }
    });
    let mut next: HashMap<SocketAddr, u32> = HashMap::new();
    let mut lengths = 0;
    for (datagram, from) in receive(&sink, 8 * 500) {
        // Each worker sends from a socket of its own, so that senders mix: count what is larger than all before it.
        let number = u32::from_be_bytes(datagram[..4].try_into().unwrap());
        *next.entry(from).or_default() += 1;
        lengths += usize::from(datagram == payload(number, datagram.len()));
    }
    assert_eq!(lengths, 4_000, "every one is whole");
    assert_eq!(next.values().sum::<u32>(), 4_000);
    finish(&workers);
}

#[test]
fn a_single_source_arrives_in_order() {
    let sink = sink("127.0.0.1:0");
    let mut settings = settings(&[sink.local_addr().unwrap()]);
    settings.workers = 2;
    let workers = start(settings);
    let source = source(address(&workers, 0));
    for number in 0..5_000 {
        source.send(&payload(number, 4 + number as usize * 7 % 50 / 10)).unwrap();
    }
    for (expected, datagram) in payloads(&sink, 5_000).iter().enumerate() {
        assert_eq!(u32::from_be_bytes(datagram[..4].try_into().unwrap()), expected as u32);
    }
    finish(&workers);
}

#[test]
fn a_wait_for_company_joins_what_comes_apart() {
    let sink = sink("127.0.0.1:0");
    let to = sink.local_addr().unwrap();
    let mut settings = settings(&[to]);
    settings.gather = Duration::from_secs(1);
    let workers = start(settings);
    let source = source(address(&workers, 0));
    let sent: Vec<_> = (0..65).map(|number| payload(number, 100)).collect();
    source.send(&sent[0]).unwrap();
    assert!(payloads(&sink, 1) == sent[..1]);
    // Before it receives again it waits.
    for datagram in &sent[1..] {
        source.send(datagram).unwrap();
    }
    assert!(payloads(&sink, 64) == sent[1..]);
    assert_eq!(count(&finish(&workers), to).joined, 64);
}

#[test]
fn a_wait_for_company_ends() {
    let sink = sink("127.0.0.1:0");
    let mut settings = settings(&[sink.local_addr().unwrap()]);
    settings.gather = Duration::from_millis(20);
    let workers = start(settings);
    let source = source(address(&workers, 0));
    for number in 0..3 {
        source.send(&payload(number, 10)).unwrap();
        assert!(payloads(&sink, 1) == [payload(number, 10)]);
    }
    finish(&workers);
}

#[test]
fn rules_choose_by_source_and_each_destination_gets_one() {
    let sinks = [sink("127.0.0.1:0"), sink("127.0.0.1:0")];
    let mut settings = settings(&sinks.each_ref().map(|sink| sink.local_addr().unwrap()));
    settings.matching = Matching::All;
    let takes = |name: &str, sources: &[&str], to: &[usize]| Rule {
        name: name.into(),
        sources: sources.iter().map(|net| net.parse().unwrap()).collect(),
        listeners: Vec::new(),
        to: to.iter().map(|&to| Recipient::Destination(to)).collect(),
    };
    settings.rules = vec![
        takes("ours", &["127.0.0.0/30"], &[0]),
        takes("both", &["127.0.0.2/31"], &[0, 1]),
        takes("nothing", &["127.0.0.4/32"], &[]),
    ];
    let workers = start(settings);
    for last in 1..=5 {
        let source = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, last), 0)).unwrap();
        source.send_to(&[last], address(&workers, 0)).unwrap();
    }
    assert_eq!(payloads(&sinks[0], 3), [[1], [2], [3]]);
    assert_eq!(payloads(&sinks[1], 2), [[2], [3]]);
    let ledger = finish(&workers);
    assert_eq!((ledger.listeners[0].matched, ledger.listeners[0].unmatched), (4, 1));
    let of = |rule: &crate::ledger::RuleCount| (rule.matched.datagrams, rule.discarded, rule.copies);
    // The second rule asks for no copy that the first has asked for.
    assert_eq!(ledger.rules.iter().map(of).collect::<Vec<_>>(), [(3, 0, 3), (2, 0, 2), (1, 1, 0)]);
    sinks.iter().for_each(assert_empty);
}

#[test]
fn round_robin_deals_out_single_datagrams_of_a_run() {
    let sinks = [sink("127.0.0.1:0"), sink("127.0.0.1:0")];
    let mut settings = settings(&sinks.each_ref().map(|sink| sink.local_addr().unwrap()));
    settings.groups = vec![Group { name: "pair".into(), policy: Policy::RoundRobin, members: vec![0, 1] }];
    settings.rules = vec![rule(vec![Recipient::Group(0)])];
    let workers = start(settings);
    let options = Options { gso: true, ..Options::default() };
    let source = Socket::connect(None, address(&workers, 0), &options).unwrap();
    let bytes = payload(1, 950);
    source.send(&[Outgoing { pieces: &[IoSlice::new(&bytes)], segment: NonZeroU16::new(100), to: None }]);
    let dealt: Vec<Vec<u8>> = bytes.chunks(100).map(<[u8]>::to_vec).collect();
    for (at, sink) in sinks.iter().enumerate() {
        let expected: Vec<_> = dealt.iter().skip(at).step_by(2).cloned().collect();
        assert!(payloads(sink, 5) == expected);
    }
    finish(&workers);
}

#[test]
fn samples_and_limits_count_what_they_leave_out() {
    let sinks = [(); 4].map(|()| sink("127.0.0.1:0"));
    let to = sinks.each_ref().map(|sink| sink.local_addr().unwrap());
    let mut settings = settings(&to);
    settings.destinations[3].every = 7;
    settings.destinations[0].sample = 10;
    // A burst of 10; no more within the minutes this test may take.
    settings.destinations[1].rate = Some("0.001/s".parse().unwrap());
    let workers = start(settings);
    let source = source(address(&workers, 0));
    for number in 0..2_000 {
        source.send(&payload(number, 50)).unwrap();
    }
    payloads(&sinks[2], 2_000);
    let ledger = finish(&workers);
    let [sampled, limited, all, seventh] = to.map(|to| count(&ledger, to));
    assert_eq!(all.sent.datagrams, 2_000);
    assert_eq!(sampled.sent.datagrams + sampled.drops[Reason::SampledOut], 2_000);
    // 200 expected, standard deviation 13.4.
    assert!(sampled.sent.datagrams.abs_diff(200) < 81, "{sampled:?}");
    assert_eq!((limited.sent.datagrams, limited.drops[Reason::RateLimited]), (1, 1_999));
    // The 1st, the 8th and so on to the 1996th.
    assert_eq!((seventh.sent.datagrams, seventh.drops[Reason::SampledOut]), (286, 1_714));
    assert!(payloads(&sinks[3], 286).into_iter().eq((0..2_000).step_by(7).map(|number| payload(number, 50))));
}

#[test]
fn a_header_tells_who_sent_it() {
    let sinks = [sink("127.0.0.1:0"), sink("127.0.0.1:0")];
    let mut settings = settings(&sinks.each_ref().map(|sink| sink.local_addr().unwrap()));
    settings.listeners = vec![listener("0.0.0.0:0")];
    settings.destinations[0].source = Source::Proxy;
    let workers = start(settings);
    let port = address(&workers, 0).port();
    let to = SocketAddr::from(([127, 0, 0, 9], port));
    let options = Options { gso: true, ..Options::default() };
    let source = Socket::connect(None, to, &options).unwrap();
    let from = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), source.local_addr().port());
    let bytes = payload(3, 250);
    source.send(&[Outgoing { pieces: &[IoSlice::new(&bytes)], segment: NonZeroU16::new(100), to: None }]);
    source.send(&[Outgoing { pieces: &[IoSlice::new(&vec![1; 65_500])], segment: None, to: None }]);
    for (datagram, expected) in payloads(&sinks[0], 3).iter().zip(bytes.chunks(100)) {
        let proxied = proxy::parse(datagram).unwrap();
        assert_eq!(proxied.payload, expected);
        assert_eq!(datagram[..datagram.len() - expected.len()], *proxy::encode(from, to));
    }
    assert_eq!(payloads(&sinks[1], 4)[3].len(), 65_500);
    let ledger = finish(&workers);
    let count = &ledger.destinations[0];
    assert_eq!((count.sent.datagrams, count.sent.bytes, count.drops[Reason::TooLong]), (3, 250, 1));
}

#[test]
fn the_source_address_is_kept_and_fragments_fit_the_way() {
    let ns = NetNs::create().unwrap();
    Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
    ns.run(|| {
        let sinks = [sink("127.0.0.1:0"), sink("[::1]:0")];
        let mut settings = settings(&sinks.each_ref().map(|sink| sink.local_addr().unwrap()));
        settings.destinations.iter_mut().for_each(|destination| destination.source = Source::Preserved);
        settings.destinations[0].ttl = Some(9);
        let workers = start(settings);
        let source = UdpSocket::bind("127.0.0.77:4321").unwrap();
        let sent: Vec<_> = [0, 1, 1_472, 9_000, 65_507].map(|size| payload(5, size)).to_vec();
        for datagram in &sent {
            source.send_to(datagram, address(&workers, 0)).unwrap();
        }
        for (datagram, expected) in receive(&sinks[0], sent.len()).iter().zip(&sent) {
            assert!(datagram.0 == *expected);
            assert_eq!(datagram.1, "127.0.0.77:4321".parse().unwrap());
        }
        let ledger = finish(&workers);
        assert_eq!(ledger.destinations[0].sent.datagrams, 5);
        assert_eq!(ledger.destinations[1].drops[Reason::Family], 5, "an IPv4 address cannot be kept on IPv6");
    })
    .unwrap();
}

#[test]
fn a_multicast_datagram_is_copied_once_however_many_workers() {
    let Some([near, far]) = cable(1500) else { return };
    near.run(|| {
        let sink = sink("127.0.0.1:0");
        let mut settings = settings(&[sink.local_addr().unwrap()]);
        settings.workers = 2;
        settings.listeners = vec![listener("0.0.0.0:0")];
        let group = |interface: &str| crate::settings::Membership {
            group: "239.1.1.1".parse().unwrap(),
            source: None,
            interface: Some(interface.into()),
        };
        settings.listeners[0].groups = vec![group("lo"), group("eth0")];
        let workers = start(settings);
        let port = address(&workers, 0).port();
        let send = |from: &str, interface: &str, to: &str| {
            let source = UdpSocket::bind((from, 0)).unwrap();
            source.set_broadcast(true).unwrap();
            setsockopt(&source, sockopt::BindToDevice, &interface.into()).unwrap();
            source.send_to(to.as_bytes(), (to, port)).unwrap();
        };
        send("127.0.0.1", "lo", "239.1.1.1");
        send("127.0.0.1", "lo", "127.0.0.1");
        far.run(|| {
            for to in ["239.1.1.1", "10.0.0.255", "255.255.255.255", "10.0.0.1"] {
                send("10.0.0.2", "eth0", to);
            }
        });
        let mut got = payloads(&sink, 6);
        got.sort();
        let expected = ["10.0.0.1", "10.0.0.255", "127.0.0.1", "239.1.1.1", "239.1.1.1", "255.255.255.255"];
        assert_eq!(got, expected.map(|to| to.as_bytes().to_vec()));
        let ledger = finish(&workers);
        assert_eq!(ledger.listeners[0].received.datagrams, 6);
        assert_empty(&sink);
    });
}
