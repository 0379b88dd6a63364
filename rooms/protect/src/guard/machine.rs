//! The state machine.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use weir_program::escape::escaped;

use super::caps::Used;
use super::life::{Announced, Found, Life};
use super::plan::{Plan, Planned, plan};
use super::repeats::{Repeats, lives};
use super::tally::Tally;
use super::words::{found_first, nothing, reason};
use super::{Now, SECOND, Traffic};
use crate::journal::{Entry, WEIR, What};
use crate::model::{Attack, Detection, Doubt, Finding, Installed, Level, Mode, Phase, Refusal, Route, Stopped};
use crate::settings::{Group, Settings};

/// All attacks, and what is done about them.
#[derive(Debug)]
pub struct Guard {
    pub(super) settings: Arc<Settings>,
    pub(super) lives: BTreeMap<u64, Life>,
    pub(super) by_key: BTreeMap<Found, u64>,
    pub(super) used: Used,
    pub(super) repeats: Repeats,
    pub(super) stopped: Option<Stopped>,
    pub(super) last_id: u64,
    pub(super) history: VecDeque<Arc<Attack>>,
    pub(super) entries: Vec<Entry>,
    /// Whether other routes are wanted than when that was asked last.
    pub(super) changed: bool,
    /// Whether anybody tells what is installed; else what is wanted is taken to be.
    pub(super) is_told: bool,
    /// When a second is over.
    pub(super) second: u64,
    pub(super) tally: Tally,
}

impl Guard {
    /// Nothing is under attack yet.
    pub fn new(settings: Arc<Settings>) -> Self {
        let used = Used::new(&settings.protected());
        Self {
            settings,
            lives: BTreeMap::new(),
            by_key: BTreeMap::new(),
            used,
            repeats: Repeats::default(),
            stopped: None,
            last_id: 0,
            history: VecDeque::new(),
            entries: Vec::new(),
            changed: false,
            is_told: false,
            second: 0,
            tally: Tally::new(),
        }
    }

    /// Something was found, or is over.
    pub fn finding(&mut self, finding: Finding, traffic: &dyn Traffic, now: Now) {
        match finding {
            Finding::Flood(detection) => self.flood(*detection, traffic, now),
            Finding::Over { target, class, last } => self.fade((target.prefix, class), last, now),
            Finding::Ebbing { target, class, packets, bits } => {
                let id = self.by_key.get(&(target.prefix, class));
                if let Some(life) = id.and_then(|id| self.lives.get_mut(id)) {
                    let evidence = &mut life.show().detection.evidence;
                    (evidence.packets, evidence.bits) = (packets, bits);
                }
            }
            Finding::Contested(contested) => {
                let why = format!("agent {} is contested: {}", contested.agent, contested.why);
                self.entries.push(Entry::new(now.wall, WEIR, What::Doubted, why));
            }
        }
    }

    fn flood(&mut self, detection: Detection, traffic: &dyn Traffic, now: Now) {
        let id = self.by_key.get(&(detection.target.prefix, detection.class)).copied();
        let id = match id {
            Some(id) => id,
            None if self.make_room(now) => self.begin(detection.clone(), now),
            None => {
                self.tally.unheard += 1;
                return;
            }
        };
        if let Some(life) = self.lives.get_mut(&id) {
            life.find(detection, now);
        }
        self.decide(id, traffic, now);
    }

    fn begin(&mut self, detection: Detection, now: Now) -> u64 {
        self.last_id += 1;
        self.tally.attacks += 1;
        let id = self.last_id;
        let why = found_first(&detection);
        self.insert(Life::new(id, detection, now));
        self.tell(id, WEIR, What::Detected, why, now);
        id
    }

    pub(super) fn insert(&mut self, life: Life) {
        if !life.attack.by_hand {
            self.by_key.insert(life.key(), life.attack.id);
        }
        self.lives.insert(life.attack.id, life);
    }

    /// Whether one more is followed: of too many, one goes about which nothing is done.
    fn make_room(&mut self, now: Now) -> bool {
        if self.lives.len() < ATTACKS {
            return true;
        }
        let idle = self.lives.iter().filter(|(_, life)| life.announced.is_none() && life.attack.phase == Phase::Seen);
        let Some(id) = idle.min_by_key(|(_, life)| life.found).map(|(id, _)| *id) else { return false };
        self.tally.unheard += 1;
        self.finish(id, now);
        true
    }

    /// What is to be done about an attack as things are now.
    pub(super) fn decide(&mut self, id: u64, traffic: &dyn Traffic, now: Now) {
        let Some(life) = self.lives.get(&id).filter(|life| life.seen) else { return };
        let detection = &life.attack.detection;
        // What began on good evidence goes on where that only gets less: after a restart counters are known anew after a while.
        let is_announced = life.announced.is_some();
        let speaks_against = |doubt: &&Doubt| match doubt {
            Doubt::Uncounted { .. } => !is_announced,
            _ => true,
        };
        let forbidden = match (&self.stopped, detection.doubts.iter().find(speaks_against)) {
            (Some(stopped), _) => {
                Some(Refusal { limit: "stopped", why: format!("everything was stopped by {}", escaped(&stopped.by)) })
            }
            _ if life.held => {
                let by = escaped(life.attack.by.as_deref().unwrap_or_default());
                Some(Refusal { limit: "withdrawn", why: format!("{by} withdrew it: nothing is done until it is over") })
            }
            (_, Some(doubt)) => Some(Refusal { limit: "doubt", why: doubt.to_string() }),
            _ => None,
        };
        if let Some(refusal) = forbidden {
            return self.refuse(id, refusal, None, now);
        }
        let settings = self.settings.clone();
        let Some(group) = settings.groups.get(&detection.target.group) else {
            let why = format!("group `{}` is not protected any more", escaped(&detection.target.group));
            return self.refuse(id, Refusal { limit: "protected", why }, None, now);
        };
        if life.announced.is_some() {
            return self.go_on(id, group, traffic, now);
        }
        let approved = life.approved;
        let planned = |guard: &Self| {
            let detection = &guard.lives.get(&id)?.attack.detection;
            Some(plan(&settings, group, detection, 0, approved, &guard.used, traffic))
        };
        let Some((mut plan, mut verdict)) = planned(self) else { return };
        let is_full = verdict.as_ref().is_err_and(|why| FULL.contains(&why.limit));
        if group.mode == Mode::Automatic && is_full && self.make_way(id, now) {
            (plan, verdict) = planned(self).unwrap_or((plan, verdict));
        }
        let mut why = None;
        if group.mode == Mode::Manual
            && !approved
            && let Err(refusal) = &verdict
            && refusal.limit == "harm"
        {
            // Whom it may hit is for the person to decide who is asked anyway; no other limit is.
            why = Some(refusal.why.clone());
            let Some(detection) = self.lives.get(&id).map(|life| &life.attack.detection) else { return };
            (plan, verdict) = super::plan::plan(&settings, group, detection, 0, true, &self.used, traffic);
        }
        let verdict = verdict.and_then(|()| plan.clone().ok_or_else(nothing));
        match (group.mode, verdict) {
            (Mode::Observe, verdict) => {
                let also = verdict.err().map(|refusal| format!(" (else this would be refused: {})", refusal.why));
                let why = format!("it is only observed: its mode is observe{}", also.unwrap_or_default());
                self.refuse(id, Refusal { limit: "observe", why }, plan, now);
            }
            (_, Err(refusal)) => self.refuse(id, refusal, plan, now),
            (Mode::Manual, Ok(plan)) if !approved => self.wait(id, plan, why, now),
            (_, Ok(plan)) => {
                let who = self.lives.get(&id).filter(|life| life.approved).and_then(|life| life.attack.by.clone());
                self.announce(id, plan, who.as_deref().unwrap_or(WEIR), now);
            }
        }
    }

    /// It is still there, and something is announced: with the rules that its newest evidence permits.
    pub(super) fn go_on(&mut self, id: u64, group: &Group, traffic: &dyn Traffic, now: Now) {
        let Some(life) = self.lives.get_mut(&id) else { return };
        let (rate, exceeds) = (life.rate(), life.exceeds());
        let Some(announced) = &mut life.announced else { return };
        announced.fades = None;
        if announced.rate.is_infinite() {
            // Known from the journal: only now it is known how much comes.
            (announced.rate, announced.since) = (rate, now.nanos);
        }
        let (level, due) = (announced.level, now.nanos >= announced.changed + CHANGES_APART);
        let is_known = |route: &Route| {
            let (rule, detection) = (&route.rule, &life.attack.detection);
            rule.is_bare() || detection.rules.contains(rule)
        };
        let stands = announced.routes.iter().all(is_known);
        // A flood that sinks leaves those who were there before: rules follow an excess that holds, and nothing else.
        announced.others = match announced.others {
            _ if stands || !exceeds => None,
            Some((since, then)) if rate >= HELPED * then => Some((since, then)),
            _ => Some((now.nanos, rate)),
        };
        let lasts = announced.others.is_some_and(|(since, _)| now.nanos >= since + CHANGES_APART);
        life.show().phase = Phase::Active;
        life.show().refusal = None;
        if due && lasts {
            let _ = self.change(id, group, level, (WEIR, "its packets have changed"), traffic, now);
        }
    }

    /// Nothing is announced for it, or no more. `plan`: what would have been.
    pub(super) fn refuse(&mut self, id: u64, refusal: Refusal, plan: Option<Plan>, now: Now) {
        let limit = refusal.limit;
        self.withdraw(id, WEIR, &refusal.why, now);
        let Some(life) = self.lives.get_mut(&id) else { return };
        if let Some(Plan { routes, harm }) = plan {
            let attack = life.show();
            (attack.level, attack.harm) = (Level { number: 0, routes }, harm);
        }
        let why = refusal.why.clone();
        if !life.refuse(refusal) {
            return;
        }
        let doubts: Vec<_> = life.attack.detection.doubts.iter().map(Doubt::name).collect();
        let what = if limit == "doubt" { What::Doubted } else { What::Refused };
        doubts.into_iter().filter(|_| limit == "doubt").for_each(|doubt| self.tally.doubt(doubt));
        self.tally.refuse(limit);
        self.tell(id, WEIR, what, why, now);
        if let Some(entry) = self.entries.last_mut() {
            entry.limit = Some(limit.to_owned());
        }
    }

    /// Of what nobody but Weir decided the least goes, if it is less by far than what has no room: cheap floods keep none from others.
    fn make_way(&mut self, id: u64, now: Now) -> bool {
        let Some(excess) = self.lives.get(&id).map(Life::excess) else { return false };
        let may_go = |life: &&Life| life.seen && life.announced.is_some() && life.attack.by.is_none();
        let announced = self.lives.values().filter(may_go).map(|life| (life.excess(), life.attack.id));
        let least = announced.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|(less, _)| less * FAR <= excess);
        let Some((_, least)) = least else { return false };
        let why = format!("attack {id} is larger by far, and the caps have no room for both");
        self.refuse(least, Refusal { limit: FULL[0], why }, None, now);
        true
    }

    /// It waits for a person; `why`: for more than the mode.
    pub(super) fn wait(&mut self, id: u64, plan: Plan, why: Option<String>, now: Now) {
        let Some(life) = self.lives.get_mut(&id) else { return };
        let attack = life.show();
        (attack.level, attack.harm) = (Level { number: 0, routes: plan.routes }, plan.harm);
        (attack.phase, attack.refusal) = (Phase::Pending, None);
        if life.told.replace("pending") != Some("pending") {
            let why = why.map_or_else(|| "it waits for a person".into(), |why| format!("it waits for a person: {why}"));
            self.tell(id, WEIR, What::Pending, why, now);
        }
    }

    pub(super) fn announce(&mut self, id: u64, plan: Plan, who: &str, now: Now) {
        let Some(life) = self.lives.get_mut(&id) else { return };
        let times = self.repeats.times(&life.key(), now.nanos);
        let (live, _) = lives(&self.settings.ttl, times);
        let announced = Announced {
            routes: plan.routes,
            level: 0,
            began: now.nanos,
            since: now.nanos,
            changed: now.nanos,
            rate: life.rate(),
            times,
            renewed: 0,
            expires: now.nanos + live,
            fades: None,
            kept: 0,
            installed: false,
            others: None,
            stood: 0,
        };
        let why = reason(life);
        self.set(id, announced, plan.harm, live, now);
        self.tell(id, who, What::Announced, why, now);
    }

    /// Announces another step, or other rules of the same one that spare as much, in place of what is announced; where that is
    /// refused, that stays.
    pub(super) fn change(
        &mut self,
        id: u64,
        group: &Group,
        level: usize,
        (who, why): (&str, &str),
        traffic: &dyn Traffic,
        now: Now,
    ) -> Result<(), Refusal> {
        let Some(life) = self.lives.get_mut(&id) else { return Err(nothing()) };
        let Some(before) = life.announced.take() else { return Err(nothing()) };
        self.used.remove(&before.routes);
        // The harm of a step that a person took is theirs; a further one is for whoever takes it.
        let approved = who != WEIR || life.approved && level == before.level;
        let detection = &life.attack.detection;
        let planned: Planned = plan(&self.settings, group, detection, level, approved, &self.used, traffic);
        let outcome = planned.1.and_then(|()| planned.0.ok_or_else(nothing));
        let rate = life.rate();
        let left = before.expires.saturating_sub(now.nanos);
        match outcome {
            Ok(Plan { routes, harm })
                if routes != before.routes
                    && (level != before.level || spares(traffic, &life.key().0, &routes, &before.routes)) =>
            {
                let since = if level == before.level { before.since } else { now.nanos };
                let rate = if level == before.level { before.rate } else { rate };
                self.tally.withdrawn += before.routes.len() as u64;
                let after = Announced {
                    routes,
                    level,
                    since,
                    rate,
                    changed: now.nanos,
                    installed: false,
                    others: None,
                    ..before
                };
                self.set(id, after, harm, left, now);
                self.tell(id, who, What::Announced, why.to_owned(), now);
                Ok(())
            }
            outcome => {
                self.used.add(&before.routes);
                let level = Announced { changed: now.nanos, level, ..before.clone() };
                life.announced = Some(if outcome.is_ok() { level } else { before });
                outcome.map(drop)
            }
        }
    }

    /// These routes are wanted from now on, for so many nanoseconds.
    pub(super) fn set(&mut self, id: u64, announced: Announced, harm: crate::model::Harm, left: u64, now: Now) {
        let Some(life) = self.lives.get_mut(&id) else { return };
        self.used.add(&announced.routes);
        self.tally.announced += announced.routes.len() as u64;
        self.changed = true;
        life.told = None;
        let seen = life.seen;
        let attack = life.show();
        attack.phase = if seen { Phase::Active } else { Phase::Fading };
        attack.level = Level { number: announced.level, routes: announced.routes.clone() };
        attack.installed = vec![Installed::Waiting; announced.routes.len()];
        attack.expires = Some(now.wall + Duration::from_nanos(left));
        (attack.harm, attack.refusal, attack.was_announced) = (harm, None, true);
        life.announced = Some(announced);
    }

    /// What is announced for it is wanted no more.
    pub(super) fn withdraw(&mut self, id: u64, who: &str, why: &str, now: Now) {
        let Some(life) = self.lives.get_mut(&id) else { return };
        let Some(announced) = life.announced.take() else { return };
        self.used.remove(&announced.routes);
        self.tally.withdrawn += announced.routes.len() as u64;
        self.changed = true;
        // Only what was over comes again: what is withdrawn and announced anew in between is the same.
        life.times = Some(announced.times);
        if !life.attack.by_hand {
            self.repeats.remember(life.key(), announced.times, now.nanos, &self.settings.ttl);
        }
        let attack = life.show();
        // Nothing is in force from now on, whoever looks and whatever is decided next.
        attack.phase = Phase::Seen;
        attack.installed.clear();
        attack.expires = None;
        self.tell(id, who, What::Withdrawn, why.to_owned(), now);
        if let Some(entry) = self.entries.last_mut() {
            entry.routes = announced.routes;
        }
    }

    /// It is over: it goes to the history, and when it comes again, it is hit again.
    pub(super) fn finish(&mut self, id: u64, now: Now) {
        let again = self
            .lives
            .get(&id)
            .filter(|life| !life.attack.by_hand)
            .and_then(|life| Some((life.key(), life.times()? + 1)));
        self.end(id, "it is over", now);
        if let Some((key, times)) = again {
            self.repeats.remember(key, times, now.nanos, &self.settings.ttl);
        }
    }

    /// It is part of a wider attack that is answered.
    pub(super) fn finish_part(&mut self, id: u64, now: Now) {
        self.end(id, "what is done about the wider attack that it is part of does for it as well", now);
    }

    fn end(&mut self, id: u64, why: &str, now: Now) {
        self.withdraw(id, WEIR, why, now);
        if let Some(life) = self.lives.get_mut(&id) {
            life.recall_peak();
        }
        self.tell(id, WEIR, What::Over, String::new(), now);
        let Some(mut life) = self.lives.remove(&id) else { return };
        if !life.attack.by_hand {
            self.by_key.remove(&life.key());
        }
        life.end(now.wall);
        self.history.push_front(life.attack);
        self.history.truncate(HISTORY);
    }

    pub(super) fn decide_all(&mut self, traffic: &dyn Traffic, now: Now) {
        let ids: Vec<u64> = self.lives.keys().copied().collect();
        ids.into_iter().for_each(|id| self.decide(id, traffic, now));
    }
}

/// Whether routes hit no more of what the target got earlier than others do; where that is not known, whether they are a part of those.
fn spares(traffic: &dyn Traffic, target: &IpNet, routes: &[Route], others: &[Route]) -> bool {
    let hit = |routes: &[Route]| {
        let shares = routes.iter().map(|route| traffic.harm(target, &route.rule).share);
        shares.sum::<Option<f64>>()
    };
    match (hit(routes), hit(others)) {
        (Some(hit), Some(before)) => hit <= before,
        _ => routes.iter().all(|route| others.iter().any(|other| route.rule.is_within(&other.rule))),
    }
}

/// Limits that are reached when there is no room for one more.
pub(super) const FULL: [&str; 2] = ["max_prefixes", "max_routes"];

/// How many times as far above its threshold an attack has to be to take another one's place.
const FAR: f64 = 4.0;

/// Attacks that are followed at once.
pub(super) const ATTACKS: usize = 8_192;

/// Attacks that are over and shown.
pub(super) const HISTORY: usize = 1_000;

/// What is left of a flood of which a step has helped enough, or that sinks.
pub(super) const HELPED: f64 = 0.5;

/// How long after the announcement it is found out that somebody else speaks in the agent's name, if he has told of the attack: the agent's own next
/// datagrams show it.

/// From one change of an attack's rules to the next; so long an excess of other packets has to hold before.
const CHANGES_APART: u64 = 2 * SECOND;
