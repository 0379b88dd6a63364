//! The board as JSON: times in ms since 1970, rates per second.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::words;
use crate::model::{Attack, Board, Detection, Installed, Speaking};

/// An attack in a list.
pub(super) fn row(attack: &Attack) -> Value {
    let Detection { target, evidence, doubts, .. } = &attack.detection;
    let routes = &attack.level.routes;
    let is_there = |installed: &&Installed| matches!(installed, Installed::Yes { .. });
    json!({
        "id": attack.id,
        "target": target.prefix,
        "group": target.group,
        "class": attack.class(),
        "phase": attack.phase,
        "packets": evidence.packets.value,
        "bits": evidence.bits.value,
        "peak_packets": attack.peak.0.value,
        "peak_bits": attack.peak.1.value,
        "sources": evidence.sources,
        "hosts": evidence.hosts,
        "began_ms": millis(attack.began),
        "last_seen_ms": millis(attack.last_seen),
        "ended_ms": attack.ended.map(millis),
        "expires_ms": attack.expires.map(millis),
        // What is done, or would be.
        "action": routes.first().map(|route| words::action(&route.action)),
        "routes": routes.len(),
        "installed": attack.installed.iter().filter(is_there).count(),
        "harm": attack.harm.share,
        "doubts": doubts.len(),
        "doubt": doubts.first().map(|doubt| &doubt.text),
        "refused": attack.refusal.as_ref().map(|refusal| refusal.limit),
        "was_announced": attack.was_announced,
        "by": attack.by,
        "by_hand": attack.by_hand,
        "curve": attack.curve.iter().map(drawn).collect::<Vec<_>>(),
    })
}

pub(super) fn rows(attacks: &[Arc<Attack>], most: usize) -> Vec<Value> {
    attacks.iter().take(most).map(|attack| row(attack)).collect()
}

/// All that is known of an attack.
pub(super) fn whole(attack: &Attack, speaker: Option<&Speaking>) -> Value {
    let Detection { rules, evidence, doubts, first_excess, decided, .. } = &attack.detection;
    let announced = |(index, route)| {
        let (installed, since, why) = match attack.installed.get(index) {
            None => (None, None, None),
            Some(Installed::Waiting) => (Some("waiting"), None, None),
            Some(Installed::Yes { since }) => (Some("yes"), Some(millis(*since)), None),
            Some(Installed::No { why }) => (Some("no"), None, Some(why)),
        };
        json!({"text": words::route(route), "route": route, "installed": installed, "since_ms": since, "why": why})
    };
    let mut whole = row(attack);
    // `null`: it was decided before a restart.
    whole["decision_ms"] = json!((*decided > 0).then(|| decided.saturating_sub(*first_excess) as f64 / 1e6));
    whole["evidence"] = json!(evidence);
    let said = |rule| {
        let mut said = json!(rule);
        said["text"] = words::rule(rule).into();
        said
    };
    whole["rules"] = rules.iter().map(said).collect();
    whole["doubts_are"] = json!(doubts);
    whole["level"] = json!(attack.level.number);
    whole["routes_are"] = attack.level.routes.iter().enumerate().map(announced).collect();
    whole["away"] = json!(speaker.and_then(words::away));
    whole["harm_is"] = json!(attack.harm);
    whole["refusal"] = json!(attack.refusal);
    whole
}

/// How things stand, but for the attacks.
pub(super) fn state(board: &Board) -> Value {
    let mut attacks = board.phases();
    attacks.insert("over", board.history.len() as u64);
    let is_stopped = board.stopped.is_some();
    let speaker = board.speaker.as_ref().map(|speaker| {
        json!({
            "address": speaker.address, "version": speaker.version, "connected": speaker.connected,
            "since_ms": speaker.since.map(millis), "why": speaker.why, "standing": speaker.standing,
            "settled": speaker.settled, "text": words::standing(speaker, is_stopped),
            "in_doubt": words::is_in_doubt(speaker, is_stopped), "neighbours": speaker.neighbours,
            "away": words::away(speaker),
        })
    });
    json!({
        "time_ms": millis(board.time),
        "now_ms": millis(SystemTime::now()),
        "mode": board.mode,
        "stopped": board.stopped.as_ref().map(|stopped| json!({"by": stopped.by, "since_ms": millis(stopped.since)})),
        "attacks": attacks,
        "speaker": speaker,
        "short": {"points": board.short.len(), "first": board.short.first()},
        "caps": board.caps,
        "counts": board.counts,
    })
}

/// The attack of a number, whether it goes on or not.
pub(super) fn attack(board: &Board, id: u64) -> Option<&Arc<Attack>> {
    board.attacks.iter().chain(&board.history).find(|attack| attack.id == id)
}

/// How many digits a value of a curve needs to be drawn.
fn drawn(value: &f32) -> f64 {
    let value = f64::from(*value);
    if value >= 100.0 { value.round() } else { (value * 10.0).round() / 10.0 }
}

/// Milliseconds since 1970.
pub(super) fn millis(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |since| (since.as_secs_f64() * 1e3).round())
}
