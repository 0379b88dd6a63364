//! Traffic of the mode `sflow`: which agents there are, and how their analyser is judged.

use serde::{Deserialize, Serialize};
use weir_sflow::model::{Plan, Pool, Selection};
use weir_units::Span;

/// Agents that are alike, each a model whose truth is known, behind one exporter.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sflow {
    /// How many.
    pub agents: u32,
    /// Interfaces of each.
    pub interfaces: u32,
    /// Packets a second that each interface receives, on average.
    pub packets_per_second: u32,
    /// One packet of so many is sampled, on average.
    pub sampling: u32,
    /// Between two counter samples of an interface.
    pub polling: Span,
    /// Over which time the analyser smooths its estimates (`t` of the definitions of flows), and from one that is judged to the next.
    pub window: Span,
}

impl Sflow {
    /// What the agents do, with datagrams of so many bytes at most.
    pub fn plan(&self, longest: usize, seed: u64) -> Plan {
        Plan {
            agents: self.agents,
            interfaces: self.interfaces,
            packets_per_second: self.packets_per_second.into(),
            sampling_rate: self.sampling,
            selection: Selection::Skip,
            pool: Pool::Counted,
            polling: self.polling.duration(),
            longest,
            seed,
        }
    }

    /// Datagrams a second that they send, about.
    pub fn datagrams_per_second(&self) -> f64 {
        let interfaces = f64::from(self.agents) * f64::from(self.interfaces);
        let samples = f64::from(self.packets_per_second) / f64::from(self.sampling.max(1));
        let counters = 1.0 / self.polling.duration().as_secs_f64().max(1e-3);
        (interfaces * (samples + counters) / SAMPLES_OF_A_DATAGRAM).max(f64::from(self.agents))
    }
}

impl Default for Sflow {
    fn default() -> Self {
        Sflow {
            agents: 20,
            interfaces: 4,
            packets_per_second: 50_000,
            sampling: 1000,
            polling: Span::from_secs(1),
            window: Span::from_secs(1),
        }
    }
}

/// As many as fit into a datagram of 1400 bytes.
const SAMPLES_OF_A_DATAGRAM: f64 = 7.0;
