//! What is protected, and against what.

use std::time::Duration;

use ipnet::IpNet;

use crate::model::{Class, Point};

/// All that the detector goes by.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Who is protected. An address belongs to the group whose network holds it most narrowly.
    pub groups: Vec<Group>,
    /// False alarms a year, of all targets together, while all their traffic conforms to its thresholds.
    pub false_alarms_a_year: f64,
    /// What may come above a threshold in one piece: as much as the threshold lets pass in this time.
    pub burst: Duration,
    /// Sources that are not counted.
    pub allowed_sources: Vec<IpNet>,
    /// Interfaces at which the network's traffic comes in, each packet at one of them. With them, what they sample of trusted agents is
    /// summed up, and what is sampled elsewhere is not counted. Without, each agent is judged alone: the one that sees most counts.
    pub edge: Vec<Point>,
    /// How long a target's traffic must be below its threshold for a flood to be over.
    pub quiet: Duration,
    /// Sizes of tables.
    pub limits: Limits,
    /// Agents that must decide.
    pub witnesses: usize,
}

/// Addresses with thresholds in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its networks.
    pub networks: Vec<IpNet>,
    /// What its hosts may get; a class without a threshold is not looked at.
    pub thresholds: Vec<Threshold>,
}

/// What a host may get of a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// Of which class.
    pub class: Class,
    /// Packets a second.
    pub packets: Option<f64>,
    /// Bits a second, of frames.
    pub bits: Option<f64>,
    /// Whether it rises to what has been learnt of the hour of the week; what is given above is the least that it is.
    pub learn: bool,
    /// How many times as much as what was learnt a host may get.
    pub ratio: f64,
    /// How many sources a flood has, at least: it is spread over so many, or above the threshold without the largest of fewer.
    pub min_sources: usize,
    /// A prefix of n addresses may get n^spread times as much as a host: 0: as much as one, 1: as all of them at once.
    pub spread: f64,
}

impl Threshold {
    /// A fixed number of packets a second, with what else is the default.
    pub fn packets(class: Class, packets: f64) -> Self {
        Self { class, packets: Some(packets), bits: None, learn: false, ratio: 1.5, min_sources: 1, spread: 0.5 }
    }
}

/// Sizes of tables, in entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Hosts and prefixes that are tested at once, one a view: an agent and a direction.
    pub targets: usize,
    /// Those of them of which recent packets are kept, since there is evidence.
    pub dossiers: usize,
    /// Hosts whose usual traffic is known.
    pub profiles: usize,
    /// Floods at once.
    pub floods: usize,
    /// Views: agents, in both directions.
    pub views: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { targets: 65_536, dossiers: 4_096, profiles: 8_192, floods: 4_096, views: 4_096 }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            false_alarms_a_year: 1.0,
            burst: Duration::from_millis(100),
            allowed_sources: Vec::new(),
            edge: Vec::new(),
            quiet: Duration::from_secs(2),
            limits: Limits::default(),
            witnesses: 1,
        }
    }
}
