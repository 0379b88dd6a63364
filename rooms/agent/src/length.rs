//! How long a frame is on the wire, of which the kernel has the beginning.

use weir_wire::frame::{Frame, Protocol, Start};

/// Length of a frame; of a super-packet, a buffer of `length` bytes, the mean length of its segments, each with all headers.
pub(crate) fn frame_length(frame: &Frame<'_>, bytes: &[u8], length: u32, segments: u32) -> u32 {
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

/// How a frame begins: with an Ethernet header, or with the network header of this EtherType.
pub(crate) fn start(ethernet: bool, protocol: u16) -> Start {
    match (ethernet, protocol) {
        (true, _) => Start::Ethernet,
        (false, IPV6) => Start::Ipv6,
        (false, _) => Start::Ipv4,
    }
}

/// Bytes of the check sequence that Ethernet frames have on the wire, and interfaces take off (`stripped`): lengths have it
/// (specification, section 5.3.1).
pub(crate) const CHECK_SEQUENCE: u32 = 4;

/// EtherTypes.
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;

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
