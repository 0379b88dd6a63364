//! Attacks within wider ones: what is done about the wider one answers them as well, once it is in force, and not before.

use ipnet::IpNet;

use super::life::{Found, Life};
use super::machine::FULL;
use super::plan::plan;
use super::wanted::strength;
use super::{Guard, Now, SECOND, Traffic};
use crate::detect::Shield;
use crate::journal::WEIR;
use crate::model::{Installed, Mode, Phase, Route, Rule};
use crate::settings::Group;

impl Guard {
    /// What is in force against wider attacks, and keeps away those of what lies within.
    pub fn shields(&self, now: Now) -> Vec<Shield> {
        let wide = self.lives.values().filter(|life| life.seen && life.is_wide());
        wide.filter_map(|wide| self.shield(wide, now)).collect()
    }

    fn shield(&self, wide: &Life, now: Now) -> Option<Shield> {
        let target = &wide.attack.detection.target;
        let prefix = target.prefix;
        if self.settings.groups.get(&target.group).is_some_and(|group| group.mode == Mode::Observe) {
            // Nothing is done about either: one line is enough.
            return Some(Shield { prefix, rules: vec![Rule::to(prefix)], except: Vec::new() });
        }
        if !self.is_in_force(wide, now) {
            return None;
        }
        let routes = wide.routes();
        let least = routes.iter().map(strength).min_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal))?;
        let does_more = |life: &&Life| {
            is_within(&life.key().0, &prefix) && life.routes().iter().any(|route| strength(route) > least)
        };
        let except = self.lives.values().filter(does_more).map(|life| life.key().0).collect();
        Some(Shield { prefix, rules: routes.iter().map(|route| route.rule.clone()).collect(), except })
    }

    /// Whether what is wanted against it is there; rules that take the place of others are given the time for it.
    fn is_in_force(&self, life: &Life, now: Now) -> bool {
        let Some(announced) = &life.announced else { return false };
        let installed = &life.attack.installed;
        !self.is_told
            || !installed.is_empty() && installed.iter().all(|route| matches!(route, Installed::Yes { .. }))
            || announced.stood > 0 && now.nanos < announced.stood + SECOND
    }

    /// Whether routes in force against wider attacks do all that these do.
    fn is_answered(&self, prefix: &IpNet, routes: &[Route], now: Now) -> bool {
        let wide = self.lives.values().filter(|life| life.seen && is_within(prefix, &life.key().0));
        let wide: Vec<&Route> = wide.filter(|life| self.is_in_force(life, now)).flat_map(Life::routes).collect();
        let does = |route: &Route| {
            wide.iter().any(|wider| route.rule.is_within(&wider.rule) && strength(wider) >= strength(route))
        };
        !wide.is_empty() && routes.iter().all(does)
    }

    /// An attack is part of a wider one since: it goes on with that.
    pub(super) fn join(&mut self, key: Found, wider: Found, now: Now) {
        let Some(&id) = self.by_key.get(&key) else { return };
        for life in self.lives.values_mut().filter(|life| life.part_of == Some(key)) {
            life.part_of = Some(wider);
        }
        match self.lives.get_mut(&id).filter(|life| life.announced.is_some()) {
            Some(life) => life.part_of = Some(wider),
            None => self.finish(id, now),
        }
    }

    /// What is a part of a wider attack that is answered needs no answer of its own; of one that is over, it is over.
    pub(super) fn fold(&mut self, now: Now) {
        if !self.lives.values().any(|life| life.is_wide() || life.part_of.is_some()) {
            return;
        }
        let mut answered = Vec::new();
        let mut left = Vec::new();
        for (&id, life) in &self.lives {
            let may_go = life.announced.as_ref().is_some_and(|announced| announced.kept == 0);
            let is_part = !life.seen || life.part_of.is_some();
            if is_part && may_go && self.is_answered(&life.key().0, life.routes(), now) {
                answered.push(id);
            } else if let Some(wider) = life.part_of {
                let goes_on = self.by_key.get(&wider).and_then(|wider| self.lives.get(wider)).is_some_and(|it| it.seen);
                if !goes_on {
                    left.push(life.found_as());
                }
            }
        }
        for id in answered {
            self.finish_part(id, now);
        }
        left.into_iter().for_each(|key| self.fade(key, now.nanos, now));
    }

    /// A wider attack for which the caps have no room takes that of what lies within it, if that is enough.
    pub(super) fn take_place(&mut self, id: u64, group: &Group, traffic: &dyn Traffic, now: Now) -> bool {
        let Some(wide) = self.lives.get(&id).filter(|life| life.is_wide()) else { return false };
        let (prefix, approved) = (wide.key().0, wide.approved);
        let may_go = |life: &&Life| {
            let kept = life.announced.as_ref().is_none_or(|announced| announced.kept > 0);
            !kept && life.attack.by.is_none() && is_within(&life.key().0, &prefix)
        };
        let within: Vec<u64> = self.lives.values().filter(may_go).map(|life| life.attack.id).collect();
        let mut used = self.used.clone();
        within.iter().filter_map(|id| self.lives.get(id)).for_each(|life| used.remove(life.routes()));
        let detection = &wide.attack.detection;
        if within.is_empty() || plan(&self.settings, group, detection, 0, approved, &used, traffic).1.is_err() {
            return false;
        }
        for part in within {
            let why = format!("the caps have room for it or for attack {id} on {prefix}, which it is a part of");
            self.withdraw(part, WEIR, &why, now);
            if let Some(life) = self.lives.get_mut(&part) {
                let refusal = crate::model::Refusal { limit: FULL[0], why };
                (life.told, life.show().refusal) = (Some(FULL[0]), Some(refusal));
                life.show().phase = Phase::Seen;
            }
        }
        true
    }
}

impl Life {
    /// Whether it is about more than one address, and about what is believed.
    fn is_wide(&self) -> bool {
        let (prefix, _, is_hearsay) = self.found_as();
        prefix.prefix_len() < prefix.max_prefix_len() && !is_hearsay
    }

    /// What is wanted for it.
    fn routes(&self) -> &[Route] {
        self.announced.as_ref().map_or(&[], |announced| &announced.routes)
    }
}

/// Whether a prefix is part of another one.
fn is_within(prefix: &IpNet, wider: &IpNet) -> bool {
    prefix != wider && wider.contains(prefix)
}
