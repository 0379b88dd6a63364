//! An agent, as far as these tests need one.

use std::net::IpAddr;

use weir_wire::sflow::encode::{self, Flow, Header};
use weir_wire::sflow::{DataSource, Interface};

/// One data source that samples one packet of a hundred.
pub(super) struct Agent {
    address: IpAddr,
    sequence: u32,
}

impl Agent {
    pub(super) fn new(address: impl Into<IpAddr>) -> Self {
        Self { address: address.into(), sequence: 0 }
    }

    /// So many agents at neighbouring addresses.
    pub(super) fn several(count: u8) -> Vec<Self> {
        (1..=count).map(|host| Self::new([10, 1, 2, host])).collect()
    }

    /// Its next datagram: a flow sample without records.
    pub(super) fn datagram(&mut self) -> Vec<u8> {
        self.sequence += 1;
        let mut out = Vec::new();
        let header =
            Header { agent: self.address, sub_agent: 0, sequence: self.sequence, uptime: 1_000 + self.sequence };
        let mut samples = encode::datagram(&mut out, &header);
        samples.flow(&Flow {
            sequence: self.sequence,
            source: DataSource { class: 0, index: 3 },
            sampling_rate: 100,
            sample_pool: 100 * self.sequence,
            drops: 0,
            input: Interface::Index(3),
            output: Interface::Index(4),
            expanded: false,
        });
        out
    }

    /// One that never arrives.
    pub(super) fn lose(&mut self) {
        self.datagram();
    }
}
