//! Networks made over netlink: they work at once, keep quiet, count, and go away.
//!
//! The network is made here and not by the test bed, which is made of the very calls that are tested.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use weir_kernel::Error;
use weir_kernel::links::{BridgeSettings, Index, MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;

/// A host: its namespace and the interface in it.
struct Host {
    ns: NetNs,
    netlink: Netlink,
    index: Index,
    mac: MacAddress,
    v4: Ipv4Addr,
    v6: Ipv6Addr,
}

/// Two hosts and a bridge in a namespace of its own.
struct Network {
    hosts: Vec<Host>,
    switch: Netlink,
    _switch_ns: NetNs,
}

impl Network {
    fn build() -> Result<Network, Error> {
        Network::build_with(false)
    }

    fn build_with(link_local: bool) -> Result<Network, Error> {
        let switch_ns = NetNs::create()?;
        let mut switch = Netlink::open(&switch_ns)?;
        let settings =
            BridgeSettings { mac: MacAddress::local(100), multicast_snooping: false, ageing: Duration::from_secs(300) };
        let bridge = switch.add_bridge("br0", &settings)?;
        switch.set_no_link_local(bridge)?;
        switch.set_up(bridge)?;

        let mut hosts = Vec::new();
        for number in 1..=2u8 {
            let ns = NetNs::create()?;
            let mut netlink = Netlink::open(&ns)?;
            let mac = MacAddress::local(number.into());
            let port_name = format!("p{number}");
            let port_mac = MacAddress::local(200 + u32::from(number));
            switch.add_veth(&end(&ns, "eth0", mac), &end(&switch_ns, &port_name, port_mac))?;
            let port = switch.link(&port_name)?.index;
            switch.set_no_link_local(port)?;
            switch.set_bridge(port, bridge)?;
            switch.set_up(port)?;

            let index = netlink.link("eth0")?.index;
            let v4 = Ipv4Addr::new(10, 0, 0, number);
            let v6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into());
            netlink.set_no_link_local(index)?;
            netlink.add_address(index, format!("{v4}/24").parse().unwrap())?;
            netlink.add_address(index, format!("{v6}/64").parse().unwrap())?;
            if link_local {
                netlink.add_address(index, format!("{}/64", mac.link_local()).parse().unwrap())?;
            }
            netlink.set_loopback_up()?;
            netlink.set_up(index)?;
            hosts.push(Host { ns, netlink, index, mac, v4, v6 });
        }
        let peers: Vec<_> = hosts.iter().rev().map(|peer| (peer.v4, peer.v6, peer.mac)).collect();
        for (host, (v4, v6, mac)) in hosts.iter_mut().zip(peers) {
            host.netlink.add_neighbour(host.index, v4.into(), mac)?;
            host.netlink.add_neighbour(host.index, v6.into(), mac)?;
            host.netlink.add_neighbour(host.index, mac.link_local().into(), mac)?;
            host.netlink.wait_until_running("eth0")?;
        }
        switch.wait_until_running("p1")?;
        switch.wait_until_running("p2")?;
        Ok(Network { hosts, switch, _switch_ns: switch_ns })
    }
}

fn end<'a>(ns: &'a NetNs, name: &'a str, mac: MacAddress) -> VethEnd<'a> {
    VethEnd { ns, name, mac, mtu: 1500, queue_length: 1000 }
}

fn udp(ns: &NetNs, address: SocketAddr) -> UdpSocket {
    let socket = ns.run(|| UdpSocket::bind(address)).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

/// Sends one datagram from the first host's address to the second's, both of the same family.
fn exchange(network: &Network, from: SocketAddr, to: SocketAddr) {
    let sender = udp(&network.hosts[0].ns, from);
    let receiver = udp(&network.hosts[1].ns, to);
    sender.send_to(b"at once", receiver.local_addr().unwrap()).unwrap();
    let mut buffer = [0; 16];
    let (length, source) = receiver.recv_from(&mut buffer).unwrap_or_else(|error| panic!("{from} to {to}: {error}"));
    assert_eq!(&buffer[..length], b"at once");
    assert_eq!(source.ip(), from.ip());
}

#[test]
fn two_hosts_and_a_bridge_carry_datagrams_at_once() {
    let mut network = Network::build().unwrap();
    let [a, b] = [&network.hosts[0], &network.hosts[1]];
    let pairs: [(SocketAddr, SocketAddr); 2] =
        [((a.v4, 0).into(), (b.v4, 0).into()), ((a.v6, 0).into(), (b.v6, 0).into())];
    for (from, to) in pairs {
        exchange(&network, from, to);
    }

    // One datagram of each kind has come through, and nobody was asked for an Ethernet address, nor whether an address is
    // somebody's already: beside the datagrams there are at most MLD reports, 90 bytes each.
    let bytes = (14 + 40 + 8 + 7) + (14 + 20 + 8 + 7);
    let statistics = network.hosts[1].netlink.link("eth0").unwrap().statistics;
    let reports = statistics.rx_packets - 2;
    assert_eq!(statistics.rx_bytes, bytes + 90 * reports);
    let neighbours = network.hosts[0].netlink.neighbours().unwrap();
    let index = network.hosts[0].index;
    let given: Vec<_> = neighbours.iter().filter(|n| n.index == index && n.permanent).map(|n| n.address).collect();
    let b = &network.hosts[1];
    for address in [IpAddr::V4(b.v4), b.v6.into(), b.mac.link_local().into()] {
        assert!(given.contains(&address), "{address} not in {given:?}");
    }
}

#[test]
fn an_interface_is_described() {
    let network = &mut Network::build().unwrap();
    let links = network.hosts[0].netlink.links().unwrap();
    assert_eq!(links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>(), ["lo", "eth0"]);
    let eth0 = &links[1];
    assert_eq!(
        (eth0.mac, eth0.mtu, eth0.up, eth0.carrier, eth0.bridge),
        (Some(MacAddress::local(1)), 1500, true, true, None)
    );

    let bridge = network.switch.link("br0").unwrap();
    assert_eq!(network.switch.link("p2").unwrap().bridge, Some(bridge.index));
    assert_eq!(bridge.mac, Some(MacAddress::local(100)));

    let host = &mut network.hosts[0];
    host.netlink.set_down(host.index).unwrap();
    assert!(!host.netlink.link("eth0").unwrap().up);
    assert!(!network.switch.link("p1").unwrap().carrier);
    host.netlink.set_up(host.index).unwrap();
    network.switch.wait_until_running("p1").unwrap();
    assert!(network.switch.link("p1").unwrap().running);
}

#[test]
fn refusals_name_the_object() {
    let mut network = Network::build().unwrap();
    let host = &mut network.hosts[0];
    let again = host.netlink.add_address(host.index, "10.0.0.1/24".parse().unwrap()).unwrap_err();
    assert_eq!(again.to_string(), format!("add address 10.0.0.1/24 to interface {}: file exists", host.index));
    let missing = host.netlink.link("eth7").unwrap_err();
    assert_eq!(missing.to_string(), "find interface eth7: no such device");
    let unreachable = host.netlink.add_route("0.0.0.0/0".parse().unwrap(), Some([192, 0, 2, 1].into()), host.index);
    assert_eq!(unreachable.unwrap_err().errno(), Some(nix::errno::Errno::ENETUNREACH));
    // The socket is still in step after refusals.
    assert_eq!(host.netlink.link("eth0").unwrap().index, host.index);
}

#[test]
fn routes_lead_through_a_gateway() {
    let mut network = Network::build().unwrap();
    let far: [(SocketAddr, &str, IpAddr); 2] = {
        let b = &network.hosts[1];
        [
            ("198.51.100.1:0".parse().unwrap(), "0.0.0.0/0", b.v4.into()),
            ("[fd99::1]:0".parse().unwrap(), "fd99::/64", b.v6.into()),
        ]
    };
    for (address, destination, gateway) in far {
        let b = &mut network.hosts[1];
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        b.netlink.add_address(b.index, format!("{}/{prefix}", address.ip()).parse().unwrap()).unwrap();
        b.netlink.wait_until_running("eth0").unwrap();
        let a = &mut network.hosts[0];
        a.netlink.add_route(destination.parse().unwrap(), Some(gateway), a.index).unwrap();
        let from = if address.is_ipv4() { (a.v4, 0).into() } else { (a.v6, 0).into() };
        exchange(&network, from, address);
    }
}

#[test]
fn the_last_hold_on_a_network_takes_its_interfaces_along() {
    let kept = NetNs::create().unwrap();
    let mut netlink = Netlink::open(&kept).unwrap();
    // Listens for changes: the kernel takes a namespace apart in the background.
    let mut events = kept.run(|| netlink_sys::Socket::new(netlink_sys::protocols::NETLINK_ROUTE)).unwrap().unwrap();
    const RTNLGRP_LINK: u32 = 1;
    events.bind(&netlink_sys::SocketAddr::new(0, RTNLGRP_LINK)).unwrap();

    let dropped = NetNs::create().unwrap();
    netlink.add_veth(&end(&kept, "kept", MacAddress::local(1)), &end(&dropped, "gone", MacAddress::local(2))).unwrap();
    let second_hold = dropped.try_clone().unwrap();
    drop(dropped);
    assert!(netlink.link("kept").is_ok());
    drop(second_hold);
    let deadline = Instant::now() + Duration::from_secs(20);
    while netlink.link("kept").is_ok() {
        assert!(Instant::now() < deadline, "the interface outlives its peer's namespace");
        events.recv_from_full().unwrap();
    }
}

#[test]
fn a_hundred_namespaces_stand_at_once() {
    const CELLS: u32 = 42;
    let start = Instant::now();
    let mut held = Vec::new();
    for cell in 0..CELLS {
        // Two hosts and a switch, two links: 126 namespaces and 84 pairs in all.
        let [a, switch, b] = [(); 3].map(|()| NetNs::create().unwrap());
        let mut at = [&a, &switch, &b].map(|ns| Netlink::open(ns).unwrap());
        for (host, other, name) in [(0usize, 2usize, "p0"), (2, 0, "p1")] {
            let ns = [&a, &switch, &b][host];
            let mac = |host: usize| MacAddress::local(cell * 10 + host as u32);
            at[1].add_veth(&end(ns, "eth0", mac(host)), &end(&switch, name, mac(host + 5))).unwrap();
            let port = at[1].link(name).unwrap().index;
            at[1].set_no_link_local(port).unwrap();
            at[1].set_up(port).unwrap();
            let index = at[host].link("eth0").unwrap().index;
            let address = |host: usize| {
                [
                    Ipv4Addr::new(10, 0, 0, 1 + host as u8).into(),
                    format!("fd00::{}", host + 1).parse::<IpAddr>().unwrap(),
                ]
            };
            at[host].set_no_link_local(index).unwrap();
            for (mine, theirs) in address(host).into_iter().zip(address(other)) {
                let prefix = if mine.is_ipv4() { 24 } else { 64 };
                at[host].add_address(index, ipnet::IpNet::new(mine, prefix).unwrap()).unwrap();
                at[host].add_neighbour(index, theirs, mac(other)).unwrap();
            }
            at[host].set_loopback_up().unwrap();
            at[host].set_up(index).unwrap();
        }
        held.push((a, switch, b, at));
    }
    for (_, _, _, at) in &mut held {
        for (netlink, name) in [(0, "eth0"), (1, "p0"), (1, "p1"), (2, "eth0")] {
            at[netlink].wait_until_running(name).unwrap();
        }
    }
    let elapsed = start.elapsed();
    println!("{} namespaces, {} veth pairs, {} addresses up in {elapsed:?}", 3 * CELLS, 2 * CELLS, 4 * CELLS);
    // Far more than even a busy machine takes; one wait for address detection a host would take longer.
    assert!(elapsed < Duration::from_secs(60), "took {elapsed:?}");
}
