//! Attacks that come back: what was announced for them before, of late.

use std::collections::BTreeMap;

use ipnet::IpNet;
use weir_units::Span;

use crate::model::Class;
use crate::settings::Ttl;

/// How often something was announced for a target and a class.
#[derive(Clone, Debug, Default)]
pub(super) struct Repeats {
    known: BTreeMap<(IpNet, Class), Repeat>,
    /// Those that there was no room for.
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
        let until = now + ttl.most.duration().as_nanos() as u64;
        if self.known.len() >= MOST && !self.known.contains_key(&key) {
            self.known.retain(|_, repeat| repeat.until > now);
        }
        if self.known.len() < MOST || self.known.contains_key(&key) {
            self.known.insert(key, Repeat { times, until });
        } else {
            self.evicted += 1;
        }
    }

    pub(super) fn evicted(&self) -> u64 {
        self.evicted
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

/// Targets and classes that are remembered.
pub(super) const MOST: usize = 4_096;
