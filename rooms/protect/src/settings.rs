//! What the room is to do, validated: made by `config`, carried out by everything else.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use weir_detect::queue::Listed;

use crate::config::document::Document;
pub use crate::config::document::{Caps, Speaker, Ttl};
use crate::detect::Threshold;
use crate::model::{Action, Mode, Point};

/// Everything that `[protect]` says: the keys as they are written, and what follows from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// As it was written, with every default.
    pub document: Document,
    /// Interfaces that are the edge, and are added up; empty: the one that sees most counts.
    pub ingress: Vec<Point>,
    /// What is protected, by name.
    pub groups: BTreeMap<String, Group>,
    /// What they send is no part of a flood, and no rule names them.
    pub allowed_sources: Vec<IpNet>,
    /// Nothing is announced that touches them: those of the file, and the agents.
    pub untouchable: Vec<IpNet>,
    /// What can be meant, but seldom is: a line each, with its place.
    pub warnings: Vec<String>,
}

impl Deref for Settings {
    type Target = Document;

    fn deref(&self) -> &Document {
        &self.document
    }
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
        Listed::new(agents, self.settle.duration().as_nanos() as u64)
    }
}
