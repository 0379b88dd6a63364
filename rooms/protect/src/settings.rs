//! What the room is to do, validated: made by `config`, carried out by everything else.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use crate::config::document::{Access, Document, Hooks, OnStop};
use crate::config::values::{Community, Exporter};
use crate::listed::Listed;
use crate::model::{Action, Class, Mode, Point};

/// Everything that `[protect]` says.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Who decides, for groups that have no mode of their own.
    pub mode: Mode,
    /// Agents whose samples may lead to an action.
    pub agents: Vec<Exporter>,
    /// Where is written what was done; `None`: nowhere, nothing is ever announced.
    pub journal: Option<PathBuf>,
    /// Of all targets together, a second.
    pub false_alarms: f64,
    /// What may come above a threshold in one piece: as much as it lets pass in this time.
    pub burst: Duration,
    /// How many agents have to agree.
    pub witnesses: usize,
    /// How long a stream of an agent must have been heard without a contradiction before it may act.
    pub settle: Duration,
    /// Interfaces that are the edge, and are added up; empty: the one that sees most counts.
    pub ingress: Vec<Point>,
    /// What is protected, by name.
    pub groups: BTreeMap<String, Group>,
    /// What they send is no part of a flood, and no rule names them.
    pub allowed_sources: Vec<IpNet>,
    /// Nothing is announced that touches them: those of the file, and the agents.
    pub untouchable: Vec<IpNet>,
    /// What is announced at most.
    pub caps: Caps,
    /// How long routes live.
    pub ttl: Ttl,
    /// Who announces; `None`: nobody.
    pub speaker: Option<Speaker>,
    /// Who may ask and act; `None`: nobody.
    pub access: Option<Access>,
    /// Who is told.
    pub hooks: Hooks,
    /// As it was written, with every default.
    pub document: Document,
    /// What can be meant, but seldom is: a line each, with its place.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Files that nobody else may read: tokens.
    pub fn secrets(&self) -> Vec<PathBuf> {
        self.access.iter().map(|access| access.tokens.clone()).collect()
    }
}

/// Hosts that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its networks; those of a group within another one's are its own.
    pub networks: Vec<IpNet>,
    /// Who decides.
    pub mode: Mode,
    /// What is too much.
    pub thresholds: BTreeMap<Class, Threshold>,
    /// What is done, step by step; never empty.
    pub levels: Vec<Level>,
}

/// What is too much of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Packets a second.
    pub packets: Option<f64>,
    /// Bits a second.
    pub bits: Option<f64>,
    /// Whether it is learnt by the hour of the week, never below those.
    pub learn: bool,
    /// So many different sources at least.
    pub min_sources: usize,
    /// How many times as much as what was learnt a host may get.
    pub ratio: f64,
    /// A prefix of n addresses may get n^spread times as much as a host.
    pub spread: f64,
}

/// A step of what is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// What.
    pub action: Action,
    /// How long the level before may go on without helping.
    pub after: Duration,
    /// The part of a target's other traffic that it may hit.
    pub harm: f64,
}

/// What is announced at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Caps {
    /// Routes at once.
    pub routes: usize,
    /// Prefixes that they are for.
    pub prefixes: usize,
    /// The part of the protected addresses of a family that is taken from the network: blackholed, or all to it dropped.
    pub share: f64,
    /// The part of a target's other traffic that may be hit, where a level says nothing else.
    pub harm: f64,
}

/// How long routes live.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ttl {
    /// The first time.
    pub first: Duration,
    /// At most.
    pub most: Duration,
    /// How long they stay when the attack is no longer seen.
    pub hysteresis: Duration,
    /// By how much longer both are each time that it comes back.
    pub backoff: f64,
}

/// The BGP speaker.
#[derive(Clone, Debug, PartialEq)]
pub struct Speaker {
    /// gobgpd's gRPC.
    pub gobgp: SocketAddr,
    /// Tells own routes from others'.
    pub id: u32,
    /// On every route, for people and filters.
    pub marker: Option<Community>,
    /// On blackhole routes.
    pub community: Community,
    /// Of blackhole routes for IPv4.
    pub next_hop: Option<IpAddr>,
    /// Of blackhole routes for IPv6.
    pub next_hop_v6: Option<IpAddr>,
    /// What becomes of routes at an orderly end.
    pub on_stop: OnStop,
}

impl Default for Caps {
    fn default() -> Self {
        Self { routes: 1_000, prefixes: 256, share: 0.05, harm: 0.2 }
    }
}

impl Default for Ttl {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(600),
            most: Duration::from_secs(86_400),
            hysteresis: Duration::from_secs(60),
            backoff: 2.0,
        }
    }
}

impl Settings {
    /// The group that an address or a prefix belongs to: that of the longest network around it.
    pub fn group_of(&self, prefix: &IpNet) -> Option<(&str, &Group)> {
        let around =
            |group: &Group| group.networks.iter().filter(|net| net.contains(prefix)).map(IpNet::prefix_len).max();
        let found = self.groups.iter().filter_map(|(name, group)| Some((around(group)?, name, group)));
        found.max_by_key(|(length, ..)| *length).map(|(_, name, group)| (&**name, group))
    }

    /// All protected networks, none within another.
    pub fn protected(&self) -> Vec<IpNet> {
        IpNet::aggregate(&self.groups.values().flat_map(|group| &group.networks).copied().collect())
    }

    /// Whose samples are looked at.
    pub fn listed(&self) -> Listed {
        let agents = self.agents.iter().map(|exporter| (exporter.agent, exporter.from));
        Listed::new(agents, self.settle.as_nanos() as u64)
    }
}
