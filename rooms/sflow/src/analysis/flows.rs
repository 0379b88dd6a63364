//! Questions about flows: over all shards, a slice at a time.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use weir_wire::sflow::DataSource;

use super::agents::is_silent;
use crate::api::{ActiveFlow, ActiveFlows, Agents, FlowValue, Interval, TopKey};
use crate::flows::{Flow, Moments, Precision, Ranking};
use crate::names::AgentId;
use crate::shard::{Now, Shard, Shards};

/// The largest.
pub(super) fn active(shards: &Shards, name: &str, agents: &Agents, query: &ActiveFlows) -> Option<Vec<ActiveFlow>> {
    let checked = shards.flow_definition(name)?;
    let mode = query.mode.unwrap_or(checked.definition().agg_mode);
    let mut ranking = Ranking::new(mode, query.most, query.least);
    while ranking.next_pass() {
        scan(shards, name, |shard, flow| {
            if is_asked_about(shard, flow, agents) {
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
        age: Duration,
        top: Vec<TopKey>,
    }
    let checked = shards.flow_definition(name)?;
    let (now, most) = (Now::read(), checked.definition().n as usize);
    let mut found: BTreeMap<(IpAddr, DataSource), At> = BTreeMap::new();
    scan(shards, name, |shard, flow| {
        let (id, at) = flow.seen_by();
        if source.is_some_and(|source| source != at) || !is_asked_about(shard, flow, agents) {
            return;
        }
        let Some(agent) = shard.directory().address(id) else { return };
        let (value, (_, _, last)) = (flow.value(), flow.history());
        let age = since(shards, now, last);
        let sum = found.entry((agent, at)).or_insert_with(|| {
            let precision = (!flow.is_average(0)).then(|| flow.precision());
            At { value: 0.0, squares: 0.0, precision, age, top: Vec::new() }
        });
        sum.value += value;
        sum.squares += flow.squares();
        sum.age = sum.age.min(age);
        let place = sum.top.partition_point(|larger| larger.value >= value);
        if place < most {
            sum.top.insert(place, TopKey { key: flow.show(), value, age, estimate: interval(flow.moments()) });
            sum.top.truncate(most);
        }
    });
    let mut silent = Silent::at(now);
    let over = Duration::from_secs_f64(checked.definition().active_timeout);
    let value = |((agent, source), At { value, squares, precision, age, top })| FlowValue {
        agent,
        source,
        age,
        value,
        estimate: interval(precision.map(|precision| Moments::new(value, squares, precision))),
        stale: age > over || silent.is(shards, agent),
        top,
    };
    Some(found.into_iter().map(value).collect())
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

fn is_asked_about(shard: &Shard, flow: &Flow<'_>, agents: &Agents) -> bool {
    *agents == Agents::All || shard.directory().address(flow.seen_by().0).is_some_and(|agent| agents.contains(agent))
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

fn address(shards: &Shards, id: AgentId) -> Option<IpAddr> {
    let number = id.0 as usize % shards.len();
    shards.at(number, |shard| shard.directory().address(id))
}

fn interval(moments: Option<Moments>) -> Interval {
    let Some(estimate) = moments.map(|moments| moments.estimate()) else { return Interval::default() };
    let is_known = estimate.high.is_finite();
    let [low, high] = [estimate.low, estimate.high].map(|end| is_known.then_some(end));
    Interval { low, high, samples: estimate.samples, contradicted: high.is_none() }
}

/// Flows of one turn.
const SLICE: usize = 4096;
