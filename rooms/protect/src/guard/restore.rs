//! What was active before a restart is wanted again, for as long as it was to be; what is not seen again is withdrawn after the
//! hysteresis.

use std::collections::BTreeMap;
use std::time::Duration;

use super::life::{Announced, Life, lives, unfound};
use super::machine::ATTACKS;
use super::people::STOPPED;
use super::plan::overlap;
use super::wanted::entry_of;
use super::{Guard, Now, SECOND, by_hand};
use crate::journal::{Entry, WEIR, What};
use crate::model::{Action, Harm, Mode, Stopped};

/// An attack as the journal tells of it: its first line, the last one with what is announced, or withdrawn, and the person who
/// extended that last.
type Told = (Entry, Option<Entry>, Option<String>);

impl Guard {
    /// Knows again what a journal tells. It is called once, before anything else.
    pub fn restore(&mut self, entries: Vec<Entry>, now: Now) {
        let mut told: BTreeMap<u64, Told> = BTreeMap::new();
        for entry in entries {
            let id = entry.attack.unwrap_or_default();
            self.last_id = self.last_id.max(id);
            match entry.what {
                What::Stopped => self.stopped = Some(Stopped { by: entry.who.clone(), since: entry.time }),
                What::Resumed => self.stopped = None,
                What::Over => drop(told.remove(&id)),
                _ if entry.target.is_none() || entry.class.is_none() && !entry.by_hand => {}
                what => {
                    let (_, last, kept) = told.entry(id).or_insert_with(|| (entry.clone(), None, None));
                    match last {
                        Some(last) if what == What::Extended => {
                            (last.time, last.ttl_s, last.times) = (entry.time, entry.ttl_s, entry.times);
                            *kept = Some(entry.who).filter(|who| who != WEIR);
                        }
                        last if matches!(what, What::Announced | What::Withdrawn) => {
                            // Other rules live as long as those before them.
                            *kept = kept.take().filter(|_| what == What::Announced);
                            *last = Some(entry);
                        }
                        _ => {}
                    }
                }
            }
        }
        // One a target and class, the newest: of others the journal lacks the end.
        let key = |first: &Entry| (first.target.clone().map(|target| target.prefix), first.class, first.by_hand);
        let newest: BTreeMap<_, u64> = told.iter().map(|(id, (first, ..))| (key(first), *id)).collect();
        told.retain(|id, (first, ..)| newest[&key(first)] == *id);
        told.into_iter().for_each(|(id, told)| self.know(id, told, now));
    }

    /// What a journal has to have, so that [`Self::restore`] of it leads here again.
    pub fn carried(&self, now: Now) -> Vec<Entry> {
        let rotated = Entry::new(now.wall, WEIR, What::Rotated, "what stands now");
        let switch = match &self.stopped {
            Some(stopped) => Entry::new(stopped.since, &stopped.by, What::Stopped, "as before"),
            None => Entry::new(now.wall, WEIR, What::Resumed, "as before"),
        };
        let mut carried = vec![Entry { attack: Some(self.last_id), ..rotated }, switch];
        for life in self.lives.values() {
            let what = if life.announced.is_some() { What::Announced } else { What::Withdrawn };
            // Whoever extended it has taken nothing upon themselves.
            let who = life.attack.by.as_deref().filter(|_| life.approved || life.held).unwrap_or(WEIR);
            if life.announced.is_some() || life.held {
                carried.push(entry_of(life, who, what, "as before".into(), now));
                let is_kept = life.announced.as_ref().is_some_and(|announced| announced.kept > now.nanos);
                if let Some(by) = life.attack.by.as_deref().filter(|_| is_kept && !life.attack.by_hand) {
                    carried.push(entry_of(life, by, What::Extended, "as before".into(), now));
                }
            } else {
                carried.push(entry_of(life, WEIR, What::Detected, "as before".into(), now));
            }
        }
        carried
    }

    fn know(&mut self, id: u64, (first, last, kept): Told, now: Now) {
        let Entry { target: Some(target), class, by_hand, time: began, .. } = first else { return };
        // The configuration may have changed.
        let group = self.settings.groups.get(&target.group).filter(|group| group.mode != Mode::Observe);
        let is_ours = group.is_some_and(|group| group.networks.iter().any(|net| net.contains(&target.prefix)));
        let by = last.as_ref().map(|last| last.who.clone()).filter(|who| who != WEIR);
        let is_withdrawn = |last: &Entry| last.what == What::Withdrawn && last.limit.as_deref() != Some(STOPPED);
        let held = by.is_some() && last.as_ref().is_some_and(is_withdrawn);
        // Nothing is announced while all is stopped, nor what is only observed or not protected any more.
        let active = last.filter(|last| last.what == What::Announced && is_ours && self.stopped.is_none());
        if self.lives.len() >= ATTACKS {
            self.unheard += 1;
            return;
        }
        let rules = active.iter().flat_map(|entry| &entry.routes).map(|route| route.rule.clone()).collect();
        let detection = unfound(target, class.unwrap_or(by_hand::CLASS), "known from the journal", rules);
        let times = active.as_ref().and_then(|entry| entry.times).unwrap_or_default();
        let mut life = Life::new(id, detection, times, now);
        // Whether it still goes on will be seen, or it is over.
        let settings = self.settings.clone();
        let ttl = &settings.ttl;
        let (_, hold) = lives(ttl, times);
        (life.held, life.seen, life.awaited) = (held, false, active.is_none().then_some(now.nanos + hold));
        life.approved = active.is_some() && by.is_some();
        let attack = life.show();
        let is_kept = by_hand || kept.is_some();
        (attack.began, attack.by, attack.by_hand, attack.was_announced) =
            (began, kept.or(by), by_hand, active.is_some());
        self.insert(life);
        let Some(entry) = active else { return };
        // By the clock that people set, unless that says what cannot be.
        let live = Duration::from_secs(entry.ttl_s.unwrap_or_default()).min(ttl.most.duration());
        let left = entry.time.checked_add(live).and_then(|until| until.duration_since(now.wall).ok());
        let left = left.unwrap_or_default().min(live);
        let touched = entry.routes.iter().any(|route| {
            self.untouchable().any(|net| overlap(&net, &route.rule.destination))
                || route.action == Action::Blackhole && route.next_hop.is_none()
        });
        if left.is_zero() || touched || self.used.fits(&entry.routes, &self.settings.caps).is_err() {
            self.tell(id, WEIR, What::Withdrawn, "its time was over before the restart".into(), now);
            return self.finish(id, now);
        }
        let left = left.as_nanos() as u64;
        let mut announced = Announced::new(entry.routes, left, now);
        if is_kept {
            announced.kept = announced.expires;
        }
        if !by_hand {
            (announced.level, announced.began, announced.rate) = (entry.level.unwrap_or_default(), 0, f64::INFINITY);
            announced.fades = Some(now.nanos + hold.min(left).max(SECOND));
        }
        self.set(id, announced, Harm::default(), now);
        self.counts.announced = 0;
    }
}
