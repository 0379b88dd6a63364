//! The file as it is written: every key with its type, nothing checked against anything else.

use std::net::IpAddr;

use serde::{Deserialize, Deserializer, Serialize, de};
use weir_program::config::Address;
use weir_service::Target;
use weir_units::{Frequency, Span};

use crate::settings::Pattern;

/// A configuration of `weir sflow agent`. `None`: the default.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The address by which collectors know the agent.
    pub agent: Option<IpAddr>,
    /// Interfaces that are counted and sampled.
    pub interfaces: Option<Vec<Pattern>>,
    /// From one counter sample of a data source to the next.
    pub polling: Option<Span>,
    /// Of so many packets one is sampled; 0: none.
    pub sampling: Option<u32>,
    /// Most flow samples a second.
    pub samples: Option<Frequency>,
    /// Most dropped packets a second that a sample tells of; 0: drops are not traced.
    pub drops: Option<Frequency>,
    /// Where `/metrics` and `/healthz` are served.
    pub admin: Option<Address>,
    /// The user to become once everything is open.
    pub user: Option<String>,
    /// Who is told.
    #[serde(rename = "collector", default, skip_serializing_if = "Vec::is_empty")]
    pub collectors: Vec<Collector>,
}

/// `[[collector]]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Collector {
    /// Address or host name; without a port, 6343.
    #[serde(deserialize_with = "endpoint")]
    pub to: Target,
}

fn endpoint<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Target, D::Error> {
    let text = String::deserialize(deserializer)?;
    super::collector(&text).map_err(de::Error::custom)
}
