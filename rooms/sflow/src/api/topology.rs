//! How the network hangs together, as clients put it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

/// Nodes and links of the network, as sFlow-RT's topology has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Switches and hosts by name.
    #[serde(default)]
    pub nodes: BTreeMap<String, Node>,
    /// Links by name.
    #[serde(default)]
    pub links: BTreeMap<String, Link>,
}

/// A node of the topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its sFlow agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<IpAddr>,
    /// Its ports by name.
    #[serde(default)]
    pub ports: BTreeMap<String, Port>,
}

/// A port of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Its ifIndex; without one it is found by its name.
    #[serde(rename = "ifindex", default, skip_serializing_if = "Option::is_none", deserialize_with = "whole")]
    pub index: Option<u64>,
}

/// Two ports that are joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Link {
    pub node1: String,
    pub port1: String,
    pub node2: String,
    pub port2: String,
}

/// Scripts write numbers as strings, too.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a whole number")]
    enum Written {
        Number(u64),
        Text(String),
    }
    match Option::<Written>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Written::Number(number)) => Ok(Some(number)),
        Some(Written::Text(text)) => {
            text.trim().parse().map(Some).map_err(|_| D::Error::custom(format_args!("{text:?} is no whole number")))
        }
    }
}
