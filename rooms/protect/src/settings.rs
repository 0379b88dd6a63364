//! What the room is to do, validated: made by `config`, carried out by everything else.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use crate::config::document::Document;
pub use crate::config::document::{Access, Caps, Hooks, Speaker, Ttl};
use crate::config::values::Exporter;
use crate::detect::Threshold;
use crate::listed::Listed;
use crate::model::{Action, Mode, Point};

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
    pub thresholds: Vec<Threshold>,
    /// What is done, step by step; never empty.
    pub levels: Vec<Level>,
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
