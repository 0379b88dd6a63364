//! Networks of a test's own, and waiting for what travels through them.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;
use std::os::fd::AsFd;
use std::time::Duration;

use ipnet::IpNet;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_dgram::{Inbox, Outgoing, Received, Socket, Taken};
use weir_kernel::links::{BridgeSettings, MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;
use weir_testbed::or_skip;

/// Runs `f` in a network of its own with a loopback interface. Without the privilege to make one the test is
/// skipped.
pub(crate) fn on_loopback(f: impl FnOnce() + Send) {
    let Some(ns) = namespace() else { return };
    Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
    ns.run(f).unwrap();
}

/// An empty network.
pub(crate) fn namespace() -> Option<NetNs> {
    or_skip(NetNs::create())
}

/// A host: a namespace with one interface, `eth0`.
pub(crate) struct Host {
    pub(crate) ns: NetNs,
    pub(crate) v4: IpAddr,
    pub(crate) v6: IpAddr,
}

impl Host {
    /// Runs `f` inside this host.
    pub(crate) fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        self.ns.run(f).unwrap()
    }

    /// Host `number` of 10.9.0.0/24 and fd09::/64, once its interface, of the same number, is there.
    fn new(ns: NetNs, number: u8) -> Host {
        let mut netlink = Netlink::open(&ns).unwrap();
        let eth0 = netlink.link("eth0").unwrap().index;
        netlink.set_loopback_up().unwrap();
        netlink.set_no_link_local(eth0).unwrap();
        netlink.set_up(eth0).unwrap();
        let addresses = |number: u8| -> [IpAddr; 2] {
            [Ipv4Addr::new(10, 9, 0, number).into(), Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, number.into()).into()]
        };
        let [v4, v6] = addresses(number);
        netlink.add_address(eth0, IpNet::new(v4, 24).unwrap()).unwrap();
        netlink.add_address(eth0, IpNet::new(v6, 64).unwrap()).unwrap();
        // The others are known: what waits for a neighbour's address is dropped when it gets too much.
        for other in (1..=3).filter(|other| *other != number) {
            for address in addresses(other) {
                netlink.add_neighbour(eth0, address, MacAddress::local(other.into())).unwrap();
            }
        }
        Host { ns, v4, v6 }
    }
}

/// Two hosts joined by a cable.
pub(crate) fn cable(mtu: u32) -> Option<[Host; 2]> {
    let [a, b] = [namespace()?, namespace()?];
    Netlink::open(&a).unwrap().add_veth(&end(&a, "eth0", 1, mtu), &end(&b, "eth0", 2, mtu)).unwrap();
    let hosts = [Host::new(a, 1), Host::new(b, 2)];
    wait_until_running(&hosts);
    Some(hosts)
}

/// Three hosts on a switch, which lives as long as its namespace, the second value.
pub(crate) fn switched() -> Option<([Host; 3], NetNs)> {
    let switch = namespace()?;
    let mut netlink = Netlink::open(&switch).unwrap();
    let settings =
        BridgeSettings { mac: MacAddress::local(99), multicast_snooping: true, ageing: Duration::from_secs(300) };
    let bridge = netlink.add_bridge("br0", &settings).unwrap();
    netlink.set_up(bridge).unwrap();
    let hosts = [1, 2, 3].map(|number: u8| {
        let (ns, port) = (NetNs::create().unwrap(), format!("port{number}"));
        let (own, other) = (end(&ns, "eth0", number.into(), 1500), end(&switch, &port, 50 + u32::from(number), 1500));
        netlink.add_veth(&own, &other).unwrap();
        let port = netlink.link(&port).unwrap().index;
        netlink.set_bridge(port, bridge).unwrap();
        netlink.set_up(port).unwrap();
        Host::new(ns, number)
    });
    wait_until_running(&hosts);
    Some((hosts, switch))
}

pub(crate) fn end<'a>(ns: &'a NetNs, name: &'a str, mac: u32, mtu: u32) -> VethEnd<'a> {
    VethEnd { ns, name, mac: MacAddress::local(mac), mtu, queue_length: 1000 }
}

fn wait_until_running(hosts: &[Host]) {
    for host in hosts {
        Netlink::open(&host.ns).unwrap().wait_until_running("eth0").unwrap();
    }
}

/// Sends one message, cut into datagrams of `segment` bytes (0: not).
pub(crate) fn send(socket: &Socket, payload: &[u8], segment: u16) -> Taken {
    let pieces = [IoSlice::new(payload)];
    socket.send(&[Outgoing { pieces: &pieces, segment: NonZeroU16::new(segment), to: None }])
}

/// Waits for something to receive, 5 s at most.
pub(crate) fn wait_readable(socket: &Socket) {
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut fds, PollTimeout::from(5000u16)), Ok(1), "nothing came");
}

/// Waits for an entry in the error queue, 5 s at most.
pub(crate) fn wait_error(socket: &Socket) {
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::empty())];
    assert_eq!(poll(&mut fds, PollTimeout::from(5000u16)), Ok(1), "no error came");
}

/// Receives until `count` datagrams have come, and shows each message to `look`.
pub(crate) fn receive(socket: &Socket, count: usize, mut look: impl FnMut(Received<'_>)) {
    let mut inbox = Inbox::new(16, 65_535);
    let mut datagrams = 0;
    while datagrams < count {
        wait_readable(socket);
        inbox.receive(socket).unwrap();
        for message in inbox.messages() {
            datagrams += message.datagrams();
            look(message);
        }
    }
    assert_eq!(datagrams, count);
    assert_eq!(inbox.receive(socket).unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "more came");
}

/// The payloads of `count` datagrams.
pub(crate) fn payloads(socket: &Socket, count: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    receive(socket, count, |message| all.extend(message.segments().map(<[u8]>::to_vec)));
    all
}

/// `length` bytes, no two neighbouring datagrams alike.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}
