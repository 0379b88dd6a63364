//! What was detected, and what shows it.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{Class, Contested, Point, Rule, Word};

/// What is under attack: a host, or the prefix over which a flood is spread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
pub struct Target {
    /// The host as /32 or /128, or the prefix.
    pub prefix: IpNet,
    /// The protected group that it belongs to.
    pub group: String,
}

/// A rate with the interval in which the true one is with 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// What is most likely.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end; `None`: nobody knows yet, it is at least `low`.
    pub high: Option<f64>,
}

impl Default for Rate {
    /// None, for sure.
    fn default() -> Self {
        Self { value: 0.0, low: 0.0, high: Some(0.0) }
    }
}

/// One of the values that a field had, and its part of the flood, 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The value: `203.0.113.7`, `53`, `SYN`, `DE`, `64500`.
    pub value: String,
    /// Its part of the packets.
    pub share: f64,
}

/// A flood, as of its newest sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Detection {
    /// What is under attack.
    pub target: Target,
    /// By what; of several classes that are too much the narrowest.
    pub class: Class,
    /// When the first sample above the threshold came, and when it was decided; ns as in [`super::Sighting::time`]. Both 0: nobody knows,
    /// it was before a restart.
    pub first_excess: u64,
    /// As above.
    pub decided: u64,
    /// What shows it.
    pub evidence: Evidence,
    /// As narrow as the evidence permits, the narrowest last; the first is the bare destination.
    pub rules: Vec<Rule>,
    /// Why it waits for a person; empty: nothing speaks against it.
    pub doubts: Vec<Doubt>,
}

/// What shows a flood.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Evidence {
    /// Which threshold it was held against: `group web, udp_flood, 40000 packets/s (learnt, Mon 14:00)`.
    pub rule: String,
    /// What was not to be exceeded, in packets/s; `None`: bits/s count.
    pub threshold_packets: Option<f64>,
    /// As above, in bits/s.
    pub threshold_bits: Option<f64>,
    /// Packets a second now.
    pub packets: Rate,
    /// Bits a second now.
    pub bits: Rate,
    /// How sure: an attack is announced in error less often than once in e to this.
    pub log_evidence: f64,
    /// Samples that it rests on.
    pub samples: u64,
    /// Different sources among them.
    pub sources: usize,
    /// Hosts that are hit, in a prefix.
    pub hosts: usize,
    /// Where it was seen, and what speaks against that.
    pub points: Vec<Spot>,
    /// Most frequent sources.
    pub top_sources: Vec<Share>,
    /// Most frequent ports of the source, `udp/53`.
    pub top_source_ports: Vec<Share>,
    /// Most frequent ports of the destination.
    pub top_destination_ports: Vec<Share>,
    /// TCP's flags, types of ICMP.
    pub top_flags: Vec<Share>,
    /// Countries, where known.
    pub top_countries: Vec<Share>,
    /// Autonomous systems, where known.
    pub top_asns: Vec<Share>,
    /// First bytes of some packets, hexadecimal.
    pub headers: Vec<String>,
}

/// A point that told of a flood, and what its word is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Spot {
    /// Where.
    #[serde(flatten)]
    pub point: Point,
    /// What speaks against what it told last.
    pub word: Word,
}

/// What speaks against a flood: nothing is announced before a person approves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Doubt {
    /// One of [`Self::NAMES`].
    #[serde(rename = "doubt")]
    pub name: &'static str,
    /// In a line.
    pub text: String,
}

impl Doubt {
    /// All names.
    pub const NAMES: [&str; 5] = ["contested", "counters", "new", "uncounted", "witnesses"];

    /// What speaks against a sample of a point with this word; `None`: nothing.
    pub fn of(Point { agent, index }: Point, word: Word) -> Option<Self> {
        let (name, text) = match word {
            Word::Good => return None,
            Word::New => ("new", format!("agent {agent} has not been heard for long enough (protect.settle)")),
            Word::Contested => ("contested", format!("datagrams in the name of agent {agent} contradict one another")),
            Word::Uncounted => {
                ("uncounted", format!("no counters of interface {index} of agent {agent} have come of late"))
            }
            Word::Counters => {
                ("counters", format!("the counters of interface {index} of agent {agent} show less than its samples"))
            }
        };
        Some(Self { name, text })
    }

    /// Fewer agents decided than `witnesses` asks for.
    pub fn witnesses(seen: usize, wanted: usize) -> Self {
        Self { name: "witnesses", text: format!("{seen} agents see it, and {wanted} must (protect.witnesses)") }
    }
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

/// What legitimate traffic a set of routes would hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Harm {
    /// Packets a second that are no part of the flood, as before it began.
    pub packets: f64,
    /// Their part of what the target gets without the flood, 0 to 1; `None`: nothing is known of the time before.
    pub share: Option<f64>,
}

/// What the detector tells. There is one flood of a target and class.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// It began, goes on, or is known better: evidence, rules and doubts are replaced. Told about once a second while it is above its threshold.
    Flood(Box<Detection>),
    /// It is over: below its threshold for as long as was asked, and an agent that told of it is heard.
    Over {
        /// Whose.
        target: Target,
        /// Which.
        class: Class,
        /// When its last sample above the threshold came.
        last: u64,
    },
    /// As it was told by a shard.
    Contested(Contested),
}
