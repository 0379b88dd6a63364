//! What is told of the board: times in ms since 1970, rates a second.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value, json};

use super::words;
use crate::model::{
    Attack, Board, Counts, Detection, Doubt, Evidence, Harm, Installed, Neighbour, Phase, Refusal, Route, Rule,
};

/// An attack in a list.
#[derive(Debug, Serialize)]
pub(super) struct Row<'a> {
    id: u64,
    target: String,
    group: &'a str,
    class: &'static str,
    phase: Phase,
    packets: f64,
    bits: f64,
    /// What they were at most.
    peak_packets: f64,
    peak_bits: f64,
    sources: usize,
    hosts: usize,
    began_ms: f64,
    last_seen_ms: f64,
    ended_ms: Option<f64>,
    expires_ms: Option<f64>,
    /// What is done, or would be, in words; absent: nothing would be.
    action: Option<String>,
    routes: usize,
    installed: usize,
    harm: Option<f64>,
    doubts: usize,
    refused: Option<&'a str>,
    /// Whether anything was announced for it, ever.
    was_announced: bool,
    by: Option<&'a str>,
    /// Whether a person asked for it, and nothing was found.
    by_hand: bool,
    curve: Vec<f32>,
}

/// All that is known of an attack.
#[derive(Debug, Serialize)]
pub(super) struct Whole<'a> {
    #[serde(flatten)]
    row: Row<'a>,
    /// From when the first sample above the threshold came to the decision, ms; absent: that was before a restart.
    decision_ms: Option<f64>,
    evidence: &'a Evidence,
    rules: Vec<Said<'a>>,
    doubts_are: Vec<Doubted<'a>>,
    level: usize,
    routes_are: Vec<Announced<'a>>,
    harm_is: Harm,
    refusal: Option<&'a Refusal>,
}

/// A rule, and in words.
#[derive(Debug, Serialize)]
struct Said<'a> {
    text: String,
    #[serde(flatten)]
    rule: &'a Rule,
}

/// A doubt, and in words.
#[derive(Debug, Serialize)]
struct Doubted<'a> {
    text: String,
    #[serde(flatten)]
    doubt: &'a Doubt,
}

/// A route, in words too, and what the speaker says of it.
#[derive(Debug, Serialize)]
struct Announced<'a> {
    text: String,
    route: &'a Route,
    /// `waiting`, `yes` or `no`; absent: it is not asked for.
    installed: Option<&'static str>,
    since_ms: Option<f64>,
    why: Option<&'a str>,
}

/// How things stand, but for the attacks.
#[derive(Debug, Serialize)]
pub(super) struct State<'a> {
    time_ms: f64,
    now_ms: f64,
    mode: crate::model::Mode,
    stopped: Option<Value>,
    attacks: Value,
    speaker: Option<Value>,
    caps: crate::model::Caps,
    counts: Told<'a>,
}

#[derive(Debug)]
struct Told<'a>(&'a Counts);

impl Serialize for Told<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let by =
            |counts: &[(&'static str, u64)]| -> Value { counts.iter().map(|(name, count)| (*name, *count)).collect() };
        let counts = self.0;
        json!({
            "sightings": counts.sightings, "dropped": counts.dropped, "unlisted": counts.unlisted,
            "rivals": counts.rivals,
            "alive_agents": counts.alive, "evicted": by(&counts.evicted),
            "attacks": counts.attacks, "doubted": by(&counts.doubted), "refused": by(&counts.refused),
            "announced": counts.announced, "withdrawn": counts.withdrawn, "unwritten": counts.unwritten,
            "switch_unwritten": counts.switch_unwritten,
        })
        .serialize(serializer)
    }
}

/// How many digits a value of a curve needs to be drawn.
fn drawn(value: &f32) -> f32 {
    if *value >= 100.0 { value.round() } else { (value * 10.0).round() / 10.0 }
}

pub(super) fn row(attack: &Attack) -> Row<'_> {
    let Detection { target, evidence, doubts, .. } = &attack.detection;
    let routes = &attack.level.routes;
    let is_there = |installed: &&Installed| matches!(installed, Installed::Yes { .. });
    Row {
        id: attack.id,
        target: target.prefix.to_string(),
        group: &target.group,
        class: attack.class(),
        phase: attack.phase,
        packets: evidence.packets.value,
        bits: evidence.bits.value,
        peak_packets: attack.peak.0.value,
        peak_bits: attack.peak.1.value,
        sources: evidence.sources,
        hosts: evidence.hosts,
        began_ms: millis(attack.began),
        last_seen_ms: millis(attack.last_seen),
        ended_ms: attack.ended.map(millis),
        expires_ms: attack.expires.map(millis),
        action: routes.first().map(|route| words::action(&route.action)),
        routes: routes.len(),
        installed: attack.installed.iter().filter(is_there).count(),
        harm: attack.harm.share,
        doubts: doubts.len(),
        refused: attack.refusal.as_ref().map(|refusal| refusal.limit),
        was_announced: attack.was_announced,
        by: attack.by.as_deref(),
        by_hand: attack.by_hand,
        curve: attack.curve.iter().map(drawn).collect(),
    }
}

pub(super) fn rows(attacks: &[Arc<Attack>], most: usize) -> Vec<Row<'_>> {
    attacks.iter().take(most).map(|attack| row(attack)).collect()
}

pub(super) fn whole(attack: &Attack) -> Whole<'_> {
    let Detection { rules, evidence, doubts, first_excess, decided, .. } = &attack.detection;
    let announced = |(index, route)| {
        let (installed, since, why) = match attack.installed.get(index) {
            None => (None, None, None),
            Some(Installed::Waiting) => (Some("waiting"), None, None),
            Some(Installed::Yes { since }) => (Some("yes"), Some(millis(*since)), None),
            Some(Installed::No { why }) => (Some("no"), None, Some(&**why)),
        };
        Announced { text: words::route(route), route, installed, since_ms: since, why }
    };
    Whole {
        row: row(attack),
        decision_ms: (*decided > 0).then(|| whole_ms(decided.saturating_sub(*first_excess))),
        evidence,
        rules: rules.iter().map(|rule| Said { text: words::rule(rule), rule }).collect(),
        doubts_are: doubts.iter().map(|doubt| Doubted { text: doubt.to_string(), doubt }).collect(),
        level: attack.level.number,
        routes_are: attack.level.routes.iter().enumerate().map(announced).collect(),
        harm_is: attack.harm,
        refusal: attack.refusal.as_ref(),
    }
}

pub(super) fn state(board: &Board, now: SystemTime) -> State<'_> {
    let of = |phase: Phase| board.attacks.iter().filter(|attack| attack.phase == phase).count();
    let is_stopped = board.stopped.is_some();
    let speaker = board.speaker.as_ref().map(|speaker| {
        let neighbours: &[Neighbour] = &speaker.neighbours;
        json!({
            "address": speaker.address, "version": speaker.version, "connected": speaker.connected,
            "since_ms": speaker.since.map(millis), "why": speaker.why, "standing": speaker.standing,
            "settled": speaker.settled, "text": words::standing(speaker, is_stopped),
            "in_doubt": words::is_in_doubt(speaker, is_stopped), "neighbours": neighbours,
        })
    });
    State {
        time_ms: millis(board.time),
        now_ms: millis(now),
        mode: board.mode,
        stopped: board.stopped.as_ref().map(|stopped| json!({"by": stopped.by, "since_ms": millis(stopped.since)})),
        attacks: json!({
            "seen": of(Phase::Seen), "pending": of(Phase::Pending), "unreachable": of(Phase::Unreachable), "active": of(Phase::Active),
            "fading": of(Phase::Fading), "over": board.history.len(),
        }),
        speaker,
        caps: board.caps,
        counts: Told(&board.counts),
    }
}

/// The attack of a number, whether it goes on or not.
pub(super) fn attack(board: &Board, id: u64) -> Option<&Arc<Attack>> {
    board.attacks.iter().chain(&board.history).find(|attack| attack.id == id)
}

fn whole_ms(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64() * 1e3
}

/// Milliseconds since 1970.
pub(super) fn millis(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |since| (since.as_secs_f64() * 1e3).round())
}
