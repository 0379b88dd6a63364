//! Samples as XDR (RFC 4506), in the forms of sFlow version 5 that most agents send.

use super::CLASSES;

/// What a flow sample says, with one `sampled_header`.
pub(super) struct FlowSample {
    pub(super) sequence: u32,
    pub(super) interface: u32,
    pub(super) output: u32,
    pub(super) sampling_rate: u32,
    pub(super) pool: u32,
    /// Index of the packet's class.
    pub(super) class: usize,
    /// Who sends it.
    pub(super) source: u32,
}

/// What a counter sample says: `if_counters` of what came in.
pub(super) struct CounterSample {
    pub(super) sequence: u32,
    pub(super) interface: u32,
    pub(super) octets: u64,
    pub(super) packets: u32,
}

/// `sample_datagram_v5`, without its samples.
pub(super) struct Header {
    pub(super) agent: u32,
    pub(super) sequence: u32,
    pub(super) uptime: u32,
    pub(super) samples: u32,
}

impl FlowSample {
    pub(super) fn append(&self, datagram: &mut Vec<u8>) {
        let class = &CLASSES[self.class];
        let frame = class.frame_length - CHECK_SEQUENCE;
        let header = frame.min(LONGEST_HEADER);
        let padded = header.next_multiple_of(4);
        let record = 16 + padded;
        let sample = [
            [1, 32 + 8 + record, self.sequence, self.interface],
            [self.sampling_rate, self.pool, 0, self.interface],
            [self.output, 1, 1, record],
            // Ethernet, the frame as it was, what was taken off, and what there is of it.
            [1, class.frame_length, CHECK_SEQUENCE, header],
        ];
        append(datagram, sample.as_flattened());
        let begin = datagram.len();
        ethernet(datagram, self.source, self.class, frame);
        datagram.resize(begin + padded as usize, 0);
    }
}

impl CounterSample {
    pub(super) fn append(&self, datagram: &mut Vec<u8>) {
        let (high, low) = ((self.octets >> 32) as u32, self.octets as u32);
        let (speed_high, speed_low) = ((SPEED >> 32) as u32, SPEED as u32);
        append(datagram, &[2, 12 + 8 + 88, self.sequence, self.interface, 1, 1, 88]);
        // ifIndex, ifType (ethernetCsmacd), ifSpeed, ifDirection (full duplex), ifStatus (up and wanted so).
        append(datagram, &[self.interface, 6, speed_high, speed_low, 1, 3]);
        // In: octets, unicast, and what there is none of.
        append(datagram, &[high, low, self.packets, 0, 0, 0, 0, 0]);
        // Out: octets, unicast, multicast, broadcast, discards, errors; then the promiscuous mode.
        append(datagram, &[0; 8]);
    }
}

impl Header {
    pub(super) const LENGTH: usize = 28;

    pub(super) fn write(&self, datagram: &mut [u8]) {
        // Version, address of type IPv4, sub-agent 0.
        let words = [5, 1, self.agent, 0, self.sequence, self.uptime, self.samples];
        datagram[..Self::LENGTH].copy_from_slice(words.map(u32::to_be_bytes).as_flattened());
    }
}

/// Ethernet, IPv4 and UDP headers of a packet.
fn ethernet(datagram: &mut Vec<u8>, source: u32, class: usize, frame: u32) {
    let destination = 0xcb00_7101 + class as u32;
    datagram.extend([0x02, 0, 0, 0, 0, class as u8, 0x02, 1]);
    datagram.extend(source.to_be_bytes());
    let (ip, udp) = (frame - 14, frame - 34);
    datagram.extend([0x08, 0x00, 0x45, 0x00, (ip >> 8) as u8, ip as u8, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    datagram.extend(source.to_be_bytes());
    datagram.extend(destination.to_be_bytes());
    datagram.extend([0xc0, 0x00]);
    datagram.extend(CLASSES[class].port.to_be_bytes());
    datagram.extend([(udp >> 8) as u8, udp as u8, 0, 0]);
}

fn append(datagram: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| datagram.extend(word.to_be_bytes()));
}

/// Bytes of the longest sample: a whole header.
pub(super) const LONGEST_SAMPLE: usize = 64 + LONGEST_HEADER as usize;

/// Bytes of a frame that agents send, at most (`header_size`, as most have it).
const LONGEST_HEADER: u32 = 128;

/// Bytes of a frame's check sequence, which is taken off (`stripped`).
const CHECK_SEQUENCE: u32 = 4;

/// Bits a second of an interface.
const SPEED: u64 = 10_000_000_000;
