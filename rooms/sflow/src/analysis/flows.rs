//! Questions about flows: over all shards, a slice at a time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use weir_wire::sflow::DataSource;

use super::agents::is_silent;
use crate::api::{self, ActiveFlow, ActiveFlows, Agents, FlowValue, Interval, TopKey};
use crate::flows::{AggMode, Flow, Moments, Precision, Ranking};
use crate::names::AgentId;
use crate::shard::{Now, Shard, Shards};

/// The largest.
pub(super) fn active(shards: &Shards, name: &str, agents: &Agents, query: &ActiveFlows) -> Option<Vec<ActiveFlow>> {
    let checked = shards.flow_definition(name)?;
    let mode = match query.mode {
        None => checked.definition().agg_mode,
        Some(api::AggMode::Max) => AggMode::Max,
        Some(api::AggMode::Sum) => AggMode::Sum,
        Some(api::AggMode::Edge) => AggMode::Edge,
    };
    let inner = if mode == AggMode::Edge { inner_ports(shards) } else { HashSet::new() };
    let mut ranking = Ranking::new(mode, query.most, query.least);
    while ranking.next_pass() {
        scan(shards, name, |shard, flow| {
            if is_asked_about(shard, flow, agents, &inner) {
                ranking.offer(flow);
            }
        });
    }
    let now = Now::read();
    let mut silent = Silent::at(now);
    let flows = ranking.finish().into_iter().filter_map(|ranked| {
        let (id, source) = ranked.seen_by;
        let agent = address(shards, id)?;
        Some(ActiveFlow {
            agent,
            source,
            age: since(shards, now, ranked.last),
            stale: silent.is(shards, agent),
            sources: ranked.sources.into(),
            key: checked.show(&ranked.key),
            value: ranked.value,
            values: ranked.columns.iter().skip(1).copied().collect(),
            estimate: interval(ranked.moments),
        })
    });
    Some(flows.collect())
}

/// The value at each data source, with the largest flows there.
pub(super) fn values(
    shards: &Shards,
    name: &str,
    agents: &Agents,
    source: Option<DataSource>,
) -> Option<Vec<FlowValue>> {
    struct At {
        value: f64,
        squares: f64,
        /// `None`: it is a mean.
        precision: Option<Precision>,
        last: f64,
        top: Vec<Top>,
    }
    struct Top {
        value: f64,
        key: Box<[u8]>,
        last: f64,
        moments: Option<Moments>,
    }
    let checked = shards.flow_definition(name)?;
    let most = checked.definition().n as usize;
    let mut found: BTreeMap<(IpAddr, DataSource), At> = BTreeMap::new();
    let nothing = HashSet::new();
    scan(shards, name, |shard, flow| {
        let (id, at) = flow.seen_by();
        if source.is_some_and(|source| source != at) || !is_asked_about(shard, flow, agents, &nothing) {
            return;
        }
        let Some(agent) = shard.directory().address(id) else { return };
        let (value, (_, _, last)) = (flow.value(), flow.history());
        let sum = found.entry((agent, at)).or_insert_with(|| At {
            value: 0.0,
            squares: 0.0,
            precision: (!flow.is_average(0)).then(|| flow.precision()),
            last: 0.0,
            top: Vec::new(),
        });
        sum.value += value;
        sum.squares += flow.squares();
        sum.last = sum.last.max(last);
        let place = sum.top.partition_point(|larger| larger.value >= value);
        if place < most {
            sum.top.insert(place, Top { value, key: flow.key().into(), last, moments: flow.moments() });
            sum.top.truncate(most);
        }
    });
    let now = Now::read();
    let age = |last: f64| since(shards, now, last);
    let mut silent = Silent::at(now);
    let over = Duration::from_secs_f64(checked.definition().active_timeout);
    let mut value = |((agent, source), at): ((IpAddr, DataSource), At)| FlowValue {
        agent,
        source,
        age: age(at.last),
        value: at.value,
        estimate: interval(at.precision.map(|precision| Moments::new(at.value, at.squares, precision))),
        stale: age(at.last) > over || silent.is(shards, agent),
        top: at
            .top
            .into_iter()
            .map(|Top { value, key, last, moments }| TopKey {
                key: checked.show(&key),
                value,
                age: age(last),
                estimate: interval(moments),
            })
            .collect(),
    };
    Some(found.into_iter().map(&mut value).collect())
}

/// Shows every flow of a definition, in slices.
fn scan(shards: &Shards, name: &str, mut show: impl FnMut(&Shard, &Flow<'_>)) {
    for number in 0..shards.len() {
        let mut place = Some(0);
        while let Some(from) = place {
            place =
                shards.at(number, |shard| shard.scan(name, Now::read())?.slice(from, SLICE, |flow| show(shard, flow)));
        }
    }
}

fn is_asked_about(shard: &Shard, flow: &Flow<'_>, agents: &Agents, without: &HashSet<(IpAddr, u32)>) -> bool {
    if *agents == Agents::All && without.is_empty() {
        return true;
    }
    let (id, source) = flow.seen_by();
    let Some(address) = shard.directory().address(id) else { return false };
    agents.contains(address) && !(source.class == 0 && without.contains(&(address, source.index)))
}

/// How long ago a sample came, of which flows know the seconds since the beginning.
fn since(shards: &Shards, now: Now, last: f64) -> Duration {
    let now = now.nanos.saturating_sub(shards.start().nanos) as f64 / 1e9;
    Duration::from_secs_f64((now - last).max(0.0))
}

/// Which agents are silent, found out once each.
struct Silent {
    now: Now,
    known: HashMap<IpAddr, bool>,
}

impl Silent {
    fn at(now: Now) -> Self {
        Self { now, known: HashMap::new() }
    }

    fn is(&mut self, shards: &Shards, agent: IpAddr) -> bool {
        let now = self.now;
        *self.known.entry(agent).or_insert_with(|| shards.of(agent, |shard| is_silent(shard, agent, now)))
    }
}

/// Ports that lead to other nodes of the topology.
fn inner_ports(shards: &Shards) -> HashSet<(IpAddr, u32)> {
    let topology = shards.topology();
    let ends = topology.links.values().flat_map(|link| [(&link.node1, &link.port1), (&link.node2, &link.port2)]);
    let port = |(node, port): (&String, &String)| {
        let node = topology.nodes.get(node)?;
        let index = node.ports.get(port)?.index?;
        Some((node.agent?, u32::try_from(index).ok()?))
    };
    ends.filter_map(port).collect()
}

fn address(shards: &Shards, id: AgentId) -> Option<IpAddr> {
    let number = id.0 as usize % shards.len();
    shards.at(number, |shard| shard.directory().address(id))
}

fn interval(moments: Option<Moments>) -> Interval {
    let Some(estimate) = moments.map(|moments| moments.estimate()) else { return Interval::default() };
    let is_known = estimate.high.is_finite();
    let [low, high] = [estimate.low, estimate.high].map(|end| is_known.then_some(end));
    Interval { low, high, samples: estimate.samples }
}

/// Flows of one turn.
const SLICE: usize = 4096;
