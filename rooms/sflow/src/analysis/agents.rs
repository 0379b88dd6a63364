//! Questions about agents and their counters.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use weir_wire::sflow::DataSource;

use super::age;
use crate::agents::Agent;
use crate::api::{self, Absent, Measure, Measured};
use crate::counters::{Counters, Metric, Missed, Number, Reading, Reason, stale_after};
use crate::sampling::Discards;
use crate::shard::{Now, Shard, Shards};

/// All of them, in ascending order.
pub(super) fn addresses(shards: &Shards) -> Vec<IpAddr> {
    let mut all = Vec::new();
    for number in 0..shards.len() {
        let mut behind = None;
        loop {
            let slice = shards.at(number, |shard| shard.addresses(behind, SLICE));
            behind = slice.last().copied();
            all.extend_from_slice(&slice);
            if slice.len() < SLICE {
                break;
            }
        }
    }
    all.sort_unstable();
    all
}

/// What is known of one: of all its sub-agents together.
pub(super) fn agent(shards: &Shards, address: IpAddr) -> Option<api::Agent> {
    let now = Now::read();
    shards.of(address, |shard| {
        let mut told = None;
        let nothing = || api::Agent { last_seen: Duration::MAX, stale: true, ..api::Agent::default() };
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
        let samples = source.sampler.ledger();
        if samples.received > 0 {
            told.flow_sources += 1;
            told.flow_samples += samples.received;
            told.flow_lost += samples.lost;
            told.flow_duplicates += samples.duplicates;
            told.flow_out_of_order += samples.late;
            told.flow_drops += source.sampler.dropped();
            thinnest(told, source.sampler.nominal_rate(), source.sampler.effective_rate());
        }
        if let Some(sampler) = source.drops.as_deref().map(Discards::sampler) {
            let drops = sampler.ledger();
            told.drop_sources += 1;
            told.drop_samples += drops.received;
            told.drop_lost += drops.lost;
            told.drop_duplicates += drops.duplicates;
            told.drop_out_of_order += drops.late;
            told.drop_drops += sampler.dropped();
        }
        if !source.counters.blocks().is_empty() {
            told.counter_sources += 1;
            told.counter_samples += source.counted;
            let Missed { lost, duplicates, late } = source.counters.missed();
            told.counter_lost += u64::from(lost);
            told.counter_duplicates += u64::from(duplicates);
            told.counter_out_of_order += u64::from(late);
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

/// Whose name this is.
pub(super) fn named(shards: &Shards, name: &str) -> Option<IpAddr> {
    for number in 0..shards.len() {
        let mut behind = None;
        loop {
            let (slice, found) = shards.at(number, |shard| {
                let slice = shard.addresses(behind, SLICE);
                let is_called = |address: &&IpAddr| {
                    shard.agents_at(**address).any(|agent| shard.name(&agent.identity) == Some(name))
                };
                let found = slice.iter().find(is_called).copied();
                (slice, found)
            });
            if found.is_some() {
                return found;
            }
            behind = slice.last().copied();
            if slice.len() < SLICE {
                break;
            }
        }
    }
    None
}

/// Metrics of the structures that have come, by name.
pub(super) fn metrics(shards: &Shards) -> Vec<(String, Duration)> {
    let now = Now::read();
    let seen: Vec<_> = shards.each(|shard| shard.seen().to_vec()).flatten().collect();
    let mut newest = BTreeMap::new();
    for metric in Metric::all() {
        let of = seen.iter().filter(|(structure, _)| structure.format == metric.structure.format);
        if let Some(last) = of.map(|(_, last)| *last).max() {
            newest.insert(metric.name.clone(), age(now, last));
        }
    }
    newest.into_iter().collect()
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
            let text;
            let value = match reading {
                _ if is_shared => Err(Absent::Shared),
                Err(reason) => Err(Absent::Reason(reason)),
                Ok(Reading { stale: true, .. }) => Err(Absent::Stale),
                Ok(Reading { value: Number::Number(number), .. }) => Ok(Measured::Number(number)),
                Ok(Reading { value: Number::Name(name), .. }) => Ok(Measured::Text(name)),
                Ok(Reading { value: Number::Text(bytes), .. }) => {
                    text = String::from_utf8_lossy(bytes);
                    Ok(Measured::Text(&text))
                }
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

/// Agents of one turn.
const SLICE: usize = 1024;
