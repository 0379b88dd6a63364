//! The state machine.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use weir_program::escape::escaped;

use super::caps::Used;
use super::life::{Announced, Found, Life, lives};
use super::plan::Plan;
use super::words::{LIMITS, found_first, nothing, reason};
use super::{Now, SECOND, Traffic};
use crate::journal::{Entry, WEIR, What};
use crate::model::{
    Attack, Contested, Counts, Detection, Doubt, Finding, Harm, Installed, Level, Mode, Phase, Point, Refusal, Route,
    Spot, Stopped, Why, Word,
};
use crate::settings::{Group, Settings};

/// All attacks, and what is done about them.
#[derive(Debug)]
pub struct Guard {
    pub(super) settings: Arc<Settings>,
    pub(super) lives: BTreeMap<u64, Life>,
    pub(super) by_key: BTreeMap<Found, u64>,
    pub(super) used: Used,
    pub(super) stopped: Option<Stopped>,
    /// Of gobgpd: nothing is announced for them.
    pub(super) neighbours: Vec<IpAddr>,
    pub(super) last_id: u64,
    pub(super) history: VecDeque<Arc<Attack>>,
    pub(super) entries: Vec<Entry>,
    /// Whether other routes are wanted than when that was asked last.
    pub(super) changed: bool,
    /// Whether anybody tells what is installed; else what is wanted is taken to be.
    pub(super) is_told: bool,
    /// When a second is over.
    pub(super) second: u64,
    /// What it has counted of these.
    pub(super) counts: Counts,
    /// Attacks that there was no room for.
    pub(super) unheard: u64,
    /// Where samples tell of less than counters, and when that was last told.
    pub(super) short: BTreeMap<Point, u64>,
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
            stopped: None,
            neighbours: Vec::new(),
            last_id: 0,
            history: VecDeque::new(),
            entries: Vec::new(),
            changed: false,
            is_told: false,
            second: 0,
            counts: Counts {
                doubted: Doubt::NAMES.map(|doubt| (doubt, 0)).into(),
                refused: LIMITS.map(|limit| (limit, 0)).into(),
                ..Counts::default()
            },
            unheard: 0,
            short: BTreeMap::new(),
        }
    }

    /// Something was found, or is over.
    pub fn finding(&mut self, finding: Finding, traffic: &dyn Traffic, now: Now) {
        match finding {
            Finding::Flood(detection) => self.flood(*detection, traffic, now),
            Finding::Over { target, class, last } => self.fade((target.prefix, class), last, now),
            Finding::Contested(contested) => self.contest(&contested, traffic, now),
        }
    }

    /// What was announced of late on the word of this agent alone, or of this interface, waits for a person; what is older stays until its
    /// time is over.
    fn contest(&mut self, contested: &Contested, traffic: &dyn Traffic, now: Now) {
        let Contested { agent, point, why, .. } = *contested;
        let Some(doubt) = Doubt::of(point.unwrap_or(Point { agent, index: 0 }), contested.word()) else { return };
        *self.counts.doubted.entry(doubt.name).or_default() += 1;
        let place = point.map(|point| format!(", interface {}", point.index)).unwrap_or_default();
        let entry = Entry::new(now.wall, WEIR, What::Doubted, format!("agent {agent}{place} is contested: {why}"));
        if let (Some(point), Why::Short) = (point, why) {
            let is_new = self.short.insert(point, now.nanos).is_none();
            self.entries.extend(is_new.then_some(entry));
            return;
        }
        self.entries.push(entry);
        let settle = self.settings.settle.duration().as_nanos() as u64;
        let is_meant = |spot: &Spot| spot.word >= Word::Contested || contested.means(&spot.point);
        let rests_on_it = |life: &&Life| {
            let points = &life.attack.detection.evidence.points;
            let is_young = |announced: &Announced| announced.began + settle > now.nanos && announced.began > 0;
            life.announced.as_ref().is_some_and(is_young)
                && !(life.approved || points.is_empty())
                && points.iter().all(is_meant)
        };
        let gone: Vec<u64> = self.lives.values().filter(rests_on_it).map(|life| life.attack.id).collect();
        for id in gone {
            self.lives.get_mut(&id).into_iter().for_each(|life| life.show().detection.doubts.insert(0, doubt.clone()));
            self.distrust(id, traffic, now);
        }
    }

    /// What speaks against it is enough to withdraw what is announced: it waits for a person, or is over.
    pub(super) fn distrust(&mut self, id: u64, traffic: &dyn Traffic, now: Now) {
        let Some(life) = self.lives.get(&id) else { return };
        let why = life.attack.detection.doubts.first().map(|doubt| doubt.text.clone()).unwrap_or_default();
        self.withdraw(id, WEIR, &why, now);
        self.decide_or_finish(id, traffic, now);
    }

    /// What is to be done about an attack as things are now; without a flood it is over.
    pub(super) fn decide_or_finish(&mut self, id: u64, traffic: &dyn Traffic, now: Now) {
        let is_seen = self.lives.get(&id).is_some_and(|life| life.seen);
        if is_seen { self.decide(id, traffic, now) } else { self.finish(id, now) }
    }

    fn flood(&mut self, detection: Detection, traffic: &dyn Traffic, now: Now) {
        let id = self.by_key.get(&(detection.target.prefix, detection.class)).copied();
        let id = match id {
            Some(id) => id,
            None if self.lives.len() < ATTACKS => self.begin(detection.clone(), now),
            None => {
                self.unheard += 1;
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
        self.counts.attacks += 1;
        let id = self.last_id;
        let why = found_first(&detection);
        let times = self.times(&(detection.target.prefix, detection.class), now);
        self.insert(Life::new(id, detection, times, now));
        self.tell(id, WEIR, What::Detected, why, now);
        id
    }

    pub(super) fn insert(&mut self, life: Life) {
        if !life.attack.by_hand {
            self.by_key.insert(life.attack.key(), life.attack.id);
        }
        self.lives.insert(life.attack.id, life);
    }

    /// What is to be done about an attack as things are now.
    pub(super) fn decide(&mut self, id: u64, traffic: &dyn Traffic, now: Now) {
        let Some(life) = self.lives.get(&id).filter(|life| life.seen) else { return };
        let detection = &life.attack.detection;
        let settings = self.settings.clone();
        let group = settings.groups.get(&detection.target.group);
        let forbidden = match (&self.stopped, group) {
            (Some(stopped), _) => Some(("stopped", format!("everything was stopped by {}", escaped(&stopped.by)))),
            _ if life.held => {
                let by = escaped(life.attack.by.as_deref().unwrap_or_default());
                Some(("withdrawn", format!("{by} withdrew it: nothing is done until it is over")))
            }
            (_, None) => {
                let name = escaped(&detection.target.group);
                Some(("protected", format!("group `{name}` is not protected any more")))
            }
            _ => None,
        };
        if let Some((limit, why)) = forbidden {
            return self.refuse(id, Refusal { limit, why }, None, now);
        }
        let Some(group) = group else { return };
        if life.announced.is_some() {
            return self.go_on(id, group, traffic, now);
        }
        let approved = life.approved;
        let doubt = detection.doubts.first().filter(|_| !approved).map(|doubt| doubt.text.clone());
        let asks = !approved && (group.mode == Mode::Manual || doubt.is_some());
        let (mut plan, mut verdict) = self.plan(group, detection, 0, approved, traffic);
        let mut why = doubt;
        if asks
            && group.mode != Mode::Observe
            && let Err(Refusal { limit: "harm", why: harm }) = &verdict
        {
            // Whom it may hit is for the person to decide who is asked anyway; no other limit is.
            why = Some(why.map_or_else(|| harm.clone(), |doubt| format!("{doubt}; {harm}")));
            (plan, verdict) = self.plan(group, detection, 0, true, traffic);
        }
        let verdict = verdict.and_then(|()| plan.clone().ok_or_else(nothing));
        match (group.mode, verdict) {
            (Mode::Observe, verdict) => {
                let also = verdict.err().map(|refusal| format!(" (else this would be refused: {})", refusal.why));
                let why = format!("it is only observed: its mode is observe{}", also.unwrap_or_default());
                self.refuse(id, Refusal { limit: "observe", why }, plan, now);
            }
            (_, Err(refusal)) => self.refuse(id, refusal, plan, now),
            (_, Ok(plan)) if asks => self.wait(id, plan, why, now),
            (_, Ok(plan)) => {
                let who = life.attack.by.clone().filter(|_| approved);
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
        life.show().refusal = None;
        life.place();
        if due && lasts {
            let _ = self.change(id, group, level, (WEIR, "its packets have changed"), traffic, now);
        }
    }

    /// Nothing is announced for it, or no more. `plan`: what would have been.
    pub(super) fn refuse(&mut self, id: u64, refusal: Refusal, plan: Option<Plan>, now: Now) {
        self.withdraw(id, WEIR, &refusal.why, now);
        let Some(life) = self.lives.get_mut(&id) else { return };
        if let Some(Plan { routes, harm }) = plan {
            let attack = life.show();
            (attack.level, attack.harm) = (Level { number: 0, routes }, harm);
        }
        let (limit, why) = (refusal.limit, refusal.why.clone());
        life.refuse(refusal);
        self.tell_refused(id, limit, why, now);
    }

    /// Says once that a limit is against it.
    pub(super) fn tell_refused(&mut self, id: u64, limit: &'static str, why: String, now: Now) {
        let Some(life) = self.lives.get_mut(&id) else { return };
        if life.told.replace(limit) == Some(limit) {
            return;
        }
        *self.counts.refused.entry(limit).or_default() += 1;
        self.tell(id, WEIR, What::Refused, why, now);
        if let Some(entry) = self.entries.last_mut() {
            entry.limit = Some(limit.to_owned());
        }
    }

    /// It waits for a person; `why`: for more than the mode.
    pub(super) fn wait(&mut self, id: u64, plan: Plan, why: Option<String>, now: Now) {
        let Some(life) = self.lives.get_mut(&id) else { return };
        let attack = life.show();
        (attack.level, attack.harm) = (Level { number: 0, routes: plan.routes }, plan.harm);
        (attack.phase, attack.refusal) = (Phase::Pending, None);
        let doubts: Vec<_> = attack.detection.doubts.iter().map(|doubt| doubt.name).collect();
        let told = doubts.first().copied().unwrap_or("pending");
        if life.told.replace(told) != Some(told) {
            doubts.into_iter().for_each(|doubt| *self.counts.doubted.entry(doubt).or_default() += 1);
            let why = why.map_or_else(|| "it waits for a person".into(), |why| format!("it waits for a person: {why}"));
            self.tell(id, WEIR, What::Pending, why, now);
        }
    }

    pub(super) fn announce(&mut self, id: u64, plan: Plan, who: &str, now: Now) {
        let Some(life) = self.lives.get_mut(&id) else { return };
        let (live, _) = lives(&self.settings.ttl, life.attack.times);
        let announced = Announced { rate: life.rate(), ..Announced::new(plan.routes, live, now) };
        let why = reason(life);
        self.set(id, announced, plan.harm, now);
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
        let life = self.lives.get_mut(&id).ok_or_else(nothing)?;
        let before = life.announced.take().ok_or_else(nothing)?;
        // The harm of a step that a person took is theirs; a further one is for whoever takes it.
        let approved = who != WEIR || life.approved && level == before.level;
        self.used.remove(&before.routes);
        let detection = &self.lives[&id].attack.detection;
        let (plan, verdict) = self.plan(group, detection, level, approved, traffic);
        let outcome = verdict.and_then(|()| plan.ok_or_else(nothing));
        let life = self.lives.get_mut(&id).ok_or_else(nothing)?;
        let rate = life.rate();
        match outcome {
            Ok(Plan { routes, harm })
                if routes != before.routes
                    && (level != before.level || spares(traffic, &life.attack.key().0, &routes, &before.routes)) =>
            {
                let since = if level == before.level { before.since } else { now.nanos };
                let rate = if level == before.level { before.rate } else { rate };
                self.counts.withdrawn += before.routes.len() as u64;
                let after = Announced { routes, level, since, rate, changed: now.nanos, others: None, ..before };
                self.set(id, after, harm, now);
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

    /// These routes are wanted from now on.
    pub(super) fn set(&mut self, id: u64, announced: Announced, harm: Harm, now: Now) {
        let Some(life) = self.lives.get_mut(&id) else { return };
        self.used.add(&announced.routes);
        self.counts.announced += announced.routes.len() as u64;
        self.changed = true;
        life.told = None;
        let attack = life.show();
        attack.level = Level { number: announced.level, routes: announced.routes.clone() };
        // Where nobody tells what routers have, they have it.
        let one = if self.is_told { Installed::Waiting } else { Installed::Yes { since: now.wall } };
        attack.installed = vec![one; announced.routes.len()];
        attack.expires = Some(now.wall + Duration::from_nanos(announced.expires.saturating_sub(now.nanos)));
        (attack.harm, attack.refusal, attack.was_announced) = (harm, None, true);
        life.announced = Some(announced);
        life.place();
    }

    /// What is announced for it is wanted no more.
    pub(super) fn withdraw(&mut self, id: u64, who: &str, why: &str, now: Now) {
        let Some(life) = self.lives.get_mut(&id) else { return };
        let Some(announced) = life.announced.take() else { return };
        self.used.remove(&announced.routes);
        self.counts.withdrawn += announced.routes.len() as u64;
        self.changed = true;
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

    /// How often something was announced for a target and class before, as the history has it: each time within the longest time to
    /// live after the one before.
    fn times(&self, key: &Found, now: Now) -> u32 {
        let since = now.wall - self.settings.ttl.most.duration();
        let again = self.history.iter().find(|over| over.was_announced && !over.by_hand && over.key() == *key);
        again.filter(|over| over.ended > Some(since)).map_or(0, |over| over.times + 1)
    }

    /// It is over, and goes to the history.
    pub(super) fn finish(&mut self, id: u64, now: Now) {
        self.withdraw(id, WEIR, "it is over", now);
        if let Some(life) = self.lives.get_mut(&id) {
            life.recall_peak();
        }
        self.tell(id, WEIR, What::Over, String::new(), now);
        let Some(mut life) = self.lives.remove(&id) else { return };
        if !life.attack.by_hand {
            self.by_key.remove(&life.attack.key());
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

/// Whether it is known that routes hit no more of what the target got earlier than others do.
fn spares(traffic: &dyn Traffic, target: &IpNet, routes: &[Route], others: &[Route]) -> bool {
    let hit = |routes: &[Route]| {
        let shares = routes.iter().map(|route| traffic.harm(target, &route.rule).share);
        shares.sum::<Option<f64>>()
    };
    hit(routes).zip(hit(others)).is_some_and(|(hit, before)| hit <= before)
}

/// Attacks that are followed at once.
pub(super) const ATTACKS: usize = 8_192;

/// Attacks that are over and shown.
pub(super) const HISTORY: usize = 1_000;

/// What is left of a flood of which a step has helped enough, or that sinks.
pub(super) const HELPED: f64 = 0.5;

/// From one change of an attack's rules to the next; so long an excess of other packets has to hold before.
const CHANGES_APART: u64 = 2 * SECOND;
