//! What keys of flows are translated by: groups of addresses, GeoIP and AS files, names of agents and interfaces.
//!
//! [`Lookups`] is built whole by the control side, from configuration, and swapped at once; a reload that fails leaves the
//! old one. [`Directory`] is what the collector learns by itself: names that agents tell in their counters.

mod directory;
mod geo;
mod groups;

pub use directory::{AgentId, Directory, Nameless};
pub use geo::{Geo, Place, System};
pub use groups::Groups;

use std::collections::BTreeMap;

use ipnet::IpNet;

/// Everything that functions of keys look values up in. Sets of groups are few, and found by name when a definition is made.
#[derive(Debug, Default)]
pub struct Lookups {
    /// Sets of groups by their name, as `group:ipsource:NAME` asks for them.
    pub groups: BTreeMap<String, Groups>,
    /// Countries by address; `None`: no file is configured.
    pub country: Option<std::sync::Arc<Geo>>,
    /// Autonomous systems by address; `None`: no file is configured.
    pub asn: Option<std::sync::Arc<Geo>>,
}

/// Networks by the group that they are in; the longest prefix counts.
pub type Networks = BTreeMap<String, Vec<IpNet>>;

/// What an agent is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Itself; `None`: as it calls itself.
    pub name: Option<String>,
    /// Its interfaces, by ifIndex.
    pub interfaces: BTreeMap<u32, String>,
}
