//! Lost on the way to the receiver's socket.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use nix::sys::socket::{setsockopt, sockopt};
use weir_testbed::await_that;

use super::frames::{FrameSender, IP, UDP, frame, mend_header};
use super::scene::{grown, set};
use super::{Following, Reader, Scene, xdp};
use crate::network::Host;

#[test]
fn reverse_path() {
    let Some(mut scene) = Scene::set() else { return };
    set(&scene.receiver.ns, &[("ipv4/conf/all/rp_filter", "1")]);
    scene.ip(&scene.receiver, "route add 172.16.0.0/24 dev lo");
    scene.ip(&scene.sender, "address add 172.16.0.9/32 dev eth0");
    let reader = Reader::start(scene.listen());
    let (socket, stranger) = (scene.source(), scene.sender.run(|| UdpSocket::bind("172.16.0.9:0")).unwrap());
    let before = scene.receiver.counters();
    let following = scene.follow();
    for lost in scene.order() {
        if lost { &stranger } else { &socket }.send_to(&scene.payload(lost), scene.to()).unwrap();
    }
    reader.await_count(scene.kept);
    assert_eq!(grown(&scene.receiver, &before, "TcpExt", "IPReversePathFilter"), scene.lost);
    scene.closes(following, "reverse_path");
}

/// The kernel itself reads what comes to a tunnel.
#[test]
fn taken_by_the_kernel() {
    let Some(scene) = Scene::set() else { return };
    let ends = [(&scene.sender, &scene.receiver, "172.16.9.1"), (&scene.receiver, &scene.sender, "172.16.9.2")];
    for (host, other, address) in ends {
        let tunnel = format!("link add vx0 type vxlan id 7 local {} remote {} dstport 4789", host.v4, other.v4);
        scene.ip(host, &tunnel);
        scene.ip(host, &format!("address add {address}/24 dev vx0"));
        scene.ip(host, "link set vx0 up");
    }
    let reader = Reader::start(scene.receiver.run(|| UdpSocket::bind("172.16.9.2:5000")).unwrap());
    let source = scene.sender.run(|| UdpSocket::bind("172.16.9.1:0")).unwrap();
    let following = Following::port(4789, &[&scene.receiver.ns]);
    for _ in 0..20 {
        source.send_to(&[7; 100], "172.16.9.2:5000").unwrap();
    }
    reader.await_count(20);
    let account = following.end().traced();
    let ledger = account.of(4789);
    assert!(ledger.0["received"].as_u64() >= Some(20), "{:#}", ledger.0);
    assert_eq!((ledger.places(), ledger.unexplained()), (vec![], Some(0)), "{:#}", ledger.0);
    assert!(ledger.0["explanation"].to_string().contains("taken by the kernel itself"), "{:#}", ledger.0);
}

/// A published port (DNAT): what comes to it is read at another one, and the account says so.
#[test]
fn redirected_to_another_port() {
    let Some(scene) = Scene::set() else { return };
    let published = scene.port - 1000;
    scene.nft(
        &scene.receiver,
        &format!(
            "add table ip t; add chain ip t c {{ type nat hook prerouting priority -100; }}; \
             add rule ip t c udp dport {published} redirect to :{}",
            scene.port
        ),
    );
    let reader = Reader::start(scene.listen());
    let source = scene.source();
    let following = Following::port(published, &[&scene.sender.ns, &scene.receiver.ns]);
    for _ in 0..scene.kept {
        source.send_to(&scene.payload(false), scene.receiver.at(published)).unwrap();
    }
    reader.await_count(scene.kept);
    let account = following.end().traced();
    let ledger = account.without_receiver();
    assert_eq!((ledger.places(), ledger.unexplained()), (vec![], Some(scene.kept.cast_signed())), "{:#}", ledger.0);
    assert!(ledger.0["explanation"].to_string().contains("does a DNAT rule give them another port"), "{:#}", ledger.0);
}

/// What a promiscuous interface overhears was to come to somebody else: not lost here.
#[test]
fn overheard() {
    let Some(scene) = Scene::set() else { return };
    scene.ip(&scene.receiver, "link set eth0 promisc on");
    scene.ip(&scene.sender, &format!("neigh replace {} lladdr 02:00:00:00:00:99 dev eth0", scene.receiver.v4));
    let _reader = Reader::start(scene.listen());
    let source = scene.source();
    let following = Following::port(scene.port, &[&scene.receiver.ns]);
    let received = || {
        let links = weir_kernel::counters::links(&scene.receiver.ns).unwrap();
        links.iter().find(|link| link.name == "eth0").unwrap().statistics.rx_packets
    };
    let before = received();
    for _ in 0..20 {
        source.send_to(&[7; 100], scene.to()).unwrap();
    }
    await_that("all to be overheard", || received() >= before + 20);
    following.end().traced().of(scene.port).closes_from_arrival(0, 0, &[]);
}

#[test]
fn firewall_in() {
    let Some(mut scene) = Scene::set() else { return };
    let rule = scene.dropping("ip", "input");
    scene.nft(&scene.receiver, &rule);
    scene.firewall();
}

#[test]
fn connection_tracking() {
    let Some(mut scene) = Scene::set() else { return };
    let rule = format!(
        "add table ip t; add chain ip t pre {{ type filter hook prerouting priority -100; }}; \
         add rule ip t pre ct state new udp dport {} udp length {} counter drop",
        scene.port,
        8 + scene.lost_size,
    );
    scene.nft(&scene.receiver, &rule);
    scene.firewall();
}

impl Scene {
    /// A rule of the receiver drops what is to be lost.
    fn firewall(&mut self) {
        self.loses_at("firewall");
        assert_eq!(self.matched(&self.receiver), self.lost);
    }
}

#[test]
fn firewall_in_for_ipv6() {
    let Some(mut scene) = Scene::set() else { return };
    let rule = scene.dropping("inet", "input");
    scene.nft(&scene.receiver, &rule);
    let reader = Reader::start(scene.receiver.run(|| UdpSocket::bind(scene.to6())).unwrap());
    let socket = scene.sender.run(|| UdpSocket::bind(scene.sender.at6(0))).unwrap();
    let following = scene.follow();
    scene.send_all(&socket, scene.to6());
    reader.await_count(scene.kept);
    assert_eq!(scene.matched(&scene.receiver), scene.lost);
    scene.closes(following, "firewall");
}

#[test]
fn firewall_of_a_router_between() {
    let Some((mut scene, [router])) = Scene::with(["sender", "receiver", "router"]) else { return };
    let (from, to) = scene.lead_over(&router, "10.1.0.1", "10.2.0.1");
    let rule = scene.dropping("ip", "forward");
    scene.nft(&router, &rule);
    let reader = Reader::start(scene.receiver.run(|| UdpSocket::bind(to)).unwrap());
    let socket = scene.sender.run(|| UdpSocket::bind(from)).unwrap();
    let following = Following::port(scene.port, &[&scene.sender.ns, &router.ns, &scene.receiver.ns]);
    scene.send_all(&socket, to);
    reader.await_count(scene.kept);
    assert_eq!(scene.matched(&router), scene.lost);
    scene.closes(following, "firewall");
}

/// Of three fragments the second: the first comes to the receiver's namespace, which gives the datagram up.
#[test]
fn a_later_fragment_dropped_by_a_router_between() {
    let Some((mut scene, [router])) = Scene::with(["sender", "receiver", "router"]) else { return };
    let (from, to) = scene.lead_over(&router, "10.1.0.1", "10.2.0.1");
    let rule = "add table ip t; add chain ip t f { type filter hook forward priority 0; }; \
                add rule ip t f ip dscp 8 ip frag-off & 0x3fff > 0x2000 counter drop";
    scene.nft(&router, rule);
    let (_reader, following) = scene.send_fragments(from, to, Some(&router));
    assert_eq!(scene.matched(&router), scene.lost);
    scene.closes(following, "reassembly");
}

impl Scene {
    /// Both hosts are on the one switch, but these addresses of theirs, which they have from now on, only on the way over the
    /// router: from which to which is sent.
    fn lead_over(&self, router: &Host, sender: &str, receiver: &str) -> (SocketAddr, SocketAddr) {
        let ends = [sender, receiver].map(|address| address.parse::<IpAddr>().unwrap());
        let v6 = ends[0].is_ipv6();
        let near = |host: &Host| if v6 { IpAddr::from(host.v6) } else { host.v4.into() };
        let length = if v6 { 128 } else { 32 };
        for (host, own, other) in [(&self.sender, ends[0], ends[1]), (&self.receiver, ends[1], ends[0])] {
            let without_asking = if v6 { " nodad" } else { "" };
            self.ip(host, &format!("address add {own}/{length} dev eth0{without_asking}"));
            self.ip(host, &format!("route add {other}/{length} via {} src {own}", near(router)));
            self.ip(router, &format!("route add {own}/{length} via {}", near(host)));
        }
        let settings = [
            ("ipv4/ip_forward", "1"),
            ("ipv4/conf/all/send_redirects", "0"),
            ("ipv4/conf/eth0/send_redirects", "0"),
            ("ipv6/conf/all/forwarding", "1"),
        ];
        set(&router.ns, &settings);
        // Else it learns from the router that there is a shorter way.
        set(&self.sender.ns, &[("ipv6/conf/eth0/accept_redirects", "0")]);
        ((ends[0], 0).into(), (ends[1], self.port).into())
    }
}

/// A router drops what has one hop left; nothing is malformed.
#[test]
fn hop_limit() {
    for (sender, receiver, table) in [("10.1.0.1", "10.2.0.1", "Ip"), ("fd01::1", "fd02::1", "Ip6")] {
        let Some((mut scene, [router])) = Scene::with(["sender", "receiver", "router"]) else { return };
        let (from, to) = scene.lead_over(&router, sender, receiver);
        let reader = Reader::start(scene.receiver.run(|| UdpSocket::bind(to)).unwrap());
        let [far, near] = [64, 1].map(|hops| {
            let socket = scene.sender.run(|| UdpSocket::bind(from)).unwrap();
            match to {
                SocketAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4Ttl, &hops),
                SocketAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6Ttl, &hops),
            }
            .unwrap();
            socket
        });
        let before = router.counters();
        let following = Following::port(scene.port, &[&scene.sender.ns, &router.ns, &scene.receiver.ns]);
        for lost in scene.order() {
            let socket = if lost { &near } else { &far };
            socket.send_to(&scene.payload(lost), to).unwrap();
        }
        reader.await_count(scene.kept);
        await_that("all to be dropped", || grown(&router, &before, table, "InHdrErrors") == scene.lost);
        scene.closes(following, "hop_limit");
    }
}

#[test]
fn malformed_header() {
    // A header of 16 bytes, of which there is none: it has no port where one would look for it.
    frames("ip_header", ("Ip", "InHdrErrors"), |frame| frame[IP] = 0x44);
}

#[test]
fn cut_off() {
    // The length in the header is more than there is.
    frames("ip_header", ("IpExt", "InTruncatedPkts"), |frame| {
        frame[IP + 2..IP + 4].copy_from_slice(&1000u16.to_be_bytes());
        mend_header(frame);
    });
}

#[test]
fn header_checksum() {
    frames("ip_header", ("IpExt", "InCsumErrors"), |frame| frame[IP + 10] ^= 0x55);
}

#[test]
fn udp_checksum() {
    frames("udp_checksum", ("Udp", "InCsumErrors"), |frame| frame[UDP + 6] ^= 0x55);
}

/// Some of either kind wait when the account begins: of the damaged ones more are lost than it saw come.
#[test]
fn udp_checksum_of_what_waited_before_the_account() {
    let Some(mut scene) = Scene::set() else { return };
    let order = scene.order();
    let socket = scene.listen();
    let sender = FrameSender::open(&scene.sender);
    // Longer than what the kernel looks at before it is queued (CHECKSUM_BREAK).
    let send = |lost: bool| {
        let mut frame = frame(&scene.sender, &scene.receiver, 4000, scene.port, &[u8::from(lost); 90]);
        if lost {
            frame[UDP + 6] ^= 0x55;
        }
        sender.send(&frame);
    };
    for lost in [true, false, true, false, true] {
        send(lost);
    }
    await_that("the queue", || {
        let listed = weir_kernel::counters::sockets(&scene.receiver.ns).unwrap();
        listed.iter().any(|one| one.local == scene.to() && one.memory.queued >= 5 * 832)
    });
    let before = scene.receiver.counters();
    let following = scene.follow();
    order.iter().for_each(|lost| send(*lost));
    let reader = Reader::start(socket);
    reader.await_count(scene.kept + 2);
    await_that("the damaged ones to be counted", || {
        grown(&scene.receiver, &before, "Udp", "InCsumErrors") == scene.lost + 3
    });
    let account = following.end().traced();
    let ledger = account.of(scene.port);
    // What waited is beside the account, and where it is not, it is lost at the same place.
    let places = ledger.places();
    assert!(
        matches!(places[..], [("udp_checksum", lost)] if (scene.lost..=scene.lost + 3).contains(&lost)),
        "{places:?}"
    );
}

/// Frames of which some are damaged, and the counter that must know.
#[track_caller]
fn frames(place: &str, counter: (&str, &str), damage: impl Fn(&mut Vec<u8>)) {
    let Some(mut scene) = Scene::set() else { return };
    // Else the switch itself would look at headers (br_netfilter), where there is one.
    let _ = weir_kernel::sysctl::set(scene.sender.switch(), &[("bridge/bridge-nf-call-iptables", "0")]);
    let reader = Reader::start(scene.listen());
    let sender = FrameSender::open(&scene.sender);
    let before = scene.receiver.counters();
    let following = scene.follow();
    for lost in scene.order() {
        let mut frame = frame(&scene.sender, &scene.receiver, 4000, scene.port, &scene.payload(lost));
        if lost {
            damage(&mut frame);
        }
        sender.send(&frame);
    }
    reader.await_count(scene.kept);
    // What is behind the last one kept is looked at when the reader comes back to it.
    await_that("the damaged ones to be counted", || {
        grown(&scene.receiver, &before, counter.0, counter.1) == scene.lost
    });
    let account = following.end().traced();
    account.of(scene.port).closes_from_arrival(scene.kept + scene.lost, scene.kept, &[(place, scene.lost)]);
}

#[test]
fn address_not_ours() {
    let Some(mut scene) = Scene::set() else { return };
    let mac = scene.receiver.netlink().link("eth0").unwrap().mac.unwrap();
    let eth0 = scene.sender.netlink().link("eth0").unwrap().index;
    let other = Ipv4Addr::new(10, 0, 0, 99);
    scene.sender.netlink().add_neighbour(eth0, other.into(), mac).unwrap();
    let reader = Reader::start(scene.listen());
    let socket = scene.source();
    let before = scene.receiver.counters();
    let following = scene.follow();
    for lost in scene.order() {
        let to = if lost { (other, scene.port).into() } else { scene.to() };
        socket.send_to(&scene.payload(lost), to).unwrap();
    }
    reader.await_count(scene.kept);
    assert_eq!(grown(&scene.receiver, &before, "Ip", "InAddrErrors"), scene.lost);
    scene.closes(following, "ip_address");
}

#[test]
fn ingress_filter() {
    let Some(mut scene) = Scene::set() else { return };
    scene.tc(&scene.receiver, "qdisc add dev eth0 clsact");
    scene.tc_by_length(&scene.receiver, "ingress", SHOT);
    scene.loses_at("ingress_filter");
}

#[test]
fn xdp_program() {
    let Some(mut scene) = Scene::set() else { return };
    let _attached = xdp::dropping(14 + 28 + scene.lost_size, &scene.receiver);
    scene.loses_at("xdp");
}

impl Scene {
    /// A filter of a host's `eth0` that does this with datagrams to be lost, told by their length.
    pub(super) fn tc_by_length(&self, host: &Host, side: &str, action: u32) {
        self.tc_of_length(host, side, self.lost_size, action);
    }

    /// With payloads of this length: `ldh [16]` is the IP header's total length behind the Ethernet header, then `jeq`,
    /// `ret` (linux/filter.h).
    pub(super) fn tc_of_length(&self, host: &Host, side: &str, size: usize, action: u32) {
        let code = format!("4,40 0 0 16,21 0 1 {},6 0 0 {action},6 0 0 4294967295", 28 + size);
        host.output(&self.tc, &["filter", "add", "dev", "eth0", side, "bpf", "da", "bytecode", &code]);
    }
}

/// TC_ACT_SHOT, TC_ACT_STOLEN (linux/pkt_cls.h).
pub(super) const SHOT: u32 = 2;
pub(super) const STOLEN: u32 = 4;
