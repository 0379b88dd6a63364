//! What receivers are told.

use std::fmt::Write;
use std::time::SystemTime;

use serde::Serialize;
use serde_json::{Value, json};
use weir_program::escape::escaped;

use crate::journal::What;
use crate::model::Attack;
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
    /// One sentence.
    pub text: String,
    /// Who did it; absent: the room itself.
    pub by: Option<String>,
    /// The attack that it is about.
    pub attack: Value,
    #[serde(skip)]
    pub(super) time: SystemTime,
}

impl Event {
    /// Something that happened to an attack: by whom, and why if there is more to say than its state.
    pub fn of(what: What, attack: &Attack, time: SystemTime, by: Option<&str>, why: Option<&str>) -> Self {
        let detection = &attack.detection;
        let (evidence, target) = (&detection.evidence, &detection.target);
        let routes: Vec<String> = attack.level.routes.iter().take(MOST).map(words::route).collect();
        let doubts: Vec<String> = detection.doubts.iter().take(MOST).map(|doubt| doubt.text.clone()).collect();
        let mut text = format!("attack {} on {} ({}): ", attack.id, target.prefix, target.group);
        // Writing to a string does not fail.
        let _ = match attack.by_hand {
            // Nothing was found.
            true => write!(text, "{} by hand", what.name()),
            false => write!(
                text,
                "{} {}: {}packets/s ({}), {}bit/s ({}) of {} sources{}",
                attack.class(),
                what.name(),
                words::scaled(evidence.packets.value),
                words::interval(&evidence.packets),
                words::scaled(evidence.bits.value),
                words::interval(&evidence.bits),
                evidence.sources,
                if what == What::Detected { ", a first estimate" } else { "" },
            ),
        };
        let more = match what {
            What::Announced | What::Installed | What::Unreachable | What::Withdrawn | What::Pending => routes.first(),
            What::Doubted => doubts.first(),
            _ => None,
        };
        for part in [more.map(String::as_str), why, by.map(|_| "by a person")].into_iter().flatten() {
            text.push_str("; ");
            text.push_str(part);
        }
        let about = json!({
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
            "routes": routes,
            "doubts": doubts,
        });
        Self::made(what, time, by, &text, about)
    }

    /// Something that happened to all of them, or to none: by whom, and why if there is more to say.
    pub fn of_all(what: What, time: SystemTime, by: Option<&str>, why: Option<&str>) -> Self {
        let text = match (what, why) {
            (What::Doubted, Some(why)) => why,
            (What::Stopped, _) => "everything is to be withdrawn, and nothing announced until it is resumed",
            _ => "mode automatic announces again what attacks ask for, mode manual asks again",
        };
        Self::made(what, time, by, text, Value::Null)
    }

    fn made(what: What, time: SystemTime, by: Option<&str>, text: &str, attack: Value) -> Self {
        let by = by.map(str::to_owned);
        Self { event: what, time_ms: millis(time), text: escaped(text), by, attack, time }
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

/// Routes and doubts that an event names.
const MOST: usize = 8;
