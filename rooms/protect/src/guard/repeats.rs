//! Attacks that come back: what was announced for them before, of late.

use std::collections::BTreeMap;
use std::time::Duration;

use ipnet::IpNet;

use crate::model::Class;
use crate::settings::Ttl;

/// How often something was announced for a target and a class.
#[derive(Clone, Debug, Default)]
pub(super) struct Repeats {
    known: BTreeMap<(IpNet, Class), Repeat>,
    /// Forgotten before their time, for others.
    evicted: u64,
}

#[derive(Clone, Copy, Debug)]
struct Repeat {
    times: u32,
    /// When it is forgotten.
    until: u64,
}

impl Repeats {
    /// How often, within the longest time to live before now.
    pub(super) fn times(&self, key: &(IpNet, Class), now: u64) -> u32 {
        self.known.get(key).filter(|repeat| repeat.until > now).map_or(0, |repeat| repeat.times)
    }

    /// It was announced so often, the last time until now.
    pub(super) fn remember(&mut self, key: (IpNet, Class), times: u32, now: u64, ttl: &Ttl) {
        let until = now + ttl.most.as_nanos() as u64;
        if self.known.len() >= MOST && !self.known.contains_key(&key) {
            self.known.retain(|_, repeat| repeat.until > now);
        }
        if self.known.len() >= MOST && !self.known.contains_key(&key) {
            let oldest = self.known.iter().min_by_key(|(_, repeat)| repeat.until).map(|(key, _)| *key);
            oldest.and_then(|key| self.known.remove(&key));
            self.evicted += 1;
        }
        self.known.insert(key, Repeat { times, until });
    }

    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }
}

/// How long routes live that were announced so often before, and how long they stay when the attack is no longer seen.
pub(super) fn lives(ttl: &Ttl, times: u32) -> (u64, u64) {
    let longer = ttl.backoff.powi(times.min(64) as i32);
    let grown = |span: Duration, most: Duration| (span.as_secs_f64() * longer).min(most.as_secs_f64());
    let live = grown(ttl.first, ttl.most);
    let hold = grown(ttl.hysteresis, ttl.most).min(live.max(ttl.hysteresis.as_secs_f64()));
    ((live * 1e9) as u64, (hold * 1e9) as u64)
}

/// Targets and classes that are remembered.
pub(super) const MOST: usize = 4_096;
