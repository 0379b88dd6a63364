//! What happens as time passes, and as the configuration changes.

use std::sync::Arc;
use std::time::Duration;

use super::life::{Found, Life, lives};
use super::machine::HELPED;
use super::plan::overlap;
use super::{Guard, Now, SECOND, Traffic};
use crate::journal::{WEIR, What};
use crate::model::{Mode, Route};
use crate::settings::Settings;

impl Guard {
    /// Time has passed.
    pub fn tick(&mut self, traffic: &dyn Traffic, now: Now) {
        let is_second = now.nanos >= self.second;
        if is_second {
            self.second = now.nanos + SECOND;
            // Told anew each `settle` while it goes on and packets to what is protected are sampled there.
            let kept = SILENT.max(2 * self.settings.settle.duration().as_nanos() as u64);
            self.short.retain(|_, told| now.nanos < *told + kept);
        }
        let ids: Vec<u64> = self.lives.keys().copied().collect();
        for id in ids {
            let Some(life) = self.lives.get_mut(&id) else { continue };
            let is_silent = now.nanos >= life.found + SILENT;
            if is_second {
                life.draw(is_silent);
            }
            if life.awaited.is_some_and(|until| now.nanos >= until) {
                self.finish(id, now);
                continue;
            }
            let Some(announced) = &life.announced else {
                // What caps or harm forbade may be permitted by now.
                let waits = life.attack.refusal.as_ref().is_some_and(|why| RETRIED.contains(&why.limit));
                if is_second && waits {
                    self.decide(id, traffic, now);
                }
                continue;
            };
            let ends = announced.fades.unwrap_or(u64::MAX).min(announced.expires).max(announced.kept);
            let is_over = now.nanos >= announced.expires.max(announced.kept);
            match life.seen {
                false if now.nanos >= ends => self.finish(id, now),
                true if is_over && is_silent => {
                    self.withdraw(id, WEIR, "its time is over, and none of the agents that told of it is heard", now);
                    self.finish(id, now);
                }
                true if is_silent && life.told != Some("silence") => {
                    life.told = Some("silence");
                    let why =
                        "none of the agents that told of it is heard: what is announced stays until its time is over";
                    self.tell(id, WEIR, What::Doubted, why.into(), now);
                }
                true if is_silent => {}
                true if is_over && life.is_contradicted() => self.distrust(id, traffic, now),
                true if now.nanos >= announced.expires => self.renew(id, now),
                true if is_second && (life.approved || life.attack.detection.doubts.is_empty()) => {
                    self.escalate(id, traffic, now);
                }
                _ => {}
            }
        }
    }

    /// It is no longer seen, and was last at this time.
    pub(super) fn fade(&mut self, key: Found, last: u64, now: Now) {
        let Some(&id) = self.by_key.get(&key) else { return };
        let Some(life) = self.lives.get_mut(&id) else { return };
        life.seen = false;
        let Some(announced) = &mut life.announced else { return self.finish(id, now) };
        let (_, hold) = lives(&self.settings.ttl, life.attack.times);
        announced.fades = Some(last.min(now.nanos) + hold);
        let evidence = &mut life.show().detection.evidence;
        (evidence.packets, evidence.bits) = Default::default();
        life.place();
    }

    /// Its time is over, and it is still there: longer, this time. It is the same attack: it has not come back.
    fn renew(&mut self, id: u64, now: Now) {
        let Some(life) = self.lives.get_mut(&id) else { return };
        let Some(announced) = &mut life.announced else { return };
        announced.renewed += 1;
        let (live, _) = lives(&self.settings.ttl, life.attack.times.saturating_add(announced.renewed));
        announced.expires = now.nanos + live;
        life.show().expires = Some(now.wall + Duration::from_nanos(live));
        self.tell(id, WEIR, What::Extended, "it goes on".into(), now);
    }

    /// It goes on, and what was done did not help: the next step.
    fn escalate(&mut self, id: u64, traffic: &dyn Traffic, now: Now) {
        let settings = self.settings.clone();
        let Some(life) = self.lives.get(&id) else { return };
        let Some(announced) = &life.announced else { return };
        let Some(group) = settings.groups.get(&life.attack.detection.target.group) else { return };
        let Some(step) = group.levels.get(announced.level + 1).filter(|_| group.mode == Mode::Automatic) else {
            return;
        };
        let is_due = now.nanos >= announced.since + step.after.as_nanos() as u64 && life.found > announced.since;
        if !is_due || !life.exceeds() || life.rate() < HELPED * announced.rate {
            return;
        }
        let why = format!("the step before has not helped for {} s", step.after.as_secs());
        let level = announced.level + 1;
        let Err(refusal) = self.change(id, group, level, (WEIR, &why), traffic, now) else { return };
        self.tell_refused(id, refusal.limit, format!("its next step: {}", refusal.why), now);
    }

    /// Goes over to other settings: what they forbid is withdrawn.
    pub fn adopt(&mut self, settings: &Arc<Settings>, traffic: &dyn Traffic, now: Now) {
        self.used.protect(&settings.protected());
        self.settings = settings.clone();
        let forbids = |life: &Life| {
            let group = settings.groups.get(&life.attack.detection.target.group);
            let touched = |route: &Route| self.untouchable().any(|net| overlap(&net, &route.rule.destination));
            let routes = life.announced.iter().flat_map(|announced| &announced.routes);
            group.is_none_or(|group| group.mode == Mode::Observe) || routes.into_iter().any(touched)
        };
        let gone: Vec<u64> = self.lives.values().filter(|life| forbids(life)).map(|life| life.attack.id).collect();
        gone.into_iter().for_each(|id| self.withdraw(id, WEIR, "the configuration forbids it now", now));
        while !self.used.holds(&settings.caps) {
            let announced =
                self.lives.values().filter_map(|life| Some((life.announced.as_ref()?.since, life.attack.id)));
            let Some((_, newest)) = announced.max() else { break };
            self.withdraw(newest, WEIR, "it is beyond the caps of the configuration", now);
        }
        let over = |life: &&Life| life.announced.is_none() && !life.seen && life.awaited.is_none();
        let over: Vec<u64> = self.lives.values().filter(over).map(|life| life.attack.id).collect();
        over.into_iter().for_each(|id| self.finish(id, now));
        self.decide_all(traffic, now);
    }
}

/// After so long without a word of a flood that is not over either the agents that told of it are silent, ns: they are heard each 10 s, and
/// of all floods that the detector follows it tells within 13 s.
const SILENT: u64 = 30 * SECOND;

/// Limits that what else happens may lift.
const RETRIED: [&str; 4] = ["max_routes", "max_prefixes", "max_share", "harm"];
