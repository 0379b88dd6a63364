//! Samples as most agents send them: with one `sampled_header`, or with `if_counters`.

use weir_wire::sflow::encode::{Counters, Flow, Put, Samples};
use weir_wire::sflow::{DataFormat, DataSource, HeaderProtocol, Interface, Space, Structure};

use super::CLASSES;

/// A sample that waits for its datagram.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiting {
    /// Of a packet.
    Flow {
        sequence: u32,
        interface: u32,
        output: u32,
        sampling_rate: u32,
        pool: u32,
        /// Index of the packet's class.
        class: usize,
        /// Who sends it: an IPv4 address.
        from: u32,
    },
    /// Of an interface's counters: what came in.
    Counters { sequence: u32, interface: u32, octets: u64, packets: u32 },
}

impl Waiting {
    pub(super) fn write(&self, samples: &mut Samples<'_>) {
        let ethernet = |index: u32| DataSource { class: DataSource::IF_INDEX, index };
        match *self {
            Waiting::Flow { sequence, interface, output, sampling_rate, pool, class, from } => {
                let sample = Flow {
                    sequence,
                    source: ethernet(interface),
                    sampling_rate,
                    sample_pool: pool,
                    drops: 0,
                    input: Interface::Index(interface),
                    output: Interface::Index(output),
                    expanded: false,
                };
                let frame_length = CLASSES[class].frame_length;
                let header = header(class, from);
                let values = [
                    Put::U32(HeaderProtocol::ETHERNET.0),
                    Put::U32(frame_length),
                    Put::U32(CHECK_SEQUENCE),
                    Put::Opaque(&header[..HEADER_SIZE.min((frame_length - CHECK_SEQUENCE) as usize)]),
                ];
                put(&mut samples.flow(&sample), Space::Flow, &values);
            }
            Waiting::Counters { sequence, interface, octets, packets } => {
                let sample = Counters { sequence, source: ethernet(interface), expanded: false };
                let zero = Put::U32(0);
                let values = [
                    // ifIndex, ifType (ethernetCsmacd), ifSpeed, ifDirection (full duplex), ifStatus (up, and wanted so).
                    Put::U32(interface),
                    Put::U32(6),
                    Put::U64(SPEED),
                    Put::U32(1),
                    Put::U32(3),
                    // In: octets, unicast, and what there is none of.
                    Put::U64(octets),
                    Put::U32(packets),
                    zero,
                    zero,
                    zero,
                    zero,
                    zero,
                    // Out: octets, packets of three kinds, discards, errors; then the promiscuous mode.
                    Put::U64(0),
                    zero,
                    zero,
                    zero,
                    zero,
                    zero,
                    zero,
                ];
                put(&mut samples.counters(&sample), Space::Counter, &values);
            }
        }
    }
}

/// Writes record 1 of a space. The values are of its kind: the tests read them again.
fn put(records: &mut weir_wire::sflow::encode::Records<'_>, space: Space, values: &[Put<'_>]) {
    if let Some(structure) = Structure::find(space, DataFormat { enterprise: 0, format: 1 }) {
        let written = records.put(structure, values);
        debug_assert_eq!(written, Ok(()));
    }
}

/// The first bytes of a packet: Ethernet, IPv4, UDP and a payload of zeros.
fn header(class: usize, from: u32) -> [u8; HEADER_SIZE] {
    let ip = (CLASSES[class].frame_length - CHECK_SEQUENCE - 14) as u16;
    let mut bytes = [0; HEADER_SIZE];
    let mut at = 0;
    let mut put = |part: &[u8]| {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    };
    put(&[0x02, 0, 0, 0, 0, class as u8, 0x02, 1]);
    put(&from.to_be_bytes());
    put(&[0x08, 0x00, 0x45, 0x00]);
    put(&ip.to_be_bytes());
    put(&[0, 0, 0x40, 0, 64, 17, 0, 0]);
    put(&from.to_be_bytes());
    put(&[203, 0, 113, 1 + class as u8]);
    put(&[0xc0, 0x00]);
    put(&CLASSES[class].port.to_be_bytes());
    put(&(ip - 20).to_be_bytes());
    bytes
}

/// Bytes of the longest sample: 32 before its record, 24 before the header.
pub(super) const LONGEST_SAMPLE: usize = 8 + 32 + 24 + HEADER_SIZE;

/// Bytes of a frame that agents send, at most (`header_size`, as most have it).
const HEADER_SIZE: usize = 128;

/// Bytes of a frame's check sequence, which is taken off (`stripped`).
const CHECK_SEQUENCE: u32 = 4;

/// Bits a second of an interface.
const SPEED: u64 = 10_000_000_000;
