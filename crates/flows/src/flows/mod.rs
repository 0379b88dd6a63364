//! Flows: who talks to whom, by keys that the user chooses, as live rates.
//!
//! ```text
//! Definition -> Checked -> compiled into the Plan of each shard
//!                               |
//! Packet: headers, records ---> Candidates: definitions that it may be of, by its protocols
//!                               |
//!                          Evaluation: filter, then keys; what definitions share is worked out once
//!                               |
//!                          Batch: what the packets of a datagram add to flows; their places in memory are asked for
//!                               |
//!                               v  settled: one lookup, one addition
//!                          Table of each definition: (data source, key) -> smoothed rate, interval
//!                               |
//!                               v  in slices, under the shard's lock
//!                          Ranking: the largest, over agents and shards
//! ```

mod batch;
mod compiled;
mod decay;
mod definition;
mod distinct;
mod ends;
mod estimate;
mod expression;
mod field;
mod filter;
mod kind;
mod missing;
mod packet;
mod plan;
mod ranking;
mod seen;
mod sources;
mod syntax;
mod table;
mod traits;
mod value;
mod values;
mod view;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use definition::lenient;
pub use definition::{AggMode, Checked, Definition, Mistake};
pub use distinct::Distinct;
pub use ends::{End, Ends};
pub use estimate::{Estimate, Moments, Precision, Sampling, Trust};
pub use missing::Known;
pub use packet::Packet;
pub use ranking::{Ranked, Ranking};
pub use seen::Seen;
pub use syntax::Syntax;
pub use value::{MAX_TEXT, Part, Parts};
pub use view::{Flow, Scan};
use weir_wire::sflow::DataSource;

use crate::names::{AgentId, Lookups};
use batch::{Batch, Gathered};
use compiled::Compiled;
use decay::{Clock, Instant};
use plan::{Evaluation, Memory, Plan};
use sources::Sources;
use table::Update;
use traits::Candidates;

/// All flows of a shard.
#[derive(Debug, Default)]
pub struct Flows {
    /// How many there may be. Half of them are shared out among the definitions for certain, half goes to who needs it.
    limit: usize,
    lookups: Arc<Lookups>,
    definitions: Vec<Compiled>,
    plan: Plan,
    candidates: Candidates,
    memory: Memory,
    sources: Sources,
    clocks: Vec<Clock>,
    /// Instants of the clocks, for the packets at hand.
    instants: Vec<Instant>,
    batch: Batch,
    /// Flows beyond the certain shares of their definitions.
    used_beyond: usize,
}

/// A flow of a definition with `log`: it began, it is over, or it goes on and was not told of for the active timeout.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Name of the definition.
    pub name: String,
    /// Where it was seen.
    pub agent: AgentId,
    /// As above.
    pub source: DataSource,
    /// Its key as it is shown.
    pub key: String,
    /// When it began, or was told of last; seconds of the shard's clock.
    pub first: f64,
    /// When its last packet came.
    pub last: f64,
    /// What its packets since then stand for: bytes, frames ...
    pub value: f64,
    /// Samples, since it began.
    pub samples: u32,
}

impl Flows {
    /// A shard without definitions, for so many flows.
    pub fn new(limit: usize, lookups: Arc<Lookups>) -> Flows {
        Flows { limit, lookups, ..Flows::default() }
    }

    /// Groups, GeoIP and AS files from now on. Flows that were counted with the old ones stay until they expire.
    pub fn set_lookups(&mut self, lookups: Arc<Lookups>) {
        self.lookups = lookups;
    }

    /// Counts flows by a definition from now on. One of the same name is replaced, unless it says the same: then its flows stay.
    pub fn define(&mut self, name: &str, checked: Arc<Checked>, now: f64) {
        let before = self.definitions.iter().position(|compiled| compiled.name == name);
        match before {
            Some(at) if self.definitions[at].checked.definition == checked.definition => return,
            Some(at) => drop(self.definitions.remove(at)),
            None => {}
        }
        let clock = self.clock(checked.definition.t, now);
        let compiled = Compiled::new(name, checked, clock, now);
        self.definitions.insert(before.unwrap_or(self.definitions.len()), compiled);
        self.compile();
    }

    /// Forgets a definition with its flows; whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.definitions.len();
        self.definitions.retain(|compiled| compiled.name != name);
        self.compile();
        self.definitions.len() < before
    }

    /// From now on [`Flows::settle`] shows flows of these definitions, and of no others.
    pub fn watch(&mut self, is_watched: impl Fn(&str) -> bool) {
        self.definitions.iter_mut().for_each(|compiled| compiled.watched = is_watched(&compiled.name));
    }

    /// Gathers a packet that stands for `weight` frames: it counts when it is settled, before anything else is asked or changed. Definitions with
    /// `dropped` count packets that devices dropped, the others samples. `now` is in seconds, of a clock that starts near 0 and never goes back;
    /// `source` is the place of its data source, a small number that no other one has, until [`Flows::forget`]; `number` what [`Flows::settle`]
    /// calls the packet.
    pub fn gather(&mut self, now: f64, weight: f64, packet: &Packet<'_>, source: u32, number: usize) {
        if self.definitions.is_empty() || !(weight > 0.0 && weight.is_finite()) {
            return;
        }
        for (instant, clock) in self.instants.iter_mut().zip(&mut self.clocks) {
            *instant = clock.advance(now);
        }
        self.sources.count(source, packet, now, &self.instants);
        self.batch.begin(now, Gathered { source, number });
        self.memory.begin(&self.plan);
        let mut evaluation = Evaluation { plan: &self.plan, lookups: &self.lookups, packet, memory: &mut self.memory };
        let first = self.batch.pending.len();
        for &definition in self.candidates.of(packet) {
            self.definitions[definition as usize].measure(definition, &mut evaluation, weight, &mut self.batch);
        }
        for number in first..self.batch.pending.len() {
            let (long, _) = self.batch.rest(number);
            let pending = &self.batch.pending[number];
            let table = &self.definitions[pending.definition as usize].table;
            let hash = table.hash(source, pending.key, long);
            table.foresee(hash);
            self.batch.pending[number].hash = hash;
        }
    }

    /// Whether so much was gathered that it is time to settle it.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.batch.is_full()
    }

    /// Asks for what is known of a data source, of which a packet will be gathered soon.
    #[inline]
    pub fn foresee(&self, source: u32) {
        self.sources.foresee(source);
    }

    /// Counts the packets that were gathered, in their order, and shows each flow that one of them belongs to, as it is then: of
    /// definitions that are watched, with the packet's number and the definition's name.
    pub fn settle(&mut self, mut show: impl FnMut(usize, &str, &Flow<'_>)) {
        for pending in &mut self.batch.pending {
            pending.guess = self.definitions[pending.definition as usize].table.guess(pending.hash);
        }
        let reserved = self.limit / 2 / self.definitions.len().max(1);
        let now = self.batch.now;
        for (place, one) in self.batch.pending.iter().enumerate() {
            let Gathered { source, number } = self.batch.packet(one);
            let (long, further) = self.batch.rest(place);
            let compiled = &mut self.definitions[one.definition as usize];
            let at = self.instants[compiled.clock];
            let update = Update { source, key: one.key, long, amount: one.amount, further, now, at };
            let room = self.used_beyond < self.limit / 2;
            let limit = if room { usize::MAX } else { reserved };
            let before = compiled.table.len();
            let place = compiled.table.add(one.hash, one.guess, &update, limit);
            let after = compiled.table.len();
            self.used_beyond = self.used_beyond + after.saturating_sub(reserved) - before.saturating_sub(reserved);
            if compiled.watched
                && let Some(place) = place
            {
                let scale = self.clocks[compiled.clock].rate(now, compiled.start);
                let scan = Scan { compiled: &*compiled, sources: &self.sources, at, now, scale, sampling: None };
                scan.show(place, |flow| show(number, &compiled.name, flow));
            }
        }
        self.batch.clear();
    }

    /// Forgets what has been silent for the active timeout, in a hundredth of the places; to be called some twenty times a second.
    pub fn tick(&mut self, now: f64) {
        for compiled in &mut self.definitions {
            compiled.table.expire(now, compiled.table.places().div_ceil(TICKS));
        }
        self.share_out();
    }

    /// Forgets everything of data sources whose places will be given to others. It looks at all flows: tell many at once.
    pub fn forget(&mut self, gone: &[u32]) {
        self.sources.forget(gone);
        let sources = &self.sources;
        self.definitions
            .iter_mut()
            .for_each(|compiled| compiled.table.forget(|source| sources.last(source).is_infinite()));
        self.share_out();
    }

    /// What there is to tell of flows of definitions with `log`, since the last time.
    pub fn take_records(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        for compiled in &mut self.definitions {
            for told in compiled.table.take_told() {
                let Some((agent, source)) = self.sources.get(told.source) else { continue };
                records.push(Record {
                    name: compiled.name.clone(),
                    agent,
                    source,
                    key: compiled.checked.show(&told.key),
                    first: told.first,
                    last: told.last,
                    value: told.total,
                    samples: told.samples,
                });
            }
        }
        records
    }

    /// By name of the definition: its flows, and how many others were evicted or refused.
    pub fn turnover(&self) -> impl Iterator<Item = (&str, usize, u64)> {
        self.definitions.iter().map(|compiled| (compiled.name.as_str(), compiled.table.len(), compiled.table.evicted))
    }

    /// The clock of a time constant; the same for the same.
    fn clock(&mut self, t: f64, now: f64) -> usize {
        if let Some(at) = self.clocks.iter().position(|clock| clock.time_constant() == t) {
            return at;
        }
        let clock = Clock::new(t, now);
        let in_use = |at: usize| self.definitions.iter().any(|compiled| compiled.clock == at);
        if let Some(at) = (0..self.clocks.len()).find(|&at| !in_use(at)) {
            (self.instants[at], self.clocks[at]) = (clock.instant(now), clock);
            self.sources.reset_clock(at);
            return at;
        }
        self.instants.push(clock.instant(now));
        self.clocks.push(clock);
        self.sources.set_clocks(self.clocks.len());
        self.clocks.len() - 1
    }

    /// Makes one plan of all definitions. Nothing waits to be settled: places of definitions change.
    fn compile(&mut self) {
        let mut plan = Plan::default();
        self.definitions.iter_mut().for_each(|compiled| compiled.compile(&mut plan));
        self.plan = plan;
        // What it knows is of the patterns that were.
        self.memory = Memory::default();
        self.candidates = Candidates::new(self.definitions.iter().map(|compiled| &*compiled.checked));
        self.share_out();
    }

    /// Counts anew what goes beyond each definition's certain share.
    fn share_out(&mut self) {
        let reserved = self.limit / 2 / self.definitions.len().max(1);
        self.used_beyond = self.definitions.iter().map(|compiled| compiled.table.len().saturating_sub(reserved)).sum();
    }
}

/// Ticks in which all places are looked at: five seconds.
const TICKS: usize = 100;

/// Every key with what it says, for `/flowkeys` and the documentation.
pub fn keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    field::Field::all()
}

/// Every function of keys, with how it is written.
pub fn functions() -> impl Iterator<Item = (&'static str, &'static str)> {
    expression::FUNCTIONS.into_iter()
}
