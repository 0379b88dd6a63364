//! What was active before a restart is wanted again, for as long as it was to be; what is not seen again is withdrawn after the
//! hysteresis.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::life::{Announced, Life, unfound};
use super::machine::ATTACKS;
use super::people::STOPPED;
use super::plan::overlap;
use super::repeats::lives;
use super::wanted::entry_of;
use super::{Guard, Now, SECOND, by_hand};
use crate::journal::{Entry, WEIR, What};
use crate::model::{Action, Class, Harm, Mode, Stopped, Target};

/// An attack as the journal tells of it.
#[derive(Debug)]
struct Told {
    target: Target,
    class: Class,
    began: SystemTime,
    by: Option<String>,
    /// The last line with routes, while they are wanted.
    active: Option<Entry>,
    /// A person withdrew it.
    held: bool,
    /// A person asked for it.
    by_hand: bool,
}

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
                What::Rotated => {}
                _ => {
                    let by_hand = entry.by_hand;
                    let class = entry.class.or(by_hand.then_some(by_hand::CLASS));
                    let (Some(target), Some(class)) = (entry.target.clone(), class) else { continue };
                    let began = entry.time;
                    let new = Told { target, class, began, by: None, active: None, held: false, by_hand };
                    told.entry(id).or_insert(new).hear(entry);
                }
            }
        }
        // One a target and class, the newest: of others the journal lacks the end.
        let key = |told: &Told| (told.target.prefix, told.class, told.by_hand);
        let newest: BTreeMap<_, u64> = told.iter().map(|(id, told)| (key(told), *id)).collect();
        told.retain(|id, told| newest[&key(told)] == *id);
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
            } else {
                carried.push(entry_of(life, WEIR, What::Detected, "as before".into(), now));
            }
        }
        carried
    }

    fn know(&mut self, id: u64, told: Told, now: Now) {
        let Told { target, class, began, by, active, held, by_hand } = told;
        // The configuration may have changed.
        let group = self.settings.groups.get(&target.group).filter(|group| group.mode != Mode::Observe);
        let is_ours = group.is_some_and(|group| group.networks.iter().any(|net| net.contains(&target.prefix)));
        // Nothing is announced while all is stopped, nor what is only observed or not protected any more.
        let active = active.filter(|_| is_ours && self.stopped.is_none());
        if self.lives.len() >= ATTACKS {
            self.unheard += 1;
            return;
        }
        let rules = active.iter().flat_map(|entry| &entry.routes).map(|route| route.rule.clone()).collect();
        let detection = unfound(target, class, "known from the journal", rules);
        let mut life = Life::new(id, detection, now);
        // Whether it still goes on will be seen, or it is over.
        let (_, hold) = lives(&self.settings.ttl, 0);
        (life.held, life.seen, life.awaited) = (held, false, Some(now.nanos + hold));
        life.approved = active.is_some() && by.is_some();
        let attack = life.show();
        (attack.began, attack.by, attack.by_hand) = (began, by, by_hand);
        self.insert(life);
        let Some(entry) = active else { return };
        self.lives.get_mut(&id).into_iter().for_each(|life| life.awaited = None);
        let settings = self.settings.clone();
        let ttl = &settings.ttl;
        // By the clock that people set, unless that says what cannot be.
        let live = Duration::from_secs(entry.ttl_s.unwrap_or_default()).min(ttl.most.duration());
        let left = entry.time.checked_add(live).and_then(|until| until.duration_since(now.wall).ok());
        let left = left.unwrap_or_default().min(live);
        let touched = entry.routes.iter().any(|route| {
            self.untouchable().any(|net| overlap(&net, &route.rule.destination))
                || route.action == Action::Blackhole && route.next_hop.is_none()
        });
        let times = entry.times.unwrap_or_default();
        let level = entry.level.unwrap_or_default();
        let fits = self.used.fits(&entry.routes, &self.settings.caps).is_ok() && !touched;
        if left.is_zero() || !fits {
            return self.forget(id, times, now);
        }
        let (left, (_, hold)) = (left.as_nanos() as u64, lives(ttl, times));
        let mut announced = Announced::new(entry.routes, left, now);
        if by_hand {
            announced.kept = announced.expires;
        } else {
            (announced.level, announced.began, announced.rate, announced.times) = (level, 0, f64::INFINITY, times);
            announced.fades = Some(now.nanos + hold.min(left).max(SECOND));
        }
        self.set(id, announced, Harm::default(), now);
        self.counts.announced = 0;
    }

    /// Its time was over while nobody looked.
    fn forget(&mut self, id: u64, times: u32, now: Now) {
        let Some(life) = self.lives.get(&id) else { return };
        self.repeats.remember(life.key(), times + 1, now.nanos, &self.settings.ttl);
        self.tell(id, WEIR, What::Withdrawn, "its time was over before the restart".into(), now);
        self.finish(id, now);
    }
}

impl Told {
    fn hear(&mut self, entry: Entry) {
        let by = (entry.who != WEIR).then(|| entry.who.clone());
        match entry.what {
            What::Announced => (self.held, self.by, self.active) = (false, by, Some(entry)),
            What::Extended => {
                if let Some(active) = &mut self.active {
                    (active.time, active.ttl_s, active.times) = (entry.time, entry.ttl_s, entry.times);
                }
            }
            What::Withdrawn => {
                self.held = by.is_some() && entry.limit.as_deref() != Some(STOPPED);
                (self.by, self.active) = (by, None);
            }
            _ => {}
        }
    }
}
