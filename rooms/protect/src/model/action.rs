//! What is done with packets.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Rule;
use crate::config::values::Community;

/// What routers are asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", tag = "action")]
pub enum Action {
    /// A blackhole route for the destination, whatever else the rule asks (RTBH, RFC 5635; community RFC 7999).
    Blackhole,
    /// FlowSpec: traffic-rate 0 (RFC 8955, section 7.1).
    Drop,
    /// FlowSpec: traffic-rate.
    Limit {
        /// Bytes a second.
        bytes_per_s: f32,
    },
    /// FlowSpec: traffic-marking.
    Mark {
        /// The DSCP that packets get.
        dscp: u8,
    },
    /// FlowSpec: rt-redirect to the VRF that imports this route target, AS:NN.
    Redirect {
        /// The AS.
        asn: u32,
        /// The number within it.
        number: u32,
    },
}

/// What a speaker is to announce.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Route {
    /// Which packets.
    pub rule: Rule,
    /// What happens to them.
    #[serde(flatten)]
    pub action: Action,
    /// The next hop of a blackhole; unused with FlowSpec.
    pub next_hop: Option<IpAddr>,
    /// Communities besides those that mark it as ours.
    pub communities: Vec<Community>,
}
