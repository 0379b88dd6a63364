//! Questions about agents and their counters.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::age;
use crate::agents::Agent;
use crate::api::{self, Measure, Measured};
use crate::counters::{Metric, Number};
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
        let mut sum: Option<api::Agent> = None;
        for one in shard.agents_at(address) {
            let one = sub_agent(shard, one, now);
            sum = Some(match sum {
                None => one,
                Some(sum) => together(sum, one),
            });
        }
        sum
    })
}

fn sub_agent(shard: &Shard, agent: &Agent, now: Now) -> api::Agent {
    let ledger = agent.ledger();
    let silence = age(now, agent.heard);
    let mut told = api::Agent {
        first_seen: age(now, agent.since),
        last_seen: silence,
        uptime: Duration::from_millis(
            agent.streams().iter().map(|stream| u64::from(stream.uptime())).max().unwrap_or(0),
        ),
        host: shard.name(&agent.identity).map(str::to_owned),
        stale: silence > SILENT,
        sources: agent.peers().iter().map(IpAddr::to_canonical).collect(),
        datagrams_received: ledger.datagrams,
        datagrams_lost: ledger.sequence.lost,
        datagrams_out_of_order: ledger.sequence.late,
        datagrams_duplicates: ledger.sequence.duplicates,
        restarts: ledger.restarts,
        ..api::Agent::default()
    };
    for (_, source) in shard.sources_of(agent) {
        let samples = source.sampler.ledger();
        if samples.received > 0 {
            told.flow_sources += 1;
            told.flow_samples += samples.received;
            told.flow_lost += samples.lost;
            told.flow_duplicates += samples.duplicates;
            told.flow_out_of_order += samples.late;
            told.flow_drops += source.sampler.report().dropped;
            thinnest(&mut told, source.sampler.nominal_rate(), source.sampler.effective_rate());
        }
        let drops = source.drops.ledger();
        if drops.received > 0 {
            told.drop_sources += 1;
            told.drop_samples += drops.received;
            told.drop_lost += drops.lost;
            told.drop_duplicates += drops.duplicates;
            told.drop_out_of_order += drops.late;
            told.drop_drops += source.drops.report().dropped;
        }
        if !source.counters.blocks().is_empty() {
            told.counter_sources += 1;
            told.counter_samples += source.counted;
        }
    }
    told
}

/// Of the data sources, the one of whose samples most are missing is told.
fn thinnest(told: &mut api::Agent, nominal: u32, effective: f64) {
    let thinned = |nominal: u32, effective: f64| effective / f64::from(nominal.max(1));
    let known = told.sampling_rate.zip(told.effective_sampling_rate);
    if nominal > 0 && known.is_none_or(|(rate, packets)| thinned(nominal, effective) > thinned(rate, packets)) {
        (told.sampling_rate, told.effective_sampling_rate) = (Some(nominal), Some(effective));
    }
}

fn together(mut a: api::Agent, b: api::Agent) -> api::Agent {
    if let (Some(nominal), Some(effective)) = (b.sampling_rate, b.effective_sampling_rate) {
        thinnest(&mut a, nominal, effective);
    }
    for source in b.sources {
        if !a.sources.contains(&source) {
            a.sources.push(source);
        }
    }
    api::Agent {
        first_seen: a.first_seen.max(b.first_seen),
        last_seen: a.last_seen.min(b.last_seen),
        uptime: a.uptime.max(b.uptime),
        host: a.host.or(b.host),
        stale: a.stale && b.stale,
        sources: a.sources,
        datagrams_received: a.datagrams_received + b.datagrams_received,
        datagrams_lost: a.datagrams_lost + b.datagrams_lost,
        datagrams_out_of_order: a.datagrams_out_of_order + b.datagrams_out_of_order,
        datagrams_duplicates: a.datagrams_duplicates + b.datagrams_duplicates,
        restarts: a.restarts + b.restarts,
        sampling_rate: a.sampling_rate,
        effective_sampling_rate: a.effective_sampling_rate,
        flow_sources: a.flow_sources + b.flow_sources,
        flow_samples: a.flow_samples + b.flow_samples,
        flow_lost: a.flow_lost + b.flow_lost,
        flow_duplicates: a.flow_duplicates + b.flow_duplicates,
        flow_out_of_order: a.flow_out_of_order + b.flow_out_of_order,
        flow_drops: a.flow_drops + b.flow_drops,
        counter_sources: a.counter_sources + b.counter_sources,
        counter_samples: a.counter_samples + b.counter_samples,
        counter_lost: a.counter_lost + b.counter_lost,
        counter_duplicates: a.counter_duplicates + b.counter_duplicates,
        counter_out_of_order: a.counter_out_of_order + b.counter_out_of_order,
        drop_sources: a.drop_sources + b.drop_sources,
        drop_samples: a.drop_samples + b.drop_samples,
        drop_lost: a.drop_lost + b.drop_lost,
        drop_duplicates: a.drop_duplicates + b.drop_duplicates,
        drop_out_of_order: a.drop_out_of_order + b.drop_out_of_order,
        drop_drops: a.drop_drops + b.drop_drops,
    }
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

/// What an agent's data sources have of a metric, in their order; of several streams with the same source, the newest.
pub(super) fn measures(shards: &Shards, address: IpAddr, metric: &str, visit: &mut dyn FnMut(Measure<'_>)) {
    let Some(metric) = Metric::find(metric) else { return };
    let now = Now::read();
    shards.of(address, |shard| {
        let mut found = Vec::new();
        for agent in shard.agents_at(address) {
            let host = shard.name(&agent.identity);
            for (source, state) in shard.sources_of(agent) {
                if let Some(Ok(reading)) = state.counters.read(metric, now.nanos) {
                    found.push((source, reading, host, shard.interface(&agent.identity, source.index)));
                }
            }
        }
        found.sort_by_key(|(source, reading, ..)| (*source, reading.age));
        found.dedup_by_key(|(source, ..)| *source);
        for (source, reading, host, ifname) in found {
            let text;
            let value = match reading.value {
                Number::Number(number) => Measured::Number(number),
                Number::Name(name) => Measured::Text(name),
                Number::Text(bytes) => {
                    text = String::from_utf8_lossy(bytes);
                    Measured::Text(&text)
                }
            };
            visit(Measure {
                source,
                value,
                age: Duration::from_nanos(reading.age),
                interval: (reading.interval > 0.0).then(|| Duration::from_secs_f64(reading.interval)),
                stale: reading.stale,
                host,
                ifname,
            });
        }
    });
}

/// Agents of one turn.
const SLICE: usize = 1024;

/// An agent that sends nothing for so long is stale: three of the longest usual polling intervals.
const SILENT: Duration = Duration::from_secs(180);
