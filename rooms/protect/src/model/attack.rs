//! An attack from its detection to its end, and what people may do about it.

use std::time::SystemTime;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{Class, Detection, Harm, Rate, Route};

/// Who decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Nothing is announced; what would have been is told.
    #[default]
    Observe,
    /// A person approves.
    Manual,
    /// Announced at once.
    Automatic,
}

/// One step of what is done, as an attack goes on or grows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Level {
    /// Its number, from 0.
    pub number: usize,
    /// What is announced.
    pub routes: Vec<Route>,
}

/// Where an attack stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Seen; observed only, or what would be done is refused.
    Seen,
    /// Waits for a person.
    Pending,
    /// Routes are wanted, and no neighbour has all of them.
    Unreachable,
    /// Routes are in force.
    Active,
    /// No longer seen; routes stay until the hysteresis is over.
    Fading,
    /// Over; routes are withdrawn.
    Over,
}

/// Why nothing is announced.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refusal {
    /// Which limit: `max_routes`, `max_share`, `harm`, `protected`, `stopped`.
    pub limit: &'static str,
    /// One line: what it was and what it may be.
    pub why: String,
}

/// What the speaker says of a route.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "installed")]
pub enum Installed {
    /// Not there yet.
    Waiting,
    /// In the speaker's table.
    Yes {
        /// Since when.
        since: SystemTime,
    },
    /// The speaker does not take it.
    No {
        /// What it says, one line.
        why: String,
    },
}

/// An attack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Attack {
    /// Grows by one an attack, over restarts too.
    pub id: u64,
    /// What was detected, newest.
    pub detection: Detection,
    /// Where it stands.
    pub phase: Phase,
    /// When it was detected.
    pub began: SystemTime,
    /// When it was last above the threshold.
    pub last_seen: SystemTime,
    /// When it ended.
    pub ended: Option<SystemTime>,
    /// What is done, or would be.
    pub level: Level,
    /// What the speaker says of each of its routes.
    pub installed: Vec<Installed>,
    /// When its routes are withdrawn at the latest.
    pub expires: Option<SystemTime>,
    /// What they hit besides.
    pub harm: Harm,
    /// Why nothing is announced; `None`: something is, or waits for a person alone.
    pub refusal: Option<Refusal>,
    /// Who approved, withdrew or extended it last.
    pub by: Option<String>,
    /// Whether a person asked for it, and nothing was found.
    pub by_hand: bool,
    /// Whether anything was announced for it at any time since the program began.
    pub was_announced: bool,
    /// How often something was announced for its target and class before, of late.
    pub times: u32,
    /// The highest rates that were told of it, of packets and of bits; 0: none yet.
    pub peak: (Rate, Rate),
    /// Packets a second of the last minute, one value a second, the newest last.
    pub curve: Vec<f32>,
}

impl Attack {
    /// What it is known by over all times.
    pub(crate) fn key(&self) -> (IpNet, Class) {
        (self.detection.target.prefix, self.detection.class)
    }

    /// By what, as people are told: `udp_flood`; of what a person asked for nothing was found, and it is `by_hand`.
    pub fn class(&self) -> &'static str {
        if self.by_hand { "by_hand" } else { self.detection.class.name() }
    }
}

/// What a person asks, who has been recognised.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", tag = "command")]
pub enum Command {
    /// Announce what is pending.
    Approve {
        /// Which attack.
        id: u64,
    },
    /// Withdraw its routes, and do nothing more about it until it is over.
    Withdraw {
        /// Which attack.
        id: u64,
    },
    /// Its routes live longer, from now on.
    Extend {
        /// Which attack.
        id: u64,
        /// Seconds.
        seconds: u64,
    },
    /// Blackhole a prefix, whatever is found.
    Add {
        /// Which.
        prefix: IpNet,
        /// For how long.
        seconds: u64,
    },
    /// Withdraw everything, announce nothing more.
    Stop,
    /// Go on after a stop.
    Resume,
}
