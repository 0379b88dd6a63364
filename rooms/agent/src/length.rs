//! How a frame begins, and how long it is on the wire.

use weir_trace::packets::{HEADER, Packet};
use weir_wire::frame::{Frame, Protocol, Start};
use weir_wire::sflow::HeaderProtocol;

/// The first bytes of a packet, as the kernel's ring has them.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    length: u32,
    segments: u32,
    /// Whether it begins with an Ethernet header; else with the network header of `protocol`.
    pub(crate) ethernet: bool,
    protocol: u16,
    pub(crate) bytes: [u8; HEADER],
    pub(crate) captured: usize,
}

impl Head {
    pub(crate) fn new(packet: &Packet<'_>, ethernet: bool) -> Self {
        let mut bytes = [0; HEADER];
        let captured = packet.bytes.len();
        bytes[..captured].copy_from_slice(packet.bytes);
        let Packet { length, segments, protocol, .. } = *packet;
        Self { length, segments, ethernet, protocol, bytes, captured }
    }

    pub(crate) fn frame(&self) -> Frame<'_> {
        let start = match (self.ethernet, self.protocol) {
            (true, _) => Start::Ethernet,
            (false, IPV6) => Start::Ipv6,
            (false, _) => Start::Ipv4,
        };
        Frame::parse(start, &self.bytes[..self.captured])
    }

    /// `header_protocol`, the length of the frame and how much of it was taken off; `None`: there is no number for how it begins.
    pub(crate) fn described(&self) -> Option<[u32; 3]> {
        let (protocol, check) = match (self.ethernet, self.protocol) {
            (true, _) => (HeaderProtocol::ETHERNET.0, CHECK_SEQUENCE),
            (false, IPV4) => (HeaderProtocol::IPV4.0, 0),
            (false, IPV6) => (HeaderProtocol::IPV6.0, 0),
            _ => return None,
        };
        let bytes = &self.bytes[..self.captured];
        Some([protocol, frame_length(&self.frame(), bytes, self.length, self.segments) + check, check])
    }
}

/// Length of a frame; of a super-packet, a buffer of `length` bytes, the mean length of its segments, each with all headers.
fn frame_length(frame: &Frame<'_>, bytes: &[u8], length: u32, segments: u32) -> u32 {
    if segments <= 1 {
        return length;
    }
    let headers = headers(frame, bytes).min(length);
    headers + (length - headers) / segments
}

/// Bytes of all headers before the payload that is segmented.
fn headers(frame: &Frame<'_>, bytes: &[u8]) -> u32 {
    let last = frame.layers().iter().rfind(|layer| matches!(layer.protocol, Protocol::Tcp | Protocol::Udp));
    last.map_or(0, |layer| {
        let start = usize::from(layer.start);
        let length = match layer.protocol {
            Protocol::Tcp => bytes.get(start + 12).map_or(20, |offset| u32::from(offset >> 4) * 4),
            _ => 8,
        };
        start as u32 + length
    })
}

/// Bytes of the check sequence that Ethernet frames have on the wire, and interfaces take off (`stripped`): lengths have it
/// (specification, section 5.3.1).
const CHECK_SEQUENCE: u32 = 4;

/// EtherTypes.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_super_packet_is_as_long_as_its_segments_are_on_average() {
        // Ethernet, IPv4 of 20 bytes, TCP of 32.
        let mut bytes = [0; 128];
        bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
        bytes[23] = 6;
        bytes[14 + 20 + 12] = 8 << 4;
        let frame = Frame::parse(Start::Ethernet, &bytes);
        let length = 66 + 40 * 1448 + 100;
        assert_eq!(headers(&frame, &bytes), 66);
        assert_eq!(frame_length(&frame, &bytes, length, 41), 66 + (40 * 1448 + 100) / 41);
        assert_eq!(frame_length(&frame, &bytes, 999, 1), 999);
    }
}
