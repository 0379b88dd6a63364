//! Multicast in and out through a bridge that snoops, and broadcast out.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6, UdpSocket};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use weir_kernel::offloads::{Offload, Offloads};

use super::datagrams::{Sink, assert_same, send_all, source};
use super::network::{Host, await_that, network};
use super::{Tee, program};

#[test]
fn groups_of_any_source_are_heard() {
    let Some([client, other, host, a, b]) = network(["client", "other", "tee", "a", "b"]) else { return };
    let (sink4, sink6) = (Sink::bind(&a, a.at(5000)), Sink::bind(&b, b.at6(5000)));
    let tee = Tee::configured(
        &host,
        r#"
        listener = [
            { name = "any", address = "0.0.0.0:6343", join = { group = "239.1.1.1", interface = "eth0" } },
            { name = "one", address = "239.2.2.2:6344", interface = "eth0" },
            { name = "six", address = "[::]:6345", join = { group = "ff15::1", interface = "eth0" } },
        ]
        destination = [{ to = "10.0.0.4:5000" }, { to = "[fd00::5]:5000" }]
        "#,
    );
    let mut expected = Vec::new();
    for (host, name) in [(&client, "client"), (&other, "other")] {
        for (group, socket) in [
            (v4([239, 1, 1, 1], 6343), speaker4(host)),
            (v4([239, 2, 2, 2], 6344), speaker4(host)),
            (v6(host, "ff15::1", 6345), source(host, host.at6(0))),
        ] {
            let payloads: Vec<Vec<u8>> =
                (0..50).map(|number| format!("{name} {group} {number}").into_bytes()).collect();
            send_all(&socket, group, &payloads, &[&sink4, &sink6]);
            expected.extend(payloads);
        }
    }
    // A group that was not joined, and the host's own address: the one is not heard, the other is.
    send_all(&speaker4(&client), v4([239, 9, 9, 9], 6343), &[b"not joined".to_vec()], &[]);
    send_all(&source(&client, client.at(0)), host.at(6343), &[b"unicast".to_vec()], &[&sink4, &sink6]);
    expected.push(b"unicast".to_vec());
    assert_eq!(sink4.payloads(301), expected);
    assert_eq!(sink6.payloads(301), expected);
    let account = tee.end();
    account.is_lossless(301);
    let received = |name: &str| account.entry("listeners", name)["received"]["datagrams"].as_u64();
    assert_eq!([received("any"), received("one"), received("six")], [Some(101), Some(100), Some(100)]);
}

#[test]
fn groups_of_one_source_exclude_others() {
    let Some([client, other, host, a, b]) = network(["client", "other", "tee", "a", "b"]) else { return };
    let sink = Sink::bind(&a, a.at(5000));
    // Somebody who hears every source shows that the others were on the wire.
    let witness4 = Sink::adopt(member(&b, v4([232, 1, 1, 1], 6343)));
    let witness6 = Sink::adopt(member(&b, v6(&b, "ff35::1", 6344)));
    let tee = Tee::configured(
        &host,
        r#"
        listener = [
            { name = "4", address = "0.0.0.0:6343", join = { group = "232.1.1.1", source = "10.0.0.1", interface = "eth0" } },
            { name = "6", address = "[::]:6344", join = { group = "ff35::1", source = "fd00::1", interface = "eth0" } },
        ]
        destination = [{ to = "10.0.0.4:5000" }]
        "#,
    );
    let payloads = |text: &str| (0..100).map(|number| format!("{text} {number}").into_bytes()).collect::<Vec<_>>();
    for (host, sinks) in [(&other, &[][..]), (&client, &[&sink])] {
        let sinks = |witness| [&[witness], sinks].concat();
        send_all(&speaker4(host), v4([232, 1, 1, 1], 6343), &payloads(host.name), &sinks(&witness4));
        send_all(&source(host, host.at6(0)), v6(host, "ff35::1", 6344), &payloads(host.name), &sinks(&witness6));
    }
    assert_eq!(sink.payloads(200), [payloads("client"), payloads("client")].concat());
    assert_eq!([witness4.count(), witness6.count()], [200, 200]);
    tee.end().is_lossless(200);
}

#[test]
fn a_bridge_that_snoops_sends_members_alone() {
    let Some(shell) = program("sh") else { return };
    let Some([client, host, a, stranger]) = network(["client", "tee", "a", "stranger"]) else { return };
    client.switch_asks(&shell);
    let sink = Sink::bind(&a, a.at(5000));
    // A switch floods as long as answers may be under way.
    let (probe, marker) = (speaker4(&client), Sink::bind(&stranger, stranger.at(5000)));
    await_that("the switch to know its members", || {
        let before = stranger.counters();
        probe.send_to(b"for nobody", v4([239, 8, 8, 8], 6343)).unwrap();
        send_all(&probe, stranger.at(5000), &[b"behind it".to_vec()], &[&marker]);
        stranger.counters().since(&before).get("IpExt", "InMcastPkts") == Some(0)
    });
    let before = stranger.counters();
    let tee = Tee::configured(
        &host,
        r#"
        listener = [{ address = "239.1.1.1:6343", interface = "eth0" }]
        destination = [{ to = "10.0.0.3:5000" }]
        "#,
    );
    // The kernel reports a membership a few milliseconds after it (net/ipv4/igmp.c, igmp_ifc_event).
    let (speaker, group) = (speaker4(&client), v4([239, 1, 1, 1], 6343));
    await_that("the membership to be reported", || {
        speaker.send_to(b"marker", group).unwrap();
        sink.count() > 0
    });
    let payloads: Vec<Vec<u8>> = (0..200u32).map(|number| number.to_be_bytes().to_vec()).collect();
    send_all(&speaker, group, &payloads, &[&sink]);
    sink.await_payload(&payloads[199]);
    let received = sink.payloads(200);
    let (markers, rest) = received.split_at(received.len() - 200);
    assert_same(rest, &payloads);
    assert!(markers.iter().all(|payload| payload == b"marker"));
    tee.end().is_lossless(received.len());
    // Nobody else got the group: the bridge knew from the tee's report where to send it. (A query is multicast, too.)
    let heard = stranger.counters().since(&before).get("IpExt", "InMcastPkts").unwrap();
    assert!(heard < 10, "{heard}");
}

#[test]
fn broadcast_is_taken_once_by_all_workers_together() {
    let Some([client, host, a]) = network(["client", "tee", "a"]) else { return };
    let sink = Sink::bind(&a, a.at(5000));
    let text = "workers = 4\nlistener = [{ address = \"0.0.0.0:6343\" }]\ndestination = [{ name = \"a\", to = \"10.0.0.3:5000\" }]";
    let tee = Tee::configured(&host, text);
    let socket = source(&client, client.at(0));
    socket.set_broadcast(true).unwrap();
    let payloads: Vec<Vec<u8>> = (0..200u32).map(|number| number.to_be_bytes().to_vec()).collect();
    for to in [v4([10, 0, 0, 255], 6343), v4([255, 255, 255, 255], 6343), host.at(6343)] {
        // One source's datagrams to different addresses may take different workers: one after the other.
        send_all(&socket, to, &payloads, &[&sink]);
        assert_same(&sink.payloads(200), &payloads);
    }
    tee.end().is_lossless(600);
}

#[test]
fn groups_and_broadcast_reach_all_that_listen() {
    let Some(nft) = program("nft") else { return };
    let Some([client, host, a, b]) = network(["client", "tee", "a", "b"]) else { return };
    let ports = [5001, 5002, 5003, 5004];
    let sinks = [&a, &b].map(|host| {
        ports.map(|port| match port {
            5001 => Sink::adopt(member(host, v4([239, 3, 3, 3], port))),
            5002 => Sink::adopt(member(host, v6(host, "ff15::3", port))),
            _ => Sink::bind(host, v4([0, 0, 0, 0], port)),
        })
    });
    // A joined send would be one packet to a firewall that is not behind a wire.
    let mut offloads = Offloads::open(&host.ns).unwrap();
    for offload in Offload::ALL {
        offloads.set("eth0", offload, false).unwrap();
    }
    // Counts what has the hop limit and the code point that the tee was told, before any socket.
    let rules = "add table inet t; add chain inet t in { type filter hook input priority 0; }; \
                 add rule inet t in ip daddr 239.3.3.3 ip ttl 7 ip dscp ef counter; \
                 add rule inet t in ip6 daddr ff15::3 ip6 hoplimit 8 ip6 dscp cs1 counter";
    a.output(&nft, &[rules]);
    let tee = Tee::configured(
        &host,
        r#"
        listener = [{ address = "10.0.0.2:5000" }]
        destination = [
            { name = "4", to = "239.3.3.3:5001", interface = "eth0", ttl = 7, dscp = 46, loopback = false },
            { name = "6", to = "[ff15::3]:5002", interface = "eth0", ttl = 8, dscp = 8 },
            { name = "net", to = "10.0.0.255:5003" },
            { name = "all", to = "255.255.255.255:5004", interface = "eth0" },
        ]
        "#,
    );
    let mut payloads: Vec<Vec<u8>> = (0..100u32).map(|number| number.to_be_bytes().to_vec()).collect();
    payloads.extend([vec![], vec![7; 1473]]);
    let everyone: Vec<&Sink> = sinks.iter().flatten().collect();
    send_all(&source(&client, client.at(0)), host.at(5000), &payloads, &everyone);
    for sink in everyone {
        let received = sink.take(payloads.len());
        assert!(received.iter().map(|datagram| &datagram.payload).eq(&payloads), "{}", sink.address);
        assert!(received.iter().all(|datagram| [host.at(0).ip(), host.at6(0).ip()].contains(&datagram.source.ip())));
    }
    tee.end().is_lossless(payloads.len());
    // Fragments are put together before the filter sees them in IPv4, and behind it in IPv6, where 1473 bytes are two.
    let listing = a.output(&nft, &["list ruleset"]);
    for (group, packets) in [("239.3.3.3", 102), ("ff15::3", 103)] {
        let rule = listing.lines().find(|line| line.contains(group)).unwrap();
        assert!(rule.contains(&format!(" counter packets {packets} ")), "{listing}");
    }
}

fn v4(group: [u8; 4], port: u16) -> SocketAddr {
    (Ipv4Addr::from(group), port).into()
}

/// A group as a host names it, with its interface.
fn v6(host: &Host, group: &str, port: u16) -> SocketAddr {
    SocketAddrV6::new(group.parse().unwrap(), port, 0, host.netlink().link("eth0").unwrap().index).into()
}

/// A socket that sends multicast by its host's interface.
fn speaker4(host: &Host) -> UdpSocket {
    let socket = source(host, host.at(0));
    SockRef::from(&socket).set_multicast_if_v4(&host.v4).unwrap();
    socket
}

/// A socket bound to a group that it has joined.
fn member(host: &Host, group: SocketAddr) -> UdpSocket {
    host.run(|| {
        let socket = Socket::new(Domain::for_address(group), Type::DGRAM, Some(Protocol::UDP)).unwrap();
        match group {
            SocketAddr::V4(group) => socket.join_multicast_v4(group.ip(), &host.v4).unwrap(),
            SocketAddr::V6(group) => socket.join_multicast_v6(group.ip(), group.scope_id()).unwrap(),
        }
        socket.bind(&group.into()).unwrap();
        socket.into()
    })
}
