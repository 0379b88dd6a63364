//! The configuration of the analyser, from a file or from flags.
//!
//! ```text
//! text -> Config (types and bounds of values) -> Settings (what fits together, definitions compiled once)
//! ```

mod check;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use ipnet::IpNet;
pub use weir_flows::shard::Limits;
use weir_program::config::{Address, Checked, Document, Many, UserName};
use weir_program::keys;
use weir_protect::config::document::Document as Protect;
use weir_service::Fixed;
use weir_tee::config::document::{Destination, Listener};
use weir_tee::config::values::Network;

use crate::api::{self, Groups};
use crate::flows::Definition;
pub use crate::names::Named;
use crate::thresholds::Threshold;

keys! {
    /// A configuration of `weir sflow serve`.
    pub struct Config {
        /// Threads that receive and analyse. Without it: one per CPU, 4 at most.
        workers (fixed): Option<u16>, 1 to 256;
        /// Where REST and Prometheus are served.
        http (fixed): Address = "127.0.0.1:8008";
        /// Names by which clients know this host, as `noc.example`, besides its addresses and `localhost`. A request to a loopback
        /// address under any other name is refused (421): a stranger's web page may have sent it.
        hosts (fixed): Many<String>;
        /// Origins whose pages may read answers and change things (CORS), as `https://noc.example:8443`.
        origins (fixed): Many<String>;
        /// Whether REST can be read only.
        read_only (fixed): bool;
        /// Where `/metrics`, `/healthz`, `/readyz` and `/ledger` of the service itself are served.
        admin (fixed): Option<Address>;
        /// The user to become once everything is open.
        user (fixed): Option<UserName>;
        /// File in which agents with their counters, and definitions put by REST, are kept over a restart.
        state (fixed): Option<PathBuf>;
        /// Networks or addresses of agents that are heard. Without it: all.
        allow: Option<Many<Network>>;
        /// What is remembered at most, over all workers.
        limits (fixed): Limits = {};
        /// Files in MaxMind's format, for the functions `country` and `asn`.
        geoip: GeoIp = {};
        /// Where sFlow comes in, with the keys of `weir tee`. Without it: port 6343 of all addresses.
        listener: Vec<Listener>;
        /// Where each datagram is forwarded to, whole, with the keys of `weir tee`.
        destination: Vec<Destination>;
        /// What agents and their interfaces are called, before the names that they tell.
        agent: Vec<Agent>;
        /// Networks or addresses by group, under the name that `group:ipsource:NAME` gives: `[group.sites]` `lab = ["10.1.0.0/16"]`.
        group: BTreeMap<String, BTreeMap<String, Many<Network>>>;
        /// Flow definitions by name, with the keys of REST.
        flow: BTreeMap<String, Definition>;
        /// Thresholds by name, with the keys of REST.
        threshold: BTreeMap<String, Threshold>;
        /// What is protected from floods. Without it: nothing.
        protect: Option<Protect>;
    }
}

keys! {
    /// `[geoip]`
    pub struct GeoIp {
        /// Countries by address.
        country: Option<PathBuf>;
        /// Autonomous systems by address.
        asn: Option<PathBuf>;
    }
}

keys! {
    /// `[[agent]]`
    pub struct Agent {
        /// Its address in its datagrams.
        address: IpAddr;
        /// What it is called. Without it: as it calls itself.
        name: Option<String>;
        /// What its interfaces are called, by ifIndex: `{ 1 = "uplink" }`.
        interfaces: BTreeMap<String, String>;
    }
}

/// A configuration that is read at the start and with each reload.
pub type Origin = weir_program::config::Origin<Config>;

/// What fits together is checked where [`Settings`] are made.
impl Checked for Config {
    fn check(&self, _: &Document<'_>) -> Result<()> {
        Ok(())
    }
}

/// Everything that one `weir sflow serve` does, validated.
#[derive(Clone, Debug)]
pub struct Settings {
    /// As it was written, with the listeners, destinations and workers that come of it.
    pub config: Config,
    /// Sockets, workers, and where all is forwarded to.
    pub carrier: weir_forward::settings::Settings,
    /// Agents that are heard; empty: all.
    pub allow: Vec<IpNet>,
    /// What agents and their interfaces are called.
    pub agents: BTreeMap<IpAddr, Named>,
    /// Networks under names.
    pub groups: BTreeMap<String, Groups>,
    /// What is protected from floods; `None`: nothing.
    pub protect: Option<Arc<weir_protect::settings::Settings>>,
    /// What can be meant, but seldom is: a line each, with its place.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Reads a file's text; `origin` names the file in errors.
    ///
    /// # Errors
    /// A line a mistake; of a flow definition two lines more, which show the place in its text.
    pub fn read(origin: &str, text: &str) -> Result<Self> {
        let document = Document::parse(origin, text)?;
        check::settings(document.read()?, &document, true)
    }

    /// Reads a configuration as it is now, on this machine as it is now. Unless REST `serves`, nobody looks for the file of tokens.
    ///
    /// # Errors
    /// As of [`Settings::read`], or the file cannot be read.
    pub fn load(origin: &Origin, serves: bool) -> Result<Self> {
        origin.load_as(|config, document| check::settings(config, document, serves))
    }

    /// What only a start can change.
    pub(crate) fn fixed(&self) -> Fixed {
        Fixed::of(self.config.admin, self.config.user.as_ref())
    }

    /// Who may ask REST, and what for.
    pub(crate) fn api(&self) -> api::Settings {
        let Config { hosts, origins, read_only, .. } = self.config.clone();
        api::Settings { read_only, hosts: hosts.0, origins: origins.0 }
    }
}
