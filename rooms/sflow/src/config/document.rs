//! The file as it is written: every key with its type, nothing checked against anything else.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_program::config::Address;
use weir_tee::config::document::{Destination, Listener};
use weir_tee::config::values::{List, Network};

use crate::flows::Definition;
use crate::thresholds::Threshold;

/// A configuration of `weir sflow serve`. `None`: the default.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Threads that receive and analyse.
    pub workers: Option<usize>,
    /// Where REST and Prometheus are served.
    pub http: Option<Address>,
    /// Names by which clients know this host.
    pub hosts: Option<List<String>>,
    /// Origins whose pages may read answers and change things.
    pub origins: Option<List<String>>,
    /// Whether REST changes nothing.
    pub read_only: Option<bool>,
    /// Where `/metrics` and `/healthz` of the service itself are served.
    pub admin: Option<Address>,
    /// The user to become once everything is open.
    pub user: Option<String>,
    /// Where counters and definitions are kept over a restart.
    pub state: Option<PathBuf>,
    /// Agents that are heard; absent: all.
    pub allow: Option<List<Network>>,
    /// What memory is for.
    pub limits: Option<Limits>,
    /// Files in MaxMind's format.
    pub geoip: Option<GeoIp>,
    /// Where sFlow comes in; none: port 6343 of all addresses.
    #[serde(rename = "listener", default, skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<Listener>,
    /// Where all of it is forwarded to, whole.
    #[serde(rename = "destination", default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<Destination>,
    /// What agents and their interfaces are called.
    #[serde(rename = "agent", default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<Agent>,
    /// Networks under names, by the name that `group:ipsource:NAME` gives.
    #[serde(rename = "group", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, BTreeMap<String, List<Network>>>,
    /// Flow definitions by name.
    #[serde(rename = "flow", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flows: BTreeMap<String, Definition>,
    /// Thresholds by name.
    #[serde(rename = "threshold", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub thresholds: BTreeMap<String, Threshold>,
    /// What is protected from floods; absent: nothing.
    pub protect: Option<weir_protect::config::document::Document>,
}

/// `[limits]`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Agents, over all workers.
    pub agents: Option<usize>,
    /// Data sources of all agents together: interfaces and what else has counters.
    pub sources: Option<usize>,
    /// Flows of all definitions together.
    pub flows: Option<usize>,
    /// Flow definitions.
    pub definitions: Option<usize>,
    /// Streams of one agent: its sub-agents, and devices that share its address, each by where its datagrams come from.
    pub streams: Option<usize>,
    /// Addresses by which what is malformed is counted.
    pub offenders: Option<usize>,
    /// Data sources and flows that are above a threshold.
    pub crossings: Option<usize>,
}

/// `[geoip]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GeoIp {
    /// Countries by address.
    pub country: Option<PathBuf>,
    /// Autonomous systems by address.
    pub asn: Option<PathBuf>,
}

/// `[[agent]]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// Its address in its datagrams.
    pub address: IpAddr,
    /// What it is called; absent: as it calls itself.
    pub name: Option<String>,
    /// What its interfaces are called, by ifIndex.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interfaces: BTreeMap<String, String>,
}
