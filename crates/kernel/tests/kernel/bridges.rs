//! Bridges that know who listens: groups go where they have been joined, and nowhere else.
//!
//! The network is made here and not by the test bed: it has two bridges, and queriers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use weir_kernel::Error;
use weir_kernel::links::{BridgeSettings, Index, MacAddress, Netlink, Route, VethEnd};
use weir_kernel::namespaces::NetNs;

/// Hosts at one bridge or two that are joined.
struct Network {
    hosts: Vec<Host>,
    switches: Vec<Switch>,
}

struct Host {
    ns: NetNs,
    netlink: Netlink,
    index: Index,
    address: Ipv4Addr,
    address6: Ipv6Addr,
}

struct Switch {
    ns: NetNs,
    netlink: Netlink,
    bridge: Index,
}

const QUERY_RESPONSE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(10);
const PORT: u16 = 5000;

impl Network {
    /// Each host at the switch of that number.
    fn build(at: &[usize], querier: bool) -> Result<Network, Error> {
        let mut switches = Vec::new();
        for number in 0..=*at.iter().max().unwrap() {
            let ns = NetNs::create()?;
            let mut netlink = Netlink::open(&ns)?;
            let mac = MacAddress::local(100 + number as u32);
            let settings = BridgeSettings { mac, multicast_snooping: true, ageing: Duration::from_secs(300) };
            let bridge = netlink.add_bridge("br0", &settings)?;
            if querier {
                netlink.enable_querier(bridge, QUERY_RESPONSE)?;
            }
            netlink.set_no_link_local(bridge)?;
            netlink.add_address(bridge, format!("{}/64", mac.link_local()).parse().unwrap())?;
            netlink.set_up(bridge)?;
            switches.push(Switch { ns, netlink, bridge });
        }
        if let [a, b] = switches.as_mut_slice() {
            a.netlink.add_veth(&end(&a.ns, "across", 200), &end(&b.ns, "across", 201))?;
            for switch in [a, b] {
                let port = switch.add_port("across")?;
                switch.netlink.set_multicast_router(port)?;
            }
        }
        let mut hosts = Vec::new();
        for (number, switch) in at.iter().enumerate() {
            let ns = NetNs::create()?;
            let switch = &mut switches[*switch];
            let port = format!("p{number}");
            switch.netlink.add_veth(&end(&ns, "eth0", number as u32), &end(&switch.ns, &port, 50 + number as u32))?;
            switch.add_port(&port)?;
            let mut netlink = Netlink::open(&ns)?;
            let index = netlink.link("eth0")?.index;
            netlink.set_no_link_local(index)?;
            netlink.set_up(index)?;
            let address = Ipv4Addr::new(10, 0, 0, 1 + number as u8);
            let address6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1 + number as u16);
            hosts.push(Host { ns, netlink, index, address, address6 });
        }
        for host in &mut hosts {
            host.netlink.wait_until_running("eth0")?;
            host.netlink.add_address(host.index, format!("{}/24", host.address).parse().unwrap())?;
            host.netlink.add_address(host.index, format!("{}/64", host.address6).parse().unwrap())?;
            host.netlink.wait_until_running("eth0")?;
            host.netlink.add_route("224.0.0.0/4".parse().unwrap(), None, host.index)?;
        }
        for switch in &mut switches {
            for link in switch.netlink.links()? {
                if link.bridge.is_some() {
                    switch.netlink.wait_until_running(&link.name)?;
                }
            }
        }
        // Until then bridges flood; there is no event for its end.
        thread::sleep(QUERY_RESPONSE + Duration::from_millis(100));
        Ok(Network { hosts, switches })
    }

    fn wait_until_forwarded(
        &mut self,
        switch: usize,
        port: &str,
        group: IpAddr,
        patience: Duration,
    ) -> Result<(), Error> {
        let netlink = &mut self.switches[switch].netlink;
        let port = netlink.link(port)?.index;
        netlink.wait_until_forwarded(port, group, patience)
    }

    /// Sends a group from the first host, and tells which of the others the frame came to, by their interfaces.
    fn reached(&mut self, group: IpAddr) -> Vec<usize> {
        const LENGTH: u64 = 1200;
        let sender = self.hosts[0].socket(group.is_ipv4(), 0);
        let received = |host: &mut Host| host.netlink.link("eth0").unwrap().statistics.rx_bytes;
        let before: Vec<u64> = self.hosts.iter_mut().map(received).collect();
        sender.send_to(&[7; LENGTH as usize], (group, PORT)).unwrap();
        // What goes to a host behind that comes after it.
        for host in &self.hosts[1..] {
            let barrier = host.socket(true, PORT + 1);
            let own = self.hosts[0].socket(true, 0);
            own.send_to(b"done", (host.address, PORT + 1)).unwrap();
            barrier.recv_from(&mut [0; 16]).unwrap();
        }
        let after: Vec<u64> = self.hosts.iter_mut().map(received).collect();
        (1..self.hosts.len()).filter(|&host| after[host] - before[host] > LENGTH).collect()
    }
}

impl Switch {
    fn add_port(&mut self, name: &str) -> Result<Index, Error> {
        let port = self.netlink.link(name)?.index;
        self.netlink.set_no_link_local(port)?;
        self.netlink.set_bridge(port, self.bridge)?;
        self.netlink.set_up(port)?;
        Ok(port)
    }
}

impl Host {
    fn socket(&self, ipv4: bool, port: u16) -> UdpSocket {
        let any = if ipv4 { IpAddr::from([0; 4]) } else { IpAddr::from([0u16; 8]) };
        let socket = self.ns.run(|| UdpSocket::bind(SocketAddr::new(any, port))).unwrap().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    fn join(&self, group: IpAddr) -> UdpSocket {
        let socket = self.socket(group.is_ipv4(), PORT);
        match group {
            IpAddr::V4(group) => socket.join_multicast_v4(&group, &self.address),
            IpAddr::V6(group) => socket.join_multicast_v6(&group, self.index),
        }
        .unwrap();
        socket
    }
}

fn end<'a>(ns: &'a NetNs, name: &'a str, mac: u32) -> VethEnd<'a> {
    VethEnd { ns, name, mac: MacAddress::local(mac), mtu: 1500, queue_length: 1000 }
}

fn groups() -> [IpAddr; 2] {
    ["239.1.2.3".parse().unwrap(), "ff15::123".parse().unwrap()]
}

#[test]
fn groups_go_where_they_have_been_joined() {
    for group in groups() {
        let mut network = Network::build(&[0, 0, 0, 0], true).unwrap();
        assert_eq!(network.reached(group), [0; 0], "{group}: nobody has joined");
        let members = [1, 3].map(|host| network.hosts[host].join(group));
        for port in ["p1", "p3"] {
            network.wait_until_forwarded(0, port, group, PATIENCE).unwrap();
        }
        assert_eq!(network.reached(group), [1, 3], "{group}");
        for member in &members {
            assert_eq!(member.recv_from(&mut [0; 2000]).unwrap().0, 1200);
        }
        let port = network.switches[0].netlink.link("p2").unwrap().index;
        let waited = network.wait_until_forwarded(0, "p2", group, Duration::from_millis(1)).unwrap_err();
        let expected = format!("wait until somebody behind port {port} has joined {group}: connection timed out");
        assert_eq!(waited.to_string(), expected);
    }
}

#[test]
fn without_a_querier_groups_go_everywhere() {
    for group in groups() {
        assert_eq!(Network::build(&[0, 0, 0], false).unwrap().reached(group), [1, 2], "{group}");
    }
}

#[test]
fn bridges_tell_one_another_who_listens() {
    for group in groups() {
        // The sender at one bridge, members at both, and one at each who has not joined.
        let mut network = Network::build(&[0, 1, 1, 0, 0], true).unwrap();
        let _members = [1, 3].map(|host| network.hosts[host].join(group));
        for (switch, port) in [(0, "across"), (1, "p1"), (0, "p3")] {
            network.wait_until_forwarded(switch, port, group, PATIENCE).unwrap();
        }
        assert_eq!(network.reached(group), [1, 3], "{group}");
    }
}

#[test]
fn a_group_leaves_by_the_interface_of_its_route() {
    for group in groups() {
        let mut network = Network::build(&[0, 0], false).unwrap();
        let ns = NetNs::create().unwrap();
        let Host { ns: own, netlink, .. } = &mut network.hosts[0];
        netlink.add_veth(&end(own, "eth1", 300), &end(&ns, "eth1", 301)).unwrap();
        let mut far = Netlink::open(&ns).unwrap();
        for side in [&mut far, netlink] {
            let index = side.link("eth1").unwrap().index;
            side.set_no_link_local(index).unwrap();
            side.set_up(index).unwrap();
        }
        let Host { netlink, .. } = &mut network.hosts[0];
        netlink.wait_until_running("eth1").unwrap();
        let index = netlink.link("eth1").unwrap().index;
        let (address, table) = if group.is_ipv4() { ("10.9.0.1/24", 254) } else { ("fd09::1/64", 255) };
        netlink.add_address(index, address.parse().unwrap()).unwrap();
        netlink.wait_until_running("eth1").unwrap();
        netlink.install_route(&Route { table, ..Route::new(group.into(), None, index) }).unwrap();
        assert_eq!(network.reached(group), [0; 0], "{group}");
        assert!(far.link("eth1").unwrap().statistics.rx_bytes > 1200, "{group}");
    }
}
