//! The IP packet of a frame that is of interest to the room that protects.

use std::net::IpAddr;

use weir_detect::model::{Packet as Sighted, Transport};
use weir_wire::frame::Protocol;

use super::Packet;

/// What an IP header says.
struct Ip {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    class: u8,
    fragment: bool,
}

impl Packet<'_> {
    /// The IP packet to a protected address; of several, in tunnels, the innermost. `None`: there is none, or its header was cut
    /// off.
    pub fn sighted(&self, is_protected: impl Fn(IpAddr) -> bool) -> Option<Sighted> {
        let layers = self.frame.layers().iter().enumerate();
        let headers = layers.filter(|(_, layer)| matches!(layer.protocol, Protocol::Ipv4 | Protocol::Ipv6));
        let headers = headers.take(MAX_HEADERS).filter_map(|(place, _)| Some((place, self.ip(place)?)));
        let Some((place, ip)) = headers.filter(|(_, ip)| is_protected(ip.destination)).last() else {
            return self.decoded_sighted().filter(|packet| is_protected(packet.destination));
        };
        let Ip { source, destination, protocol, class, fragment } = ip;
        let transport = self.transport(protocol, place);
        Some(Sighted { source, destination, protocol, transport, fragment, length: self.length, dscp: class >> 2 })
    }

    /// The IP header at a place among the layers.
    fn ip(&self, place: usize) -> Option<Ip> {
        let layers = self.frame.layers();
        let nth = self.occurrence(layers[place].protocol, place);
        if layers[place].protocol == Protocol::Ipv4 {
            let header = self.frame.ipv4(nth)?;
            let (source, destination) = (header.source().into(), header.destination().into());
            let fragment = header.fragment_offset() > 0 || header.flags() & MORE_FRAGMENTS != 0;
            return Some(Ip { source, destination, protocol: header.protocol(), class: header.tos(), fragment });
        }
        let header = self.frame.ipv6(nth)?;
        let (source, destination) = (header.source().into(), header.destination().into());
        let fragment = layers.get(place + 1).is_some_and(|layer| layer.protocol == Protocol::Fragment);
        Some(Ip { source, destination, protocol: header.protocol(), class: header.class(), fragment })
    }

    /// How many headers of a protocol are before a place.
    fn occurrence(&self, protocol: Protocol, place: usize) -> u8 {
        self.frame.layers()[..place].iter().filter(|layer| layer.protocol == protocol).count() as u8
    }

    /// The first bytes of the frame; none, if only its decoding was sampled.
    pub fn first_bytes(&self) -> &[u8] {
        let first = self.frame.layers().first().filter(|layer| layer.start == 0);
        first.and_then(|layer| self.frame.find(layer.protocol, 0)).unwrap_or_default()
    }

    fn transport(&self, protocol: u8, place: usize) -> Option<Transport> {
        match protocol {
            TCP => {
                let header = self.frame.tcp(self.occurrence(Protocol::Tcp, place))?;
                let flags = header.flags()? as u8;
                Some(Transport::Tcp { source: header.source(), destination: header.destination(), flags })
            }
            UDP => {
                let ports = self.frame.ports(Protocol::Udp, self.occurrence(Protocol::Udp, place))?;
                Some(Transport::Udp { source: ports.source, destination: ports.destination })
            }
            ICMP => {
                let header = self.frame.icmp(self.occurrence(Protocol::Icmp, place))?;
                Some(Transport::Icmp { kind: header.kind(), code: header.code() })
            }
            ICMPV6 => {
                let header = self.frame.icmpv6(self.occurrence(Protocol::Icmpv6, place))?;
                Some(Transport::Icmp { kind: header.kind(), code: header.code() })
            }
            _ => None,
        }
    }

    /// Of a decoding that the agent sent in place of the bytes.
    fn decoded_sighted(&self) -> Option<Sighted> {
        let ip = self.known.ip.filter(|_| !self.known.header)?;
        let protocol = u8::try_from(ip.protocol).ok()?;
        let ports = (ip.src_port as u16, ip.dst_port as u16);
        let transport = match protocol {
            TCP => Some(Transport::Tcp { source: ports.0, destination: ports.1, flags: ip.tcp_flags as u8 }),
            UDP => Some(Transport::Udp { source: ports.0, destination: ports.1 }),
            _ => None,
        };
        Some(Sighted {
            source: ip.src_ip,
            destination: ip.dst_ip,
            protocol,
            transport,
            fragment: false,
            length: self.length,
            dscp: ip.traffic_class as u8 >> 2,
        })
    }
}

const TCP: u8 = 6;
const UDP: u8 = weir_wire::ip::UDP;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Of the three flags of IPv4 (RFC 791).
const MORE_FRAGMENTS: u8 = 1;

/// IP headers within one another that are looked at: a tunnel in a tunnel in a tunnel.
const MAX_HEADERS: usize = 4;
