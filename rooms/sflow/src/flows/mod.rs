//! Flows: who talks to whom, by keys that the user chooses, as live rates.
//!
//! ```text
//! Definition -> Checked -> compiled into the Plan of each shard
//!                               |
//! Packet: headers, records ---> Evaluation: filter, then keys; what definitions share is worked out once
//!                               |
//!                               v  one addition, one lookup
//!                          Table of each definition: (data source, key) -> smoothed rate, interval
//!                               |
//!                               v  in slices, under the shard's lock
//!                          Ranking: the largest, over agents and shards
//! ```

mod decay;
mod definition;
mod distinct;
mod ends;
mod estimate;
mod expression;
mod field;
mod filter;
mod kind;
mod needs;
mod packet;
mod plan;
mod ranking;
mod seen;
mod sources;
mod syntax;
mod table;
mod value;
mod values;
mod view;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use definition::{AggMode, Checked, Definition, Mistake};
pub use distinct::Distinct;
pub use ends::Ends;
pub use estimate::{Estimate, Moments, Precision, Sampling, Trust};
pub use needs::{Known, Need};
pub use packet::Packet;
pub use ranking::{Ranked, Ranking};
pub use seen::Seen;
pub use syntax::Syntax;
pub use table::Turnover;
pub use value::{MAX_TEXT, Part, Parts};
pub use view::{Flow, Scan};
use weir_wire::sflow::DataSource;

use crate::names::{AgentId, Lookups};
use decay::{Clock, Instant};
use plan::{Condition, Evaluation, Memory, Node, Plan};
use sources::Sources;
use table::{Table, Telling, Update};
use values::Kind;

/// Bounds of what one shard keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Definitions.
    pub definitions: usize,
    /// Flows of one definition.
    pub flows_per_definition: usize,
    /// Flows of all definitions. Half of them are shared out among the definitions for certain, half goes to who needs it.
    pub flows: usize,
    /// Data sources. Packets of further ones are not counted, until one has been silent for a while.
    pub sources: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { definitions: 200, flows_per_definition: 1_000_000, flows: 4_000_000, sources: 1_000_000 }
    }
}

/// Why a definition was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} definitions of flows: remove one first")]
pub struct TooMany(usize);

/// All flows of a shard.
#[derive(Debug)]
pub struct Flows {
    limits: Limits,
    lookups: Arc<Lookups>,
    definitions: Vec<Compiled>,
    plan: Plan,
    memory: Memory,
    sources: Sources,
    clocks: Vec<Clock>,
    /// Instants of the clocks, for the packet at hand.
    instants: Vec<Instant>,
    pending: Vec<Pending>,
    /// Keys of what is pending, one behind the other.
    keys: Vec<u8>,
    /// Further values, likewise.
    further: Vec<f64>,
    /// Flows beyond the certain shares of their definitions.
    used_beyond: usize,
    /// Whose flows are looked at next.
    next_to_expire: usize,
    refused: u64,
}

/// A definition in a shard.
#[derive(Debug)]
struct Compiled {
    name: String,
    checked: Arc<Checked>,
    condition: Option<Condition>,
    keys: Vec<Node>,
    columns: Vec<(Node, Kind)>,
    clock: usize,
    /// When it began to count.
    start: f64,
    /// Whether somebody wants to see its flows as they change.
    watched: bool,
    table: Table,
}

/// What the packet at hand adds to a definition's flow.
#[derive(Clone, Copy, Debug)]
struct Pending {
    definition: usize,
    /// Where its key begins.
    key: usize,
    /// Where its further values begin.
    further: usize,
    amount: f64,
    hash: u64,
    /// Where it may be, in its table.
    guess: u32,
    /// Where it is; `None`: it is new.
    found: Option<usize>,
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
    /// A shard without definitions.
    pub fn new(limits: Limits, lookups: Arc<Lookups>) -> Flows {
        Flows {
            limits,
            lookups,
            definitions: Vec::new(),
            plan: Plan::default(),
            memory: Memory::default(),
            sources: Sources::default(),
            clocks: Vec::new(),
            instants: Vec::new(),
            pending: Vec::new(),
            keys: Vec::new(),
            further: Vec::new(),
            used_beyond: 0,
            next_to_expire: 0,
            refused: 0,
        }
    }

    /// Groups, GeoIP and AS files from now on. Flows that were counted with the old ones stay until they expire.
    pub fn set_lookups(&mut self, lookups: Arc<Lookups>) {
        self.lookups = lookups;
    }

    /// Counts flows by a definition from now on. One of the same name is replaced, unless it says the same: then its flows stay.
    ///
    /// # Errors
    /// There are as many definitions as the limits permit.
    pub fn define(&mut self, name: &str, checked: Arc<Checked>, now: f64) -> Result<(), TooMany> {
        let before = self.definitions.iter().position(|compiled| compiled.name == name);
        match before {
            Some(at) if self.definitions[at].checked.definition == checked.definition => return Ok(()),
            Some(at) => drop(self.definitions.remove(at)),
            None if self.definitions.len() >= self.limits.definitions => return Err(TooMany(self.limits.definitions)),
            None => {}
        }
        let clock = self.clock(checked.definition.t, now);
        let compiled = Compiled::new(name, checked, clock, now);
        self.definitions.insert(before.unwrap_or(self.definitions.len()), compiled);
        self.compile();
        Ok(())
    }

    /// Forgets a definition with its flows; whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.definitions.len();
        self.definitions.retain(|compiled| compiled.name != name);
        self.compile();
        self.definitions.len() < before
    }

    /// All definitions, in the order in which they came.
    pub fn definitions(&self) -> impl Iterator<Item = (&str, &Arc<Checked>)> {
        self.definitions.iter().map(|compiled| (compiled.name.as_str(), &compiled.checked))
    }

    /// Counts a packet that stands for `weight` frames. Definitions with `dropped` count packets that devices dropped, the others
    /// samples. `now` is in seconds, of a clock that starts near 0 and never goes back; numbers of agents are dense.
    pub fn observe(&mut self, now: f64, weight: f64, packet: &Packet<'_>) {
        self.observe_watched(now, weight, packet, |_, _| {});
    }

    /// From now on [`Flows::observe_watched`] shows flows of these definitions, and of no others.
    pub fn watch(&mut self, is_watched: impl Fn(&str) -> bool) {
        self.definitions.iter_mut().for_each(|compiled| compiled.watched = is_watched(&compiled.name));
    }

    /// The same as [`Flows::observe`], and shows the flow that the packet belongs to, as it is now: of each definition that is
    /// watched, with its name.
    pub fn observe_watched(
        &mut self,
        now: f64,
        weight: f64,
        packet: &Packet<'_>,
        mut show: impl FnMut(&str, &Flow<'_>),
    ) {
        if self.definitions.is_empty() || !(weight > 0.0 && weight.is_finite()) {
            return;
        }
        let Some(source) = self.sources.find(packet.agent, packet.source, now, self.limits.sources) else {
            self.refused += 1;
            return;
        };
        for (instant, clock) in self.instants.iter_mut().zip(&mut self.clocks) {
            *instant = clock.advance(now);
        }
        self.sources.count(source, packet.is_discarded(), &self.instants);
        self.memory.begin(&self.plan);
        let mut evaluation = Evaluation { plan: &self.plan, lookups: &self.lookups, packet, memory: &mut self.memory };
        let reserved = self.limits.flows / 2 / self.definitions.len();
        self.pending.clear();
        self.keys.clear();
        self.further.clear();
        for (definition, compiled) in self.definitions.iter().enumerate() {
            if compiled.checked.definition.dropped != packet.is_discarded() {
                continue;
            }
            let (key, further) = (self.keys.len(), self.further.len());
            match compiled.measure(&mut evaluation, weight, &mut self.keys, &mut self.further) {
                Some(amount) => {
                    let hash = compiled.table.hash(source, &self.keys[key..]);
                    self.pending.push(Pending { definition, key, further, amount, hash, guess: 0, found: None });
                }
                None => {
                    self.keys.truncate(key);
                    self.further.truncate(further);
                }
            }
        }
        self.find(source);
        for number in 0..self.pending.len() {
            let Pending { definition, key, further, amount, hash, found, .. } = self.pending[number];
            let next = self.pending.get(number + 1);
            let compiled = &mut self.definitions[definition];
            let at = self.instants[compiled.clock];
            let key = &self.keys[key..next.map_or(self.keys.len(), |next| next.key)];
            let further = &self.further[further..next.map_or(self.further.len(), |next| next.further)];
            let update = Update { source, key, amount, further, now, at };
            let room = self.used_beyond < self.limits.flows / 2;
            let limit = if room { self.limits.flows_per_definition } else { reserved };
            let before = compiled.table.len();
            let place = compiled.table.add(hash, found, &update, limit.min(self.limits.flows_per_definition));
            let after = compiled.table.len();
            self.used_beyond = self.used_beyond + after.saturating_sub(reserved) - before.saturating_sub(reserved);
            if compiled.watched
                && let Some(place) = place
            {
                let scale = self.clocks[compiled.clock].rate(now, compiled.start);
                let scan = Scan { compiled: &*compiled, sources: &self.sources, at, now, scale, sampling: None };
                scan.show(place, |flow| show(&compiled.name, flow));
            }
        }
    }

    /// Looks for all flows of a packet: first for the slots of all, then at the places of all. So what is not in the processor's
    /// cache comes at the same time.
    #[inline]
    fn find(&mut self, source: u32) {
        for pending in &mut self.pending {
            pending.guess = self.definitions[pending.definition].table.guess(pending.hash);
        }
        let mut end = self.keys.len();
        for pending in self.pending.iter_mut().rev() {
            let key = &self.keys[pending.key..end];
            let table = &self.definitions[pending.definition].table;
            pending.found = table.find(pending.hash, pending.guess, source, key);
            end = pending.key;
        }
    }

    /// Forgets what has been silent, looking at up to so many flows; to be called some twenty times a second, since flows of
    /// a definition that no packet meets any more are looked at only here.
    pub fn tick(&mut self, now: f64, flows: usize) {
        if self.definitions.is_empty() {
            return;
        }
        let longest = self.definitions.iter().map(|compiled| compiled.checked.definition.active_timeout);
        let longest = longest.fold(0.0, f64::max);
        self.next_to_expire = (self.next_to_expire + 1) % self.definitions.len();
        self.definitions[self.next_to_expire].table.expire(now, flows);
        // By then its flows are gone, too.
        let definitions = &mut self.definitions;
        self.sources.expire(now - 2.0 * longest - 60.0, |gone| {
            definitions.iter_mut().for_each(|compiled| compiled.table.forget(|source| source == gone));
        });
        self.share_out();
    }

    /// Forgets everything of agents whose numbers will be given to others. It looks at all flows: tell many at once.
    pub fn forget(&mut self, agents: &[AgentId]) {
        let gone = self.sources.remove(agents);
        for compiled in &mut self.definitions {
            compiled.table.forget(|source| gone.contains(&source));
        }
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

    /// By name of the definition: its flows, and what became of others.
    pub fn turnover(&self) -> impl Iterator<Item = (&str, usize, Turnover)> {
        self.definitions.iter().map(|compiled| (compiled.name.as_str(), compiled.table.len(), compiled.table.turnover))
    }

    /// Packets of data sources for which there was no room.
    pub fn refused(&self) -> u64 {
        self.refused
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

    /// Makes one plan of all definitions.
    fn compile(&mut self) {
        let mut plan = Plan::default();
        for compiled in &mut self.definitions {
            let checked = Arc::clone(&compiled.checked);
            compiled.condition = checked.filter.as_ref().map(|filter| plan.condition(filter));
            compiled.keys = plan.nodes(&checked.keys);
            compiled.columns = checked.columns.iter().map(|column| (plan.node(&column.of), column.kind)).collect();
        }
        self.plan = plan;
        self.share_out();
    }

    /// Counts anew what goes beyond each definition's certain share.
    fn share_out(&mut self) {
        let reserved = self.limits.flows / 2 / self.definitions.len().max(1);
        self.used_beyond = self.definitions.iter().map(|compiled| compiled.table.len().saturating_sub(reserved)).sum();
    }
}

impl Compiled {
    fn new(name: &str, checked: Arc<Checked>, clock: usize, start: f64) -> Compiled {
        let definition = &checked.definition;
        let telling = match (definition.log, definition.flow_start) {
            (false, _) => Telling::Never,
            (true, true) => Telling::AtStart,
            (true, false) => Telling::AtEnd,
        };
        let table = Table::new(checked.further(), definition.active_timeout, telling);
        Compiled {
            name: name.to_owned(),
            table,
            checked,
            condition: None,
            keys: Vec::new(),
            columns: Vec::new(),
            clock,
            start,
            watched: false,
        }
    }

    /// Works out key and values of a packet, behind what is there; `None`: it is none of this definition's, or lacks a key or the
    /// value.
    fn measure(
        &self,
        evaluation: &mut Evaluation<'_, '_>,
        weight: f64,
        key: &mut Vec<u8>,
        further: &mut Vec<f64>,
    ) -> Option<f64> {
        if self.condition.as_ref().is_some_and(|condition| !evaluation.meets(condition)) {
            return None;
        }
        for node in &self.keys {
            let value = evaluation.value(*node);
            if value.is_null() {
                return None;
            }
            value.encode(&evaluation.memory.scratch, key);
        }
        let mut first = None;
        for (at, (node, kind)) in self.columns.iter().enumerate() {
            let value = evaluation.value(*node).number().map(|number| number as f64 * weight);
            match at {
                0 => first = Some(value?),
                _ => further.push(value.unwrap_or(0.0)),
            }
            if *kind == Kind::Average {
                further.push(if value.is_some() { weight } else { 0.0 });
            }
        }
        first
    }
}

impl Checked {
    /// Sums besides the first: one a further value, one more an average.
    fn further(&self) -> usize {
        let averages = self.columns.iter().filter(|column| column.kind == Kind::Average).count();
        self.columns.len().saturating_sub(1) + averages
    }

    /// A key as it is shown: its parts with `fs` between them.
    pub fn show(&self, key: &[u8]) -> String {
        let parts: Vec<String> = Parts(key).map(|part| part.to_string()).collect();
        parts.join(&self.definition.fs)
    }
}

/// Every key with what it says, for `/flowkeys` and the documentation.
pub fn keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    field::Field::all()
}

/// Every function of keys, with how it is written.
pub fn functions() -> impl Iterator<Item = (&'static str, &'static str)> {
    expression::FUNCTIONS.into_iter()
}
