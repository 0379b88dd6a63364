//! What receivers are told.

use std::time::SystemTime;

use serde::Serialize;
use serde_json::{Value, json};

use crate::journal::{Entry, WEIR, What};
use crate::model::{Attack, Detection};
use crate::people::told::millis;
use crate::people::words;

/// Whether receivers are told: of what becomes of attacks, and of stops.
pub fn is_told(what: What) -> bool {
    !matches!(what, What::Extended | What::Rotated)
}

/// How much it matters, as syslog counts (RFC 5424, section 6.2.1).
pub(super) fn severity(what: What) -> u8 {
    match what {
        What::Detected | What::Pending | What::Refused | What::Unreachable => 4,
        What::Doubted | What::Announced | What::Withdrawn | What::Stopped | What::Resumed => 5,
        What::Installed | What::Over | What::Extended | What::Rotated => 6,
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// What happened.
    pub event: What,
    /// When, ms since 1970.
    pub time_ms: f64,
    /// One line, as the log has it.
    pub text: String,
    /// Who did it; absent: the room itself.
    pub by: Option<String>,
    /// The attack that it is about.
    pub attack: Value,
    #[serde(skip)]
    pub(super) time: SystemTime,
}

impl Event {
    /// What a line of the journal says, with the attack that it is about as it stands.
    pub fn new(entry: &Entry, attack: Option<&Attack>) -> Self {
        Self {
            event: entry.what,
            time_ms: millis(entry.time),
            text: entry.to_string(),
            by: (entry.who != WEIR).then(|| entry.who.clone()),
            attack: attack.map_or(Value::Null, about),
            time: entry.time,
        }
    }

    /// As JSON in one line, of which a terminal obeys nothing.
    pub(super) fn json(&self) -> Vec<u8> {
        let mut json = Vec::new();
        // Writing to memory does not fail, and values of ours have strings for keys.
        let _ = weir_program::escape::write_json(&mut json, self);
        json.push(b'\n');
        json
    }
}

fn about(attack: &Attack) -> Value {
    let Detection { target, evidence, doubts, .. } = &attack.detection;
    json!({
        "id": attack.id,
        "target": target.prefix,
        "group": target.group,
        "class": attack.class(),
        "packets": evidence.packets.value,
        "packets_low": evidence.packets.low,
        "packets_high": evidence.packets.high,
        "bits": evidence.bits.value,
        "bits_low": evidence.bits.low,
        "bits_high": evidence.bits.high,
        "sources": evidence.sources,
        "rule": evidence.rule,
        "top_sources": evidence.top_sources.iter().map(|share| &share.value).collect::<Vec<_>>(),
        "routes": attack.level.routes.iter().take(MOST).map(words::route).collect::<Vec<_>>(),
        "doubts": doubts.iter().take(MOST).map(|doubt| &doubt.text).collect::<Vec<_>>(),
    })
}

/// Routes and doubts that an event names.
const MOST: usize = 8;
