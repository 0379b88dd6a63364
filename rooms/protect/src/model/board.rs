//! How things stand: what people are shown of all attacks, of the speaker, and of what may still be announced.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use weir_program::ledger;

use super::{Attack, Mode, Phase, Point, Threshold};

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
    /// Where samples tell of less than counters.
    pub short: Vec<Point>,
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

ledger! {
    /// What is announced, and how much may be.
    pub struct Caps {
        /// Routes that are wanted.
        routes: usize => Gauge "weir_protect_routes",
        /// How many may be.
        max_routes: usize => Gauge "weir_protect_routes_limit",
        /// Prefixes that routes are for.
        prefixes: usize => Gauge "weir_protect_prefixes",
        /// How many there may be.
        max_prefixes: usize => Gauge "weir_protect_prefixes_limit",
        /// The share of the protected space that is taken from the network.
        share: f64 => Gauge "weir_protect_space_ratio",
        /// How much it may be.
        max_share: f64 => Gauge "weir_protect_space_ratio_limit",
        /// The share of a target's legitimate traffic that may be hit, 0 to 1.
        max_harm: f64,
    }

    /// What was counted since the start.
    pub struct Counts {
        /// Packets to protected hosts that were looked at.
        sightings: u64 => Counter "weir_protect_sightings",
        /// Packets that were not looked at, since a queue was full or filling up.
        dropped: u64 => Counter "weir_protect_dropped_sightings",
        /// Packets of agents that `agents` does not name.
        unlisted: u64 => Counter "weir_protect_unlisted_sightings",
        /// Packets in streams beside a settled one of the same agent.
        rivals: u64 => Counter "weir_protect_rival_sightings",
        /// Listed agents that are heard.
        alive_agents: usize => Gauge "weir_protect_alive_agents",
        /// What was refused or forgotten before its time, since a table was full.
        evicted: BTreeMap<&'static str, u64> => Counter "weir_protect_evicted" {table},
        /// Attacks that began, doubted ones too.
        attacks: u64 => Counter "weir_protect_detected_attacks",
        /// Attacks whose evidence was doubted, by doubt: docs/protect.md explains each.
        doubted: BTreeMap<&'static str, u64> => Counter "weir_protect_doubted" {doubt},
        /// Actions that a limit was against, by limit: docs/protect.md explains each.
        refused: BTreeMap<&'static str, u64> => Counter "weir_protect_refused" {limit},
        /// Routes that were announced.
        announced: u64 => Counter "weir_protect_announced" ["routes"],
        /// Routes that were withdrawn.
        withdrawn: u64 => Counter "weir_protect_withdrawn" ["routes"],
        /// Lines that could not be written to the journal.
        unwritten: u64 => Counter "weir_protect_journal_errors",
        /// 1: the last stop or resume is not in the journal yet; it is tried again.
        switch_unwritten: bool => Gauge "weir_protect_stop_unwritten",
    }
}

impl Board {
    /// How many attacks that are not over are in each phase.
    pub(crate) fn phases(&self) -> BTreeMap<&'static str, u64> {
        let phases = [
            ("seen", Phase::Seen),
            ("pending", Phase::Pending),
            ("unreachable", Phase::Unreachable),
            ("active", Phase::Active),
            ("fading", Phase::Fading),
        ];
        let count = |phase| self.attacks.iter().filter(|attack| attack.phase == phase).count() as u64;
        phases.map(|(name, phase)| (name, count(phase))).into()
    }
}
