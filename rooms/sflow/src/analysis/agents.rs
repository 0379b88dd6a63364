//! Questions about agents and their counters.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use weir_wire::sflow::DataSource;

use super::age;
use crate::agents::Agent;
use crate::api::{self, Measure, STALE};
use crate::counters::{Metric, Missed, Reading, Reason, stale_after};
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
    let (mut polling, mut shared) = (None, BTreeSet::new());
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
            if shard.is_shared(agent, id) {
                shared.insert(id);
            }
        }
    }
    told.shared += shared.len() as u64;
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

/// What an agent's data sources have of a metric, in their order. The newest value counts where several streams or sub-agents report
/// the same source.
pub(super) fn measures(shards: &Shards, address: IpAddr, metric: &str, visit: &mut dyn FnMut(Measure<'_>)) {
    let Some(metric) = Metric::find(metric) else { return };
    let now = Now::read();
    shards.of(address, |shard| {
        let mut found = Vec::new();
        for agent in shard.agents_at(address) {
            let host = shard.name(&agent.identity);
            for (source, state) in shard.sources_of(agent) {
                if let Some(reading) = state.counters.read(metric, now.nanos) {
                    let reading = if shard.is_shared(agent, source) { Err(Reason::Shared) } else { reading };
                    let ifname = shard.interface(&agent.identity, source.index);
                    found.push(Found { source, reading, host, ifname });
                }
            }
        }
        found.sort_by_key(|found| (found.source, found.reading.map_or(u64::MAX, |reading| reading.age)));
        found.dedup_by_key(|found| found.source);
        for Found { source, reading, host, ifname } in found {
            let value = match reading {
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
struct Found<'a> {
    source: DataSource,
    reading: Result<Reading<'a>, Reason>,
    host: Option<&'a str>,
    ifname: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use weir_wire::sflow::DataFormat;
    use weir_wire::sflow::encode::{self, Counters, Header};

    use super::*;
    use crate::config::Settings;
    use crate::shard::Names;

    /// Sub-agents of one device number its interfaces alike (hsflowd and Open vSwitch on one host); two devices as one agent do not.
    #[test]
    fn a_source_is_shared_by_streams_of_one_sub_agent() {
        let settings = Settings::read("test", "workers = 1").unwrap();
        let shards = Shards::new(&settings, Names::read(&settings).unwrap());
        let (address, begin) = (IpAddr::from([10, 0, 0, 1]), Now::read());
        let send = |port: u16, sub_agent: u32, turn: u32| {
            let mut bytes = Vec::new();
            let header = Header { agent: address, sub_agent, sequence: turn, uptime: 20_000 * turn };
            let source = DataSource { class: DataSource::IF_INDEX, index: 7 };
            let counters = Counters { sequence: turn, source, expanded: false };
            // ifIndex, ifType, ifSpeed, ifDirection, ifStatus, ifInOctets.
            let words = [7, 6, 0, 1_000_000_000, 1, 3, 0, 1_000 * turn].into_iter().chain([0; 14]);
            let body: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
            let mut samples = encode::datagram(&mut bytes, &header);
            samples.counters(&counters).raw(DataFormat { enterprise: 0, format: 1 }, &body);
            let now = Now { nanos: begin.nanos + u64::from(turn) * 20_000_000_000, ..begin };
            shards.work(0).datagram(&bytes, (address, port).into(), now);
        };
        let known = || {
            let mut values = Vec::new();
            let mut visit = |measure: Measure<'_>| {
                values.push(measure.value.map(|fact| format!("{fact:?}")).map_err(str::to_owned));
            };
            measures(&shards, address, "ifinoctets", &mut visit);
            (agent(&shards, address).unwrap().shared, values, shards.statistics().absent["shared"] > 0)
        };
        let rate = || vec![Ok("Number(50.0)".to_owned())];
        for turn in 1..=3 {
            send(1, 0, turn);
            send(2, 100_000, turn);
        }
        assert_eq!(known(), (0, rate(), false));
        send(1, 0, 4);
        send(3, 0, 4);
        assert_eq!(known(), (1, rate(), false), "the other sub-agent's");
        send(2, 100_000, 4);
        send(3, 100_000, 4);
        assert_eq!(known(), (2, vec![Err("shared".to_owned())], false));
        send(1, 0, 5);
        assert!(known().2);
    }
}
