//! One attack, from its detection to its end.

use std::sync::Arc;
use std::time::SystemTime;

use ipnet::IpNet;
use weir_units::Span;

use super::Now;
use crate::model::{
    Attack, Class, Detection, Doubt, Evidence, Harm, Installed, Level, Phase, Rate, Refusal, Route, Rule, Target,
};
use crate::settings::Ttl;

/// An attack, and what is kept of it besides what people are shown.
#[derive(Clone, Debug)]
pub(super) struct Life {
    /// What people are shown. It is changed in place unless a board still has it.
    pub(super) attack: Arc<Attack>,
    /// Whether it is above its threshold now.
    pub(super) seen: bool,
    /// When it was last found; by the clock that only goes forward.
    pub(super) found: u64,
    /// A person approved of it: the limit of harm does not bind.
    pub(super) approved: bool,
    /// A person withdrew it: nothing more is done until it is over.
    pub(super) held: bool,
    /// Known from the journal, and over by then unless it is seen again.
    pub(super) awaited: Option<u64>,
    /// What is wanted; `None`: nothing.
    pub(super) announced: Option<Announced>,
    /// Which limit was told last.
    pub(super) told: Option<&'static str>,
    /// The highest packets a second that were told since it was drawn last.
    pub(super) highest: f32,
}

/// What is wanted of the speaker.
#[derive(Clone, Debug, Default)]
pub(super) struct Announced {
    pub(super) routes: Vec<Route>,
    pub(super) level: usize,
    /// When anything was first announced for it; 0: before the program began.
    pub(super) began: u64,
    /// When this step was taken.
    pub(super) since: u64,
    /// When the rules were last changed, or lost by the speaker.
    pub(super) changed: u64,
    /// Packets a second when this step was taken.
    pub(super) rate: f64,
    /// How often it was renewed since, as the attack went on: that alone makes nothing stay longer once it is over.
    pub(super) renewed: u32,
    /// When it ends unless it is still seen.
    pub(super) expires: u64,
    /// When it ends since it is no longer seen.
    pub(super) fades: Option<u64>,
    /// Until when a person wants it.
    pub(super) kept: u64,
    /// Since when its packets are others than the rules are for, and packets a second then; the excess has held since.
    pub(super) others: Option<(u64, f64)>,
}

/// What is attacked, and by what.
pub(super) type Found = (IpNet, Class);

impl Announced {
    /// The first step, for so many ns.
    pub(super) fn new(routes: Vec<Route>, left: u64, now: Now) -> Self {
        let time = now.nanos;
        Self { routes, began: time, since: time, changed: time, expires: time + left, ..Self::default() }
    }
}

impl Life {
    pub(super) fn new(id: u64, detection: Detection, times: u32, now: Now) -> Self {
        let attack = Attack {
            id,
            detection,
            phase: Phase::Seen,
            began: now.wall,
            last_seen: now.wall,
            ended: None,
            level: Level { number: 0, routes: Vec::new() },
            installed: Vec::new(),
            expires: None,
            harm: Harm::default(),
            refusal: None,
            by: None,
            by_hand: false,
            was_announced: false,
            times,
            peak: (Rate::default(), Rate::default()),
            curve: Vec::new(),
        };
        Self {
            attack: Arc::new(attack),
            seen: true,
            found: now.nanos,
            approved: false,
            held: false,
            awaited: None,
            announced: None,
            told: None,
            highest: 0.0,
        }
    }

    /// What is over is told with what it was at its highest.
    pub(super) fn recall_peak(&mut self) {
        let (packets, bits) = self.attack.peak;
        if packets.value > 0.0 {
            let evidence = &mut self.show().detection.evidence;
            (evidence.packets, evidence.bits) = (packets, bits);
        }
    }

    pub(super) fn show(&mut self) -> &mut Attack {
        Arc::make_mut(&mut self.attack)
    }

    /// It was found, again or anew.
    pub(super) fn find(&mut self, detection: Detection, now: Now) {
        (self.seen, self.found, self.awaited) = (true, now.nanos, None);
        let Evidence { packets, bits, .. } = &detection.evidence;
        let higher = |one: Rate, other: &Rate| if other.value > one.value { *other } else { one };
        self.highest = self.highest.max(packets.value as f32);
        let peak = &self.attack.peak;
        let peak = (higher(peak.0, packets), higher(peak.1, bits));
        let attack = self.show();
        attack.peak = peak;
        // Who decided first stays: later findings know more of the same.
        let Detection { first_excess, decided, .. } = attack.detection;
        attack.detection = Detection { first_excess, decided, ..detection };
        attack.last_seen = now.wall;
    }

    /// Nothing is announced, for this reason.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        let attack = self.show();
        attack.phase = Phase::Seen;
        if attack.refusal.as_ref() != Some(&refusal) {
            attack.refusal = Some(refusal);
        }
    }

    /// Packets a second, by its newest finding; bits where those alone are judged.
    pub(super) fn rate(&self) -> f64 {
        let evidence = &self.attack.detection.evidence;
        if evidence.threshold_packets.is_none() && evidence.threshold_bits.is_some() {
            return evidence.bits.value;
        }
        evidence.packets.value
    }

    /// Whether what its newest rules cover is too much by itself, for sure: then they are about the excess. What the target's
    /// own clients send conforms to the threshold, and is nothing that a rule may be made of.
    pub(super) fn exceeds(&self) -> bool {
        let Evidence { packets, bits, threshold_packets, threshold_bits, .. } = &self.attack.detection.evidence;
        let above = |rate: &Rate, threshold: &Option<f64>| threshold.is_some_and(|most| COVERED * rate.low > most);
        above(packets, threshold_packets) || above(bits, threshold_bits)
    }

    /// Whether a neighbour has each of its routes.
    pub(super) fn is_reached(&self) -> bool {
        self.announced.is_some() && self.attack.installed.iter().all(|one| matches!(one, Installed::Yes { .. }))
    }

    /// Where it stands, with what is announced.
    pub(super) fn place(&mut self) {
        if self.announced.is_none() {
            return;
        }
        let phase = match self.is_reached() {
            false => Phase::Unreachable,
            true if self.seen || self.attack.by_hand => Phase::Active,
            true => Phase::Fading,
        };
        if self.attack.phase != phase {
            self.show().phase = phase;
        }
    }

    /// Whether its word is contradicted, and no person took it upon themselves.
    pub(super) fn is_contradicted(&self) -> bool {
        let contradicts = |doubt: &Doubt| matches!(doubt.name, "contested" | "counters");
        !self.approved && self.attack.detection.doubts.iter().any(contradicts)
    }

    /// One more second of its curve.
    pub(super) fn draw(&mut self, is_silent: bool) {
        let now = if self.seen && !is_silent { self.attack.detection.evidence.packets.value as f32 } else { 0.0 };
        // What was over within the second is seen, too.
        let highest = std::mem::take(&mut self.highest).max(now);
        let curve = &mut self.show().curve;
        if curve.len() == CURVE {
            curve.remove(0);
        }
        curve.push(highest);
    }

    /// It is over.
    pub(super) fn end(&mut self, wall: SystemTime) {
        let attack = self.show();
        (attack.phase, attack.ended, attack.expires) = (Phase::Over, Some(wall), None);
        attack.installed.clear();
    }
}

/// How long routes live that were announced so often before, and how long they stay when the attack is no longer seen.
pub(super) fn lives(ttl: &Ttl, times: u32) -> (u64, u64) {
    let longer = ttl.backoff.powi(times.min(64) as i32);
    let seconds = |span: Span| span.duration().as_secs_f64();
    let grown = |span: Span| (seconds(span) * longer).min(seconds(ttl.most));
    let live = grown(ttl.first);
    let hold = grown(ttl.hysteresis).min(live.max(seconds(ttl.hysteresis)));
    ((live * 1e9) as u64, (hold * 1e9) as u64)
}

/// What is known of an attack that nothing was found of: `rule` says why it is there.
pub(super) fn unfound(target: Target, class: Class, rule: &str, rules: Vec<Rule>) -> Detection {
    let evidence = Evidence { rule: rule.to_owned(), ..Evidence::default() };
    Detection { target, class, first_excess: 0, decided: 0, evidence, rules, doubts: Vec::new() }
}

/// Part of an excess that each rule of a detection covers.
const COVERED: f64 = 0.95;

/// Seconds of a curve.
const CURVE: usize = 60;
