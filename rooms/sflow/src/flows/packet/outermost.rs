//! The outermost IP packet, as the room that protects wants it.

use std::net::IpAddr;

use weir_protect::model::{Packet as Sighted, Transport};
use weir_wire::frame::Protocol;

use super::Packet;

impl Packet<'_> {
    /// The outermost IP packet of the frame; `None`: there is none, or its header was cut off.
    pub(crate) fn sighted(&self) -> Option<Sighted> {
        let outermost =
            self.frame.layers().iter().find(|layer| matches!(layer.protocol, Protocol::Ipv4 | Protocol::Ipv6));
        let (source, destination, protocol, class, fragment) = match outermost.map(|layer| layer.protocol) {
            Some(Protocol::Ipv4) => {
                let header = self.frame.ipv4(0)?;
                let fragment = header.fragment_offset() > 0 || header.flags() & MORE_FRAGMENTS != 0;
                let (source, destination) = (header.source(), header.destination());
                (IpAddr::V4(source), IpAddr::V4(destination), header.protocol(), header.tos(), fragment)
            }
            Some(_) => {
                let header = self.frame.ipv6(0)?;
                let fragment = self.frame.fragment(0).is_some();
                let (source, destination) = (header.source(), header.destination());
                (IpAddr::V6(source), IpAddr::V6(destination), header.protocol(), header.class(), fragment)
            }
            None => return self.decoded_sighted(),
        };
        Some(Sighted {
            source,
            destination,
            protocol,
            transport: self.transport(protocol),
            fragment,
            length: self.length,
            dscp: class >> 2,
        })
    }

    /// Length of the whole frame in bytes, as the sample tells it.
    pub(crate) fn frame_length(&self) -> u32 {
        self.length
    }

    /// The first bytes of the frame; none, if only its decoding was sampled.
    pub(crate) fn first_bytes(&self) -> &[u8] {
        let first = self.frame.layers().first().filter(|layer| layer.start == 0);
        first.and_then(|layer| self.frame.find(layer.protocol, 0)).unwrap_or_default()
    }

    fn transport(&self, protocol: u8) -> Option<Transport> {
        match protocol {
            TCP => {
                let header = self.frame.tcp(0)?;
                let flags = header.flags()? as u8;
                Some(Transport::Tcp { source: header.source(), destination: header.destination(), flags })
            }
            UDP => {
                let ports = self.frame.ports(Protocol::Udp, 0)?;
                Some(Transport::Udp { source: ports.source, destination: ports.destination })
            }
            ICMP => {
                let header = self.frame.icmp(0)?;
                Some(Transport::Icmp { kind: header.kind(), code: header.code() })
            }
            ICMPV6 => {
                let header = self.frame.icmpv6(0)?;
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
