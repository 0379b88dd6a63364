//! Hosts, routers and switches, with their addresses.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// An end system.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Addresses with prefix length; the first is the one that traffic goes to. A host with several links has them by
    /// link: `{ access = ["10.0.1.2/24"], control = ["10.0.9.2/24"] }`.
    pub addresses: Addresses,
    /// Lines for the shell, run on the host before any traffic, as with `weir lab shell`: firewall rules, routes,
    /// sysctls.
    #[serde(default)]
    pub setup: Vec<String>,
    /// The processor, counted from 0 among those there are and round again, on which its packets are received and its
    /// ends of messages run; absent: any.
    pub processor: Option<usize>,
    /// Programs beside them, on the same processor, which only compute while messages are sent.
    #[serde(default)]
    pub burners: u32,
}

/// Addresses of a node's interfaces.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "expected a list of addresses, or lists of addresses by link")]
pub enum Addresses {
    /// Of a node's only interface.
    Only(Vec<IpNet>),
    /// By the name of the link that the interface is on.
    ByLink(BTreeMap<String, Vec<IpNet>>),
}

/// A namespace that forwards IP packets between its interfaces. Routes to every network are computed (shortest path,
/// then by name), on hosts too.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// Addresses with prefix length by the name of the link.
    pub addresses: BTreeMap<String, Vec<IpNet>>,
    /// As [`Host::setup`].
    #[serde(default)]
    pub setup: Vec<String>,
}

/// A learning bridge, with IGMP and MLD snooping and a querier.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {}
