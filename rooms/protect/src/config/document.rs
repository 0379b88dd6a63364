//! `[protect]` as it is written: every key with its type, nothing checked against anything else.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_program::config::Address;
use weir_units::{BitRate, Frequency, Share, Span};

use super::forms;
use super::values::{Community, Dscp, Exporter, Network, Rarity, RouteTarget};
use crate::model::{Class, Mode};

/// `[protect]`. `None`: the default.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Who decides, for groups that have no mode of their own.
    pub mode: Option<Mode>,
    /// Agents whose samples may lead to an action.
    #[serde(default, deserialize_with = "forms::some_list")]
    pub agents: Option<Vec<Exporter>>,
    /// Where is written what was done, by whom and why.
    pub journal: Option<PathBuf>,
    /// How often something may be taken for an attack that is none, of all targets together.
    pub false_alarms: Option<Rarity>,
    /// What may come above a threshold in one piece: as much as the threshold lets pass in this time.
    pub burst: Option<Span>,
    /// How many agents have to agree.
    pub witnesses: Option<usize>,
    /// How long counters of an interface must have agreed that is new beside a known agent.
    pub settle: Option<Span>,
    /// Names of the interfaces that are the edge; absent: all are looked at, and the one that sees most counts.
    pub ingress: Option<Vec<String>>,
    /// What is never hit.
    #[serde(default, deserialize_with = "forms::allow")]
    pub allow: Option<Allow>,
    /// What is announced at most.
    pub caps: Option<Caps>,
    /// How long routes live.
    pub ttl: Option<Ttl>,
    /// Who announces; absent: nobody, all is observed.
    pub speaker: Option<Speaker>,
    /// Who may ask and act; absent: nobody.
    pub access: Option<Access>,
    /// Who is told.
    pub hooks: Option<Hooks>,
    /// What is protected, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Group>,
}

/// `[protect.groups.NAME]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its networks.
    #[serde(default, deserialize_with = "forms::list")]
    pub networks: Vec<Network>,
    /// Who decides; absent: as for all.
    pub mode: Option<Mode>,
    /// What is too much, by class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub thresholds: BTreeMap<Class, Threshold>,
    /// What is done, step by step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
}

/// `[protect.groups.NAME.thresholds.CLASS]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table: write { packets = \"40k/s\" }")]
pub struct Threshold {
    /// Packets a second.
    pub packets: Option<Frequency>,
    /// Bits a second.
    pub bits: Option<BitRate>,
    /// Whether it is learnt by the hour of the week, never below those.
    pub learn: Option<bool>,
    /// So many different sources at least.
    pub min_sources: Option<usize>,
    /// How many times as much as what was learnt a host may get.
    pub ratio: Option<f64>,
    /// A prefix of n addresses may get n^spread times as much as a host.
    pub spread: Option<f64>,
}

/// `[[protect.groups.NAME.levels]]`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// What is done.
    pub action: Kind,
    /// How long the level before may go on without helping.
    pub after: Option<Span>,
    /// Of `limit`.
    pub rate: Option<BitRate>,
    /// Of `mark`.
    pub dscp: Option<Dscp>,
    /// Of `redirect`: the route target, AS:NN.
    pub to: Option<RouteTarget>,
    /// The part of a target's other traffic that this step may hit; absent: as for all.
    pub harm: Option<Share>,
}

/// What routers are asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// FlowSpec, traffic-rate 0.
    Drop,
    /// FlowSpec, traffic-rate.
    Limit,
    /// FlowSpec, traffic-marking.
    Mark,
    /// FlowSpec, rt-redirect.
    Redirect,
    /// A blackhole route.
    Blackhole,
}

/// `[protect.allow]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Allow {
    /// What they send is no part of a flood, and no rule names them.
    #[serde(default, deserialize_with = "forms::some_list")]
    pub sources: Option<Vec<Network>>,
    /// Nothing is announced that touches them: routers, resolvers, monitoring.
    #[serde(default, deserialize_with = "forms::some_list")]
    pub destinations: Option<Vec<Network>>,
}

/// `[protect.caps]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Caps {
    /// Routes at once.
    pub routes: Option<usize>,
    /// Prefixes that they are for.
    pub prefixes: Option<usize>,
    /// The part of the protected addresses that is taken from the network, of a family.
    pub share: Option<Share>,
    /// The part of a target's other traffic that may be hit.
    pub harm: Option<Share>,
    /// What may be announced without a person while that part is not known.
    pub unknown_harm: Option<Unknown>,
}

/// What may be announced without a person where too little is known of a target's other traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// Rules that name more than clients of the service have in common.
    #[default]
    Narrow,
    /// Nothing.
    Refuse,
    /// Anything.
    Permit,
}

/// `[protect.ttl]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ttl {
    /// The first time.
    pub first: Option<Span>,
    /// At most.
    pub most: Option<Span>,
    /// How long routes stay when the attack is no longer seen.
    pub hysteresis: Option<Span>,
    /// By how much longer both are each time that it comes back.
    pub backoff: Option<f64>,
}

/// `[protect.speaker]`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Speaker {
    /// gobgpd's gRPC.
    pub gobgp: Address,
    /// On every route, for people and filters; absent: none. Own routes are known by another: see [`crate::bgp::Instance`].
    pub marker: Option<Community>,
    /// On blackhole routes.
    pub community: Option<Community>,
    /// Of blackhole routes for IPv4.
    pub next_hop: Option<IpAddr>,
    /// Of blackhole routes for IPv6.
    pub next_hop_v6: Option<IpAddr>,
    /// What becomes of routes when the analyser ends in order.
    pub on_stop: Option<OnStop>,
    /// Neighbours that gobgpd is given once it has all routes; empty: it has its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<Neighbour>,
}

/// What becomes of routes at an orderly end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnStop {
    /// They are withdrawn.
    Withdraw,
    /// They stay, for the next start to find them.
    #[default]
    Keep,
}

/// `[[protect.speaker.neighbours]]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// Its AS.
    pub asn: u32,
    /// Its port; absent: 179.
    pub port: Option<u16>,
    /// From which address it is spoken to.
    pub local_address: Option<IpAddr>,
    /// Hops to it, where it is not on the same link.
    pub multihop: Option<u8>,
    /// File with the password of TCP MD5 (RFC 2385).
    pub password: Option<PathBuf>,
    /// After so long without a word the session ends.
    pub hold_time: Option<Span>,
    /// How long it is asked to keep routes while gobgpd is away (RFC 4724); 0: it is not asked.
    pub restart_time: Option<Span>,
}

/// `[protect.access]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// A name, `read` or `act`, and a token a line.
    pub tokens: PathBuf,
}

/// `[protect.hooks]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hooks {
    /// A program and its arguments; it gets JSON on its standard input.
    pub command: Option<Vec<String>>,
    /// Where JSON is posted.
    pub webhook: Option<String>,
    /// File of the authorities that are believed behind `https://`, PEM; absent: those that the machine trusts.
    pub ca: Option<PathBuf>,
    /// Where RFC 5424 goes, over UDP.
    pub syslog: Option<Address>,
    /// How long a program or a receiver may take.
    pub timeout: Option<Span>,
}
