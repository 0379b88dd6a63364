//! A line of the journal: who did what, when, and why.

use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use weir_program::escape::escaped;

use crate::model::{Class, Route, Target};
use crate::people::words;

/// What was done, or happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// An attack was detected.
    Detected,
    /// Its evidence is not believed: nothing is done about it.
    Doubted,
    /// It waits for a person.
    Pending,
    /// Routes are wanted from now on, in place of those of before.
    Announced,
    /// A neighbour has each of them.
    Installed,
    /// No neighbour has all of them.
    Unreachable,
    /// They are wanted no more.
    Withdrawn,
    /// They live until another time.
    Extended,
    /// It is over.
    Over,
    /// Nothing is announced, or nothing more: a limit forbids it.
    Refused,
    /// Everything was withdrawn, and nothing is announced until somebody resumes.
    Stopped,
    /// Somebody resumed.
    Resumed,
    /// What a restart must know follows: the file before this one is full or gone, or lines are missing.
    Rotated,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Entry {
    /// When, by the clock that people set.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub time: SystemTime,
    /// A person's name, or [`WEIR`].
    pub who: String,
    /// What.
    pub what: What,
    /// Why, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The attack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attack: Option<u64>,
    /// Against whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// By what; `None`: a person asked for it, and nothing was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Which limit, of what was refused: as in [`crate::model::Refusal`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Which step of action, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<usize>,
    /// What is announced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// How often it was announced before, of late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// How long routes live from then on, s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_s: Option<u64>,
    /// Whether a person asked for it, and nothing was found.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_hand: bool,
}

/// Who does what nobody asked for.
pub const WEIR: &str = "weir";

impl What {
    /// As the journal and hooks have it: `announced`.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

impl Entry {
    /// Of no attack.
    pub fn new(time: SystemTime, who: &str, what: What, why: impl Into<String>) -> Self {
        Self {
            time,
            who: who.to_owned(),
            what,
            why: why.into(),
            attack: None,
            target: None,
            class: None,
            limit: None,
            level: None,
            routes: Vec::new(),
            times: None,
            ttl_s: None,
            by_hand: false,
        }
    }
}

/// A line for people: `attack 7 on 192.0.2.7/32, udp_flood: announced by anna (why): drop udp to 192.0.2.7/32`.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(id), Some(target)) = (self.attack, &self.target) {
            write!(f, "attack {id} on {}", target.prefix)?;
            match self.class {
                Some(class) => write!(f, ", {}: ", class.name())?,
                None => f.write_str(", by hand: ")?,
            }
        }
        f.write_str(&self.what.name())?;
        if self.who != WEIR {
            write!(f, " by {}", escaped(&self.who))?;
        }
        if !self.why.is_empty() {
            write!(f, " ({})", escaped(&self.why))?;
        }
        for (index, route) in self.routes.iter().take(3).enumerate() {
            f.write_str(if index == 0 { ": " } else { "; " })?;
            f.write_str(&words::route(route))?;
        }
        Ok(())
    }
}

fn write_time<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_rfc3339_millis(*time))
}

fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
    humantime::parse_rfc3339(&String::deserialize(deserializer)?).map_err(de::Error::custom)
}
