//! What the analyser is to do, validated: made by `config` from a file or by flags, carried out by everything else.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use ipnet::IpNet;

use crate::api::{self, Groups};
use crate::flows::Definition;
use crate::thresholds::Threshold;

/// Everything one `weir sflow serve` does.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Sockets, workers, and where all is forwarded to.
    pub carrier: weir_tee::settings::Settings,
    /// Where REST and Prometheus are served. A reload does not change it.
    pub http: SocketAddr,
    /// Who may ask there, and what for. A reload does not change it.
    pub api: api::Settings,
    /// Where counters and definitions are kept over a restart; `None`: nowhere.
    pub state: Option<PathBuf>,
    /// Agents that are heard; empty: all.
    pub allow: Vec<IpNet>,
    /// What memory is for. A reload does not change it.
    pub limits: Limits,
    /// Countries by address, in MaxMind's format.
    pub country: Option<PathBuf>,
    /// Autonomous systems by address, in MaxMind's format.
    pub asn: Option<PathBuf>,
    /// What agents and their interfaces are called.
    pub agents: BTreeMap<IpAddr, Named>,
    /// Networks under names.
    pub groups: BTreeMap<String, Groups>,
    /// Flow definitions, each a valid one.
    pub flows: BTreeMap<String, Definition>,
    /// Thresholds, each a valid one.
    pub thresholds: BTreeMap<String, Threshold>,
    /// What is protected from floods; `None`: nothing.
    pub protect: Option<Arc<weir_protect::settings::Settings>>,
}

impl Settings {
    /// What can be meant, but seldom is: a line each, with its place.
    pub fn warnings(&self) -> &[String] {
        self.protect.as_ref().map_or(&[], |protect| &protect.warnings)
    }
}

/// What is remembered at most, over all workers. What is beyond is refused or pushes older things out, and is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Agents. About 1 KiB each.
    pub agents: usize,
    /// Data sources of all agents together: interfaces and what else has counters. About 1.5 KiB each.
    pub sources: usize,
    /// Flows of all definitions together. About 200 bytes each.
    pub flows: usize,
    /// Flow definitions, those of the API included.
    pub definitions: usize,
    /// Streams of one agent, by where its datagrams come from.
    pub streams: usize,
    /// Addresses by which what is malformed is counted. About 50 bytes each.
    pub offenders: usize,
    /// Data sources and flows that are above a threshold. About 150 bytes each, taken with the first threshold.
    pub crossings: usize,
}

/// What an agent is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Itself; `None`: as it calls itself.
    pub name: Option<String>,
    /// Its interfaces, by ifIndex.
    pub interfaces: BTreeMap<u32, String>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            agents: 50_000,
            sources: 1_000_000,
            flows: 1_000_000,
            definitions: 256,
            streams: 64,
            offenders: 1_024,
            crossings: 65_536,
        }
    }
}

impl Limits {
    /// One worker's share: all of them have as much room as is stated, and one a little more than its part, for agents are
    /// spread by chance.
    pub fn share(&self, workers: usize) -> Self {
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
