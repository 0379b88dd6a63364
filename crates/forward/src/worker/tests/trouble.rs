//! Destinations in trouble: each costs itself alone, and every copy is accounted for.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use weir_testbed::network::cable;
use weir_units::Size;

use super::fixture::*;
use crate::counters::REMOVED;
use crate::drops::Reason;
use crate::plan::Plan;
use crate::settings::{Group, Matching, Policy, Recipient, Target};

/// 10,000 datagrams for two that live, and one that never answers ARP.
#[test]
fn a_neighbour_that_never_answers_costs_the_others_nothing() {
    let Some([near, _far]) = cable(1500) else { return };
    near.run(|| {
        let sinks = [sink("127.0.0.1:0"), sink("127.0.0.1:0")];
        let dead: SocketAddr = "10.0.0.99:9".parse().unwrap();
        let live = sinks.each_ref().map(|sink| sink.local_addr().unwrap());
        let mut settings = settings(&[dead, live[0], live[1]]);
        settings.destinations[0].queue = Size { bytes: 64 << 10 };
        let workers = start(settings);
        let source = source(address(&workers, 0));
        for round in 0..40 {
            for number in 0..250 {
                source.send(&payload(round * 250 + number, 500)).unwrap();
            }
            for sink in &sinks {
                for (at, datagram) in payloads(sink, 250).iter().enumerate() {
                    assert!(*datagram == payload(round * 250 + at as u32, 500));
                }
            }
        }
        workers.stop(Duration::from_millis(50));
        let ledger = workers.ledger();
        assert!(ledger.closed, "{ledger:#?}");
        for to in live {
            assert_eq!(count(&ledger, to).sent.datagrams, 10_000);
        }
        assert_eq!(count(&ledger, dead).copies.datagrams, 10_000);
    });
}

#[test]
fn a_firewall_that_forbids_is_named() {
    let Some(nft) = weir_testbed::program("nft") else { return };
    let Some([near, _far]) = cable(1500) else { return };
    let forbid = "table inet tee { chain out { type filter hook output priority 0; udp dport 9 drop; }; }";
    // A child is in the network of the thread that made it.
    assert!(near.run(|| Command::new(nft).arg(forbid).status()).unwrap().success());
    near.run(|| {
        let sink = sink("127.0.0.1:0");
        let forbidden: SocketAddr = "10.0.0.2:9".parse().unwrap();
        let workers = start(settings(&[forbidden, sink.local_addr().unwrap()]));
        let source = source(address(&workers, 0));
        for number in 0..1_000 {
            source.send(&payload(number, 300)).unwrap();
        }
        payloads(&sink, 1_000);
        let count = count(&finish(&workers), forbidden);
        assert_eq!((count.sent.datagrams, count.drops[Reason::Refused]), (0, 1_000));
        assert_eq!(count.healthy, Some(false));
    });
}

#[test]
fn a_name_without_address_and_an_address_without_route_are_no_reason_not_to_start() {
    let Some([near, _far]) = cable(1500) else { return };
    near.run(|| {
        let sink = sink("127.0.0.1:0");
        let away: SocketAddr = "192.0.2.1:9".parse().unwrap();
        let mut settings = settings(&[away, sink.local_addr().unwrap(), sink.local_addr().unwrap()]);
        settings.destinations[2].name = "later".into();
        settings.destinations[2].to = Target::Name("later.invalid".into(), 9);
        let workers = start(settings.clone());
        let source = source(address(&workers, 0));
        source.send(b"one").unwrap();
        assert_eq!(payloads(&sink, 1), [b"one"]);
        let ledger = workers.ledger();
        assert!(ledger.closed);
        assert_eq!(count(&ledger, away).drops[Reason::Unreachable], 1);
        assert_eq!(count(&ledger, "later").drops[Reason::Unresolved], 1);
        let why: Vec<_> = workers.with_sockets(|_, sockets| sockets.closed().map(|(_, why)| why.to_owned()).collect());
        assert_eq!(why, ["connect to 192.0.2.1:9: network is unreachable (no route leads there)"]);
        // A route and an address turn up: the same settings again.
        let mut links = near.netlink();
        let index = links.link("eth0").unwrap().index;
        links.add_route("192.0.2.0/24".parse().unwrap(), None, index).unwrap();
        let found = [(2, vec![sink.local_addr().unwrap()])].into();
        let plan = Plan::build(std::sync::Arc::new(settings), &found, Some(&workers.plan()));
        let sockets = workers.open(&plan).unwrap();
        assert_eq!(sockets.closed().count(), 0);
        workers.replace(plan, sockets);
        source.send(b"two").unwrap();
        assert_eq!(payloads(&sink, 2), [b"two", b"two"]);
        workers.stop(Duration::from_millis(10));
        let ledger = workers.ledger();
        assert!(ledger.closed, "{ledger:#?}");
        assert_eq!(count(&ledger, away).drops[Reason::Unreachable], 1);
        assert_eq!(count(&ledger, "later").sent.datagrams, 1);
        assert_eq!(count(&ledger, REMOVED).drops[Reason::Unresolved], 1, "before it resolved");
    });
}

#[test]
fn a_closed_port_makes_the_next_one_take_over() {
    let held = closed_port();
    let closed = held.local_addr().unwrap();
    let sinks = [sink("127.0.0.1:0"), sink("127.0.0.1:0")];
    let mut settings = settings(&[closed, sinks[0].local_addr().unwrap(), sinks[1].local_addr().unwrap()]);
    settings.groups = vec![Group { name: "pair".into(), policy: Policy::Failover, members: vec![0, 1] }];
    settings.rules = vec![rule(vec![Recipient::Group(0)]), rule(vec![Recipient::Destination(2)])];
    settings.rules[1].name = "witness".into();
    settings.matching = Matching::All;
    let workers = start(settings);
    let source = source(address(&workers, 0));
    let mut sent = 0;
    while count(&workers.ledger(), closed).healthy == Some(true) {
        source.send(b"x").unwrap();
        payloads(&sinks[1], 1);
        sent += 1;
        assert!(sent < 10);
    }
    source.send(b"y").unwrap();
    assert_eq!(payloads(&sinks[0], 1), [b"y"]);
    let ledger = finish(&workers);
    let first = count(&ledger, closed);
    assert!(first.icmp_errors > 0);
    assert_eq!(first.sent.datagrams, sent, "the kernel took them");
}

#[test]
fn what_a_protocol_does_not_allow_is_counted() {
    let sinks = [sink("127.0.0.1:0"), sink("[::1]:0")];
    let to = sinks.each_ref().map(|sink| sink.local_addr().unwrap());
    let mut settings = settings(&to);
    settings.listeners = vec![listener("[::1]:0")];
    let workers = start(settings);
    let source = source(address(&workers, 0));
    // The longest datagram of IPv6 is longer than that of IPv4.
    for size in [65_527, 65_507] {
        source.send(&payload(1, size)).unwrap();
    }
    assert!(payloads(&sinks[0], 1) == [payload(1, 65_507)]);
    assert!(payloads(&sinks[1], 2) == [payload(1, 65_527), payload(1, 65_507)]);
    let ledger = finish(&workers);
    assert_eq!(count(&ledger, to[0]).drops[Reason::TooLong], 1);
    assert_eq!(count(&ledger, to[1]).drops.total(), 0);
}
