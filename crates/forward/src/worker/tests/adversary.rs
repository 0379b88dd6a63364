//! Networks that an adversary would choose.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Arc;

use weir_testbed::network::{Host, cable};
use weir_testbed::program;

use super::fixture::*;
use crate::drops::Reason;
use crate::plan::Plan;
use crate::settings::Membership;

/// As in a container without IPv6, where a name has an address of it.
#[test]
fn an_address_of_a_family_that_is_off_is_no_reason_not_to_start() {
    let Some([near, _far]) = cable(1500) else { return };
    near.run(|| {
        for interface in ["all", "lo", "eth0"] {
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"), "1").unwrap();
        }
        let sink = sink("127.0.0.1:0");
        let away: SocketAddr = "[2001:db8::1]:9".parse().unwrap();
        let workers = start(settings(&[away, sink.local_addr().unwrap()]));
        source(address(&workers, 0)).send(b"one").unwrap();
        assert_eq!(payloads(&sink, 1), [b"one"]);
        assert_eq!(count(&finish(&workers), away).drops[Reason::Unreachable], 1);
    });
}

/// Blackhole (EINVAL) and prohibit (EACCES) routes.
#[test]
fn a_route_that_forbids_is_no_reason_not_to_start() {
    let Some(ip) = program("ip") else { return };
    for kind in ["blackhole", "prohibit", "unreachable"] {
        let Some([near, _far]) = cable(1500) else { return };
        let route = || Command::new(&ip).args(["route", "add", kind, "192.0.2.0/24"]).status();
        assert!(near.run(route).unwrap().success());
        near.run(|| {
            let sink = sink("127.0.0.1:0");
            let away: SocketAddr = "192.0.2.1:9".parse().unwrap();
            let workers = start(settings(&[away, sink.local_addr().unwrap()]));
            source(address(&workers, 0)).send(b"one").unwrap();
            assert_eq!(payloads(&sink, 1), [b"one"], "{kind}");
            finish(&workers);
        });
    }
}

/// How a group comes to a listener.
#[derive(Clone, Copy, Debug)]
enum Heard {
    FromTheStart,
    AfterAReload,
    /// Another program of the machine has joined it.
    Foreign,
    Broadcast,
}

/// What the kernel gives to every socket of a listener, one worker takes, and it is nobody's loss.
#[test]
fn copies_that_a_worker_leaves_to_another_are_no_kernel_drops() {
    let Some([near, far]) = cable(1500) else { return };
    let kinds = [
        ("239.1.1.1", Heard::FromTheStart),
        ("239.1.1.1", Heard::AfterAReload),
        ("239.1.1.1", Heard::Foreign),
        ("10.0.0.255", Heard::Broadcast),
        ("255.255.255.255", Heard::Broadcast),
    ];
    for (listener, workers) in [("0.0.0.0:0", 2), ("0.0.0.0:0", 4), ("[::]:0", 2), ("[::]:0", 4)] {
        for (to, heard) in kinds {
            // An IPv6 socket does not hear the IPv4 groups of others.
            if matches!(heard, Heard::Foreign) && listener.starts_with('[') {
                continue;
            }
            let case = format!("{listener} {workers} {to} {heard:?}");
            near.run(|| is_taken_once(&far, listener, workers, to, heard, &case));
        }
    }
}

fn is_taken_once(far: &Host, listener: &str, workers: usize, to: &str, heard: Heard, case: &str) {
    let sink = sink("127.0.0.1:0");
    let mut before = settings(&[sink.local_addr().unwrap()]);
    before.workers = workers;
    before.listeners[0].address = listener.parse().unwrap();
    let to: IpAddr = to.parse().unwrap();
    let mut member = before.clone();
    member.listeners[0].groups = vec![Membership { group: to, source: None, interface: Some("eth0".into()) }];
    let stranger = UdpSocket::bind("0.0.0.0:0").unwrap();
    let workers = match heard {
        Heard::FromTheStart => start(member),
        Heard::AfterAReload => {
            let workers = start(before);
            reload(&workers, member);
            workers
        }
        Heard::Foreign => {
            stranger.join_multicast_v4(&"239.1.1.1".parse().unwrap(), &Ipv4Addr::new(10, 0, 0, 1)).unwrap();
            start(before)
        }
        Heard::Broadcast => start(before),
    };
    let port = address(&workers, 0).port();
    // Several senders: were their flows spread, some would be the second worker's. Empty ones, for they are easily lost.
    let sent: Vec<_> = (0..200).map(|number| payload(number, (number % 100) as usize)).collect();
    let send = || {
        let sources = [(); 4].map(|()| UdpSocket::bind("10.0.0.2:0").unwrap());
        for (number, payload) in sent.iter().enumerate() {
            let source = &sources[number % sources.len()];
            source.set_broadcast(true).unwrap();
            socket2::SockRef::from(source).set_multicast_if_v4(&Ipv4Addr::new(10, 0, 0, 2)).unwrap();
            source.send_to(payload, (to, port)).unwrap();
            source.send_to(payload, ("10.0.0.1", port)).unwrap();
        }
    };
    far.run(send);
    let mut received = payloads(&sink, 400);
    for ledger in [workers.ledger(), finish(&workers)] {
        let listener = &ledger.listeners[0];
        assert_eq!((listener.received.datagrams, listener.kernel_drops), (400, Some(0)), "{case}");
        assert_eq!(count(&ledger, sink.local_addr().unwrap()).sent.datagrams, 400, "{case}");
    }
    assert_empty(&sink);
    let mut twice = [&sent[..], &sent[..]].concat();
    twice.sort_unstable();
    received.sort_unstable();
    assert!(received == twice, "{case}");
}

/// A plan that does not come about leaves no trace: a socket in use is in no group that the plan had for it.
#[test]
fn a_plan_that_fails_leaves_the_groups_that_it_joined() {
    let Some([near, _far]) = cable(1500) else { return };
    let memberships = || {
        let table = std::fs::read_to_string("/proc/thread-self/net/igmp").unwrap();
        // Groups stand in it as words in network order.
        table.lines().filter(|line| line.trim_start().starts_with("010101EF")).count()
    };
    near.run(|| {
        let sink = sink("127.0.0.1:0");
        let mut settings = settings(&[sink.local_addr().unwrap()]);
        settings.listeners[0].address = "0.0.0.0:0".parse().unwrap();
        let workers = start(settings.clone());
        let group = "239.1.1.1".parse().unwrap();
        settings.listeners[0].groups = vec![Membership { group, source: None, interface: Some("eth0".into()) }];
        let mut failing = settings.clone();
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        failing.listeners.push(listener(&taken.local_addr().unwrap().to_string()));
        failing.listeners[1].name = "second".into();
        let plan = Plan::build(Arc::new(failing), &BTreeMap::new(), Some(&workers.plan()));
        assert!(workers.open(&plan).is_err());
        assert_eq!(memberships(), 0);
        reload(&workers, settings);
        assert_eq!(memberships(), 1);
        finish(&workers);
    });
}

/// As by DHCP, or when a virtual address moves: a connected socket would insist on the address that is gone.
#[test]
fn another_address_of_this_machine_is_found() {
    let Some([near, far]) = cable(1500) else { return };
    let Some(ip) = program("ip") else { return };
    let ip = |args: &str| Command::new(&ip).args(args.split(' ')).status().unwrap().success();
    let sink = far.run(|| sink("10.0.0.2:0"));
    near.run(|| {
        let to = sink.local_addr().unwrap();
        let workers = start(settings(&[to]));
        let source = source(address(&workers, 0));
        source.send(b"before").unwrap();
        assert_eq!(receive(&sink, 1)[0].1.ip(), Ipv4Addr::new(10, 0, 0, 1));
        assert!(ip("address add 10.0.0.3/24 dev eth0"));
        // The second address of a network goes with the first, unless it is promoted.
        std::fs::write("/proc/sys/net/ipv4/conf/eth0/promote_secondaries", "1").unwrap();
        assert!(ip("address del 10.0.0.1/24 dev eth0"));
        let unreachable = || count(&workers.ledger(), to).drops[Reason::Unreachable];
        source.send(b"lost").unwrap();
        while unreachable() == 0 {
            std::thread::yield_now();
        }
        source.send(b"after").unwrap();
        let (payload, from) = receive(&sink, 1).remove(0);
        assert_eq!((&payload[..], from.ip()), (&b"after"[..], Ipv4Addr::new(10, 0, 0, 3).into()));
        finish(&workers);
    });
}
