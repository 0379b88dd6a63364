//! The state machine: what has crossed which threshold, and may not cross it again yet.
//!
//! A subject (a data source, or one of its flows) has state only from its crossing until it has been at or below for the
//! threshold's timeout: what is quiet costs no memory. The table is of a fixed size, in sets as a processor's cache is; in
//! a set that is full of subjects above, the one seen longest ago gives way, and is counted.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use foldhash::quality::RandomState;
use weir_wire::sflow::DataSource;

use super::{Facts, Rule, Rules, Threshold};

/// A value that changed.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// Whose.
    pub agent: IpAddr,
    /// Of which source.
    pub source: DataSource,
    /// A hash of the flow's keys, where it is a flow's value.
    pub flow: Option<u64>,
    /// What it is now.
    pub value: f64,
    /// The time constant by which it falls while nothing is observed; `None`: then nothing is known, as of a counter.
    pub decay: Option<Duration>,
}

/// Thresholds on one metric: places among the [`Rules`] that told them.
pub type On = Range<usize>;

/// One worker's thresholds.
#[derive(Debug)]
pub struct Watch {
    /// Subjects that it remembers at once.
    limit: usize,
    rules: Arc<Rules>,
    /// Empty until there is a rule.
    sets: Vec<[Option<State>; WAYS]>,
    hasher: RandomState,
    evicted: u64,
}

/// Subjects of a set.
const WAYS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Subject {
    rule: u32,
    agent: IpAddr,
    source: DataSource,
    flow: Option<u64>,
}

/// Of a subject that has crossed.
#[derive(Clone, Copy, Debug)]
struct State {
    subject: Subject,
    timeout: Duration,
    /// Until when its value was above; `None`: until it is seen at or below.
    above_until: Option<Duration>,
    /// Since when it has been seen at or below.
    below_since: Option<Duration>,
    seen: Duration,
}

impl State {
    /// Whether it may cross again.
    fn is_armed(&self, now: Duration) -> bool {
        // What begins again is seen small first: that it was quiet long before counts.
        let quiet_since = [self.below_since, self.above_until].into_iter().flatten().min();
        quiet_since.is_some_and(|since| now.saturating_sub(since) >= self.timeout)
    }
}

impl Watch {
    /// Without thresholds yet. It remembers so many subjects at once, rounded up to eights.
    pub fn new(limit: usize) -> Self {
        let limit = limit.max(1).next_multiple_of(WAYS);
        Self { limit, rules: Arc::default(), sets: Vec::new(), hasher: RandomState::default(), evicted: 0 }
    }

    /// Subjects that it remembers at most.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Looks at these thresholds from now on. What crossed one that stays as it was is remembered.
    pub fn adopt(&mut self, rules: Arc<Rules>) {
        if self.sets.is_empty() && !rules.rules.is_empty() {
            self.sets = vec![[None; WAYS]; self.limit / WAYS];
        }
        self.rules = rules;
        let rules = &self.rules.rules;
        forget(&mut self.sets, |subject| rules.iter().all(|rule| rule.id != subject.rule));
    }

    /// The thresholds on a metric or flow definition; to be asked again after [`Watch::adopt`].
    pub fn on(&self, metric: &str) -> On {
        self.rules.on(metric)
    }

    /// A value changed: `crossed` is called for each threshold that it crosses by that. Allocates nothing.
    ///
    /// A value above crosses unless its subject has crossed before and has not been at or below for the timeout since,
    /// each value holding until the next, or decaying. Of flows that have no events of their own, any that is above
    /// keeps their source above.
    pub fn observe(
        &mut self,
        on: On,
        observation: &Observation,
        facts: &(impl Facts + ?Sized),
        now: Duration,
        mut crossed: impl FnMut(&Rule),
    ) {
        for rule in self.rules.rules.get(on).unwrap_or_default() {
            let Threshold { value, by_flow, ref filter, timeout, .. } = rule.threshold;
            let flow = if by_flow { observation.flow } else { None };
            let subject = Subject { rule: rule.id, agent: observation.agent, source: observation.source, flow };
            let set = self.hasher.hash_one(subject) as usize % self.sets.len();
            let set = &mut self.sets[set];
            let place = set.iter().position(|slot| slot.is_some_and(|state| state.subject == subject));
            if observation.value > value {
                let above = State {
                    subject,
                    timeout: Duration::from_secs_f64(timeout),
                    above_until: observation.decay.map(|decay| now + falls_in(decay, observation.value, value)),
                    below_since: None,
                    seen: now,
                };
                let known = place.and_then(|place| set[place].as_mut()).filter(|state| !state.is_armed(now));
                if let Some(state) = known {
                    // Of several flows, the one that stays above longest counts.
                    *state = State { above_until: above.above_until.max(state.above_until), ..above };
                } else if filter.matches(facts) {
                    let (place, evicts) = place.map_or_else(|| room(set, now), |place| (place, false));
                    self.evicted += u64::from(evicts);
                    set[place] = Some(above);
                    crossed(rule);
                }
            // Another flow of the source may be above while this one is not. What is no number says nothing.
            } else if observation.value <= value
                && (by_flow || observation.flow.is_none())
                && let Some(place) = place
                && let Some(state) = &mut set[place]
            {
                state.below_since.get_or_insert(now);
                state.seen = now;
                if state.is_armed(now) {
                    set[place] = None;
                }
            }
        }
    }

    /// Forgets subjects whose agents are gone.
    pub fn retain_agents(&mut self, is_known: impl Fn(IpAddr) -> bool) {
        forget(&mut self.sets, |subject| !is_known(subject.agent));
    }

    /// Subjects that are remembered.
    pub(crate) fn len(&self) -> usize {
        self.sets.iter().flatten().flatten().count()
    }

    /// Subjects that gave way to others while they might not cross again yet; each may have an event too many.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }
}

fn forget(sets: &mut [[Option<State>; WAYS]], is_gone: impl Fn(&Subject) -> bool) {
    for slot in sets.iter_mut().flatten() {
        if slot.is_some_and(|state| is_gone(&state.subject)) {
            *slot = None;
        }
    }
}

/// A place for one more, and whether somebody who was needed had to go for it.
fn room(set: &[Option<State>; WAYS], now: Duration) -> (usize, bool) {
    if let Some(free) = set.iter().position(|slot| slot.is_none_or(|state| state.is_armed(now))) {
        return (free, false);
    }
    let seen = |place: &usize| set[*place].map(|state| state.seen);
    ((0..WAYS).min_by_key(seen).unwrap_or(0), true)
}

/// When a value that decays exponentially has come down to a limit.
fn falls_in(decay: Duration, value: f64, limit: f64) -> Duration {
    // A limit of 0 or less is never reached: then it is taken as gone once nothing of it is worth showing.
    let constants = if limit > 0.0 { (value / limit).ln().min(GONE) } else { GONE };
    decay.mul_f64(constants.max(0.0))
}

/// Time constants after which nothing is left, a 20,000th.
const GONE: f64 = 10.0;

#[cfg(test)]
mod tests;
