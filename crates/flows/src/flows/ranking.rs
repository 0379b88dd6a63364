//! The largest flows over all data sources, agents and shards, without sorting or grouping them all.
//!
//! Each pass sees every flow once, in slices. For `max` one pass is enough: what is not larger than the n-th largest so far is
//! none of the largest. For `sum` the first pass also adds every flow into one of many buckets by its key: a bucket is an upper
//! bound of each key in it, and the n-th largest single value a lower bound of the n-th largest sum. The second pass groups
//! only keys whose bucket reaches that bound. `agent` is the same, of keys with the agent; of each key the largest remains.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use weir_wire::sflow::DataSource;

use super::definition::AggMode;
use super::estimate::Moments;
use super::view::Flow;
use crate::names::AgentId;

/// A flow over all data sources that saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// As [`Flow::key`].
    pub key: Box<[u8]>,
    /// The value, by the mode.
    pub value: f64,
    /// What its interval comes from; `None` for an average.
    pub moments: Option<Moments>,
    /// The definition's values, by the mode: the largest one's, or the sums (of averages, the mean over data sources).
    pub columns: Vec<f64>,
    /// Who saw most of it.
    pub seen_by: (AgentId, DataSource),
    /// The value there.
    pub largest: f64,
    /// How many data sources saw it; with `max` those that were looked at.
    pub sources: u32,
    /// Samples at all of those.
    pub samples: u32,
    /// When the first and the last came, in seconds.
    pub first: f64,
    /// As above.
    pub last: f64,
}

/// A search for the largest flows. While [`Ranking::next_pass`] says so, show it all flows of all shards.
#[derive(Debug, Default)]
pub struct Ranking {
    mode: AggMode,
    n: usize,
    min_value: f64,
    pass: Pass,
    /// What can no more be among the largest is not larger.
    threshold: f64,
    found: HashMap<Box<[u8]>, Ranked, FixedState>,
    /// Sums by hash of the key.
    buckets: Vec<f64>,
    /// The first data source that flows came from, by its agent and place, and whether they came from others, too.
    first: Option<(AgentId, u32)>,
    are_several: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pass {
    #[default]
    Begin,
    Largest,
    Sums,
    Done,
}

impl Ranking {
    /// For the `n` largest flows of at least `min_value`.
    pub fn new(mode: AggMode, n: usize, min_value: f64) -> Ranking {
        let n = n.clamp(1, MAX_RANKED);
        Ranking { mode, n, min_value, threshold: f64::NEG_INFINITY, ..Ranking::default() }
    }

    /// Whether all flows are to be shown (once more).
    pub fn next_pass(&mut self) -> bool {
        self.pass = match self.pass {
            Pass::Begin => {
                if self.mode != AggMode::Max {
                    self.buckets = vec![0.0; BUCKETS];
                }
                Pass::Largest
            }
            Pass::Largest if self.mode != AggMode::Max && self.are_several => {
                self.prune();
                let enough = self.found.len() >= self.n;
                // Rounding must not lose a key whose bucket holds nothing else.
                self.threshold =
                    if enough { self.threshold.max(self.min_value) } else { self.min_value } * (1.0 - 1e-9);
                self.found.clear();
                Pass::Sums
            }
            _ => Pass::Done,
        };
        self.pass != Pass::Done
    }

    /// Shows it a flow.
    #[inline]
    pub fn offer(&mut self, flow: &Flow<'_>) {
        let value = flow.value();
        match self.pass {
            Pass::Largest => {
                if self.mode != AggMode::Max {
                    let bucket = bucket(&self.group(flow));
                    self.buckets[bucket] += value;
                    let source = (flow.seen_by().0, flow.source());
                    self.are_several |= *self.first.get_or_insert(source) != source;
                }
                if value > self.threshold {
                    self.offer_largest(flow, value);
                }
            }
            Pass::Sums => {
                let group = self.group(flow);
                if self.buckets[bucket(&group)] >= self.threshold {
                    self.offer_sum(&group, flow, value);
                }
            }
            Pass::Begin | Pass::Done => {}
        }
    }

    fn offer_largest(&mut self, flow: &Flow<'_>, value: f64) {
        if self.mode == AggMode::Max && value < self.min_value {
            return;
        }
        match self.found.get_mut(flow.key()) {
            Some(ranked) => {
                let sources = ranked.sources + 1;
                if value > ranked.value {
                    *ranked = Ranked::new(flow, value);
                }
                ranked.sources = sources;
            }
            None => {
                self.found.insert(flow.key().into(), Ranked::new(flow, value));
                if self.found.len() >= 2 * self.n.max(50) {
                    self.prune();
                }
            }
        }
    }

    /// What a flow is added to the others of.
    fn group<'a>(&self, flow: &'a Flow<'_>) -> Cow<'a, [u8]> {
        match self.mode {
            AggMode::Agent => [flow.key(), &flow.seen_by().0.0.to_ne_bytes()].concat().into(),
            AggMode::Max | AggMode::Sum => flow.key().into(),
        }
    }

    fn offer_sum(&mut self, group: &[u8], flow: &Flow<'_>, value: f64) {
        let is_full = self.found.len() >= MAX_CANDIDATES;
        match self.found.get_mut(group) {
            Some(ranked) => ranked.add(flow, value),
            None if is_full => {}
            None => drop(self.found.insert(group.into(), Ranked::new(flow, value))),
        }
    }

    /// Keeps the n largest, and sets the threshold to the smallest of them.
    fn prune(&mut self) {
        if self.found.len() < self.n {
            return;
        }
        let mut values: Vec<f64> = self.found.values().map(|ranked| ranked.value).collect();
        let (_, nth, _) = values.select_nth_unstable_by(self.n - 1, |a, b| b.total_cmp(a));
        self.threshold = self.threshold.max(*nth);
        let threshold = self.threshold;
        self.found.retain(|_, ranked| ranked.value >= threshold);
    }

    /// The largest, the largest first; equal ones by key, so that the order is always the same.
    pub fn finish(self) -> Vec<Ranked> {
        let mut all: Vec<Ranked> = self.found.into_values().filter(|ranked| ranked.value >= self.min_value).collect();
        all.sort_unstable_by(|a, b| b.value.total_cmp(&a.value).then_with(|| a.key.cmp(&b.key)));
        if self.mode == AggMode::Agent {
            let mut seen = HashSet::new();
            all.retain(|ranked| seen.insert(ranked.key.clone()));
        }
        all.truncate(self.n);
        all
    }
}

impl Ranked {
    fn new(flow: &Flow<'_>, value: f64) -> Ranked {
        let (samples, first, last) = flow.history();
        Ranked {
            key: flow.key().into(),
            value,
            moments: flow.moments(),
            columns: (0..flow.columns()).map(|number| flow.column(number)).collect(),
            seen_by: flow.seen_by(),
            largest: value,
            sources: 1,
            samples,
            first,
            last,
        }
    }

    fn add(&mut self, flow: &Flow<'_>, value: f64) {
        self.sources += 1;
        for (number, column) in self.columns.iter_mut().enumerate() {
            *column = match flow.is_average(number) {
                true => *column + (flow.column(number) - *column) / f64::from(self.sources),
                false => *column + flow.column(number),
            };
        }
        self.value = self.columns.first().copied().unwrap_or(value);
        if let (Some(moments), Some(further)) = (&mut self.moments, flow.moments()) {
            moments.add(further);
        }
        if value > self.largest {
            (self.largest, self.seen_by) = (value, flow.seen_by());
        }
        let (samples, first, last) = flow.history();
        self.samples = self.samples.saturating_add(samples);
        (self.first, self.last) = (self.first.min(first), self.last.max(last));
    }
}

fn bucket(key: &[u8]) -> usize {
    (hash(key) >> 32) as usize & (BUCKETS - 1)
}

/// The same for the same key in all shards.
pub(super) fn hash(key: &[u8]) -> u64 {
    let mut hasher = FixedState::with_seed(1).build_hasher();
    hasher.write(key);
    hasher.finish()
}

/// 2 MiB while a question is answered.
const BUCKETS: usize = 1 << 18;

/// Most flows of an answer.
const MAX_RANKED: usize = 100_000;

/// Most keys that are grouped.
const MAX_CANDIDATES: usize = 1_000_000;
