//! Parses received frames: pure parsing of the virtio header, Ethernet and IP on checked slices.
//!
//! A *buffer* is a frame in the data path: the 10 bytes of `struct virtio_net_hdr` (linux/virtio_net.h, in the
//! machine's byte order; all zero if the path has none), then the Ethernet frame. All offsets count from there.

use weir_wire::ip::{Headers, ICMPV6, IGMP, TCP, UDP};

use crate::model::FlowTuple;

/// Length of the virtio header.
pub(super) const VNET: usize = 10;
/// Where the IP header starts.
pub(super) const IP: usize = VNET + 14;
/// Max headers (virtio to transport) of a super-packet. The longest known, IPv4 and TCP with full options, take 144.
pub(super) const MAX_HEADERS: usize = 256;

/// A frame, parsed as far as the emulator needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// The owner of its packets.
    pub(super) content: Content,
    /// Where its parts are.
    pub(super) layout: Layout,
}

/// The model's view of a frame.
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
    /// End of the IP packet; padding may follow.
    pub(super) end: u32,
    /// First byte after the IP header and, if they could be parsed, the extension headers.
    pub(super) transport: u16,
    /// First byte of a super-packet's payload. Meaningless for one packet.
    pub(super) payload: u16,
    /// Payload bytes of each segment of a super-packet except the last; 0: the frame is one packet.
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

    /// The payload of `count` segments from `first`.
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

/// A frame that cannot be split into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// `struct virtio_net_hdr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VnetHeader {
    pub(super) flags: u8,
    pub(super) gso_type: u8,
    /// A hint how much the kernel should keep in one piece; at least the headers.
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
    let version = match u16::from_be_bytes([buffer[IP - 2], buffer[IP - 1]]) {
        ETHERTYPE_IPV4 => 4,
        ETHERTYPE_IPV6 => 6,
        ETHERTYPE_VLAN | ETHERTYPE_QINQ => return Err(Malformed),
        _ => {
            let end = buffer.len() as u32;
            let layout = Layout { end, transport: IP as u16, payload: IP as u16, segment: 0, version: 0, tcp: false };
            return Ok(Frame { content: Content::Control, layout });
        }
    };
    let headers = Headers::parse(ip).map_err(|_| Malformed)?;
    if version != if headers.source.is_ipv4() { 4 } else { 6 } {
        return Err(Malformed);
    }
    let segmented = if vnet.gso_type == VnetHeader::GSO_NONE { None } else { Some(segmentation(&vnet, ip, &headers)?) };
    let (end, payload, segment, tcp) = match segmented {
        Some((payload, tcp)) => (buffer.len(), payload, vnet.gso_size, tcp),
        None => (IP + headers.length, IP + headers.transport, 0, headers.protocol == TCP),
    };
    let transport = (IP + headers.transport) as u16;
    let layout = Layout { end: end as u32, transport, payload: payload as u16, segment, version, tcp };
    let content = if is_control(&headers, ip) {
        Content::Control
    } else {
        Content::Flow(FlowTuple {
            protocol: Some(headers.protocol),
            source: headers.source,
            destination: headers.destination,
            ports: headers.ports(ip),
        })
    };
    Ok(Frame { content, layout })
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88a8;

/// Where the checksum is in the headers of TCP and UDP.
pub(super) const TCP_CHECKSUM: usize = 16;
pub(super) const UDP_CHECKSUM: usize = 6;

/// IGMP, neighbour discovery (RFC 4861), multicast listener discovery (RFC 2710, 3810).
fn is_control(headers: &Headers, ip: &[u8]) -> bool {
    match headers.protocol {
        IGMP => headers.source.is_ipv4(),
        ICMPV6 => {
            headers.source.is_ipv6() && !headers.fragment && matches!(headers.body(ip).first(), Some(130..=137 | 143))
        }
        _ => false,
    }
}

/// Where the payload of a super-packet starts in its buffer, and whether it is TCP.
fn segmentation(vnet: &VnetHeader, ip: &[u8], headers: &Headers) -> Result<(usize, bool), Malformed> {
    let v4 = headers.source.is_ipv4();
    let (tcp, checksum_offset) = match (vnet.gso_type & !VnetHeader::GSO_ECN, headers.protocol) {
        (VnetHeader::GSO_TCPV4, TCP) if v4 => (true, TCP_CHECKSUM),
        (VnetHeader::GSO_TCPV6, TCP) if !v4 => (true, TCP_CHECKSUM),
        (VnetHeader::GSO_UDP_L4, UDP) => (false, UDP_CHECKSUM),
        _ => return Err(Malformed),
    };
    let transport = ip.get(headers.transport..).ok_or(Malformed)?;
    let header = if tcp { usize::from(transport.get(12).ok_or(Malformed)? >> 4) * 4 } else { 8 };
    let payload = IP + headers.transport + header;
    let sound = vnet.flags & VnetHeader::NEEDS_CHECKSUM != 0
        && VNET + usize::from(vnet.checksum_start) == IP + headers.transport
        && usize::from(vnet.checksum_offset) == checksum_offset
        && vnet.gso_size > 0
        && header >= if tcp { 20 } else { 8 }
        && header < transport.len()
        && payload <= MAX_HEADERS
        && ip.len() <= usize::from(u16::MAX)
        && !headers.fragment;
    if sound { Ok((payload, tcp)) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests;
