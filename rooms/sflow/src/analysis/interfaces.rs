//! Questions about an agent's interfaces: all that a page shows of each, in one turn.

use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use weir_wire::sflow::DataSource;

use crate::agents::Nanos;
use crate::api::{Interface, Load, sum};
use crate::counters::{Counters, Metric, Number};
use crate::shard::{Now, Shards};

/// Calls `visit` for each interface with counters, in order of ifIndex: the newest, where several streams or sub-agents
/// report the same one.
pub(super) fn each(shards: &Shards, address: IpAddr, visit: &mut dyn FnMut(Interface<'_>)) {
    let now = Now::read();
    shards.of(address, |shard| {
        let mut found = Vec::new();
        for agent in shard.agents_at(address) {
            for (source, state) in shard.sources_of(agent) {
                if source.class == DataSource::IF_INDEX
                    && !shard.is_shared(agent, source)
                    && let Some((load, age)) = read(&state.counters, now.nanos)
                {
                    let name = shard.interface(&agent.identity, source.index);
                    found.push(Interface { source, name, age: Duration::from_nanos(age), load });
                }
            }
        }
        found.sort_by_key(|interface| (interface.source, interface.age));
        found.dedup_by_key(|interface| interface.source);
        found.into_iter().for_each(visit);
    });
}

/// What is known and not stale, and how old it is; `None`: it counts no octets.
fn read(counters: &Counters, now: Nanos) -> Option<(Load, Nanos)> {
    let mut age = None;
    let number = |metric: &Option<&'static Metric>| {
        let reading = counters.read((*metric)?, now)?.ok()?;
        age = Some(age.map_or(reading.age, |age: Nanos| age.min(reading.age)));
        match reading.value {
            Number::Number(number) if !reading.stale => Some(number),
            _ => None,
        }
    };
    let numbers = METRICS.each_ref().map(number);
    let [octets_in, octets_out, utilization_in, utilization_out, dropped_in, dropped_out, rest @ ..] = numbers;
    let [errors_in, errors_out, speed] = rest;
    let (discards, errors) = (sum(dropped_in, dropped_out), sum(errors_in, errors_out));
    Some((Load { octets_in, octets_out, utilization_in, utilization_out, discards, errors, speed }, age?))
}

static METRICS: LazyLock<[Option<&'static Metric>; 9]> = LazyLock::new(|| {
    [
        "ifinoctets",
        "ifoutoctets",
        "ifinutilization",
        "ifoututilization",
        "ifindiscards",
        "ifoutdiscards",
        "ifinerrors",
        "ifouterrors",
        "ifspeed",
    ]
    .map(Metric::find)
});
