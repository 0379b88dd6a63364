//! The analysis, in as many parts as there are workers: an agent and all that is known of it is in one.
//!
//! ```text
//! worker: batch -> Shards::work -> Shard::datagram: agents -> sampling -> flows ----> thresholds -> events
//! REST, ledger: Shards::of, slice by slice            \-> counters ------------------^
//! control: Shards::tick, Shards::expire, Definitions
//! ```

mod definitions;
mod kept;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::api::CompletedFlow;
use crate::collector::STEERING;
use crate::config::Settings;
use crate::events::{EVENTS, Event, Log};
use crate::flows::Record;
use definitions::Held;

pub(crate) use definitions::Put;
pub use definitions::{Life, Names, Refusal};
pub use weir_flows::shard::{Kept, Now, Offenders, SLICE, Shard, Source, Statistics, Table, Tally};

/// The analysis: what workers put into it and readers ask of it.
#[derive(Debug)]
pub struct Shards {
    /// Each with a lock that is handed to whoever waits after half a millisecond at most: a worker takes it batch after batch, and readers in slices
    /// well below a millisecond.
    shards: Vec<Mutex<Shard>>,
    events: Arc<Log<Event>>,
    completed: Log<CompletedFlow>,
    /// When the clock of flows began.
    start: Now,
    /// What is defined, by the configuration and at run time.
    held: std::sync::Mutex<Held>,
    /// Flow definitions at most.
    definitions: usize,
}

impl Shards {
    /// Empty ones, as many as there are workers.
    pub fn new(settings: &Settings, names: Names) -> Self {
        let (events, start) = (Arc::new(Log::new(EVENTS)), Now::read());
        let held = Held::new(names);
        let (limits, workers) = (&settings.config.limits, settings.carrier.workers);
        let shard = |number| Mutex::new(Shard::new(limits, (number, workers), held.lookups(), events.clone(), start));
        let shards = (0..workers).map(shard).collect();
        let (held, definitions) = (std::sync::Mutex::new(held), limits.definitions);
        let shards = Self { shards, events, completed: Log::new(EVENTS), start, held, definitions };
        shards.configure(None, settings);
        shards
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.shards.len()
    }

    /// A worker's turn at one.
    pub fn work(&self, number: usize) -> MutexGuard<'_, Shard> {
        self.shards[number].lock()
    }

    /// A reader's turn at the one that an agent belongs to.
    pub fn of<R>(&self, agent: IpAddr, slice: impl FnOnce(&mut Shard) -> R) -> R {
        self.at(self.number(agent), slice)
    }

    /// Tells a room that protects from now on, by an outlet a shard.
    pub fn protect(&self, outlets: Vec<weir_protect::room::Outlet>) {
        self.shards.iter().zip(outlets).for_each(|(shard, outlet)| shard.lock().protect(outlet));
    }

    /// Tells it of packets to other networks from now on, and takes agents to speak from elsewhere.
    pub fn protect_others(&self, networks: &[ipnet::IpNet], listed: &Arc<weir_detect::queue::Listed>) {
        self.each(|shard| shard.protect_others(networks, listed.clone())).for_each(drop);
    }

    /// A reader's turn at each.
    pub fn each<R>(&self, slice: impl Fn(&mut Shard) -> R) -> impl Iterator<Item = R> {
        self.shards.iter().map(move |shard| slice(&mut shard.lock()))
    }

    /// A reader's turn at the one of this number.
    pub fn at<R>(&self, number: usize, slice: impl FnOnce(&mut Shard) -> R) -> R {
        slice(&mut self.shards[number].lock())
    }

    /// Threshold crossings.
    pub fn events(&self) -> &Log<Event> {
        &self.events
    }

    /// Completed flows, of definitions with `log`.
    pub(crate) fn completed(&self) -> &Log<CompletedFlow> {
        &self.completed
    }

    /// When flows were first counted: their times are seconds since.
    pub fn start(&self) -> Now {
        self.start
    }

    /// What is in the tables.
    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        self.each(|shard| shard.statistics()).for_each(|one| sum.absorb(one));
        sum
    }

    /// Those who send most of what is malformed, most first, at most so many.
    pub fn offenders(&self, most: usize) -> Vec<(IpAddr, u64)> {
        let mut sum: BTreeMap<IpAddr, u64> = BTreeMap::new();
        // Bounded, and copied before it is added up.
        for counts in self.each(|shard| shard.offenders().iter().collect::<Vec<_>>()) {
            counts.into_iter().for_each(|(who, count)| *sum.entry(who).or_default() += count);
        }
        let mut sum: Vec<_> = sum.into_iter().collect();
        sum.sort_by_key(|&(who, count)| (std::cmp::Reverse(count), who));
        sum.truncate(most);
        sum
    }

    /// What is due some twenty times a second; flows of definitions with `log` that there is something to tell of, each with
    /// its agent.
    pub fn tick(&self, now: Now) -> Vec<(IpAddr, Record)> {
        let tick = |shard: &mut Shard| {
            let records = shard.tick(now);
            let address = |record: Record| Some((shard.directory().address(record.agent)?, record));
            records.into_iter().filter_map(address).collect::<Vec<_>>()
        };
        self.each(tick).flatten().collect()
    }

    /// Forgets who has been silent for long: every second a part, in slices that hold up nobody.
    pub fn expire(&self, now: Now) {
        for shard in &self.shards {
            let due = shard.lock().due();
            for _ in 0..due.div_ceil(SLICE) {
                shard.lock().expire(now, SLICE);
            }
        }
    }

    /// Which an agent belongs to: as its datagrams do.
    fn number(&self, agent: IpAddr) -> usize {
        let mut header = [0; 24];
        match agent {
            IpAddr::V4(v4) => {
                header[7] = 1;
                header[8..12].copy_from_slice(&v4.octets());
            }
            IpAddr::V6(v6) => {
                header[7] = 2;
                header[8..].copy_from_slice(&v6.octets());
            }
        }
        STEERING.choose(&header, self.shards.len() as u32) as usize
    }
}
