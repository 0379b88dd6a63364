//! What is asked of a shard.

use std::net::IpAddr;

use weir_wire::sflow::{DataSource, Structure};

use super::{Now, Offenders, Shard, Source, Statistics, Table};
use crate::agents::{Agent, Identity};
use crate::flows::{Sampling, Scan, Trust};
use crate::names::Directory;
use crate::sampling::{Discards, Sampler};

impl Shard {
    /// What is in the tables.
    pub fn statistics(&self) -> Statistics {
        let (totals, watch) = (self.agents.totals(), &self.watching.watch);
        let table = |name, entries: usize, limit: usize, evicted| Table {
            name,
            entries: entries as u64,
            limit: limit as u64,
            evicted,
        };
        let (mut flows, mut evicted) = (0, 0);
        for (_, count, more) in self.flows.turnover() {
            flows += count;
            evicted += more;
        }
        let tables = vec![
            table("agents", self.agents.len(), self.limits.agents, totals.refused_agents),
            table("sources", self.agents.source_count(), self.limits.sources, totals.refused_sources),
            table("flows", flows, self.limits.flows, evicted),
            table("offenders", self.offenders.len(), self.limits.offenders, self.offenders.others()),
            table("crossings", watch.len(), watch.limit(), watch.evicted()),
        ];
        let missing = u64::try_from(self.missing).unwrap_or_default();
        Statistics { tally: self.tally.clone(), missing, tables, absent: self.reasons.absent().collect() }
    }

    /// Who sends what is malformed.
    pub fn offenders(&self) -> &Offenders {
        &self.offenders
    }

    /// Addresses of agents behind this one, in ascending order, at most so many.
    pub fn addresses(&self, behind: Option<IpAddr>, most: usize) -> Vec<IpAddr> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = behind.map_or(Unbounded, Excluded);
        self.addresses.range((from, Unbounded)).map(|(&address, _)| address).take(most).collect()
    }

    /// The agents behind an address: its sub-agents.
    pub fn agents_at(&self, address: IpAddr) -> impl Iterator<Item = &Agent> {
        let sub_agents = self.addresses.get(&address).map(Vec::as_slice).unwrap_or_default();
        sub_agents.iter().filter_map(move |&sub_agent| self.agents.agent(&Identity { address, sub_agent }))
    }

    /// What is known of an agent's data sources.
    pub fn sources_of<'a>(&'a self, agent: &'a Agent) -> impl Iterator<Item = (DataSource, &'a Source)> {
        self.agents.sources_of(agent).map(|source| (source.id.source, &source.state))
    }

    /// An agent's name, and that of one of its interfaces.
    pub fn name(&self, identity: &Identity) -> Option<&str> {
        self.names.name(self.names.id(self.agents.slot(identity)?))
    }

    /// As above.
    pub fn interface(&self, identity: &Identity, if_index: u32) -> Option<&str> {
        self.names.interface(self.names.id(self.agents.slot(identity)?), if_index)
    }

    /// Structures of counters that have come, and when each last did.
    pub fn seen(&self) -> &[(&'static Structure, u64)] {
        &self.names.seen
    }

    /// The flows of a definition, as they are now, and how sure they are; `None`: there is no such definition.
    pub fn scan(&self, name: &str, now: Now) -> Option<Scan<'_>> {
        Some(self.flows.scan(name, self.seconds(now))?.allowing_for(self))
    }

    /// How long ago each key was seen in a sample, s, in the order of [`crate::flows::keys`]; `None`: never.
    pub fn key_ages(&self, now: Now) -> Vec<Option<f64>> {
        let now = self.seconds(now);
        self.keys.last().iter().map(|last| last.map(|last| (now - last).max(0.0))).collect()
    }

    /// The addresses by which flows name their agents.
    pub fn directory(&self) -> &dyn Directory {
        &self.names
    }
}

impl Sampling for Shard {
    fn trust(&self, source: u32, dropped: bool) -> Option<Trust> {
        let known = self.agents.peek(source)?;
        let ways = match dropped {
            true => [known.drops.as_deref().map(Discards::sampler), None],
            false => [Some(&known.sampler), known.egress.as_deref()],
        };
        let heard = ways.into_iter().flatten().filter(|sampler| sampler.nominal_rate() > 0);
        let uneven = |trust: &Trust| trust.gaps.second / trust.gaps.mean.powi(2);
        // All dropped packets are counted, also those without a sample.
        let one = |sampler: &Sampler| Trust {
            gaps: sampler.gaps(),
            counted: dropped || sampler.counts_packets(),
            contradicted: known.contradicted && !dropped,
        };
        // The less certain way speaks for both.
        heard
            .map(one)
            .reduce(|a, b| Trust { counted: a.counted && b.counted, ..if uneven(&a) < uneven(&b) { b } else { a } })
    }
}
