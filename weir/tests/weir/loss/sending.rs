//! Lost before they left the sender.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;

use super::scene::{grown, set};
use super::{Reader, Scene, expect_errors};
use weir_testbed::await_that;

#[test]
fn no_route() {
    let Some(mut scene) = Scene::set() else { return };
    let reader = Reader::start(scene.listen());
    let (free, bound) = (scene.source(), scene.source());
    // A socket keeps its peer when its route goes.
    scene.ip(&scene.sender, "route add 198.51.100.0/24 dev eth0");
    bound.connect(("198.51.100.1", scene.port)).unwrap();
    scene.ip(&scene.sender, "route del 198.51.100.0/24 dev eth0");
    let before = scene.sender.counters();
    let following = scene.follow();
    for (number, lost) in scene.order().into_iter().enumerate() {
        let payload = scene.payload(lost);
        match (lost, number % 2) {
            (false, _) => assert_eq!(free.send_to(&payload, scene.to()).unwrap(), payload.len()),
            (true, 0) => expect_errors(bound.send(&payload), Errno::ENETUNREACH),
            (true, _) => expect_errors(free.send_to(&payload, ("203.0.113.1", scene.port)), Errno::ENETUNREACH),
        }
    }
    reader.await_count(scene.kept);
    assert_eq!(grown(&scene.sender, &before, "Ip", "OutNoRoutes"), scene.lost);
    scene.closes(following, "no_route");
}

/// Whatever else sends well: the calls of a socket that never sends are told, by their error.
#[test]
fn failed_calls_beside_a_sender_are_told() {
    let Some(scene) = Scene::set() else { return };
    let reader = Reader::start(scene.listen());
    let (well, failing) = (scene.source(), scene.source());
    let following = scene.follow();
    for _ in 0..scene.kept {
        well.send_to(b"well", scene.to()).unwrap();
    }
    for _ in 0..scene.lost {
        expect_errors(failing.send_to(b"lost", ("203.0.113.1", scene.port)), Errno::ENETUNREACH);
    }
    reader.await_count(scene.kept);
    let account = following.end().traced();
    let ledger = account.of(scene.port);
    ledger.closes(scene.kept, scene.kept, &[]);
    let told = format!("where {} failed calls would have gone (ENETUNREACH, no route)", scene.lost);
    let unknown = ledger.0["unknown"].as_array().unwrap();
    assert!(unknown.iter().any(|words| words.as_str().unwrap().starts_with(&told)), "{unknown:?}");
}

#[test]
fn no_route_for_ipv6() {
    let Some(mut scene) = Scene::set() else { return };
    let reader = Reader::start(scene.receiver.run(|| UdpSocket::bind(scene.to6())).unwrap());
    let socket = scene.sender.run(|| UdpSocket::bind(scene.sender.at6(0))).unwrap();
    let following = scene.follow();
    for lost in scene.order() {
        let payload = scene.payload(lost);
        if lost {
            expect_errors(socket.send_to(&payload, ("2001:db8::1", scene.port)), Errno::ENETUNREACH);
        } else {
            assert_eq!(socket.send_to(&payload, scene.to6()).unwrap(), payload.len());
        }
    }
    reader.await_count(scene.kept);
    scene.closes(following, "no_route");
}

#[test]
fn firewall_out() {
    let Some(mut scene) = Scene::set() else { return };
    let reader = Reader::start(scene.listen());
    let socket = scene.source();
    let rule = scene.dropping("ip", "output");
    scene.nft(&scene.sender, &rule);
    let following = scene.follow();
    for lost in scene.order() {
        let payload = scene.payload(lost);
        let result = socket.send_to(&payload, scene.to());
        if lost { expect_errors(result, Errno::EPERM) } else { assert_eq!(result.unwrap(), payload.len()) }
    }
    reader.await_count(scene.kept);
    assert_eq!(scene.matched(&scene.sender), scene.lost);
    scene.closes(following, "firewall_out");
}

#[test]
fn send_buffer() {
    let Some(mut scene) = Scene::set() else { return };
    let reader = Reader::start(scene.listen());
    // 1 ms a datagram, and a queue that holds more than the buffer.
    scene.tc(&scene.sender, "qdisc add dev eth0 root tbf rate 8mbit burst 2000 limit 1000000");
    let socket = scene.source();
    setsockopt(&socket, sockopt::SndBuf, &1).unwrap();
    socket.set_nonblocking(true).unwrap();
    let payload = vec![0; scene.seed.size(900..1100)];
    let following = scene.follow();
    let (mut sent, mut failed) = (0, 0);
    while failed < scene.lost {
        match socket.send_to(&payload, scene.to()) {
            Ok(_) => sent += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                failed += 1;
            }
        }
    }
    assert!(sent > 0);
    reader.await_count(sent);
    let account = following.end().traced();
    account.of(scene.port).closes(sent + failed, sent, &[("send_buffer", failed)]);
}

#[test]
fn queue_full() {
    let Some(mut scene) = Scene::set() else { return };
    // Nothing else may be in the queue, for its counter counts everything.
    set(&scene.sender.ns, &[("ipv6/conf/all/disable_ipv6", "1")]);
    let reader = Reader::start(scene.listen_roomy());
    let limit = scene.seed.number(4..12) * 1000;
    scene.tc(&scene.sender, &format!("qdisc add dev eth0 root tbf rate 2mbit burst 2000 limit {limit}"));
    let socket = scene.source();
    let size = scene.seed.size(300..900);
    let following = scene.follow();
    // Several times what the queue holds: it is full even if it drains in the middle, while the sender stands still.
    let sent = 150 + scene.lost;
    for _ in 0..sent {
        // It does well, whatever becomes of the datagram.
        assert_eq!(socket.send_to(&vec![0; size], scene.to()).unwrap(), size);
    }
    let queue = || serde_json::from_str::<Value>(&scene.tc(&scene.sender, "-s -j qdisc show dev eth0")).unwrap();
    await_that("the queue to drain", || queue()[0]["qlen"] == 0);
    let dropped = queue()[0]["drops"].as_u64().unwrap();
    assert!(dropped > 0, "the queue was never full");
    reader.await_count(sent - dropped);
    let account = following.end().traced();
    account.of(scene.port).closes(sent, sent - dropped, &[("qdisc", dropped)]);
}

#[test]
fn neighbour_dead() {
    let Some(mut scene) = Scene::set() else { return };
    // Three questions, 20 ms apart; a queue that holds a few: the others are dropped at once.
    let settings = [
        ("ipv4/neigh/eth0/retrans_time_ms", "20"),
        ("ipv4/neigh/eth0/mcast_solicit", "3"),
        ("ipv4/neigh/eth0/unres_qlen_bytes", "16000"),
    ];
    set(&scene.sender.ns, &settings);
    let reader = Reader::start(scene.listen());
    let socket = scene.source();
    let following = scene.follow();
    for lost in scene.order() {
        let payload = scene.payload(lost);
        let to = if lost { (Ipv4Addr::new(10, 0, 0, 200), scene.port).into() } else { scene.to() };
        assert_eq!(socket.send_to(&payload, to).unwrap(), payload.len());
    }
    reader.await_count(scene.kept);
    await_that("the neighbour to be given up", || {
        scene.ip(&scene.sender, "neigh show 10.0.0.200 dev eth0").contains("FAILED")
    });
    scene.closes(following, "neighbour");
}

#[test]
fn cable_out() {
    let Some(scene) = Scene::set() else { return };
    let reader = Reader::start(scene.listen());
    let socket = scene.source();
    let mut switch = weir_kernel::links::Netlink::open(scene.sender.switch()).unwrap();
    let port = switch.link("sender").unwrap().index;
    let eth0 = || scene.sender.netlink().link("eth0").unwrap();
    switch.set_down(port).unwrap();
    await_that("the carrier to go", || !eth0().running);
    let following = scene.follow();
    let payload = scene.payload(true);
    for _ in 0..scene.lost {
        assert_eq!(socket.send_to(&payload, scene.to()).unwrap(), payload.len());
    }
    switch.set_up(port).unwrap();
    switch.wait_until_running("sender").unwrap();
    scene.sender.netlink().wait_until_running("eth0").unwrap();
    for _ in 0..scene.kept {
        socket.send_to(&scene.payload(false), scene.to()).unwrap();
    }
    reader.await_count(scene.kept);
    let account = following.end().traced();
    let place = account.of(scene.port).places()[0].0.to_owned();
    assert!(["qdisc", "transmit"].contains(&&*place), "{place}");
    account.of(scene.port).closes(scene.kept + scene.lost, scene.kept, &[(&place, scene.lost)]);
}

/// Sender and receiver joined by tun devices; what passes is in the test's hands.
#[test]
fn tun_ring_full() {
    let Some(scene) = Scene::set() else { return };
    let [(mut from, _), (mut to, address)] = scene.tuns();
    let address = SocketAddr::new(address, scene.port);
    let reader = Reader::start(scene.receiver.run(|| UdpSocket::bind(address)).unwrap());
    let socket = scene.sender.run(|| UdpSocket::bind("10.1.0.1:0")).unwrap();
    let following = scene.follow();
    let (kept, sent) = (64, 64 + scene.lost);
    for _ in 0..sent {
        socket.send_to(&scene.payload(false), address).unwrap();
    }
    // The ring keeps its length and no more.
    let mut packet = [0; 2000];
    for _ in 0..kept {
        let length = from.read(&mut packet).unwrap();
        to.write_all(&packet[..length]).unwrap();
    }
    reader.await_count(kept);
    let dropped = scene.ip(&scene.sender, "-s -j link show tun0");
    let dropped: Value = serde_json::from_str(&dropped).unwrap();
    assert_eq!(dropped[0]["stats64"]["tx"]["dropped"], scene.lost, "{dropped}");
    let account = following.end().traced();
    account.of(scene.port).closes(sent, kept, &[("transmit", scene.lost)]);
}

/// A call that stands for many datagrams loses all of them at once.
#[test]
fn firewall_out_of_joined_datagrams() {
    let Some(mut scene) = Scene::set() else { return };
    let reader = Reader::start(scene.listen());
    let (kept, lost) = (scene.source(), scene.source());
    for socket in [&kept, &lost] {
        socket.connect(scene.to()).unwrap();
        setsockopt(socket, sockopt::UdpGsoSegment, &100).unwrap();
    }
    let rule = format!(
        "add table ip t; add chain ip t out {{ type filter hook output priority 0; }}; \
         add rule ip t out udp dport {} udp sport {} counter drop",
        scene.port,
        lost.local_addr().unwrap().port(),
    );
    scene.nft(&scene.sender, &rule);
    let (calls, segments) = (scene.seed.number(2..9), scene.seed.number(2..20));
    let payload = vec![0; 100 * usize::try_from(segments).unwrap()];
    let following = scene.follow();
    for _ in 0..calls {
        expect_errors(lost.send(&payload), Errno::EPERM);
        assert_eq!(kept.send(&payload).unwrap(), payload.len());
    }
    reader.await_count(calls * segments);
    assert_eq!(scene.matched(&scene.sender), calls);
    let account = following.end().traced();
    account.of(scene.port).closes(2 * calls * segments, calls * segments, &[("firewall_out", calls * segments)]);
}

/// The host's own routes that forbid: the call fails, and the account names the route.
#[test]
fn routes_that_lead_nowhere_are_named() {
    let Some(scene) = Scene::set() else { return };
    let to = (Ipv4Addr::new(203, 0, 113, 1), scene.port);
    for (kind, errno, reason) in [("blackhole", Errno::EINVAL, "EINVAL"), ("prohibit", Errno::EACCES, "EACCES")] {
        scene.ip(&scene.sender, &format!("route replace {kind} 203.0.113.0/24"));
        let socket = scene.source();
        let following = scene.follow();
        for _ in 0..scene.lost {
            expect_errors(socket.send_to(&scene.payload(true), to), errno);
        }
        let account = following.end().traced();
        let ledger = account.without_receiver();
        assert_eq!(ledger.places(), [("send_error", scene.lost)], "{:#}", ledger.0);
        let place = &ledger.0["places"][0];
        let remedy = place["remedy"].as_str().unwrap();
        assert!(place["reason"] == reason && remedy.contains(&format!("a {kind} route")), "{place:#}");
    }
}
