//! Counter samples as agents write them, from numbers.

use weir_wire::sflow::{CounterSample, Datagram, Sample};

/// `if_counters`.
#[derive(Clone, Copy)]
pub(super) struct Interface {
    pub(super) speed: u64,
    pub(super) status: u32,
    pub(super) in_octets: u64,
    pub(super) in_packets: u32,
    pub(super) in_errors: u32,
    pub(super) out_octets: u64,
    pub(super) out_packets: u32,
}

impl Interface {
    pub(super) fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let mut word = |value: u32| body.extend(value.to_be_bytes());
        let (high, low) = (|value: u64| (value >> 32) as u32, |value: u64| value as u32);
        for value in [1, 6, high(self.speed), low(self.speed), 1, self.status] {
            word(value);
        }
        for (octets, packets, errors) in
            [(self.in_octets, self.in_packets, self.in_errors), (self.out_octets, self.out_packets, 0)]
        {
            for value in [high(octets), low(octets), packets, 0, 0, 0, errors] {
                word(value);
            }
            // Unknown protocols are counted on the way in alone.
            word(0);
        }
        // ifPromiscuousMode took the place of that on the way out.
        body
    }
}

/// One datagram with one counter sample.
pub(super) fn datagram(sequence: u32, records: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut sample = Vec::new();
    for value in [sequence, 1, records.len() as u32] {
        sample.extend(value.to_be_bytes());
    }
    for (format, body) in records {
        sample.extend(format.to_be_bytes());
        sample.extend((body.len() as u32).to_be_bytes());
        sample.extend(body);
    }
    let mut datagram = Vec::new();
    for value in [5, 1, 0x0a00_0001, 0, 1, 1, 1, 2, sample.len() as u32] {
        datagram.extend(value.to_be_bytes());
    }
    datagram.extend(sample);
    datagram
}

pub(super) fn sample(datagram: &[u8]) -> CounterSample<'_> {
    match Datagram::parse(datagram).unwrap().samples().next() {
        Some(Ok(Sample::Counters(sample))) => sample,
        other => panic!("{other:?}"),
    }
}

/// So many words of a record.
pub(super) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}
