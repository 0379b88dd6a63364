//! Signals, read a second time: from docs/signal.md, byte by byte, sharing no code with the program.

use std::collections::BTreeMap;

/// A datagram.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Datagram {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) session: u64,
    pub(super) sequence: u64,
    pub(super) blocks: Vec<Block>,
    /// Of heartbeats and ends, by channel.
    pub(super) positions: BTreeMap<u16, u64>,
    /// Of metadata: key and value.
    pub(super) fields: Vec<(u8, Vec<u8>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    pub(super) channel: u16,
    pub(super) first: u64,
    pub(super) time: i64,
    pub(super) ticks: (u32, u32),
    /// Samples of a bucket; 1 of samples; 0 of a gap.
    pub(super) bucket: u32,
    /// Samples that it stands for.
    pub(super) samples: u64,
    /// Each sample; of each bucket least, greatest, first, last.
    pub(super) values: Vec<f64>,
    /// Of a gap.
    pub(super) cause: Option<u8>,
}

impl Datagram {
    pub(super) fn read(bytes: &[u8]) -> Self {
        assert_eq!((&bytes[..2], bytes[2] >> 4), (&b"WS"[..], 1));
        let (kind, flags) = (bytes[2] & 15, bytes[3]);
        let number =
            |at: usize, length: usize| (0..length).rev().fold(0, |all, byte| all << 8 | u64::from(bytes[at + byte]));
        let mut datagram = Self {
            kind,
            flags,
            session: number(8, 8),
            sequence: number(16, 8),
            blocks: Vec::new(),
            positions: BTreeMap::new(),
            fields: Vec::new(),
        };
        let mut at = 24;
        if flags != 0 {
            return datagram;
        }
        for _ in 0..number(6, 2) {
            if kind != 0 {
                datagram.positions.insert(number(at, 2) as u16, number(at + 2, 8));
                at += 10;
                continue;
            }
            let (element, form, count) = (bytes[at + 2], bytes[at + 3], number(at + 4, 2) as usize);
            let mut block = Block {
                channel: number(at, 2) as u16,
                first: number(at + 8, 8),
                time: number(at + 16, 8) as i64,
                ticks: (number(at + 24, 4) as u32, number(at + 28, 4) as u32),
                bucket: number(at + 32, 4) as u32,
                samples: 0,
                values: Vec::new(),
                cause: None,
            };
            at += 36;
            if form == 2 {
                (block.bucket, block.samples, block.cause) = (0, number(at, 8), Some(bytes[at + 8]));
                at += 12;
            } else {
                block.samples = count as u64 * u64::from(block.bucket);
                for _ in 0..count * if form == 1 { 4 } else { 1 } {
                    let (value, length) = match element {
                        0 => (f64::from(f32::from_bits(number(at, 4) as u32)), 4),
                        1 => (f64::from_bits(number(at, 8)), 8),
                        2 => (f64::from(number(at, 2) as i16), 2),
                        _ => (f64::from(number(at, 4) as i32), 4),
                    };
                    block.values.push(value);
                    at += length;
                }
            }
            datagram.blocks.push(block);
        }
        while kind >= 3 && at < bytes.len() {
            let length = usize::from(bytes[at + 1]);
            datagram.fields.push((bytes[at], bytes[at + 2..at + 2 + length].to_vec()));
            at += 2 + length;
        }
        assert_eq!(at, bytes.len());
        datagram
    }
}
