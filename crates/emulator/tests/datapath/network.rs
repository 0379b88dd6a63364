//! Two hosts joined by links of an emulator, in namespaces of their own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use weir_emulator::datapath::{Emulator, LinkId, LinkPorts, Path, Port, Settings};
use weir_emulator::ledger::{Ledger, LinkReport};
use weir_emulator::model::{Direction, Impairments, Key, Plan, Way};
use weir_kernel::links::{MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;
use weir_kernel::offloads::{Offload, Offloads};
use weir_testbed::or_skip;

/// Two hosts and the network between them.
pub(crate) struct Network {
    pub(crate) a: Host,
    pub(crate) b: Host,
    middle: NetNs,
    ports: [u32; 2],
    path: Path,
}

/// A host: a namespace with one interface.
pub(crate) struct Host {
    pub(crate) ns: NetNs,
    pub(crate) v4: IpAddr,
    pub(crate) v6: IpAddr,
}

impl Host {
    /// Runs `f` on a thread inside this host.
    pub(crate) fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        self.ns.run(f).unwrap()
    }

    /// A counter of this host's: `Udp` `InErrors`, `Udp6` `InErrors`.
    pub(crate) fn counter(&self, protocol: &str, name: &str) -> u64 {
        let read =
            |table: &str| self.run(|| std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap());
        if protocol.ends_with('6') {
            let table = read("snmp6");
            let line = table.lines().find(|line| line.split_whitespace().next() == Some(&format!("{protocol}{name}")));
            return line.unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
        }
        let table = read("snmp");
        let lines: Vec<&str> = table.lines().filter(|line| line.starts_with(&format!("{protocol}:"))).collect();
        let column = lines[0].split_whitespace().position(|field| field == name).unwrap();
        lines[1].split_whitespace().nth(column).unwrap().parse().unwrap()
    }
}

/// Makes the network; `None` without the privilege to: the test is skipped.
pub(crate) fn network(path: Path) -> Option<Network> {
    let middle = or_skip(NetNs::create())?;
    let mut inside = Netlink::open(&middle).unwrap();
    let mut ports = [0; 2];
    let hosts = [1, 2].map(|number: u8| {
        let ns = NetNs::create().unwrap();
        let mac = |end| MacAddress::local(u32::from(number) * 2 + end);
        let port = format!("port{number}");
        let end = |ns, name, mac| VethEnd { ns, name, mac, mtu: 1500, queue_length: 1000 };
        inside.add_veth(&end(&ns, "eth0", mac(0)), &end(&middle, &port, mac(1))).unwrap();
        let index = inside.link(&port).unwrap().index;
        inside.set_no_link_local(index).unwrap();
        inside.set_up(index).unwrap();
        ports[usize::from(number) - 1] = index;

        let mut netlink = Netlink::open(&ns).unwrap();
        let eth0 = netlink.link("eth0").unwrap().index;
        netlink.set_loopback_up().unwrap();
        netlink.set_no_link_local(eth0).unwrap();
        netlink.set_up(eth0).unwrap();
        let address = |number: u8| -> [IpAddr; 2] {
            [Ipv4Addr::new(10, 9, 0, number).into(), Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, number.into()).into()]
        };
        for (own, length) in address(number).into_iter().zip([24, 64]) {
            netlink.add_address(eth0, IpNet::new(own, length).unwrap()).unwrap();
        }
        let other = 3 - number;
        for neighbour in address(other) {
            netlink.add_neighbour(eth0, neighbour, MacAddress::local(u32::from(other) * 2)).unwrap();
        }
        if path == Path::Packets {
            plain_offloads(&ns);
        }
        let [v4, v6] = address(number);
        Host { ns, v4, v6 }
    });
    let [a, b] = hosts;
    Some(Network { a, b, middle, ports, path })
}

impl Network {
    /// Sets the interface of host a or b down.
    pub(crate) fn set_down(&self, host: &Host) {
        let mut netlink = Netlink::open(&host.ns).unwrap();
        let index = netlink.link("eth0").unwrap().index;
        netlink.set_down(index).unwrap();
    }

    /// Default settings for this network's path.
    pub(crate) fn settings(&self) -> Settings {
        Settings { path: self.path, ..Settings::default() }
    }

    /// Joins the hosts by a link of `emulator`, the same both ways but for the random sequence.
    pub(crate) fn attach(&self, emulator: &Emulator, forward: &Impairments, backward: &Impairments) -> LinkId {
        self.attach_plans(emulator, &forward.clone().into(), &backward.clone().into())
    }

    /// The same with impairments that change.
    pub(crate) fn attach_plans(&self, emulator: &Emulator, forward: &Plan, backward: &Plan) -> LinkId {
        let open = |index| self.middle.run(|| Port::open(index, &self.settings())).unwrap().unwrap();
        let key = |direction| Key { seed: 42, link: 0, direction };
        let link = LinkPorts {
            name: "a - b".into(),
            a: open(self.ports[0]),
            b: open(self.ports[1]),
            forward: Direction::new(forward, key(Way::Forward)),
            backward: Direction::new(backward, key(Way::Backward)),
        };
        emulator.attach(link).unwrap()
    }
}

/// Asks for reports until nothing waits in the link any more and `done` holds; a network that stays quiet without it is
/// a failure.
pub(crate) fn settled(emulator: &Emulator, link: LinkId, done: impl Fn(&LinkReport) -> bool) -> LinkReport {
    let start = Instant::now();
    loop {
        let report = emulator.report(link).unwrap();
        let waits = report.forward.ledger.in_flight + report.backward.ledger.in_flight;
        if waits == 0 && done(&report) {
            return report;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "does not settle: {report:#?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Every account closes, and nothing was lost but on purpose.
pub(crate) fn assert_sound(ledger: &Ledger) {
    assert_eq!(ledger.unexplained(), 0, "{ledger:#?}");
    let accidents = [
        ledger.buffer_dropped,
        ledger.send_failed,
        ledger.malformed,
        ledger.socket_dropped_frames,
        ledger.unlisted_flows,
    ];
    assert_eq!(accidents, [0; 5], "{ledger:#?}");
}

/// Switches off whatever leaves work to the interface.
fn plain_offloads(ns: &NetNs) {
    let mut offloads = Offloads::open(ns).unwrap();
    for offload in
        [Offload::TcpSegmentation, Offload::UdpSegmentation, Offload::GenericSegmentation, Offload::SendChecksum]
    {
        offloads.set("eth0", offload, false).unwrap();
    }
}
