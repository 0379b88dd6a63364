//! Whatever is cut, the packets that leave are those that would have left without segmentation offload, byte for byte.
//!
//! [`Sample`] builds a super-packet and, from the same description but without it, the packets on the wire with their
//! checksums computed from scratch. [`hardware`] does what a network card does with what it is handed: it trusts the
//! checksum of the pseudo-header that it finds.

use proptest::prelude::*;

use super::super::frame::{IP, MAX_HEADERS, VNET, VnetHeader, parse};
use super::{Run, alter, headers, packet};
use crate::model::{Alteration, Alterations};

const FLAGS: usize = 13;
const FIN: u8 = 1;
const PSH: u8 = 8;
const CWR: u8 = 0x80;

/// A super-packet in words.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) v6: bool,
    pub(crate) tcp: bool,
    /// Of 4 bytes each: IPv4 options, or one IPv6 hop-by-hop header if not 0.
    pub(crate) ip_options: usize,
    /// Of 4 bytes each.
    pub(crate) tcp_options: usize,
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) identification: u16,
    pub(crate) segment: usize,
    pub(crate) payload: Vec<u8>,
}

pub(crate) fn samples() -> impl Strategy<Value = Sample> {
    let sizes = (1..2000usize).prop_flat_map(|segment| (Just(segment), 1..=(segment * 50).min(65_000)));
    (
        any::<(bool, bool, u32, u16, u64)>(),
        0..=10usize,
        0..=10usize,
        prop::sample::select(vec![0u8, FIN | PSH, CWR, FIN | PSH | CWR]),
        sizes,
    )
        .prop_map(
            |((v6, tcp, sequence, identification, seed), ip_options, tcp_options, flags, (segment, length))| {
                let byte = |at: usize| (seed.wrapping_mul(at as u64 * 2 + 1) >> 56) as u8;
                let payload = (0..length).map(byte).collect();
                Sample { v6, tcp, ip_options, tcp_options, flags, sequence, identification, segment, payload }
            },
        )
}

impl Sample {
    pub(crate) fn packets(&self) -> usize {
        self.payload.len().div_ceil(self.segment)
    }

    /// The super-packet as the kernel hands it over.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        let (frame, transport) = self.frame(0, self.flags, self.sequence, &self.payload);
        let mut frame = frame;
        let at = transport + self.checksum_offset();
        let pseudo = fold_up(self.pseudo_header(frame.len() - transport));
        frame[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        let kind = match (self.tcp, self.v6) {
            (true, false) => 1,
            (true, true) => 4,
            (false, _) => 5,
        };
        let vnet = VnetHeader {
            flags: 1,
            gso_type: if self.tcp && self.flags & CWR != 0 { kind | 0x80 } else { kind },
            // What veth says: everything that happens to lie in one piece.
            header_length: frame.len().min(60_000) as u16,
            gso_size: self.segment as u16,
            checksum_start: transport as u16,
            checksum_offset: self.checksum_offset() as u16,
        };
        [&vnet.to_bytes()[..], &frame].concat()
    }

    /// The packets on the wire, Ethernet header included.
    pub(crate) fn wire(&self) -> Vec<Vec<u8>> {
        let last = self.packets() - 1;
        let payloads = self.payload.chunks(self.segment).enumerate();
        payloads
            .map(|(index, payload)| {
                let mut flags = self.flags;
                if index > 0 {
                    flags &= !CWR;
                }
                if index < last {
                    flags &= !(FIN | PSH);
                }
                let sequence = self.sequence.wrapping_add((index * self.segment) as u32);
                let (mut frame, transport) = self.frame(index, flags, sequence, payload);
                let at = transport + self.checksum_offset();
                let sum = self.pseudo_header(frame.len() - transport) + words(&frame[transport..]);
                let checksum = match !fold_up(sum) {
                    0 if !self.tcp => 0xffff,
                    checksum => checksum,
                };
                frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
                frame
            })
            .collect()
    }

    /// A frame whose transport checksum is zero, and where the transport header starts.
    fn frame(&self, index: usize, flags: u8, sequence: u32, payload: &[u8]) -> (Vec<u8>, usize) {
        let mut transport = [40_000u16.to_be_bytes(), 443u16.to_be_bytes()].concat();
        if self.tcp {
            transport.extend(sequence.to_be_bytes());
            transport.extend(7u32.to_be_bytes());
            transport.extend([((5 + self.tcp_options) << 4) as u8, 0x10 | flags, 1, 2, 0, 0, 0, 0]);
            transport.resize(20 + 4 * self.tcp_options, 1);
        } else {
            transport.extend(((8 + payload.len()) as u16).to_be_bytes());
            transport.extend([0, 0]);
        }
        transport.extend(payload);
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let protocol = if self.tcp { 6 } else { 17 };
        if self.v6 {
            let hop_by_hop: &[u8] = if self.ip_options > 0 { &[protocol, 0, 1, 4, 0, 0, 0, 0] } else { &[] };
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 9]);
            frame.extend(((hop_by_hop.len() + transport.len()) as u16).to_be_bytes());
            frame.extend([if self.ip_options > 0 { 0 } else { protocol }, 64]);
            frame.extend(SOURCE);
            frame.extend(DESTINATION);
            frame.extend(hop_by_hop);
        } else {
            let header = 20 + 4 * self.ip_options;
            let mut ip = vec![0x40 | (header / 4) as u8, 0];
            ip.extend(((header + transport.len()) as u16).to_be_bytes());
            ip.extend(self.identification.wrapping_add(index as u16).to_be_bytes());
            ip.extend([0x40, 0, 64, protocol, 0, 0]);
            ip.extend(&SOURCE[..4]);
            ip.extend(&DESTINATION[..4]);
            ip.resize(header, 1);
            let checksum = !fold_up(words(&ip));
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
            frame.extend([8, 0]);
            frame.extend(ip);
        }
        let at = frame.len();
        frame.extend(transport);
        (frame, at)
    }

    fn checksum_offset(&self) -> usize {
        if self.tcp { 16 } else { 6 }
    }

    fn pseudo_header(&self, length: usize) -> u32 {
        let addresses = if self.v6 { 16 } else { 4 };
        let protocol = if self.tcp { 6 } else { 17 };
        words(&SOURCE[..addresses]) + words(&DESTINATION[..addresses]) + protocol + length as u32
    }
}

const SOURCE: [u8; 16] = [0xfd, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];
const DESTINATION: [u8; 16] = [0xfd, 9, 0, 2, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0, 77];

/// The sum of RFC 1071, the slow way.
fn words(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) * 256 + pair.get(1).map_or(0, |&b| u32::from(b))).sum()
}

fn fold_up(sum: u32) -> u16 {
    let sum = sum % 0xffff;
    // Zero only if all was zero, which no header is.
    if sum == 0 { 0xffff } else { sum as u16 }
}

/// What a network card sends when it is handed this.
fn hardware(buffer: &[u8]) -> Vec<Vec<u8>> {
    let vnet = VnetHeader::read(buffer).unwrap();
    assert!(usize::from(vnet.header_length) <= buffer.len() - VNET, "the kernel refuses a hint beyond the frame");
    let frame = &buffer[VNET..];
    let start = usize::from(vnet.checksum_start);
    let offset = usize::from(vnet.checksum_offset);
    let (tcp, v6) = (offset == 16, frame[12] == 0x86);
    let header = start + if tcp { usize::from(frame[start + 12] >> 4) * 4 } else { 8 };
    let payload = &frame[header..];
    let size = if vnet.gso_type == 0 { payload.len() } else { usize::from(vnet.gso_size) };
    let pieces: Vec<&[u8]> = payload.chunks(size).collect();
    let handed = frame.len() - start;
    let mut packets = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        let mut p = [&frame[..header], piece].concat();
        let length = p.len() - start;
        if v6 {
            let length = (p.len() - 54) as u16;
            p[18..20].copy_from_slice(&length.to_be_bytes());
        } else {
            let total = (p.len() - 14) as u16;
            let identification = u16::from_be_bytes([p[18], p[19]]).wrapping_add(index as u16);
            p[16..18].copy_from_slice(&total.to_be_bytes());
            p[18..20].copy_from_slice(&identification.to_be_bytes());
            p[24..26].fill(0);
            let checksum = !fold_up(words(&p[14..start]));
            p[24..26].copy_from_slice(&checksum.to_be_bytes());
        }
        if tcp {
            let sequence = u32::from_be_bytes(p[start + 4..start + 8].try_into().unwrap());
            let sequence = sequence.wrapping_add((index * size) as u32);
            p[start + 4..start + 8].copy_from_slice(&sequence.to_be_bytes());
            if index > 0 {
                p[start + FLAGS] &= !CWR;
            }
            if index + 1 < pieces.len() {
                p[start + FLAGS] &= !(FIN | PSH);
            }
        } else {
            p[start + 4..start + 6].copy_from_slice(&(length as u16).to_be_bytes());
        }
        let field = start + offset;
        let pseudo = u32::from(u16::from_be_bytes([p[field], p[field + 1]])) + 0xffff - handed as u32 + length as u32;
        p[field..field + 2].fill(0);
        let checksum = match !fold_up(pseudo + words(&p[start..])) {
            0 if !tcp => 0xffff,
            checksum => checksum,
        };
        p[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
        packets.push(p);
    }
    packets
}

/// The frame of a run as it is handed to the kernel.
fn handed_over(buffer: &[u8], run: Run) -> Vec<u8> {
    let layout = parse(buffer).unwrap().layout;
    let mut scratch = [0; MAX_HEADERS];
    let length = headers(buffer, &layout, run, &mut scratch);
    [&scratch[..length], &buffer[layout.payload_of(run.first, run.count)]].concat()
}

proptest! {
    #[test]
    fn the_expectation_itself_holds_for_whole_super_packets(sample in samples()) {
        prop_assert_eq!(hardware(&sample.buffer()), sample.wire());
    }

    #[test]
    fn runs_expand_to_the_packets_that_survive(
        sample in samples(),
        fates in prop::collection::vec((prop::bool::weighted(0.2), prop::bool::weighted(0.1)), 50),
    ) {
        let buffer = sample.buffer();
        let layout = parse(&buffer).unwrap().layout;
        prop_assert_eq!(layout.packets() as usize, sample.packets());
        // Drop some, start a new run at some others.
        let mut runs: Vec<Run> = Vec::new();
        let (mut expected, mut open) = (Vec::new(), false);
        for (index, (packet, (drop, split))) in sample.wire().into_iter().zip(fates.into_iter().cycle()).enumerate() {
            if drop {
                open = false;
                continue;
            }
            match runs.last_mut() {
                Some(run) if open && !split => run.count += 1,
                _ => runs.push(Run { first: index as u32, count: 1 }),
            }
            open = true;
            prop_assert_eq!(layout.bytes_of(index as u32, 1) as usize, packet.len() - 14);
            expected.push(packet);
        }
        let sent: Vec<Vec<u8>> = runs.iter().flat_map(|&run| hardware(&handed_over(&buffer, run))).collect();
        prop_assert!(sent == expected, "runs {:?}", runs);
        for run in runs {
            let frame = handed_over(&buffer, run);
            let again = parse(&frame).unwrap();
            prop_assert_eq!(again.content, parse(&buffer).unwrap().content);
            prop_assert_eq!(again.layout.packets(), run.count);
            prop_assert_eq!(again.layout.bytes(), layout.bytes_of(run.first, run.count));
        }
    }

    #[test]
    fn single_packets_are_complete_and_differ_by_the_flipped_bit(sample in samples(), choice in any::<u64>()) {
        let buffer = sample.buffer();
        let layout = parse(&buffer).unwrap().layout;
        let mut out = vec![0xee; 65_600];
        for (index, expected) in sample.wire().into_iter().enumerate() {
            let length = packet(&buffer, &layout, index as u32, &mut out).unwrap();
            prop_assert_eq!(&out[..VNET], &[0; VNET]);
            prop_assert_eq!(&out[VNET..length], &expected[..]);
            alter(&mut out[..length], &layout, &Alterations::only(Alteration::Corrupt, Some(choice)));
            let different: u32 = out[VNET..length].iter().zip(&expected).map(|(a, b)| (a ^ b).count_ones()).sum();
            prop_assert_eq!(different, 1);
            prop_assert_eq!(&out[VNET..IP], &expected[..14]);
            prop_assert_eq!(packet(&buffer, &layout, index as u32, &mut out[..length - 1]), None);
        }
    }
}
