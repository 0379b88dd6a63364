//! Captured packets as a file that Wireshark, tshark and tcpdump read: blocks of pcapng.
//!
//! Source: "PCAP Now Generic (pcapng) Capture File Format", draft-ietf-opsawg-pcapng; link types:
//! draft-ietf-opsawg-pcaplinktype.
//!
//! A file is one section header, the interfaces, then packets and statistics in the order of writing. Every block is
//!
//! | bytes | field | |
//! |---|---|---|
//! | 4 | block type | |
//! | 4 | total length | of the whole block, a multiple of 4 |
//! | | body | fixed fields, data, options |
//! | 4 | total length | once more, to walk backwards |
//!
//! Numbers are little-endian; the section header says so. Timestamps are nanoseconds since 1970-01-01 UTC.

/// An interface whose packets follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface<'a> {
    /// Its name, e.g. `eth0`.
    pub name: &'a str,
    /// What it is, for people; may be empty.
    pub description: &'a str,
    /// Bytes kept of each packet; 0: all.
    pub snap_length: u32,
    /// What its packets begin with.
    pub link_type: LinkType,
}

/// What a captured packet begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkType {
    /// An Ethernet header (LINKTYPE_ETHERNET).
    #[default]
    Ethernet,
    /// An IPv4 or IPv6 header (LINKTYPE_RAW).
    Raw,
}

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Which interface of the section, in the order they were written, from 0.
    pub interface: u32,
    /// When it passed, ns since 1970-01-01 UTC.
    pub stamp: u64,
    /// Which way, where that is known.
    pub direction: Option<Direction>,
    /// Bytes it had on the link.
    pub original_length: u32,
    /// The first of them.
    pub bytes: &'a [u8],
    /// What is to be said of it, UTF-8 in as many lines as need be; empty: nothing. Cut at 65,535 bytes.
    pub comment: &'a str,
}

/// Which way a packet went, seen from the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

/// What an interface counted during the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Which interface of the section, from 0.
    pub interface: u32,
    /// When the capture began, ns since 1970-01-01 UTC.
    pub started: u64,
    /// When it ended, and these were counted.
    pub ended: u64,
    /// Packets that passed, dropped ones included.
    pub received: u64,
    /// Of these, packets that were not captured for want of room.
    pub dropped: u64,
    /// Packets in the file.
    pub delivered: u64,
}

/// Appends the section header (4.1), with which a file begins; `application` is the program that writes it.
pub fn section_header(out: &mut Vec<u8>, application: &str) {
    block(out, SECTION_HEADER, |out| {
        put_u32(out, BYTE_ORDER_MAGIC);
        put_u16(out, 1);
        put_u16(out, 0);
        // Section length: not specified.
        put_u64(out, u64::MAX);
        option(out, SHB_USERAPPL, application.as_bytes());
        put_u32(out, END_OF_OPTIONS);
    });
}

/// Appends the description (4.2) of an interface. Names are cut at 65,535 bytes.
pub fn interface(out: &mut Vec<u8>, interface: &Interface<'_>) {
    block(out, INTERFACE_DESCRIPTION, |out| {
        put_u16(
            out,
            match interface.link_type {
                LinkType::Ethernet => LINKTYPE_ETHERNET,
                LinkType::Raw => LINKTYPE_RAW,
            },
        );
        put_u16(out, 0);
        put_u32(out, interface.snap_length);
        option(out, IF_NAME, interface.name.as_bytes());
        if !interface.description.is_empty() {
            option(out, IF_DESCRIPTION, interface.description.as_bytes());
        }
        option(out, IF_TSRESOL, &[NANOSECONDS]);
        put_u32(out, END_OF_OPTIONS);
    });
}

/// Appends a packet (4.3, enhanced packet block). At most `u32::MAX` - 64 of its bytes can be written.
pub fn packet(out: &mut Vec<u8>, packet: &Packet<'_>) {
    block(out, ENHANCED_PACKET, |out| {
        put_u32(out, packet.interface);
        put_stamp(out, packet.stamp);
        put_u32(out, packet.bytes.len() as u32);
        put_u32(out, packet.original_length);
        put_padded(out, packet.bytes);
        if !packet.comment.is_empty() {
            option(out, OPT_COMMENT, packet.comment.as_bytes());
        }
        if let Some(direction) = packet.direction {
            let flags: u32 = match direction {
                Direction::Inbound => 1,
                Direction::Outbound => 2,
            };
            option(out, EPB_FLAGS, &flags.to_le_bytes());
        }
        if !packet.comment.is_empty() || packet.direction.is_some() {
            put_u32(out, END_OF_OPTIONS);
        }
    });
}

/// Appends what an interface counted (4.6).
pub fn statistics(out: &mut Vec<u8>, statistics: &Statistics) {
    block(out, INTERFACE_STATISTICS, |out| {
        put_u32(out, statistics.interface);
        put_stamp(out, statistics.ended);
        for (code, stamp) in [(ISB_STARTTIME, statistics.started), (ISB_ENDTIME, statistics.ended)] {
            put_u32(out, u32::from(code) | 8 << 16);
            put_stamp(out, stamp);
        }
        option(out, ISB_IFRECV, &statistics.received.to_le_bytes());
        option(out, ISB_IFDROP, &statistics.dropped.to_le_bytes());
        option(out, ISB_USRDELIV, &statistics.delivered.to_le_bytes());
        put_u32(out, END_OF_OPTIONS);
    });
}

/// A block around what `body` appends, which is a multiple of 4 bytes long.
#[inline]
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    put_u32(out, kind);
    put_u32(out, 0);
    body(out);
    let length = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    put_u32(out, length);
}

/// Option (3.5): code, length, value, padding.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    put_u16(out, code);
    put_u16(out, value.len() as u16);
    put_padded(out, value);
}

fn put_padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.extend_from_slice(&[0; 3][..bytes.len().wrapping_neg() % 4]);
}

/// The upper half of a stamp comes first, whatever the byte order.
fn put_stamp(out: &mut Vec<u8>, stamp: u64) {
    put_u32(out, (stamp >> 32) as u32);
    put_u32(out, stamp as u32);
}

fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

// Block types.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;
const LINKTYPE_RAW: u16 = 101;
/// As a power of ten, negative.
const NANOSECONDS: u8 = 9;

// Options.
const END_OF_OPTIONS: u32 = 0;
const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
const ISB_STARTTIME: u16 = 2;
const ISB_ENDTIME: u16 = 3;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;
const ISB_USRDELIV: u16 = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Written by hand from the figures of the draft.
    #[test]
    fn blocks_are_those_of_the_draft() {
        let mut file = Vec::new();
        section_header(&mut file, "weir");
        let link_type = LinkType::Ethernet;
        interface(&mut file, &Interface { name: "eth0", description: "", snap_length: 96, link_type });
        let direction = Some(Direction::Outbound);
        let stamp = 0x0102_0304_0506_0708;
        let bytes = b"abcde";
        packet(&mut file, &Packet { interface: 0, stamp, direction, original_length: 60, bytes, comment: "" });
        packet(
            &mut file,
            &Packet { interface: 0, stamp: 0, direction: None, original_length: 5, bytes, comment: "why" },
        );
        let (started, ended) = (1, 0x0000_0002_0000_0003);
        statistics(&mut file, &Statistics { interface: 0, started, ended, received: 9, dropped: 1, delivered: 8 });
        #[rustfmt::skip]
        let expected: &[&[u8]] = &[
            &[0x0a, 0x0d, 0x0d, 0x0a], &[40, 0, 0, 0], &[0x4d, 0x3c, 0x2b, 0x1a], &[1, 0, 0, 0], &[0xff; 8],
            &[4, 0, 4, 0], b"weir", &[0, 0, 0, 0], &[40, 0, 0, 0],
            &[1, 0, 0, 0], &[40, 0, 0, 0], &[1, 0, 0, 0], &[96, 0, 0, 0],
            &[2, 0, 4, 0], b"eth0", &[9, 0, 1, 0], &[9, 0, 0, 0], &[0, 0, 0, 0], &[40, 0, 0, 0],
            &[6, 0, 0, 0], &[52, 0, 0, 0], &[0, 0, 0, 0], &[4, 3, 2, 1], &[8, 7, 6, 5], &[5, 0, 0, 0], &[60, 0, 0, 0],
            b"abcde\0\0\0", &[2, 0, 4, 0], &[2, 0, 0, 0], &[0, 0, 0, 0], &[52, 0, 0, 0],
            &[6, 0, 0, 0], &[52, 0, 0, 0], &[0, 0, 0, 0], &[0; 8], &[5, 0, 0, 0], &[5, 0, 0, 0],
            b"abcde\0\0\0", &[1, 0, 3, 0], b"why\0", &[0, 0, 0, 0], &[52, 0, 0, 0],
            &[5, 0, 0, 0], &[88, 0, 0, 0], &[0, 0, 0, 0], &[2, 0, 0, 0], &[3, 0, 0, 0],
            &[2, 0, 8, 0], &[0, 0, 0, 0], &[1, 0, 0, 0], &[3, 0, 8, 0], &[2, 0, 0, 0], &[3, 0, 0, 0],
            &[4, 0, 8, 0], &[9, 0, 0, 0, 0, 0, 0, 0], &[5, 0, 8, 0], &[1, 0, 0, 0, 0, 0, 0, 0],
            &[8, 0, 8, 0], &[8, 0, 0, 0, 0, 0, 0, 0], &[0, 0, 0, 0], &[88, 0, 0, 0],
        ];
        assert_eq!(file, expected.concat());
    }

    proptest! {
        /// Blocks can be walked from both ends, and each packet is found with all its bytes.
        #[test]
        fn packets_are_found_again(
            packets in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 0..70), 0..3u8), 0..8),
            name in "\\PC{0,20}",
        ) {
            let mut file = Vec::new();
            section_header(&mut file, &name);
            let link_type = LinkType::Raw;
            interface(&mut file, &Interface { name: &name, description: &name, snap_length: 0, link_type });
            for (stamp, bytes, direction) in &packets {
                let direction = [None, Some(Direction::Inbound), Some(Direction::Outbound)][usize::from(*direction)];
                let original_length = bytes.len() as u32 + 7;
                packet(&mut file, &Packet { interface: 0, stamp: *stamp, direction, original_length, bytes, comment: &name });
            }
            let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes"));
            let (mut at, mut blocks) = (0, Vec::new());
            while at < file.len() {
                let length = word(at + 4) as usize;
                prop_assert!(length.is_multiple_of(4) && length >= 12);
                prop_assert_eq!(word(at + length - 4) as usize, length);
                blocks.push((word(at), at));
                at += length;
            }
            prop_assert_eq!(at, file.len());
            prop_assert_eq!((blocks[0].0, blocks[1].0, blocks.len()), (0x0a0d_0d0a, 1, packets.len() + 2));
            for ((stamp, bytes, _), &(kind, at)) in packets.iter().zip(&blocks[2..]) {
                prop_assert_eq!(kind, 6);
                prop_assert_eq!(u64::from(word(at + 12)) << 32 | u64::from(word(at + 16)), *stamp);
                prop_assert_eq!((word(at + 20) as usize, word(at + 24) as usize), (bytes.len(), bytes.len() + 7));
                prop_assert_eq!(&file[at + 28..at + 28 + bytes.len()], &bytes[..]);
            }
        }
    }
}
