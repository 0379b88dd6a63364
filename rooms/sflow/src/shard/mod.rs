//! The analysis, in as many parts as there are workers: an agent and all that is known of it is in one.
//!
//! ```text
//! worker: batch -> Shards::work -> Shard::datagram: agents -> sampling -> flows -> thresholds -> events
//! REST, ledger: Shards::read, slice by slice          \-> counters ----------^
//! ```

mod allowed;
mod clock;
mod offenders;
mod part;
mod statistics;
mod tally;
mod turnstile;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::MutexGuard;

use crate::collector::STEERING;
use crate::settings::Settings;
use part::SLICE;
use turnstile::Turnstile;

pub use clock::Now;
pub use part::Shard;
pub use statistics::{Statistics, Table};
pub use tally::Tally;

/// The analysis: what workers put into it and readers ask of it.
#[derive(Debug)]
pub struct Shards {
    shards: Vec<Turnstile<Shard>>,
}

impl Shards {
    /// Empty ones, as many as there are workers.
    pub fn new(settings: &Settings) -> Self {
        let workers = settings.carrier.workers;
        let shard = |_| Turnstile::new(Shard::new(settings, settings.limits.share(workers)));
        Self { shards: (0..workers).map(shard).collect() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.shards.len()
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// A worker's turn at one.
    pub fn work(&self, number: usize) -> MutexGuard<'_, Shard> {
        self.shards[number].work()
    }

    /// A reader's turn at the one that an agent belongs to.
    pub fn of<R>(&self, agent: IpAddr, slice: impl FnOnce(&mut Shard) -> R) -> R {
        self.shards[self.number(agent)].read(slice)
    }

    /// Goes over to other settings; what is known stays.
    pub fn adopt(&self, settings: &Settings) {
        self.shards.iter().for_each(|shard| shard.read(|shard| shard.adopt(settings)));
    }

    /// What is in the tables.
    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        self.shards.iter().for_each(|shard| sum.absorb(shard.read(|shard| shard.statistics())));
        sum
    }

    /// Those who send most of what is malformed, most first, at most so many.
    pub fn offenders(&self, most: usize) -> Vec<(IpAddr, u64)> {
        let mut sum: BTreeMap<IpAddr, u64> = BTreeMap::new();
        for shard in &self.shards {
            // Bounded, and copied before it is added up.
            let counts: Vec<_> = shard.read(|shard| shard.offenders().iter().collect());
            counts.into_iter().for_each(|(who, count)| *sum.entry(who).or_default() += count);
        }
        let mut sum: Vec<_> = sum.into_iter().collect();
        sum.sort_by_key(|&(who, count)| (std::cmp::Reverse(count), who));
        sum.truncate(most);
        sum
    }

    /// Forgets who has been silent for long: every second a part, in slices that hold up nobody.
    pub fn expire(&self, now: Now) {
        for shard in &self.shards {
            let due = shard.read(|shard| shard.due());
            for _ in 0..due.div_ceil(SLICE) {
                shard.read(|shard| shard.expire(now, SLICE));
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
