//! The API's questions about agents and flows, answered from the shards.

mod agents;
mod flows;
mod interfaces;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use weir_wire::sflow::DataSource;

use crate::api::{ActiveFlow, ActiveFlows, Agent, Agents, Analysis, CompletedFlow, FlowValue, Interface, Measure};
use crate::counters::Metric;
use crate::flows::Record;
use crate::shard::{Now, Shards};

impl Shards {
    /// Records flows that are over.
    pub(crate) fn tell(&self, records: Vec<(IpAddr, Record)>) {
        // By the clock as people have set it by now.
        let now = Now::read();
        let running = now.nanos.saturating_sub(self.start().nanos) / 1_000_000;
        let unix = |seconds: f64| (now.unix_ms + (seconds * 1000.0) as u64).saturating_sub(running);
        for (agent, record) in records {
            let Record { name, source, key, first, last, value, .. } = record;
            let (start, end) = (unix(first), unix(last));
            self.completed().push(|id| CompletedFlow { id, name, agent, source, keys: key, value, start, end });
        }
    }
}

impl Analysis for Shards {
    fn agents(&self) -> Vec<IpAddr> {
        let mut all = Vec::new();
        for number in 0..self.len() {
            let mut last = None;
            loop {
                let slice = self.at(number, |shard| shard.addresses(last, SLICE));
                last = slice.last().copied();
                all.extend_from_slice(&slice);
                if slice.len() < SLICE {
                    break;
                }
            }
        }
        all.sort_unstable();
        all
    }

    fn agent(&self, address: IpAddr) -> Option<Agent> {
        agents::agent(self, address)
    }

    fn agent_named(&self, name: &str) -> Option<IpAddr> {
        self.agents().into_iter().find(|&address| {
            self.of(address, |shard| shard.agents_at(address).any(|agent| shard.name(&agent.identity) == Some(name)))
        })
    }

    fn metrics(&self) -> Vec<(String, Duration)> {
        let now = Now::read();
        let seen: Vec<_> = self.each(|shard| shard.seen().to_vec()).flatten().collect();
        let mut newest = BTreeMap::new();
        for metric in Metric::all() {
            let of = seen.iter().filter(|(structure, _)| structure.format == metric.structure.format);
            if let Some(last) = of.map(|(_, last)| *last).max() {
                newest.insert(metric.name.clone(), age(now, last));
            }
        }
        newest.into_iter().collect()
    }

    fn measures(&self, agent: IpAddr, metric: &str, visit: &mut dyn FnMut(Measure<'_>)) {
        agents::measures(self, agent, metric, visit);
    }

    fn interfaces(&self, agent: IpAddr, visit: &mut dyn FnMut(Interface<'_>)) {
        interfaces::each(self, agent, visit);
    }

    fn key_ages(&self) -> Vec<Option<f64>> {
        let now = Now::read();
        let least = |(a, b): (Option<f64>, Option<f64>)| a.into_iter().chain(b).reduce(f64::min);
        let ages = self.each(|shard| shard.key_ages(now));
        ages.reduce(|a, b| a.into_iter().zip(b).map(least).collect()).unwrap_or_default()
    }

    fn active_flows(&self, name: &str, agents: &Agents, query: &ActiveFlows) -> Option<Vec<ActiveFlow>> {
        flows::active(self, name, agents, query)
    }

    fn flow_values(&self, name: &str, agents: &Agents, source: Option<DataSource>) -> Option<Vec<FlowValue>> {
        flows::values(self, name, agents, source)
    }
}

/// Nanoseconds since then.
fn age(now: Now, then: u64) -> Duration {
    Duration::from_nanos(now.nanos.saturating_sub(then))
}

/// Agents of one turn.
const SLICE: usize = 1024;
