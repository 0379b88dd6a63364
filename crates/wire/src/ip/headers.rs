//! The IP headers of a received packet, with what of the transport's can be told without knowing it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{FRAGMENT, TCP, UDP, V4_LEN, V6_LEN};

/// What the IP headers of a packet say. Offsets count from the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Number of the protocol behind the IP headers, or of the first extension header that is not understood.
    pub protocol: u8,
    /// First byte behind the IP headers.
    pub transport: usize,
    /// Bytes of the packet, as its header says; behind them there may be padding, before their end a snapshot may stop.
    pub length: usize,
    /// Whether this is a part of a larger packet.
    pub fragment: bool,
    /// Where in the larger packet it begins, in bytes; 0 for a packet that is whole.
    pub offset: u16,
}

/// A packet of no IP version, shorter than its headers say, or with headers shorter than possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no whole IP packet")]
pub struct Malformed;

impl Headers {
    /// Reads a packet of IPv4 (RFC 791) or IPv6 (RFC 8200). Neither checksum is looked at.
    ///
    /// # Errors
    /// For what is no whole packet.
    pub fn parse(ip: &[u8]) -> Result<Headers, Malformed> {
        let headers = Self::read(ip, false)?;
        if headers.length > ip.len() { Err(Malformed) } else { Ok(headers) }
    }

    /// Reads a packet of which perhaps only the beginning is there, as sampling and capturing leave it. A length of 0 (of a
    /// packet that the kernel has yet to cut, or of a jumbogram) is taken as that of `ip`.
    ///
    /// # Errors
    /// For what does not hold the fixed part of a header.
    pub fn parse_snapshot(ip: &[u8]) -> Result<Headers, Malformed> {
        Self::read(ip, true)
    }

    fn read(ip: &[u8], snapshot: bool) -> Result<Headers, Malformed> {
        match ip.first().map(|first| first >> 4) {
            Some(4) => parse_v4(ip, snapshot),
            Some(6) => parse_v6(ip, snapshot),
            _ => Err(Malformed),
        }
    }

    /// What is behind the IP headers of `ip`, the packet that was parsed, as far as it is there; without padding.
    pub fn body<'a>(&self, ip: &'a [u8]) -> &'a [u8] {
        ip.get(self.transport..self.length.min(ip.len())).unwrap_or_default()
    }

    /// Source and destination port; `None` for a protocol without ports, a fragment, and a packet that ends before them.
    pub fn ports(&self, ip: &[u8]) -> Option<(u16, u16)> {
        let &[a, b, c, d] = self.body(ip).first_chunk()?;
        let has = !self.fragment && WITH_PORTS.contains(&self.protocol);
        has.then(|| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }
}

fn parse_v4(ip: &[u8], snapshot: bool) -> Result<Headers, Malformed> {
    let header: &[u8; V4_LEN] = ip.first_chunk().ok_or(Malformed)?;
    let transport = usize::from(header[0] & 15) * 4;
    let length = match u16::from_be_bytes([header[2], header[3]]) {
        0 if snapshot => ip.len(),
        length => usize::from(length),
    };
    if transport < V4_LEN || length < transport && !snapshot {
        return Err(Malformed);
    }
    let address = |at: usize| IpAddr::V4(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]));
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    Ok(Headers {
        source: address(12),
        destination: address(16),
        protocol: header[9],
        transport,
        length,
        // More fragments, or an offset.
        fragment: fragment & 0x3fff != 0,
        offset: fragment << 3,
    })
}

fn parse_v6(ip: &[u8], snapshot: bool) -> Result<Headers, Malformed> {
    let header: &[u8; V6_LEN] = ip.first_chunk().ok_or(Malformed)?;
    let length = match u16::from_be_bytes([header[4], header[5]]) {
        0 if snapshot && header[6] != NO_NEXT_HEADER => ip.len(),
        payload => V6_LEN + usize::from(payload),
    };
    if length > ip.len() && !snapshot {
        return Err(Malformed);
    }
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let (protocol, transport, fragment) = skip_extensions(header[6], &ip[..length.min(ip.len())], V6_LEN);
    // The fragment header is the last that is skipped.
    let offset = match fragment {
        true => u16::from_be_bytes([ip[transport - 6], ip[transport - 5]]) & 0xfff8,
        false => 0,
    };
    Ok(Headers { source: address(8), destination: address(24), protocol, transport, length, fragment, offset })
}

/// The protocol behind the extension headers that start with one of protocol `first` at `start`, where it starts itself, and
/// whether the last of them is a fragment's. Stops at what it does not understand: a link carries that, too.
pub(crate) fn skip_extensions(first: u8, ip: &[u8], start: usize) -> (u8, usize, bool) {
    let (mut protocol, mut at) = (first, start);
    while let Some(&[next, length]) = ip.get(at..).and_then(|rest| rest.first_chunk()) {
        let end = match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION => at + (usize::from(length) + 1) * 8,
            AUTHENTICATION => at + (usize::from(length) + 2) * 4,
            FRAGMENT => at + 8,
            _ => break,
        };
        if end > ip.len() {
            break;
        }
        if protocol == FRAGMENT {
            return (next, end, true);
        }
        (protocol, at) = (next, end);
    }
    (protocol, at, false)
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const AUTHENTICATION: u8 = 51;
const NO_NEXT_HEADER: u8 = 59;
const DESTINATION: u8 = 60;

/// Protocols whose header starts with source and destination port: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [TCP, UDP, 33, 132, 136];

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::ip::UdpPacket;

    const PORTS: [u8; 8] = [0x12, 0x34, 0x56, 0x78, 0, 8, 0, 0];

    fn v4(protocol: u8, fragment: u16, body: &[u8]) -> Vec<u8> {
        let mut ip = vec![0x46, 0];
        ip.extend((24 + body.len() as u16).to_be_bytes());
        ip.extend([0, 0]);
        ip.extend(fragment.to_be_bytes());
        ip.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 1, 1]);
        ip.extend(body);
        ip
    }

    fn v6(next_header: u8, body: &[u8]) -> Vec<u8> {
        let mut ip = vec![0x60, 0, 0, 0];
        ip.extend((body.len() as u16).to_be_bytes());
        ip.extend([next_header, 64]);
        ip.extend([0; 32]);
        ip.extend(body);
        ip
    }

    /// Protocol, ports, where the transport starts, whether it is a fragment.
    fn read(ip: &[u8]) -> (u8, Option<(u16, u16)>, usize, bool) {
        let headers = Headers::parse(ip).unwrap();
        (headers.protocol, headers.ports(ip), headers.transport, headers.fragment)
    }

    #[test]
    fn options_and_extension_headers_are_skipped() {
        let ports = Some((0x1234, 0x5678));
        assert_eq!(read(&v4(UDP, 0x4000, &PORTS)), (UDP, ports, 24, false), "don't fragment");
        let extended = [&[60, 0, 0, 0, 0, 0, 0, 0, 51, 1][..], &[0; 14], &[TCP, 2], &[0; 14], &PORTS].concat();
        assert_eq!(read(&v6(0, &extended)), (TCP, ports, 40 + 8 + 16 + 16, false));
        assert_eq!(read(&v6(0, &[UDP, 200, 0, 0])), (0, None, 40, false), "longer than the packet");
        assert_eq!(read(&v4(UDP, 0, &PORTS[..3])), (UDP, None, 24, false), "ends within the ports");
        assert_eq!(read(&v4(1, 0, &PORTS)), (1, None, 24, false), "ICMP has none");
    }

    #[test]
    fn fragments_have_no_ports() {
        for offset in [0x2000, 0x2010, 0x0010] {
            assert_eq!(read(&v4(UDP, offset, &PORTS)), (UDP, None, 24, true));
        }
        let fragment = [&[UDP, 0, 0, 0, 0, 0, 0, 1], &PORTS[..]].concat();
        assert_eq!(read(&v6(44, &fragment)), (UDP, None, 48, true));
    }

    #[test]
    fn what_is_no_whole_packet_is_refused_and_padding_left_out() {
        for packet in [v4(UDP, 0, &PORTS), v6(UDP, &PORTS)] {
            for length in 0..packet.len() {
                assert_eq!(Headers::parse(&packet[..length]), Err(Malformed), "{length} bytes");
            }
            let padded = [&packet[..], &[7; 18]].concat();
            let headers = Headers::parse(&padded).unwrap();
            assert_eq!(headers.body(&padded), PORTS);
        }
        for first in [0x44, 0x50, 0x05] {
            let mut packet = v4(UDP, 0, &PORTS);
            packet[0] = first;
            assert_eq!(Headers::parse(&packet), Err(Malformed), "begins with {first:#x}");
        }
    }

    fn ends() -> impl Strategy<Value = (std::net::SocketAddr, std::net::SocketAddr)> {
        let v4 = || (any::<[u8; 4]>(), any::<u16>()).prop_map(std::net::SocketAddr::from);
        let v6 = || (any::<[u8; 16]>(), any::<u16>()).prop_map(std::net::SocketAddr::from);
        prop_oneof![(v4(), v4()), (v6(), v6())]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read((source, destination) in ends(), payload in vec(any::<u8>(), 0..3000), fragments: bool) {
            let packet = UdpPacket { source, destination, ttl: 1, tos: 0, identification: 0 };
            let Ok(packets) = packet.packets(&[&payload[..]], if fragments { 0 } else { 9000 }) else {
                return Ok(()); // a mapped address
            };
            let fragmented = packets.is_fragmented();
            for packet in packets {
                let bytes = [&packet.header[..], &payload[packet.payload]].concat();
                let headers = Headers::parse(&bytes).unwrap();
                prop_assert_eq!(headers.source, source.ip().to_canonical());
                prop_assert_eq!(headers.destination, destination.ip().to_canonical());
                prop_assert_eq!((headers.protocol, headers.length, headers.fragment), (UDP, bytes.len(), fragmented));
                let ports = (!fragmented).then(|| (source.port(), destination.port()));
                prop_assert_eq!(headers.ports(&bytes), ports);
            }
        }

        #[test]
        fn nothing_panics_and_no_part_lies_outside(bytes in vec(any::<u8>(), 0..200), version in 4u8..=6) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = *first & 15 | version << 4;
            }
            if let Ok(headers) = Headers::parse(&bytes) {
                prop_assert!(headers.transport <= headers.length && headers.length <= bytes.len());
                headers.ports(&bytes);
            }
        }
    }
}
