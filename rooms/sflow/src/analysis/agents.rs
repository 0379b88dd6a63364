//! Questions about agents and their counters.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use weir_wire::sflow::DataSource;

use super::age;
use crate::agents::Agent;
use crate::api::{self, Measure, STALE};
use crate::counters::{Counters, Metric, Missed, Reading, Reason, stale_after};
use crate::sampling::Discards;
use crate::shard::{Now, Shard, Shards};

/// What is known of one: of all its sub-agents together.
pub(super) fn agent(shards: &Shards, address: IpAddr) -> Option<api::Agent> {
    let now = Now::read();
    shards.of(address, |shard| {
        let mut told = None;
        let nothing = || api::Agent { last_seen: Duration::MAX, stale: true, ..api::Agent::unknown() };
        shard.agents_at(address).for_each(|one| add(told.get_or_insert_with(nothing), shard, one, now));
        told
    })
}

/// Adds what is known of a sub-agent.
fn add(told: &mut api::Agent, shard: &Shard, agent: &Agent, now: Now) {
    let (ledger, silence, streams) = (agent.ledger(), age(now, agent.heard), agent.streams());
    let uptime = streams.iter().map(|stream| u64::from(stream.uptime())).max().unwrap_or(0);
    told.first_seen = told.first_seen.max(age(now, agent.since));
    told.last_seen = told.last_seen.min(silence);
    told.uptime = told.uptime.max(Duration::from_millis(uptime));
    told.host = told.host.take().or_else(|| shard.name(&agent.identity).map(str::to_owned));
    told.streams += streams.len() as u64;
    for peer in agent.peers().iter().map(IpAddr::to_canonical) {
        if !told.sources.contains(&peer) {
            told.sources.push(peer);
        }
    }
    told.datagrams_received += ledger.datagrams;
    told.datagrams_lost += ledger.sequence.lost;
    told.datagrams_out_of_order += ledger.sequence.late;
    told.datagrams_duplicates += ledger.sequence.duplicates;
    told.restarts += ledger.restarts;
    let mut polling = None;
    let mut told_of: BTreeMap<DataSource, Vec<&Counters>> = BTreeMap::new();
    for (id, source) in shard.sources_of(agent) {
        polling = polling.into_iter().chain(source.counters.polling()).reduce(f64::max);
        told.flow.add(source.sampler.ledger(), source.sampler.dropped());
        if source.sampler.ledger().received > 0 {
            thinnest(told, source.sampler.nominal_rate(), source.sampler.effective_rate());
        }
        if let Some(sampler) = source.drops.as_deref().map(Discards::sampler) {
            told.notification.add(sampler.ledger(), sampler.dropped());
        }
        if !source.counters.blocks().is_empty() {
            told.counter.sources += 1;
            told.counter.samples += source.counted;
            let Missed { lost, duplicates, late } = source.counters.missed();
            told.counter.lost += u64::from(lost);
            told.counter.duplicates += u64::from(duplicates);
            told.counter.out_of_order += u64::from(late);
            if streams.len() > 1 {
                told_of.entry(id).or_default().push(&source.counters);
            }
        }
    }
    told.shared += told_of.values().filter(|all| Counters::are_shared(all)).count() as u64;
    told.stale &= silence.as_secs_f64() > stale_after(polling);
}

/// Of the data sources, the one of whose samples most are missing is told.
fn thinnest(told: &mut api::Agent, nominal: u32, effective: f64) {
    let thinned = |nominal: u32, effective: f64| effective / f64::from(nominal.max(1));
    let known = told.sampling_rate.zip(told.effective_sampling_rate);
    if nominal > 0 && known.is_none_or(|(rate, packets)| thinned(nominal, effective) > thinned(rate, packets)) {
        (told.sampling_rate, told.effective_sampling_rate) = (Some(nominal), Some(effective));
    }
}

/// Whether nothing came from an address for three polling intervals.
pub(super) fn is_silent(shard: &Shard, address: IpAddr, now: Now) -> bool {
    shard.agents_at(address).all(|agent| {
        let pollings = shard.sources_of(agent).filter_map(|(_, source)| source.counters.polling());
        age(now, agent.heard).as_secs_f64() > stale_after(pollings.reduce(f64::max))
    })
}

/// What an agent's data sources have of a metric, in their order. Of several streams with the same source it is the newest's, unless
/// another one goes on beside it: then nobody knows whose it would be.
pub(super) fn measures(shards: &Shards, address: IpAddr, metric: &str, visit: &mut dyn FnMut(Measure<'_>)) {
    let Some(metric) = Metric::find(metric) else { return };
    let now = Now::read();
    shards.of(address, |shard| {
        let mut found = Vec::new();
        for agent in shard.agents_at(address) {
            let host = shard.name(&agent.identity);
            for (source, state) in shard.sources_of(agent) {
                if let Some(reading) = state.counters.read(metric, now.nanos) {
                    let ifname = shard.interface(&agent.identity, source.index);
                    found.push(Found { source, reading, counters: &state.counters, host, ifname });
                }
            }
        }
        found.sort_by_key(|found| (found.source, found.reading.map_or(u64::MAX, |reading| reading.age)));
        for streams in found.chunk_by(|a, b| a.source == b.source) {
            let Found { source, reading, host, ifname, .. } = streams[0];
            let is_shared = Counters::are_shared(&streams.iter().map(|one| one.counters).collect::<Vec<_>>());
            let value = match reading {
                // Nobody knows whose it would be.
                _ if is_shared => Err("shared"),
                Err(reason) => Err(reason.name()),
                Ok(reading) if reading.stale => Err(STALE),
                Ok(reading) => Ok(reading.value.into()),
            };
            let (age, interval) = reading.map_or((0, 0.0), |reading| (reading.age, reading.interval));
            let interval = (interval > 0.0).then(|| Duration::from_secs_f64(interval));
            visit(Measure { source, value, age: Duration::from_nanos(age), interval, host, ifname });
        }
    });
}

/// What one stream has of a data source.
#[derive(Clone, Copy)]
struct Found<'a> {
    source: DataSource,
    reading: Result<Reading<'a>, Reason>,
    counters: &'a Counters,
    host: Option<&'a str>,
    ifname: Option<&'a str>,
}
