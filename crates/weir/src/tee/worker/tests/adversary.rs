//! Networks that an adversary would choose.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;

use super::fixture::*;
use crate::tee::settings::Membership;

/// As in a container without IPv6, where a name has an address of it.
#[test]
fn an_address_of_a_family_that_is_off_is_no_reason_not_to_start() {
    let net = Net::create();
    net.near
        .run(|| {
            for interface in ["all", "lo", "near"] {
                std::fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"), "1").unwrap();
            }
            let sink = sink("127.0.0.1:0");
            let away: SocketAddr = "[2001:db8::1]:9".parse().unwrap();
            let workers = start(settings(&[away, sink.local_addr().unwrap()]));
            source(address(&workers, 0)).send(b"one").unwrap();
            assert_eq!(payloads(&sink, 1), [b"one"]);
            assert_eq!(count(&finish(&workers), away).drops.unreachable, 1);
        })
        .unwrap();
}

/// Blackhole (EINVAL) and prohibit (EACCES) routes.
#[test]
fn a_route_that_forbids_is_no_reason_not_to_start() {
    for kind in ["blackhole", "prohibit", "unreachable"] {
        let net = Net::create();
        let ip = || Command::new("ip").args(["route", "add", kind, "192.0.2.0/24"]).status();
        if !net.near.run(ip).unwrap().is_ok_and(|status| status.success()) {
            eprintln!("skipped: ip route");
            return;
        }
        net.near
            .run(|| {
                let sink = sink("127.0.0.1:0");
                let away: SocketAddr = "192.0.2.1:9".parse().unwrap();
                let workers = start(settings(&[away, sink.local_addr().unwrap()]));
                source(address(&workers, 0)).send(b"one").unwrap();
                assert_eq!(payloads(&sink, 1), [b"one"], "{kind}");
                finish(&workers);
            })
            .unwrap();
    }
}

/// Multicast: the second worker's socket must not even be offered it, or each would count as dropped there.
#[test]
fn copies_that_a_worker_leaves_to_another_are_no_kernel_drops() {
    let net = Net::create();
    let to = "239.1.1.1";
    net.near
        .run(|| {
            let sink = sink("127.0.0.1:0");
            let mut settings = settings(&[sink.local_addr().unwrap()]);
            settings.workers = 2;
            settings.listeners[0].address = "0.0.0.0:0".parse().unwrap();
            let group = to.parse().unwrap();
            settings.listeners[0].groups = vec![Membership { group, source: None, interface: Some("near".into()) }];
            let workers = start(settings);
            let port = address(&workers, 0).port();
            net.far
                .run(|| {
                    let socket = UdpSocket::bind("10.0.0.2:0").unwrap();
                    socket2::SockRef::from(&socket).set_multicast_if_v4(&Ipv4Addr::new(10, 0, 0, 2)).unwrap();
                    for number in 0..100 {
                        socket.send_to(&payload(number, 100), (to, port)).unwrap();
                    }
                })
                .unwrap();
            payloads(&sink, 100);
            assert_empty(&sink);
            for ledger in [workers.ledger(), finish(&workers)] {
                let listener = &ledger.listeners[0];
                assert_eq!((listener.received.datagrams, listener.kernel_drops), (100, Some(0)));
            }
        })
        .unwrap();
}
