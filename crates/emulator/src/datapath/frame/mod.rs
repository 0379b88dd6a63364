//! What a received frame is: pure parsing of the virtio header, Ethernet and IP on checked slices.
//!
//! A *buffer* is what the data path keeps of a frame: the 10 bytes of `struct virtio_net_hdr` (linux/virtio_net.h, in
//! the machine's byte order; all zero where the path has none), then the Ethernet frame. All offsets count from there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::model::FlowTuple;

/// Length of the virtio header.
pub(super) const VNET: usize = 10;
/// Where the IP header starts.
pub(super) const IP: usize = VNET + 14;
/// Longest headers (virtio to transport) a super-packet may have. The longest known: IPv4 and TCP, both with full
/// options, take 144.
pub(super) const MAX_HEADERS: usize = 256;

/// A frame, understood as far as the emulator needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Whose packets these are.
    pub(super) content: Content,
    /// Where its parts are.
    pub(super) layout: Layout,
}

/// What the model must know about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// ARP, ND, IGMP, MLD, or not IP at all.
    Control,
    /// Packets of this flow.
    Flow(FlowTuple),
}

/// Where the parts of a frame are, in bytes from the start of its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// End of the IP packet; behind it there may be padding.
    pub(super) end: u32,
    /// First byte behind the IP header and, if they could be parsed, the extension headers.
    pub(super) transport: u16,
    /// First byte of a super-packet's payload. Meaningless for one packet.
    pub(super) payload: u16,
    /// Payload bytes of each segment of a super-packet but its last; 0: the frame is one packet.
    pub(super) segment: u16,
    /// IPv4 or IPv6, if any.
    pub(super) version: u8,
    /// Whether the transport of a super-packet is TCP, else it is UDP.
    pub(super) tcp: bool,
}

impl Layout {
    /// IP packets on the wire, at least 1.
    pub(super) fn packets(&self) -> u32 {
        match self.segment {
            0 => 1,
            size => (self.end - u32::from(self.payload)).div_ceil(u32::from(size)).max(1),
        }
    }

    /// Bytes on the wire, from the IP header on, of all packets.
    pub(super) fn bytes(&self) -> u32 {
        let once = self.end - IP as u32;
        once + (self.packets() - 1) * self.headers()
    }

    /// Bytes on the wire, from the IP header on, of `count` packets from `first`.
    pub(super) fn bytes_of(&self, first: u32, count: u32) -> u32 {
        if self.segment == 0 {
            return self.bytes();
        }
        let payload = self.payload_of(first, count);
        (payload.end - payload.start) as u32 + count * self.headers()
    }

    /// Where the payload of `count` segments from `first` is.
    pub(super) fn payload_of(&self, first: u32, count: u32) -> std::ops::Range<usize> {
        let (end, size) = (self.end, u32::from(self.segment));
        let at = |index: u32| (u32::from(self.payload) + index * size).min(end) as usize;
        at(first)..at(first + count)
    }

    /// Length of a super-packet's headers from the IP header on.
    fn headers(&self) -> u32 {
        u32::from(self.payload).saturating_sub(IP as u32)
    }
}

/// A frame that cannot be told apart into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// `struct virtio_net_hdr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VnetHeader {
    pub(super) flags: u8,
    pub(super) gso_type: u8,
    /// A hint how much the kernel should hold in one piece; at least the headers.
    pub(super) header_length: u16,
    pub(super) gso_size: u16,
    /// From the start of the Ethernet frame.
    pub(super) checksum_start: u16,
    pub(super) checksum_offset: u16,
}

impl VnetHeader {
    /// The checksum field holds the sum of the pseudo-header only.
    pub(super) const NEEDS_CHECKSUM: u8 = 1;
    pub(super) const GSO_NONE: u8 = 0;
    pub(super) const GSO_TCPV4: u8 = 1;
    pub(super) const GSO_TCPV6: u8 = 4;
    pub(super) const GSO_UDP_L4: u8 = 5;
    /// Ored to a TCP type: the first segment carries CWR.
    pub(super) const GSO_ECN: u8 = 0x80;

    pub(super) fn read(buffer: &[u8]) -> Option<Self> {
        let b: [u8; VNET] = *buffer.first_chunk()?;
        let field = |at: usize| u16::from_ne_bytes([b[at], b[at + 1]]);
        Some(Self {
            flags: b[0],
            gso_type: b[1],
            header_length: field(2),
            gso_size: field(4),
            checksum_start: field(6),
            checksum_offset: field(8),
        })
    }

    pub(super) fn to_bytes(self) -> [u8; VNET] {
        let mut b = [0; VNET];
        b[0] = self.flags;
        b[1] = self.gso_type;
        for (at, field) in
            [self.header_length, self.gso_size, self.checksum_start, self.checksum_offset].iter().enumerate()
        {
            b[2 + 2 * at..][..2].copy_from_slice(&field.to_ne_bytes());
        }
        b
    }
}

/// Parses a buffer.
pub(super) fn parse(buffer: &[u8]) -> Result<Frame, Malformed> {
    let vnet = VnetHeader::read(buffer).ok_or(Malformed)?;
    let ip = buffer.get(IP..).ok_or(Malformed)?;
    if vnet.flags & VnetHeader::NEEDS_CHECKSUM != 0 {
        let field = VNET + usize::from(vnet.checksum_start) + usize::from(vnet.checksum_offset);
        if field + 2 > buffer.len() {
            return Err(Malformed);
        }
    }
    let packet = match u16::from_be_bytes([buffer[IP - 2], buffer[IP - 1]]) {
        ETHERTYPE_IPV4 => parse_ipv4(ip)?,
        ETHERTYPE_IPV6 => parse_ipv6(ip)?,
        ETHERTYPE_VLAN | ETHERTYPE_QINQ => return Err(Malformed),
        _ => {
            let end = buffer.len() as u32;
            let layout = Layout { end, transport: IP as u16, payload: IP as u16, segment: 0, version: 0, tcp: false };
            return Ok(Frame { content: Content::Control, layout });
        }
    };
    let segmented = if vnet.gso_type == VnetHeader::GSO_NONE { None } else { Some(segmentation(&vnet, ip, &packet)?) };
    let (end, payload, segment, tcp) = match segmented {
        Some((payload, tcp)) => (buffer.len(), payload, vnet.gso_size, tcp),
        None => (IP + packet.length, IP + packet.transport, 0, packet.protocol == TCP),
    };
    let layout = Layout {
        end: end as u32,
        transport: (IP + packet.transport) as u16,
        payload: payload as u16,
        segment,
        version: if packet.source.is_ipv4() { 4 } else { 6 },
        tcp,
    };
    let content = if packet.control {
        Content::Control
    } else {
        Content::Flow(FlowTuple {
            protocol: Some(packet.protocol),
            source: packet.source,
            destination: packet.destination,
            ports: packet.ports,
        })
    };
    Ok(Frame { content, layout })
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88a8;

const IGMP: u8 = 2;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// Protocols whose header starts with source and destination port: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [TCP, UDP, 33, 132, 136];

/// An IP packet; offsets count from the IP header.
struct Packet {
    protocol: u8,
    source: IpAddr,
    destination: IpAddr,
    ports: Option<(u16, u16)>,
    control: bool,
    /// First byte behind the IP headers.
    transport: usize,
    /// As the IP header says; for a super-packet of no meaning.
    length: usize,
    fragment: bool,
}

/// RFC 791.
fn parse_ipv4(ip: &[u8]) -> Result<Packet, Malformed> {
    let header: &[u8; 20] = ip.first_chunk().ok_or(Malformed)?;
    let transport = usize::from(header[0] & 15) * 4;
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4 || transport < 20 || length < transport || length > ip.len() {
        return Err(Malformed);
    }
    // More fragments, or an offset.
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let protocol = header[9];
    let address = |at: usize| IpAddr::V4(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]));
    Ok(Packet {
        protocol,
        source: address(12),
        destination: address(16),
        ports: if fragment { None } else { ports(protocol, &ip[transport..length]) },
        control: protocol == IGMP,
        transport,
        length,
        fragment,
    })
}

/// RFC 8200.
fn parse_ipv6(ip: &[u8]) -> Result<Packet, Malformed> {
    let header: &[u8; 40] = ip.first_chunk().ok_or(Malformed)?;
    let length = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || length > ip.len() {
        return Err(Malformed);
    }
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let (protocol, transport, fragment) = skip_extensions(header[6], &ip[..length]);
    let body = &ip[transport..length];
    // Neighbour discovery (RFC 4861), multicast listener discovery (RFC 2710, 3810).
    let control = protocol == ICMPV6 && !fragment && matches!(body.first(), Some(130..=137 | 143));
    Ok(Packet {
        protocol,
        source: address(8),
        destination: address(24),
        ports: if fragment { None } else { ports(protocol, body) },
        control,
        transport,
        length,
        fragment,
    })
}

/// The protocol behind the extension headers, where it starts, and whether the packet is a fragment. Stops at what it
/// does not understand: a link carries that, too.
fn skip_extensions(first: u8, ip: &[u8]) -> (u8, usize, bool) {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION: u8 = 60;

    let (mut protocol, mut at) = (first, 40);
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

fn ports(protocol: u8, body: &[u8]) -> Option<(u16, u16)> {
    let &[a, b, c, d] = body.first_chunk()?;
    WITH_PORTS.contains(&protocol).then(|| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Where the payload of a super-packet starts in its buffer, and whether it is TCP.
fn segmentation(vnet: &VnetHeader, ip: &[u8], packet: &Packet) -> Result<(usize, bool), Malformed> {
    let v4 = packet.source.is_ipv4();
    let (tcp, checksum_offset) = match (vnet.gso_type & !VnetHeader::GSO_ECN, packet.protocol) {
        (VnetHeader::GSO_TCPV4, TCP) if v4 => (true, 16),
        (VnetHeader::GSO_TCPV6, TCP) if !v4 => (true, 16),
        (VnetHeader::GSO_UDP_L4, UDP) => (false, 6),
        _ => return Err(Malformed),
    };
    let transport = ip.get(packet.transport..).ok_or(Malformed)?;
    let header = if tcp { usize::from(transport.get(12).ok_or(Malformed)? >> 4) * 4 } else { 8 };
    let payload = IP + packet.transport + header;
    let sound = vnet.flags & VnetHeader::NEEDS_CHECKSUM != 0
        && VNET + usize::from(vnet.checksum_start) == IP + packet.transport
        && vnet.checksum_offset == checksum_offset
        && vnet.gso_size > 0
        && header >= if tcp { 20 } else { 8 }
        && header < transport.len()
        && payload <= MAX_HEADERS
        && ip.len() <= usize::from(u16::MAX)
        && !packet.fragment;
    if sound { Ok((payload, tcp)) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests;
