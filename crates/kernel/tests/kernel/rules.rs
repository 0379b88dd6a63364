//! Routing rules and tables: connections to one address take one link or the other by their ports.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use ipnet::IpNet;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage};
use weir_kernel::Error;
use weir_kernel::links::{MAIN_TABLE, MacAddress, Netlink, Route, TcpRule, VethEnd};
use weir_kernel::namespaces::NetNs;

/// Two hosts joined twice: `data` is the way to the server's address, `aside` that of what the rules send there.
struct Pair {
    client: NetNs,
    server: NetNs,
    netlink: Netlink,
}

const PORT: u16 = 5201;
const DATA: std::ops::RangeInclusive<u16> = 5200..=5327;
const TABLE: u32 = 100;

/// An address of the client and of the server on each link.
fn addresses(ipv6: bool) -> [[&'static str; 2]; 2] {
    match ipv6 {
        false => [["10.0.1.1/24", "10.0.1.2/24"], ["10.0.9.1/24", "10.0.9.2/24"]],
        true => [["fd00:1::1/64", "fd00:1::2/64"], ["fd00:9::1/64", "fd00:9::2/64"]],
    }
}

fn address(text: &str) -> IpAddr {
    text.parse::<IpNet>().unwrap().addr()
}

impl Pair {
    fn build() -> Result<Pair, Error> {
        let (client, server) = (NetNs::create()?, NetNs::create()?);
        let (mut here, mut there) = (Netlink::open(&client)?, Netlink::open(&server)?);
        for (number, name) in ["data", "aside"].into_iter().enumerate() {
            let macs = [0, 1].map(|end| MacAddress::local((number * 2 + end) as u32));
            let end = |ns, mac| VethEnd { ns, name, mac, mtu: 1500, queue_length: 1000 };
            here.add_veth(&end(&client, macs[0]), &end(&server, macs[1]))?;
            for (side, netlink) in [&mut here, &mut there].into_iter().enumerate() {
                let index = netlink.link(name)?.index;
                netlink.set_no_link_local(index)?;
                for ipv6 in [false, true] {
                    let own = addresses(ipv6)[number][side];
                    let peer = addresses(ipv6)[number][1 - side];
                    netlink.add_address(index, own.parse().unwrap())?;
                    netlink.add_neighbour(index, address(peer), macs[1 - side])?;
                }
                netlink.set_up(index)?;
            }
        }
        for netlink in [&mut here, &mut there] {
            netlink.wait_until_running("data")?;
            netlink.wait_until_running("aside")?;
        }
        Ok(Pair { client, server, netlink: here })
    }

    fn set_aside(&mut self, ipv6: bool) {
        let [[_, destination], [source, gateway]] = addresses(ipv6).map(|pair| pair.map(address));
        let index = self.netlink.link("aside").unwrap().index;
        let (gateway, source) = (Some(gateway), Some(source));
        let route = Route { destination: destination.into(), gateway, index, source, table: TABLE };
        self.netlink.install_route(&route).unwrap();
        let rule = |priority, source_ports, table| TcpRule {
            priority,
            ipv6,
            source_ports,
            destination_ports: Some(PORT..=PORT),
            table,
        };
        self.netlink.add_rule(&rule(100, Some(DATA), MAIN_TABLE)).unwrap();
        self.netlink.add_rule(&rule(101, None, TABLE)).unwrap();
        let again = self.netlink.add_rule(&rule(101, None, TABLE)).unwrap_err();
        assert_eq!(again.to_string(), "add a routing rule of priority 101 to table 100: file exists");
    }

    /// Bytes that the client has sent by each link.
    fn sent(&mut self) -> [u64; 2] {
        ["data", "aside"].map(|name| self.netlink.link(name).unwrap().statistics.tx_bytes)
    }

    /// Exchanges a kilobyte over TCP, from a port of the client or from any, and returns the client's address.
    fn exchange(&self, server: SocketAddr, client_port: u16) -> SocketAddr {
        let listener = self.server.run(|| TcpListener::bind(server)).unwrap().unwrap();
        let client = self.client.run(|| connect(server, client_port)).unwrap();
        let (mut accepted, peer) = listener.accept().unwrap();
        assert_eq!(client.local_addr().unwrap(), peer);
        (&client).write_all(&[7; 1000]).unwrap();
        accepted.read_exact(&mut [0; 1000]).unwrap();
        accepted.write_all(&[8; 1000]).unwrap();
        (&client).read_exact(&mut [0; 1000]).unwrap();
        peer
    }
}

fn connect(server: SocketAddr, port: u16) -> TcpStream {
    let family = if server.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket::socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let any = if server.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0u16; 8]) };
    let bound = SockaddrStorage::from(SocketAddr::new(any, port));
    socket::bind(std::os::fd::AsRawFd::as_raw_fd(&socket), &bound).unwrap();
    socket::connect(std::os::fd::AsRawFd::as_raw_fd(&socket), &SockaddrStorage::from(server)).unwrap();
    TcpStream::from(socket)
}

#[test]
fn connections_take_a_link_by_their_ports() {
    for ipv6 in [false, true] {
        let mut pair = Pair::build().unwrap();
        let [[data, server], [aside, _]] = addresses(ipv6).map(|pair| pair.map(address));
        pair.set_aside(ipv6);
        // Client's port, server's port, the address it must come from.
        let cases =
            [(0, PORT, aside), (5199, PORT, aside), (5200, PORT, data), (5327, PORT, data), (5328, PORT, aside)];
        for (from, to, expected) in [&cases[..], &[(0, PORT + 1, data)]].concat() {
            let before = pair.sent();
            let peer = pair.exchange((server, to).into(), from);
            assert_eq!(peer.ip(), expected, "{from} -> {to}");
            let after = pair.sent();
            let moved = [after[0] - before[0], after[1] - before[1]];
            // The other way goes the end of the connection before, at most, and an MLD report.
            let [used, idle] = if expected == data { moved } else { [moved[1], moved[0]] };
            assert!(used > 1000 && idle < 500, "{from} -> {to}: {moved:?}");
        }
        // No rule is about UDP.
        let receiver = pair.server.run(|| UdpSocket::bind((server, PORT))).unwrap().unwrap();
        let any = if ipv6 { "[::]:0" } else { "0.0.0.0:0" };
        let sender = pair.client.run(|| UdpSocket::bind(any)).unwrap().unwrap();
        sender.send_to(b"datagram", (server, PORT)).unwrap();
        let (_, from) = receiver.recv_from(&mut [0; 16]).unwrap();
        assert_eq!(from.ip(), data);
    }
}
