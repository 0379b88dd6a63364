//! Networks of a test's own, each host a namespace. They go with the last that holds them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ipnet::IpNet;
use weir_kernel::counters::{Snmp, snmp};
use weir_kernel::links::{BridgeSettings, Index, MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;

use crate::or_skip;

/// An empty network; `None` without the privilege to make one: the test is skipped.
#[track_caller]
pub fn namespace() -> Option<NetNs> {
    or_skip(NetNs::create())
}

/// Runs `f` in a network of its own with a loopback interface. Without the privilege to make one the test is skipped.
#[track_caller]
pub fn on_loopback(f: impl FnOnce() + Send) {
    let Some(ns) = namespace() else { return };
    Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
    ns.run(f).unwrap();
}

/// One end of a pair of virtual interfaces; its Ethernet address is made of the number.
pub fn end<'a>(ns: &'a NetNs, name: &'a str, mac: u32, mtu: u32) -> VethEnd<'a> {
    VethEnd { ns, name, mac: MacAddress::local(mac), mtu, queue_length: 1000 }
}

/// A host with one interface, `eth0`, besides loopback. It knows no way but that to its own network.
#[derive(Debug)]
pub struct Host {
    /// Its namespace.
    pub ns: NetNs,
    /// 10.0.0.N/24 for host N.
    pub v4: IpAddr,
    /// fd00::N/64.
    pub v6: IpAddr,
}

impl Host {
    /// A host whose `eth0` ends in an interface `port` of another network, which is left as it was made: down. The
    /// MAC addresses are [`Host::mac`] and the one behind it.
    pub fn plugged(number: u8, other: &NetNs, port: &str, mtu: u32) -> Host {
        let ns = NetNs::create().unwrap();
        let (own, far) = (Host::mac(number), Host::mac(number) + 1);
        Netlink::open(other).unwrap().add_veth(&end(&ns, "eth0", own, mtu), &end(other, port, far, mtu)).unwrap();
        Host::new(ns, number)
    }

    fn new(ns: NetNs, number: u8) -> Host {
        let [v4, v6] = addresses(number);
        let host = Host { ns, v4, v6 };
        host.equip();
        host
    }

    fn equip(&self) {
        let mut netlink = self.netlink();
        let eth0 = netlink.link("eth0").unwrap().index;
        netlink.set_loopback_up().unwrap();
        netlink.set_no_link_local(eth0).unwrap();
        netlink.set_up(eth0).unwrap();
        for (address, length) in [(self.v4, 24), (self.v6, 64)] {
            netlink.add_address(eth0, IpNet::new(address, length).unwrap()).unwrap();
        }
    }

    /// The number of which host N's Ethernet address is made.
    pub fn mac(number: u8) -> u32 {
        u32::from(number) * 2
    }

    /// Tells the host the Ethernet address of another for good: what waits for a neighbour's answer is dropped when it gets
    /// too much.
    pub fn knows(&self, number: u8) {
        let mut netlink = self.netlink();
        let eth0 = netlink.link("eth0").unwrap().index;
        for address in addresses(number) {
            netlink.add_neighbour(eth0, address, MacAddress::local(Host::mac(number))).unwrap();
        }
    }

    /// Runs `f` on a thread inside this host.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        self.ns.run(f).unwrap()
    }

    /// Requests for this host's interfaces.
    pub fn netlink(&self) -> Netlink {
        Netlink::open(&self.ns).unwrap()
    }

    /// The protocol counters.
    pub fn counters(&self) -> Snmp {
        snmp(&self.ns).unwrap()
    }

    /// One of them, which the kernel must have: `Udp` `InErrors`, `Udp6` `InErrors`.
    pub fn counter(&self, protocol: &str, name: &str) -> u64 {
        u64::try_from(self.counters().get(protocol, name).unwrap()).unwrap()
    }

    /// Waits until `eth0` carries.
    pub fn wait_until_running(&self) {
        self.netlink().wait_until_running("eth0").unwrap();
    }
}

fn addresses(number: u8) -> [IpAddr; 2] {
    [Ipv4Addr::new(10, 0, 0, number).into(), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into()).into()]
}

/// Two hosts joined by a cable, who know one another.
#[track_caller]
pub fn cable(mtu: u32) -> Option<[Host; 2]> {
    let [a, b] = [namespace()?, namespace()?];
    join(&a, &b, mtu);
    let hosts = [Host::new(a, 1), Host::new(b, 2)];
    hosts[0].knows(2);
    hosts[1].knows(1);
    hosts.iter().for_each(Host::wait_until_running);
    Some(hosts)
}

/// Takes their cable away, by the program `ip`: neither host has an `eth0` then.
pub fn unplug([host, _]: &[Host; 2], ip: &Path) {
    let status = host.run(|| Command::new(ip).args(["link", "delete", "eth0"]).status().unwrap());
    assert!(status.success());
}

/// Joins two hosts anew that have no cable: each has another `eth0`, with the addresses of before.
pub fn plug(hosts: &[Host; 2]) {
    join(&hosts[0].ns, &hosts[1].ns, 1500);
    hosts.iter().for_each(Host::equip);
    hosts[0].knows(2);
    hosts[1].knows(1);
    hosts.iter().for_each(Host::wait_until_running);
}

fn join(a: &NetNs, b: &NetNs, mtu: u32) {
    let [one, other] = [1, 2].map(Host::mac);
    Netlink::open(a).unwrap().add_veth(&end(a, "eth0", one, mtu), &end(b, "eth0", other, mtu)).unwrap();
}

/// A bridge that snoops on multicast, `br0`, in a network of its own.
#[derive(Debug)]
pub struct Switch {
    /// Its namespace, where each port has the name that it was given.
    pub ns: NetNs,
    bridge: Index,
}

impl Switch {
    /// Without ports.
    #[track_caller]
    pub fn create() -> Option<Switch> {
        let ns = namespace()?;
        let mut netlink = Netlink::open(&ns).unwrap();
        let settings =
            BridgeSettings { mac: MacAddress::local(1000), multicast_snooping: true, ageing: Duration::from_secs(300) };
        let bridge = netlink.add_bridge("br0", &settings).unwrap();
        netlink.set_no_link_local(bridge).unwrap();
        netlink.set_up(bridge).unwrap();
        Some(Switch { ns, bridge })
    }

    /// Plugs a new host into a new port.
    pub fn plug(&self, number: u8, port: &str) -> Host {
        let host = Host::plugged(number, &self.ns, port, 1500);
        let mut netlink = Netlink::open(&self.ns).unwrap();
        let index = netlink.link(port).unwrap().index;
        netlink.set_no_link_local(index).unwrap();
        netlink.set_bridge(index, self.bridge).unwrap();
        netlink.set_up(index).unwrap();
        host.wait_until_running();
        netlink.wait_until_running(port).unwrap();
        host
    }
}
