//! An agent, as far as these tests need one.

use std::net::IpAddr;
use std::time::Instant;

use weir_wire::sflow::encode::{self, Counters, Flow, Header};
use weir_wire::sflow::{DataFormat, DataSource, Interface};

/// One data source that samples one packet of a hundred.
pub(super) struct Agent {
    address: IpAddr,
    sequence: u32,
    /// By its own clock, ms.
    pub(super) uptime: u32,
    begin: Instant,
    /// What its clock showed at the beginning, ms.
    booted: u32,
}

impl Agent {
    pub(super) fn new(address: impl Into<IpAddr>) -> Self {
        Self { address: address.into(), sequence: 0, uptime: 1_000, begin: Instant::now(), booted: 1_000 }
    }

    /// Another device that has the same address, and has run for longer.
    pub(super) fn double(&self) -> Self {
        Self { address: self.address, sequence: 1_000_000, uptime: 0, begin: Instant::now(), booted: 500_000_000 }
    }

    /// So many agents at neighbouring addresses.
    pub(super) fn several(count: u8) -> Vec<Self> {
        (1..=count).map(|host| Self::new([10, 1, 2, host])).collect()
    }

    /// Its next datagram: a flow sample without records.
    pub(super) fn datagram(&mut self) -> Vec<u8> {
        self.sample(&[])
    }

    /// Its next datagram: a flow sample of a packet of 1,000 bytes between these (sampled_ipv4, 0:3).
    pub(super) fn packet(&mut self, from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        let record = [&words(&[1000, 17])[..], &from, &to, &words(&[53, 5353, 0, 0])].concat();
        self.sample(&[(DataFormat { enterprise: 0, format: 3 }, &record)])
    }

    /// Its next datagram: counters of a gigabit interface that has received so many octets.
    pub(super) fn counters(&mut self, octets: u64) -> Vec<u8> {
        self.next();
        let mut out = Vec::new();
        let header = self.header();
        let mut samples = encode::datagram(&mut out, &header);
        let source = DataSource { class: 0, index: 3 };
        let mut records = samples.counters(&Counters { sequence: self.sequence, source, expanded: false });
        let mut body = [3_u32, 6].map(u32::to_be_bytes).concat();
        body.extend(1_000_000_000_u64.to_be_bytes());
        body.extend([1_u32, 3].map(u32::to_be_bytes).concat());
        body.extend(octets.to_be_bytes());
        // The other totals, of which none moves.
        body.resize(88, 0);
        records.raw(DataFormat { enterprise: 0, format: 1 }, &body);
        out
    }

    fn next(&mut self) {
        self.sequence += 1;
        self.uptime = self.booted + self.begin.elapsed().as_millis() as u32;
    }

    fn header(&self) -> Header {
        Header { agent: self.address, sub_agent: 0, sequence: self.sequence, uptime: self.uptime }
    }

    fn sample(&mut self, records: &[(DataFormat, &[u8])]) -> Vec<u8> {
        self.next();
        let mut out = Vec::new();
        let header = self.header();
        let mut samples = encode::datagram(&mut out, &header);
        let mut sample = samples.flow(&Flow {
            sequence: self.sequence,
            source: DataSource { class: 0, index: 3 },
            sampling_rate: 100,
            sample_pool: 100 * self.sequence,
            drops: 0,
            input: Interface::Index(3),
            output: Interface::Index(4),
            expanded: false,
        });
        records.iter().for_each(|(format, body)| sample.raw(*format, body));
        out
    }

    /// One that never arrives.
    pub(super) fn lose(&mut self) {
        self.datagram();
    }
}
