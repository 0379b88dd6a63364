//! Five faults at once, which and how many drawn from the seed; and thieves that no counter knows.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use ipnet::IpNet;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;
use socket2::SockRef;
use weir_testbed::random::Source;

use super::receiving::{SHOT, STOLEN};
use super::scene::{grown, set};
use super::sockets::refuse;
use super::{Reader, Scene, sys, weir};
use crate::sflow::agent::Agent;
use weir_testbed::await_that;

/// What can go wrong beside the others, in the order in which a datagram passes the places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    NoRoute,
    FirewallOut,
    Neighbour,
    IngressFilter,
    IpAddress,
    ReversePath,
    Firewall,
    Reassembly,
    NotJoined,
    PortClosed,
    SocketFilter,
    ReceiveBuffer,
}

const FAULTS: [(Fault, &str); 12] = [
    (Fault::NoRoute, "no_route"),
    (Fault::FirewallOut, "firewall_out"),
    (Fault::Neighbour, "neighbour"),
    (Fault::IngressFilter, "ingress_filter"),
    (Fault::IpAddress, "ip_address"),
    (Fault::ReversePath, "reverse_path"),
    (Fault::Firewall, "firewall"),
    (Fault::Reassembly, "reassembly"),
    (Fault::NotJoined, "not_joined"),
    (Fault::PortClosed, "port_closed"),
    (Fault::SocketFilter, "socket_filter"),
    (Fault::ReceiveBuffer, "receive_buffer"),
];

/// Of which each draws other faults.
const SEEDS: [u64; 2] = [3, 28];

/// A scene with all that the faults need.
struct Mix {
    scene: Scene,
    socket: UdpSocket,
    /// From an address to which the receiver knows another way.
    stranger: UdpSocket,
    /// Its fragments are told by their code point.
    marked: UdpSocket,
    group: Ipv4Addr,
}

/// Ten of the twelve.
#[test]
fn five_at_once() {
    for seed in SEEDS {
        five_of(Source(seed), FAULTS.to_vec(), |_| Some(()));
    }
}

#[test]
#[ignore = "long: 5 s"]
fn five_that_are_drawn_at_once() {
    five_of(Source::drawn(), FAULTS.to_vec(), |_| Some(()));
}

#[test]
fn five_at_once_of_which_the_agent_tells_the_same() {
    agent_tells_the_same(Source(1));
}

#[test]
#[ignore = "long: 5 s"]
fn five_that_are_drawn_at_once_of_which_the_agent_tells_the_same() {
    agent_tells_the_same(Source::drawn());
}

/// `weir sflow agent` beside the account, on the receiver: it tells of all that is lost there, by the kernel's reason.
fn agent_tells_the_same(seed: Source) {
    let told = |place: &str| TOLD.iter().find(|(of, _)| *of == place).map(|(_, reasons)| *reasons);
    let faults = FAULTS.into_iter().filter(|(_, place)| told(place).is_some()).collect();
    // Bound, so that its own datagrams are not among those that are dropped.
    let start = |scene: &Scene| {
        let ns = &scene.receiver.ns;
        let collector = ns.run(|| UdpSocket::bind("127.0.0.1:6343")).unwrap().unwrap();
        // Nobody reads it: what it had no room for would be told, too.
        setsockopt(&collector, sockopt::RcvBufForce, &(32 << 20)).unwrap();
        let command = ["sflow", "agent", "--json", "--agent", "10.0.0.2", "--to", "127.0.0.1", "--sampling", "0"];
        let mut agent = Agent::spawn_in(ns, weir(&command));
        let before = agent.await_ledger(|_| true);
        if before["drops"].is_null() {
            weir_testbed::skip("needs drops to be traced");
            return None;
        }
        Some((collector, agent, before))
    };
    let Some(((_collector, mut agent, before), expected)) = five_of(seed, faults, start) else { return };
    let of = |ledger: &Value, reason: &str| ledger["drops"]["by_reason"][reason]["packets"].as_u64().unwrap_or(0);
    let counted = |ledger: &Value| -> Vec<(&str, u64)> {
        let since = |reason: &&str| of(ledger, reason) - of(&before, reason);
        expected.iter().map(|(place, _)| (*place, told(place).unwrap().iter().map(since).sum())).collect()
    };
    let ledger = agent.await_ledger(|ledger| counted(ledger).iter().zip(&expected).all(|(it, that)| it.1 >= that.1));
    assert_eq!(counted(&ledger), expected, "{ledger:#}");
    assert_eq!(counted(&agent.stop()), expected);
}

/// The kernel's reasons for what is lost at a place, of the faults that the receiver's namespace sees, and each buffer of which
/// is a datagram.
const TOLD: [(&str, &[&str]); 7] = [
    ("ingress_filter", &["TC_INGRESS"]),
    ("ip_address", &["IP_INADDRERRORS", "IP_INVALID_DEST"]),
    ("reverse_path", &["IP_RPFILTER"]),
    ("firewall", &["NETFILTER_DROP"]),
    ("port_closed", &["NO_SOCKET"]),
    ("socket_filter", &["SOCKET_FILTER"]),
    ("receive_buffer", &["SOCKET_RCVBUFF"]),
];

/// Draws five of these faults, loses datagrams by them, and holds the account against what was lost where, which is returned
/// with what watched meanwhile.
#[track_caller]
fn five_of<W>(
    mut seed: Source,
    mut drawn: Vec<(Fault, &'static str)>,
    watch: impl FnOnce(&Scene) -> Option<W>,
) -> Option<(W, Vec<(&'static str, u64)>)> {
    let scene = Scene::set()?;
    seed.shuffle(&mut drawn);
    drawn.truncate(5);
    drawn.sort();
    let counts: Vec<u64> = drawn.iter().map(|_| seed.number(5..60)).collect();
    eprintln!("{drawn:?} {counts:?}");
    let listener = scene.listen();
    let mut mix = Mix::prepare(scene, &listener, &drawn);
    let scene = &mut mix.scene;
    let mut order = vec![None; usize::try_from(scene.kept).unwrap()];
    for ((fault, _), count) in drawn.iter().zip(&counts).filter(|((fault, _), _)| *fault != Fault::ReceiveBuffer) {
        order.extend(vec![Some(*fault); usize::try_from(*count).unwrap()]);
    }
    scene.seed.shuffle(&mut order);
    let kept = scene.kept;
    let before = scene.receiver.counters();
    let reader = Reader::start(listener);
    let watched = watch(&mix.scene)?;
    let following = mix.scene.follow();
    for fault in &order {
        mix.send(*fault);
    }
    reader.await_count(kept);
    let mut expected: Vec<(&'static str, u64)> =
        drawn.iter().zip(&counts).map(|((_, place), count)| (*place, *count)).collect();
    let (mut sent, mut received) = (order.len() as u64, kept);
    let mut _open = None;
    if let Some(place) = expected.iter_mut().find(|(place, _)| *place == "receive_buffer") {
        let listener = reader.stop();
        (0..600).for_each(|_| mix.send(None));
        place.1 = grown(&mix.scene.receiver, &before, "Udp", "RcvbufErrors");
        assert!(place.1 > 0);
        let reader = Reader::start(listener);
        reader.await_count(600 - place.1);
        (sent, received) = (sent + 600, received + 600 - place.1);
        _open = Some(reader);
    } else {
        _open = Some(reader);
    }
    mix.await_decisions(&before, &expected);
    let account = following.end().traced();
    account.of(mix.scene.port).closes(sent, received, &expected);
    Some((watched, expected))
}

impl Mix {
    fn prepare(scene: Scene, listener: &UdpSocket, drawn: &[(Fault, &str)]) -> Mix {
        let group = Ipv4Addr::new(239, 3, 3, 3);
        let (sender, receiver) = (&scene.sender, &scene.receiver);
        let mac = receiver.netlink().link("eth0").unwrap().mac.unwrap();
        let eth0 = sender.netlink().link("eth0").unwrap().index;
        for address in [NOT_OURS, SECOND] {
            sender.netlink().add_neighbour(eth0, address.into(), mac).unwrap();
        }
        scene.ip(receiver, &format!("address add {SECOND}/32 dev eth0"));
        scene.ip(receiver, "route add 172.16.0.0/24 dev lo");
        scene.ip(sender, "address add 172.16.0.9/32 dev eth0");
        let quick = [("ipv4/neigh/eth0/retrans_time_ms", "20"), ("ipv4/neigh/eth0/mcast_solicit", "2")];
        set(&sender.ns, &quick);
        set(&receiver.ns, &[("ipv4/ipfrag_time", "1")]);
        if drawn.iter().any(|(fault, _)| *fault == Fault::ReversePath) {
            set(&receiver.ns, &[("ipv4/conf/all/rp_filter", "1")]);
        }
        let rule = |hook: &str, fault: Fault| {
            format!(
                "add table ip t; add chain ip t c {{ type filter hook {hook} priority 0; }}; \
                 add rule ip t c udp dport {} udp length {} counter drop",
                scene.port,
                8 + size(fault),
            )
        };
        scene.nft(sender, &rule("output", Fault::FirewallOut));
        scene.nft(receiver, &rule("input", Fault::Firewall));
        scene.nft_on_switch(
            "add table netdev t; add chain netdev t in { type filter hook ingress device sender priority 0; }; \
             add rule netdev t in ip dscp 8 ip frag-off & 0x3fff > 0x2000 counter drop",
        );
        scene.tc(receiver, "qdisc add dev eth0 clsact");
        scene.tc_of_length(receiver, "ingress", size(Fault::IngressFilter), SHOT);
        refuse(listener, size(Fault::SocketFilter));
        let (socket, marked) = (scene.source(), scene.source());
        SockRef::from(&socket).set_multicast_if_v4(&sender.v4).unwrap();
        SockRef::from(&marked).set_tos_v4(0x20).unwrap();
        let stranger = sender.run(|| UdpSocket::bind("172.16.0.9:0")).unwrap();
        Mix { scene, socket, stranger, marked, group }
    }

    /// Sends one that will be lost so, or kept.
    #[track_caller]
    fn send(&self, fault: Option<Fault>) {
        let port = self.scene.port;
        let to: SocketAddr = match fault {
            Some(Fault::NoRoute) => ([203, 0, 113, 1], port).into(),
            Some(Fault::Neighbour) => ([10, 0, 0, 200], port).into(),
            Some(Fault::IpAddress) => (NOT_OURS, port).into(),
            Some(Fault::PortClosed) => (SECOND, port).into(),
            Some(Fault::NotJoined) => (self.group, port).into(),
            _ => self.scene.to(),
        };
        let socket = match fault {
            Some(Fault::ReversePath) => &self.stranger,
            Some(Fault::Reassembly) => &self.marked,
            _ => &self.socket,
        };
        let size = fault.map_or(self.scene.kept_size, size);
        let result = socket.send_to(&vec![0; size], to);
        let refused = matches!(fault, Some(Fault::NoRoute | Fault::FirewallOut));
        assert_eq!(result.is_err(), refused, "{fault:?}: {result:?}");
    }

    /// Waits until the kernel has given up what it gives up late.
    #[track_caller]
    fn await_decisions(&self, before: &weir_kernel::counters::Snmp, expected: &[(&str, u64)]) {
        let count = |wanted: &str| expected.iter().find(|(place, _)| *place == wanted).map(|(_, count)| *count);
        if count("neighbour").is_some() {
            let neighbour = || self.scene.ip(&self.scene.sender, "neigh show 10.0.0.200 dev eth0");
            await_that("the neighbour to be given up", || neighbour().contains("FAILED"));
        }
        if let Some(count) = count("reassembly") {
            await_that("fragments to be given up", || grown(&self.scene.receiver, before, "Ip", "ReasmFails") >= count);
        }
    }
}

/// Payload by which a fault is told from others; what is kept is shorter.
fn size(fault: Fault) -> usize {
    if fault == Fault::Reassembly { 3500 } else { 60 + fault as usize }
}

/// The receiver's frames bring it, and it is not the receiver's.
const NOT_OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 99);
/// The receiver's, but its socket is not bound to it.
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 102);

#[test]
fn taken_before_the_socket() {
    let Some(mut scene) = Scene::set() else { return };
    // TC_ACT_STOLEN: "somebody else has it", no drop.
    scene.tc(&scene.receiver, "qdisc add dev eth0 clsact");
    scene.tc_by_length(&scene.receiver, "ingress", STOLEN);
    stolen(&mut scene);
}

#[test]
fn taken_before_the_wire() {
    let Some(mut scene) = Scene::set() else { return };
    scene.tc(&scene.sender, "qdisc add dev eth0 clsact");
    scene.tc_by_length(&scene.sender, "egress", STOLEN);
    stolen(&mut scene);
}

#[track_caller]
fn stolen(scene: &mut Scene) {
    let reader = Reader::start(scene.listen());
    let socket = scene.source();
    // Else nobody could know that what did not depart was to go there.
    socket.connect(scene.to()).unwrap();
    let following = scene.follow();
    for lost in scene.order() {
        socket.send(&scene.payload(lost)).unwrap();
    }
    reader.await_count(scene.kept);
    following.end().traced().of(scene.port).leaves(scene.kept + scene.lost, scene.kept, scene.lost);
}

/// Sender and receiver are joined by tun devices; the program between them keeps some.
#[test]
fn taken_on_the_way() {
    let Some(mut scene) = Scene::set() else { return };
    let [(mut from, _), (mut to, address)] = scene.tuns();
    let address = SocketAddr::new(address, scene.port);
    let reader = Reader::start(scene.receiver.run(|| UdpSocket::bind(address)).unwrap());
    let socket = scene.sender.run(|| UdpSocket::bind("10.1.0.1:0")).unwrap();
    let following = scene.follow();
    let mut packet = [0; 2000];
    for lost in scene.order() {
        socket.send_to(&scene.payload(lost), address).unwrap();
        let length = from.read(&mut packet).unwrap();
        if !lost {
            to.write_all(&packet[..length]).unwrap();
        }
    }
    reader.await_count(scene.kept);
    following.end().traced().of(scene.port).leaves(scene.kept + scene.lost, scene.kept, scene.lost);
}

impl Scene {
    /// `tun0` of sender (10.1.0.1) and receiver (10.1.0.2), and what each sends there; both rings hold 64.
    pub(super) fn tuns(&self) -> [(std::fs::File, std::net::IpAddr); 2] {
        [(&self.sender, [10, 1, 0, 1]), (&self.receiver, [10, 1, 0, 2])].map(|(host, address)| {
            let file = host.run(sys::tun);
            let mut netlink = host.netlink();
            let tun = netlink.link("tun0").unwrap().index;
            netlink.set_no_link_local(tun).unwrap();
            netlink.add_address(tun, IpNet::new(address.into(), 24).unwrap()).unwrap();
            self.ip(host, "link set tun0 txqueuelen 64 up");
            (file, address.into())
        })
    }
}
