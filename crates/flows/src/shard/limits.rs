//! What is remembered at most.

use weir_program::keys;

keys! {
    /// `[limits]`. What is beyond is refused or pushes older things out, and is counted.
    pub struct Limits {
        /// Agents, by address and sub-agent. About 1 KiB each.
        agents: usize = 50000, 1 to 1000000;
        /// Data sources of all agents together: interfaces and what else has counters. About 1.5 KiB each.
        sources: usize = 1000000, 1 to 10000000;
        /// Flows of all definitions together, about 200 bytes each; when they are full, large flows push out small ones.
        flows: usize = 1000000, 1 to 100000000;
        /// Flow definitions, those put by REST included.
        definitions: usize = 256, 1 to 4096;
        /// Streams of one agent, by where its datagrams come from.
        streams: usize = 64, 1 to 65536;
        /// Addresses by which what is malformed is counted, about 50 bytes each; further ones are counted together.
        offenders: usize = 1024, 1 to 1000000;
        /// Data sources and flows that are above a threshold, about 150 bytes each. The one seen longest ago goes for the next, and may
        /// have an event too many.
        crossings: usize = 65536, 1 to 10000000;
    }
}

impl Limits {
    /// One worker's share: all of them have as much room as is stated, and one a little more than its part, for agents are
    /// spread by chance.
    pub(super) fn share(&self, workers: usize) -> Self {
        let part = |whole: usize| match workers {
            0 | 1 => whole,
            _ => (whole / workers + whole / (4 * workers) + 64).min(whole),
        };
        Self {
            agents: part(self.agents),
            sources: part(self.sources),
            flows: part(self.flows),
            definitions: self.definitions,
            streams: self.streams,
            offenders: part(self.offenders),
            crossings: part(self.crossings),
        }
    }
}
