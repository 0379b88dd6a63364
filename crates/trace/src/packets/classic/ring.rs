//! Frames as a packet socket lays them into a ring that the process shares with it (TPACKET_V2 with PACKET_VNET_HDR,
//! include/uapi/linux/if_packet.h and virtio_net.h).

use std::os::fd::BorrowedFd;

use nix::errno::Errno;

use super::sys::Mapping;
use crate::packets::{Fate, HEADER, Packet};

/// Frames that it holds.
pub(super) const FRAMES: usize = 4096;

/// Bytes of a frame in it: its header, an address, a virtio header, [`HEADER`] of the frame itself.
pub(super) const SLOT: usize = 256;

/// The ring of a socket.
pub(super) struct Ring {
    mapping: Mapping,
    next: usize,
}

/// A frame out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Bytes.
    pub(super) length: u32,
    /// Packets in it.
    pub(super) segments: u32,
    vlan: Option<(u16, u16)>,
    protocol: u16,
    outgoing: bool,
    bytes: [u8; HEADER],
    captured: usize,
}

impl Ring {
    /// Gives a socket that hears nothing yet a ring of its own.
    pub(super) fn open(socket: BorrowedFd<'_>) -> Result<Self, Errno> {
        Ok(Self { mapping: Mapping::open(socket)?, next: 0 })
    }

    /// The next frame, if it has come.
    pub(super) fn next(&mut self) -> Option<Frame> {
        let slot = self.mapping.take(self.next)?;
        self.next = (self.next + 1) % FRAMES;
        Some(Frame::read(&slot))
    }
}

impl Frame {
    fn read(slot: &[u8; SLOT]) -> Self {
        let half = |at: usize| slot.get(at..at + 2).map_or(0, |two| u16::from_ne_bytes([two[0], two[1]]));
        let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
        let (status, length, mac) = (word(STATUS), word(LENGTH), usize::from(half(MAC)));
        let mut bytes = [0; HEADER];
        let there = slot.get(mac..).unwrap_or_default();
        let captured = there.len().min(word(CAPTURED) as usize).min(HEADER);
        bytes[..captured].copy_from_slice(&there[..captured]);
        let tag_type = if status & HAS_TAG_TYPE == 0 { 0x8100 } else { half(TAG_TYPE) };
        let offload = slot.get(mac.saturating_sub(OFFLOAD)..mac).and_then(<[u8]>::first_chunk);
        Self {
            length,
            segments: offload.map_or(1, |offload| segments(offload, length, &bytes[..captured])),
            vlan: (status & HAS_TAG != 0).then(|| (tag_type, half(TAG))),
            protocol: u16::from_be(half(PROTOCOL)),
            outgoing: slot[KIND] == libc::PACKET_OUTGOING,
            bytes,
            captured,
        }
    }

    pub(super) fn packet(&self, fate: Fate) -> Packet<'_> {
        Packet {
            fate,
            length: self.length,
            segments: self.segments,
            vlan: self.vlan,
            protocol: self.protocol,
            outgoing: self.outgoing,
            bytes: &self.bytes[..self.captured],
        }
    }
}

/// Packets in a frame of so many bytes, by its `struct virtio_net_hdr`: what is behind the headers, in parts of `gso_size`.
fn segments(offload: &[u8; OFFLOAD], length: u32, bytes: &[u8]) -> u32 {
    let half = |at: usize| u32::from(u16::from_ne_bytes([offload[at], offload[at + 1]]));
    let (flags, kind, size, start) = (offload[0], offload[1] & !ECN, half(4), half(6));
    if kind == 0 || size == 0 {
        return 1;
    }
    let udp = kind == UDP || kind == UDP_FRAGMENTS;
    // Where no checksum is left to be made, the headers are the shortest that there are.
    let transport = match flags & NEEDS_CHECKSUM {
        0 if kind == TCP_IPV6 => 54,
        0 => 34,
        _ => start,
    };
    let offset = bytes.get(transport as usize + 12).map_or(20, |offset| u32::from(offset >> 4) * 4);
    let headers = transport + if udp { 8 } else { offset };
    length.saturating_sub(headers).div_ceil(size).max(1)
}

/// `struct tpacket2_hdr`.
const STATUS: usize = 0;
const LENGTH: usize = 4;
const CAPTURED: usize = 8;
const MAC: usize = 12;
const TAG: usize = 24;
const TAG_TYPE: usize = 26;

/// `struct sockaddr_ll` behind it.
const PROTOCOL: usize = 34;
const KIND: usize = 42;

/// TP_STATUS_VLAN_VALID, TP_STATUS_VLAN_TPID_VALID.
const HAS_TAG: u32 = 1 << 4;
const HAS_TAG_TYPE: u32 = 1 << 6;

/// Bytes of `struct virtio_net_hdr`, right before the frame.
const OFFLOAD: usize = 10;

/// VIRTIO_NET_HDR_F_NEEDS_CSUM.
const NEEDS_CHECKSUM: u8 = 1;

/// VIRTIO_NET_HDR_GSO_*.
const UDP_FRAGMENTS: u8 = 3;
const TCP_IPV6: u8 = 4;
const UDP: u8 = 5;
const ECN: u8 = 0x80;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn super_packets_are_as_many_as_their_segments() {
        let mut bytes = [0; HEADER];
        bytes[34 + 12] = 8 << 4;
        let offload = |flags: u8, kind: u8, size: u16, start: u16| {
            let (size, start) = (size.to_ne_bytes(), start.to_ne_bytes());
            [flags, kind, 0, 0, size[0], size[1], start[0], start[1], 16, 0]
        };
        for (length, offload, expected) in [
            (1514, offload(1, 0, 0, 34), 1),
            // TCP with 12 bytes of options.
            (66 + 40 * 1448, offload(1, 1, 1448, 34), 40),
            (66 + 40 * 1448 + 1, offload(1, 1 | ECN, 1448, 34), 41),
            (66 + 40 * 1448, offload(0, 1, 1448, 0), 40),
            // UDP over IPv4, and over IPv6.
            (42 + 3 * 1000, offload(1, UDP, 1000, 34), 3),
            (62 + 3 * 1000 - 999, offload(1, UDP, 1000, 54), 3),
        ] {
            assert_eq!(segments(&offload, length, &bytes), expected, "{length} {offload:?}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(slot in proptest::collection::vec(any::<u8>(), SLOT)) {
            let frame = Frame::read(slot[..].first_chunk().unwrap());
            prop_assert!(frame.captured <= HEADER && frame.segments >= 1);
        }
    }
}
