//! Which agents and data sources a path and its query mean.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_program::config::did_you_mean;
use weir_wire::sflow::DataSource;

use super::analysis::{Agents, Analysis};
use super::problem::Problem;
use crate::counters::Metric;
use crate::shard::Shards;
use crate::thresholds::{Filter, Pattern};
use weir_service::http::Call;

/// An agent by its address or its host name.
pub(super) fn agent_of(analysis: &dyn Analysis, name: &str) -> Result<IpAddr, Problem> {
    let found = name.parse().ok().or_else(|| analysis.agent_named(name));
    found.ok_or_else(|| Problem::absent("agent", name, "/agents/json"))
}

/// The agents of the path: `ALL`, or addresses and host names between commas or semicolons. An address may be
/// of no agent (yet); a name must be of one.
pub(crate) fn agents_of(analysis: &dyn Analysis, call: &Call) -> Result<Agents, Problem> {
    let list = call.part("agents");
    if list == "ALL" {
        return Ok(Agents::All);
    }
    let mut agents = Vec::new();
    for name in items(list) {
        agents.push(agent_of(analysis, name)?);
    }
    if agents.is_empty() {
        return Err(Problem::request("agents: name agents by address or host name, or ALL"));
    }
    agents.sort_unstable();
    agents.dedup();
    Ok(Agents::These(agents))
}

impl Agents {
    /// Their addresses.
    pub(crate) fn addresses(&self, analysis: &dyn Analysis) -> Vec<IpAddr> {
        match self {
            Self::All => analysis.agents(),
            Self::These(agents) => agents.clone(),
        }
    }
}

/// The items of a list in a path.
pub(super) fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split([',', ';']).map(str::trim).filter(|item| !item.is_empty())
}

/// The items of a list of metrics, few enough to be looked up for a million data sources.
pub(super) fn few(list: &str) -> Result<Vec<&str>, Problem> {
    let items: Vec<&str> = items(list).collect();
    if items.is_empty() {
        return Err(Problem::request("metrics: name metrics; /metrics/json lists them"));
    }
    if items.len() > MOST {
        return Err(Problem::request(format!("metrics: name {MOST} at most, or ALL")));
    }
    Ok(items)
}

/// Metrics named in one request, and conditions.
pub(super) const MOST: usize = 64;

/// The conditions on metrics that a query has: all its parameters but those of its route.
pub(crate) fn conditions(call: &Call) -> Result<Filter, Problem> {
    let is_parameter = |name: &str| call.parameters.iter().any(|parameter| parameter.name == name);
    let given = call.query.iter().filter(|(name, _)| !is_parameter(name)).map(|(name, value)| (&**name, &**value));
    let conditions = Filter::new(given);
    conditions.check(&[]).map_err(|why| Problem::request(format!("condition: {why}")))?;
    Ok(conditions)
}

/// Looks whether there is a metric of the name, perhaps of one data source. What there is not can have no value.
pub(super) fn metric_of(shards: &Shards, name: &str) -> Result<(), Problem> {
    let (_, plain) = source_of(name);
    if Metric::find(plain).is_some() {
        return Ok(());
    }
    let flows = shards.flow_definitions();
    if flows.contains_key(plain) {
        let message = format!("metrics: {plain:?} is a flow definition: /flowvalue/ALL/{plain}/json has its values");
        return Err(Problem::request(message));
    }
    let names = Metric::all().iter().map(|metric| &*metric.name).chain(flows.keys().map(String::as_str));
    let near = did_you_mean(plain, names);
    Err(Problem::request(format!("metrics: there is no metric or flow definition {plain:?}{near}")))
}

/// Whether a data source of an agent fulfils all conditions. Not to be asked within [`Analysis::measures`]: see [`Passing`].
pub(super) fn passes(analysis: &dyn Analysis, agent: IpAddr, source: DataSource, conditions: &Filter) -> bool {
    Passing::of(analysis, agent, conditions).includes(source)
}

/// Which data sources of an agent fulfil all conditions: by their own metric, or where they have none of the name, by that of
/// any other source of the agent (an interface of a host whose `os_name` is `linux`).
///
/// It is found out before values are read, since [`Analysis::measures`] holds what is known of the agent while it shows it.
pub(super) struct Passing(Vec<BTreeMap<DataSource, bool>>);

impl Passing {
    /// Of an agent, now.
    pub(super) fn of(analysis: &dyn Analysis, agent: IpAddr, conditions: &Filter) -> Self {
        let fulfilled = |(name, patterns): (&str, &[Pattern])| {
            let mut sources = BTreeMap::new();
            analysis.measures(agent, name, &mut |measure| {
                let matches = measure.value.is_ok_and(|fact| patterns.iter().any(|pattern| pattern.matches(&fact)));
                sources.insert(measure.source, matches);
            });
            sources
        };
        Self(conditions.iter().map(fulfilled).collect())
    }

    /// Whether this one does.
    pub(super) fn includes(&self, source: DataSource) -> bool {
        self.0.iter().all(|sources| sources.get(&source).copied().unwrap_or_else(|| sources.values().any(|one| *one)))
    }
}

/// A metric's name in a path: with a data source before it, `4.ifinoctets` or `2.1.load_one`, it is that source's alone.
pub(super) fn source_of(name: &str) -> (Option<DataSource>, &str) {
    let number = |text: &str| {
        let (number, rest) = text.split_once('.')?;
        Some((number.parse::<u32>().ok()?, text.len() - rest.len()))
    };
    let Some((first, start)) = number(name) else { return (None, name) };
    match number(&name[start..]) {
        Some((index, more)) => (Some(DataSource { class: first, index }), &name[start + more..]),
        None => (Some(DataSource { class: DataSource::IF_INDEX, index: first }), &name[start..]),
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_may_stand_before_a_name() {
        let source = |class, index| Some(DataSource { class, index });
        for (text, expected) in [
            ("ifinoctets", (None, "ifinoctets")),
            ("4.ifinoctets", (source(0, 4), "ifinoctets")),
            ("2.1.load_one", (source(2, 1), "load_one")),
            ("4.a.b", (source(0, 4), "a.b")),
            ("a.4.b", (None, "a.4.b")),
            ("4", (None, "4")),
        ] {
            assert_eq!(source_of(text), expected, "{text}");
        }
    }
}
