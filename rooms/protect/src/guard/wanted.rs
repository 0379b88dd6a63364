//! What is wanted of the speaker, what it has of that, and lines for the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;

use super::life::Life;
use super::{Announcer, Guard, Now, SECOND};
use crate::journal::{Entry, WEIR, What};
use crate::model::{Attack, Installed, Mode, Route, Rule};

impl Guard {
    /// What the speaker has of what is wanted.
    pub fn look(&mut self, speaker: &dyn Announcer, now: Now) {
        let mut news = Vec::new();
        self.is_told = true;
        let speaking = speaker.speaking();
        self.neighbours = speaking.neighbours.iter().map(|neighbour| neighbour.address).collect();
        for (id, life) in &mut self.lives {
            let was_reached = life.is_reached();
            let Some(announced) = &mut life.announced else { continue };
            let installed: Vec<_> = announced.routes.iter().map(|route| speaker.installed(route)).collect();
            let missing = |all: &[Installed]| {
                all.iter().find_map(|one| if let Installed::No { why } = one { Some(why.clone()) } else { None })
            };
            let (before, why) = (missing(&life.attack.installed), missing(&installed));
            let after = now.nanos.saturating_sub(announced.changed) as f64 / 1e6;
            if was_reached && installed.iter().any(|one| !matches!(one, Installed::Yes { .. })) {
                announced.changed = now.nanos;
            }
            if life.attack.installed != installed {
                life.show().installed = installed;
            }
            let lost = why.filter(|_| before.is_none());
            let lost = lost.or((was_reached && !speaking.connected).then(|| "gobgpd does not answer".into()));
            match life.is_reached() {
                true if !was_reached => {
                    news.push((*id, What::Installed, format!("{after:.1} ms after it was wanted or lost")));
                }
                true => {}
                false => news.extend(lost.map(|why| (*id, What::Unreachable, why))),
            }
            life.place();
        }
        for (id, what, why) in news {
            self.tell(id, WEIR, what, why, now);
        }
    }

    /// Whether other routes are wanted than when this was asked last.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// All routes that are wanted. A FlowSpec rule is there once: of several actions the strongest.
    pub fn wanted(&self) -> Vec<Route> {
        let mut wanted: BTreeMap<(bool, &Rule), &Route> = BTreeMap::new();
        for route in self.lives.values().filter_map(|life| life.announced.as_ref()).flat_map(|now| &now.routes) {
            let key = (route.action == crate::model::Action::Blackhole, &route.rule);
            let stronger = wanted.get(&key).is_none_or(|other| strength(route) > strength(other));
            if stronger {
                wanted.insert(key, route);
            }
        }
        wanted.into_values().cloned().collect()
    }

    /// Packets to prefixes that are answered already: by routes against an attack on the prefix, or by observing it.
    pub fn covered(&self) -> Vec<Rule> {
        let mut covered = Vec::new();
        let is_wide = |prefix: &IpNet| prefix.prefix_len() < prefix.max_prefix_len();
        for life in self.lives.values().filter(|life| life.seen && is_wide(&life.attack.key().0)) {
            let group = self.settings.groups.get(&life.attack.detection.target.group);
            if group.is_some_and(|group| group.mode == Mode::Observe) {
                covered.push(Rule::to(life.attack.key().0));
            }
            let routes = life.announced.iter().filter(|_| life.is_reached()).flat_map(|announced| &announced.routes);
            covered.extend(routes.map(|route| route.rule.clone()));
        }
        covered
    }

    /// An attack as it stands; `None`: it is forgotten, or never was.
    pub fn attack(&self, id: u64) -> Option<Arc<Attack>> {
        let over = || self.history.iter().find(|attack| attack.id == id);
        self.lives.get(&id).map(|life| &life.attack).or_else(over).cloned()
    }

    /// Lines for the journal since this was asked last.
    pub fn take_entries(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.entries)
    }

    /// A line for the journal about an attack.
    pub(super) fn tell(&mut self, id: u64, who: &str, what: What, why: String, now: Now) {
        let Some(life) = self.lives.get(&id) else { return };
        let entry = entry_of(life, who, what, why, now);
        self.entries.push(entry);
    }
}

/// A line about an attack, with what is announced for it, or would be.
pub(super) fn entry_of(life: &Life, who: &str, what: What, why: String, now: Now) -> Entry {
    let Attack { id, detection, level, by_hand, .. } = &*life.attack;
    let told = matches!(what, What::Pending | What::Announced | What::Refused | What::Extended);
    Entry {
        attack: Some(*id),
        target: Some(detection.target.clone()),
        class: (!by_hand).then_some(detection.class),
        level: told.then_some(level.number),
        routes: if told { level.routes.clone() } else { Vec::new() },
        times: life.announced.as_ref().map(|_| life.attack.times),
        ttl_s: life.announced.as_ref().map(|announced| announced.expires.saturating_sub(now.nanos).div_ceil(SECOND)),
        by_hand: *by_hand,
        ..Entry::new(now.wall, who, what, why)
    }
}

/// Which of two actions on the same packets takes more away.
pub(super) fn strength(route: &Route) -> (u8, f32) {
    use crate::model::Action::{Blackhole, Drop, Limit, Mark, Redirect};
    match route.action {
        Mark { .. } => (0, 0.0),
        Redirect { .. } => (1, 0.0),
        Limit { bytes_per_s } => (2, -bytes_per_s),
        Drop => (3, 0.0),
        Blackhole => (4, 0.0),
    }
}
