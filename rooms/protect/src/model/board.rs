//! How things stand: what people are shown of all attacks, of the speaker, and of what may still be announced.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;

use super::{Attack, Mode};

/// All of it at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Board {
    /// When that was.
    pub time: SystemTime,
    /// The mode of groups that have none of their own.
    pub mode: Mode,
    /// Somebody stopped everything; `None`: nobody did.
    pub stopped: Option<Stopped>,
    /// The protected groups, by name.
    pub groups: Vec<Group>,
    /// Attacks that are not over, the newest first.
    pub attacks: Vec<Arc<Attack>>,
    /// Those that are, the newest first; bounded.
    pub history: Vec<Arc<Attack>>,
    /// Who announces; `None`: no speaker is configured.
    pub speaker: Option<Speaking>,
    /// What is announced, of what may be.
    pub caps: Caps,
    /// What was counted since the start.
    pub counts: Counts,
}

/// Everything was withdrawn, and nothing is announced until somebody resumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stopped {
    /// Who stopped it.
    pub by: String,
    /// When.
    pub since: SystemTime,
}

/// A protected group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its networks, as CIDR.
    pub networks: Vec<String>,
    /// Who decides.
    pub mode: Mode,
    /// What it is held against, now.
    pub thresholds: Vec<Threshold>,
    /// Hosts of it that are remembered.
    pub hosts: usize,
}

/// A threshold in force.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Threshold {
    /// Of which class: `udp_flood`.
    pub class: &'static str,
    /// Packets a second that are not to be exceeded.
    pub packets: Option<f64>,
    /// Bits a second, likewise.
    pub bits: Option<f64>,
    /// Whether what was learnt raises it at this hour; else it is as configured.
    pub learnt: bool,
}

/// The session with the speaker, and its neighbours.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Speaking {
    /// Where it is: `127.0.0.1:50051`.
    pub address: String,
    /// What it says it is: `gobgpd 3.10.0`; empty until it has said.
    pub version: String,
    /// Whether it answers.
    pub connected: bool,
    /// Since when it does, or does not.
    pub since: Option<SystemTime>,
    /// Why it does not, one line.
    pub why: Option<String>,
    /// Routes of ours that its table has or may have: as last known while it does not answer; `None`: it has never answered.
    pub standing: Option<usize>,
    /// Whether it has done all that is wanted of it.
    pub settled: bool,
    /// Those that it speaks to.
    pub neighbours: Vec<Neighbour>,
}

/// A BGP neighbour of the speaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// Its AS.
    pub asn: u32,
    /// As BGP calls it (RFC 4271, section 8.2.2): `Established`.
    pub state: &'static str,
}

impl Neighbour {
    /// Whether it has what it is sent.
    pub fn is_established(&self) -> bool {
        self.state == "Established"
    }
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "neighbour {} (AS {})", self.address, self.asn)
    }
}

/// What is announced, and how much may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Caps {
    /// Routes that are wanted.
    pub routes: usize,
    /// How many may be.
    pub max_routes: usize,
    /// Prefixes that they are for.
    pub prefixes: usize,
    /// How many may be.
    pub max_prefixes: usize,
    /// The share of the protected space that they take from the network, 0 to 1.
    pub share: f64,
    /// How much it may be.
    pub max_share: f64,
    /// The share of a target's legitimate traffic that may be hit, 0 to 1.
    pub max_harm: f64,
}

/// What was counted since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Packets that shards passed on.
    pub sightings: u64,
    /// Those that a full queue had no room for, or that were left out while one was filling up: others counted for these.
    pub dropped: u64,
    /// Packets of agents that are not listed, or that came from elsewhere: they were not looked at.
    pub unlisted: u64,
    /// Packets in streams beside a settled one of the same agent: they were not looked at.
    pub rivals: u64,
    /// Listed agents that are heard: now, not since the start.
    pub alive: usize,
    /// Keys that tables had no room for, by table.
    pub evicted: Vec<(&'static str, u64)>,
    /// Attacks that began.
    pub attacks: u64,
    /// Findings whose evidence was doubted, by doubt: `counters`.
    pub doubted: Vec<(&'static str, u64)>,
    /// Refusals, by limit: `max_routes`.
    pub refused: Vec<(&'static str, u64)>,
    /// Routes that were announced.
    pub announced: u64,
    /// Routes that were withdrawn.
    pub withdrawn: u64,
    /// Lines that could not be written to the journal.
    pub unwritten: u64,
    /// Whether that of the last stop, or of its end, is one of them: a restart would not know of it. It is tried again.
    pub switch_unwritten: bool,
}
