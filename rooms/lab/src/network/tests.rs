use std::env;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;

use super::*;
use crate::sweep::Sweep;

/// A sender and two receivers at two switches, a third receiver and a router that have not joined; behind the router a
/// host.
const SCENARIO: &str = r#"
name = "network-test"
title = "A network"
[hosts]
sender = { addresses = ["10.0.0.1/24", "fd00::1/64"] }
near = { addresses = ["10.0.0.2/24", "fd00::2/64"] }
far = { addresses = ["10.0.0.3/24", "fd00::3/64"] }
silent = { addresses = ["10.0.0.4/24", "fd00::4/64"] }
beyond = { addresses = ["10.0.1.2/24", "fd00:1::2/64"] }
[routers.r1]
addresses = { at-r1 = ["10.0.0.9/24", "fd00::9/64"], at-beyond = ["10.0.1.9/24", "fd00:1::9/64"] }
[switches]
s1 = {}
s2 = {}
[links]
at-beyond = { ends = ["r1", "beyond"] }
at-far = { ends = ["s2", "far"], delay = "3ms" }
at-near = { ends = ["s1", "near"], loss = "20%" }
at-r1 = { ends = ["r1", "s2"] }
at-sender = { ends = ["sender", "s1"] }
at-silent = { ends = ["silent", "s2"] }
between = { ends = ["s2", "s1"], delay = "2ms" }
[traffic]
from = "sender"
to = ["far", "near"]
address = "239.1.1.1"
port = 5000
transport = "udp"
payload = "500B"
"#;

struct Lab {
    topology: Topology,
    emulator: Emulator,
}

impl Lab {
    fn new(text: &str) -> Lab {
        let sweep = Sweep::new("test.toml", text, &[]).unwrap();
        let topology = Topology::new(sweep.scenario()).unwrap();
        Lab { topology, emulator: Emulator::spawn(weir_emulator::datapath::EmulatorSettings::default()).unwrap() }
    }

    fn network(&self) -> Network<'_> {
        Network::build(&self.topology, &self.emulator, 1).unwrap()
    }

    fn node(&self, name: &str) -> usize {
        self.topology.node(name).unwrap()
    }

    /// What passed a link, control aside: packets that its ends sent into it.
    fn passed(&self, readings: &[LinkReading], link: &str) -> [u64; 2] {
        let reading = &readings[self.topology.links.iter().position(|other| other.name == link).unwrap()];
        let report = reading.emulated.as_ref().unwrap();
        [&report.forward, &report.backward].map(|way| way.ledger.received - way.ledger.control)
    }

    /// By how much what a node took in differs from what it handed out.
    fn remainder(&self, readings: &[LinkReading], node: &str) -> i64 {
        let ends = self.topology.ends_at(self.node(node)).into_iter();
        let throughput = ends.map(|(link, end)| readings[link].throughput(end));
        throughput.map(|(sent, received)| received as i64 - sent as i64).sum()
    }
}

fn socket(ns: &NetNs, address: impl Into<SocketAddr> + Send) -> UdpSocket {
    ns.run(|| UdpSocket::bind(address.into())).unwrap().unwrap()
}

/// A socket of a receiver that has joined a group. The route of the group says by which interface.
fn join(network: &Network<'_>, receiver: usize, group: IpAddr) -> UdpSocket {
    let any = if group.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0u16; 8]) };
    let socket = socket(network.namespace(receiver), (any, 5000));
    match group {
        IpAddr::V4(group) => socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(group) => socket.join_multicast_v6(&group, 0),
    }
    .unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

/// The one who counts is this test in another process, whose descriptors are its own.
#[test]
fn what_is_up_holds_two_descriptors_a_node_and_two_a_link() {
    const NAME: &str = "network::tests::what_is_up_holds_two_descriptors_a_node_and_two_a_link";
    if env::var_os("WEIR_TEST_ROLE").is_none() {
        let mut alone = Command::new(env::current_exe().unwrap());
        let output = alone.args(["--exact", NAME]).env("WEIR_TEST_ROLE", "alone").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let lab = Lab::new(SCENARIO);
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    let network = lab.network();
    // Its namespace and its counters, the fabric's too; the emulator's ports.
    assert_eq!(open() - before, 2 * (lab.topology.nodes.len() + 1) + 2 * lab.topology.links.len());
    drop(network);
    assert_eq!(open(), before);
}

#[test]
fn a_group_reaches_those_who_joined_and_nobody_else() {
    for group in ["239.1.1.1", "ff15::7"].map(|group| group.parse::<IpAddr>().unwrap()) {
        let lab = Lab::new(&SCENARIO.replace("239.1.1.1", &group.to_string()));
        let network = lab.network();
        let any = if group.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0u16; 8]) };
        let receivers = &lab.topology.traffic.receivers;
        let near = join(&network, receivers[1], group);
        network.wait_for_members(group, &receivers[1..]).unwrap();
        let missing = network.members_within(Duration::from_millis(50), group, receivers).unwrap_err();
        let expected = format!("switch s1 did not learn that `far` has joined {group}: ");
        assert!(format!("{missing:#}").starts_with(&expected), "{missing:#}");
        let far = join(&network, receivers[0], group);
        network.wait_for_members(group, receivers).unwrap();

        // Few enough for the buffer of a receiver that does not read yet.
        const COUNT: u64 = 100;
        let sender = socket(network.namespace(lab.topology.traffic.sender), (any, 0));
        for _ in 0..COUNT {
            sender.send_to(&[7; 500], (group, 5000)).unwrap();
        }
        for _ in 0..COUNT {
            far.recv_from(&mut [0; 600]).unwrap();
        }
        let readings = network.settled(Duration::from_secs(1), Duration::from_secs(10)).unwrap();
        let [near_link, silent, r1, between] =
            ["at-near", "at-silent", "at-r1", "between"].map(|link| lab.passed(&readings, link));
        assert_eq!((near_link, between), ([COUNT, 0], [0, COUNT]), "{group}");
        assert_eq!((silent, r1), ([0, 0], [0, 0]), "{group}");
        // A fifth of it is lost on its way: it has a group_port of its own.
        let lost = readings[2].emulated.as_ref().unwrap().forward.ledger.lost;
        assert_eq!(lab.topology.links[2].name, "at-near");
        near.set_nonblocking(true).unwrap();
        let received = std::iter::from_fn(|| near.recv_from(&mut [0; 600]).ok()).count() as u64;
        assert!(lost > 0 && received == COUNT - lost, "{group}: {received} and {lost}");
    }
}

#[test]
fn switches_on_the_way_of_a_load_alone_need_not_know_the_group() {
    let behind = "[\"r1\", \"s3\"] }\nlast = { ends = [\"s3\", \"beyond\"]";
    let scenario = SCENARIO.replace("s2 = {}", "s2 = {}\ns3 = {}").replace("[\"r1\", \"beyond\"]", behind);
    let load =
        "from = \"beyond\"\nto = \"near\"\nport = 6000\ntransport = \"tcp\"\nmode = \"bulk\"\npayload = \"64kB\"";
    let lab = Lab::new(&format!("{scenario}\n[load]\n{load}\n"));
    let (network, group) = (lab.network(), IpAddr::from([239, 1, 1, 1]));
    let receivers = &lab.topology.traffic.receivers;
    let _joined: Vec<_> = receivers.iter().map(|&receiver| join(&network, receiver, group)).collect();
    network.wait_for_members(group, receivers).unwrap();
}

#[test]
fn what_routers_and_switches_take_in_they_hand_out() {
    for (family, any) in [("10.0.1.2", "0.0.0.0"), ("fd00:1::2", "::")] {
        let to = "to = [\"far\", \"near\"]\naddress = \"239.1.1.1\"";
        let lab = Lab::new(&SCENARIO.replace(to, &format!("to = \"beyond\"\naddress = \"{family}\"")));
        let network = lab.network();
        let [destination, any] = [family, any].map(|address| address.parse::<IpAddr>().unwrap());
        let receiver = socket(network.namespace(lab.node("beyond")), (destination, 5000));
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let sender = socket(network.namespace(lab.topology.traffic.sender), (any, 0));
        const COUNT: u64 = 100;
        for _ in 0..COUNT {
            sender.send_to(&[7; 500], (destination, 5000)).unwrap();
            let (_, from) = receiver.recv_from(&mut [0; 600]).unwrap();
            receiver.send_to(b"answer", from).unwrap();
            sender.recv_from(&mut [0; 600]).unwrap();
        }
        let readings = network.settled(Duration::from_secs(1), Duration::from_secs(10)).unwrap();
        for link in ["at-sender", "between", "at-r1", "at-beyond"] {
            assert_eq!(lab.passed(&readings, link), [COUNT, COUNT], "{link}");
        }
        // Switches know who is where: nobody else hears of it.
        for link in ["at-near", "at-far", "at-silent"] {
            assert_eq!(lab.passed(&readings, link), [0, 0], "{link}");
        }
        for node in ["r1", "s1", "s2"] {
            assert_eq!(lab.remainder(&readings, node), 0, "{node}");
        }
        let forward: Vec<_> = lab.topology.traffic.paths[0].forward.iter().map(|hop| hop.0).collect();
        let names: Vec<_> = forward.iter().map(|&link| lab.topology.links[link].name.as_str()).collect();
        assert_eq!(names, ["at-sender", "between", "at-r1", "at-beyond"]);
        let router = lab.node("r1");
        assert_eq!([forward[3], forward[2]].map(|link| network.interface(router, link)), ["eth0", "eth1"]);
    }
}
