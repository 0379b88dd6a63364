//! Metrics: one value over many data sources, tables, and all of them.
//!
//! Values that are stale are no values: they are left out, and counted beside the rest; so is what has none, by its reason.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};
use weir_wire::sflow::DataSource;

use super::agents::json_pages;
use super::analysis::{Agents, FlowValue, Measure, STALE, milliseconds};
use super::problem::{Answer, Problem, json_response};
use super::selection::{Passing, agents_of, conditions, few, metric_of, passes, source_of};
use super::statistics::{AGGREGATORS, Aggregator};
use super::{Api, Call};
use crate::escape;
use crate::events::{Short, short};
use crate::thresholds::{Fact, Filter};

/// A value at a data source.
#[derive(Serialize)]
struct Cell<'a> {
    agent: IpAddr,
    #[serde(rename = "dataSource", serialize_with = "short")]
    source: DataSource,
    #[serde(rename = "lastUpdate", serialize_with = "milliseconds")]
    age: Duration,
    /// Milliseconds that a rate was taken over.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<u64>,
    #[serde(rename = "metricName")]
    name: &'a str,
    #[serde(rename = "metricValue")]
    value: Value,
}

impl<'a> Cell<'a> {
    fn new(agent: IpAddr, name: &'a str, measure: &Measure<'_>, value: &Fact<'_>) -> Self {
        let interval = measure.interval.map(whole_milliseconds);
        Self { agent, source: measure.source, age: measure.age, interval, name, value: value_of(value) }
    }
}

fn whole_milliseconds(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

fn value_of(value: &Fact<'_>) -> Value {
    match value {
        // No JSON number is infinite or none.
        Fact::Number(number) => json!(number),
        Fact::Text(text) => json!(text),
    }
}

pub(super) fn metrics(api: &Arc<Api>, _: &Call) -> Answer {
    let ages = api.analysis.metrics().into_iter().map(|(name, age)| (name, json!(whole_milliseconds(age))));
    Ok(json_response(StatusCode::OK, &Map::from_iter(ages)))
}

/// All values of an agent, as `{"4.ifinoctets": 12.5}`.
pub(super) fn agent_metrics(api: &Arc<Api>, call: &Call) -> Answer {
    let agents = agents_of(&*api.analysis, call)?;
    let (metrics, conditions) = (api.analysis.metrics(), conditions(call)?);
    let Agents::These(agents) = agents else {
        return Err(Problem::request("agents: name one agent; /dump/ALL/ALL/json has the values of all"));
    };
    let [agent] = agents[..] else {
        return Err(Problem::request("agents: name one agent; /dump/{agents}/ALL/json has the values of several"));
    };
    let mut values = Map::new();
    for (name, _) in &metrics {
        each(api, agent, name, None, &conditions, &mut |measure, value| {
            values.insert(format!("{}.{name}", Short(measure.source)), value_of(value));
        });
    }
    Ok(json_response(StatusCode::OK, &values))
}

/// A list of selectors, each joined over all data sources.
pub(super) fn metric(api: &Arc<Api>, call: &Call) -> Answer {
    let agents = agents_of(&*api.analysis, call)?;
    let conditions = conditions(call)?;
    let mut answers = Vec::new();
    for selector in few(call.part("metrics"))? {
        let (aggregator, name) = Aggregator::of(selector).ok_or_else(|| {
            Problem::request(format!("{selector:?}: there is no such aggregator; there are {AGGREGATORS}"))
        })?;
        let (source, name) = source_of(name);
        let flows = api.analysis.flow_values(name, &agents, source);
        let joined = match flows {
            Some(flows) => of_flows(api, selector, aggregator, &flows, &conditions),
            None => {
                metric_of(&api.shards, name)?;
                of_metric(api, selector, aggregator, &agents, name, source, &conditions)
            }
        };
        answers.push(joined);
    }
    Ok(json_response(StatusCode::OK, &answers))
}

/// What a selector found.
#[derive(Default)]
struct Found {
    numbers: Vec<f64>,
    /// The one that the aggregator picks, so far; of others, the newest.
    picked: Option<(IpAddr, DataSource, Duration, Option<u64>, Value)>,
    newest: Option<Duration>,
    oldest: Duration,
    count: u64,
    stale: u64,
    /// Other reasons why there was no value.
    absent: BTreeMap<&'static str, u64>,
}

impl Found {
    fn add(&mut self, aggregator: Aggregator, agent: IpAddr, measure: &Measure<'_>) {
        let measured = match &measure.value {
            Ok(measured) => measured,
            Err(STALE) => {
                self.stale += 1;
                return;
            }
            Err(absent) => {
                *self.absent.entry(absent).or_default() += 1;
                return;
            }
        };
        let value = value_of(measured);
        self.count += 1;
        self.oldest = self.oldest.max(measure.age);
        let is_newest = self.newest.is_none_or(|newest| measure.age < newest);
        if is_newest {
            self.newest = Some(measure.age);
        }
        let better = match (aggregator, &self.picked) {
            (_, None) => true,
            (Aggregator::Max, Some((.., best))) => compare(&value, best).is_gt(),
            (Aggregator::Min, Some((.., best))) => compare(&value, best).is_lt(),
            _ => is_newest,
        };
        if let Fact::Number(number) = measured
            && !aggregator.picks()
        {
            self.numbers.push(*number);
        }
        if better {
            let interval = measure.interval.map(whole_milliseconds);
            self.picked = Some((agent, measure.source, measure.age, interval, value));
        }
    }

    fn into_json(mut self, selector: &str, aggregator: Aggregator) -> Map<String, Value> {
        let mut answer =
            Map::from_iter([("metricName".to_owned(), json!(selector)), ("metricN".into(), json!(self.count))]);
        let mut set = |name: &str, value: Value| answer.insert(name.to_owned(), value);
        if self.stale > 0 {
            set("metricStale", json!(self.stale));
        }
        if !self.absent.is_empty() {
            set("metricAbsent", json!(self.absent));
        }
        if let (Some((agent, source, age, interval, picked)), Some(newest)) = (self.picked, self.newest) {
            self.numbers.sort_by(f64::total_cmp);
            match aggregator {
                // Of texts there is no sum.
                Aggregator::Of(join) if !self.numbers.is_empty() => _ = set("metricValue", join(&self.numbers).into()),
                Aggregator::Of(_) => {}
                _ => _ = set("metricValue", picked),
            }
            // The result of several belongs to none of them.
            if aggregator.picks() || self.count == 1 {
                set("agent", json!(agent));
                set("dataSource", json!(Short(source).to_string()));
                interval.map(|interval| set("interval", json!(interval)));
            }
            set("lastUpdate", json!(whole_milliseconds(age)));
            set("lastUpdateMin", json!(whole_milliseconds(newest)));
            set("lastUpdateMax", json!(whole_milliseconds(self.oldest)));
        }
        answer
    }
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        _ => Ordering::Equal,
    }
}

fn of_metric(
    api: &Api,
    selector: &str,
    aggregator: Aggregator,
    agents: &Agents,
    name: &str,
    source: Option<DataSource>,
    conditions: &Filter,
) -> Map<String, Value> {
    let mut found = Found::default();
    for agent in agents.addresses(&*api.analysis) {
        let passing = Passing::of(&*api.analysis, agent, conditions);
        api.analysis.measures(agent, name, &mut |measure| {
            if source.is_none_or(|source| source == measure.source) && passing.includes(measure.source) {
                found.add(aggregator, agent, &measure);
            }
        });
    }
    found.into_json(selector, aggregator)
}

/// A flow definition's values, with the largest flows of the one that is picked.
fn of_flows(
    api: &Api,
    selector: &str,
    aggregator: Aggregator,
    flows: &[FlowValue],
    conditions: &Filter,
) -> Map<String, Value> {
    let mut found = Found::default();
    for flow in flows.iter().filter(|flow| passes(&*api.analysis, flow.agent, flow.source, conditions)) {
        let value = if flow.stale { Err(STALE) } else { Ok(Fact::Number(flow.value)) };
        let measure = Measure { source: flow.source, value, age: flow.age, interval: None, host: None, ifname: None };
        found.add(aggregator, flow.agent, &measure);
    }
    let picked = found.picked.as_ref().map(|(agent, source, ..)| (*agent, *source));
    let is_one = aggregator.picks() || found.count == 1;
    let mut answer = found.into_json(selector, aggregator);
    let picked = flows.iter().find(|flow| Some((flow.agent, flow.source)) == picked).filter(|_| is_one);
    if let Some(Value::Object(fields)) = picked.and_then(|flow| serde_json::to_value(flow).ok()) {
        answer.extend(fields.into_iter().filter(|(name, _)| matches!(&**name, "topKeys" | "low" | "high" | "samples")));
    }
    answer
}

/// The values that an agent has and that fulfil the conditions.
pub(crate) fn each(
    api: &Api,
    agent: IpAddr,
    name: &str,
    source: Option<DataSource>,
    conditions: &Filter,
    visit: &mut dyn FnMut(&Measure<'_>, &Fact<'_>),
) {
    let passing = Passing::of(&*api.analysis, agent, conditions);
    api.analysis.measures(agent, name, &mut |measure| {
        let wanted = source.is_none_or(|source| source == measure.source) && passing.includes(measure.source);
        if let Ok(value) = &measure.value
            && wanted
        {
            visit(&measure, value);
        }
    });
}

/// The names of a path, or all.
pub(crate) fn names_of(api: &Api, call: &Call) -> Result<Vec<String>, Problem> {
    match call.part("metrics") {
        "ALL" => Ok(api.analysis.metrics().into_iter().map(|(name, _)| name).collect()),
        list => {
            let names = few(list)?;
            names.iter().try_for_each(|name| metric_of(&api.shards, name))?;
            Ok(names.into_iter().map(str::to_owned).collect())
        }
    }
}

/// Every value, written as it is read.
pub(super) fn dump(api: &Arc<Api>, call: &Call) -> Answer {
    let names = names_of(api, call)?;
    let addresses = agents_of(&*api.analysis, call)?.addresses(&*api.analysis);
    let conditions = conditions(call)?;
    let (api, turns) = (api.clone(), api.turns());
    json_pages(turns, *b"[]", addresses, move |page, agent| {
        for name in &names {
            let (source, metric) = source_of(name);
            each(&api, agent, metric, source, &conditions, &mut |measure, value| {
                page.extend_from_slice(b",\n");
                // Writing to memory does not fail.
                let _ = escape::write_json(&mut *page, &Cell::new(agent, name, measure, value));
            });
        }
    })
}

/// A row a data source that has the column by which is sorted, else the first column.
pub(super) fn table(api: &Arc<Api>, call: &Call) -> Answer {
    let agents = agents_of(&*api.analysis, call)?;
    let conditions = conditions(call)?;
    let mut columns = Vec::new();
    let mut order = None;
    for item in few(call.part("metrics"))? {
        let column = match item.strip_prefix("sort:") {
            None => item,
            Some(sorted) => {
                let (name, most) = sorted.rsplit_once(':').unwrap_or((sorted, ""));
                let most: i64 = if most.is_empty() { Ok(i64::MAX) } else { most.parse() }.map_err(|_| {
                    Problem::request(format!("{item:?}: write sort:NAME:10, or sort:NAME:-10 for the largest"))
                })?;
                order = Some((columns.len(), most));
                name
            }
        };
        metric_of(&api.shards, column)?;
        columns.push(column.to_owned());
    }
    let first = &columns[order.map_or(0, |(column, _)| column)];
    let mut rows: Vec<(IpAddr, DataSource, Value)> = Vec::new();
    for agent in agents.addresses(&*api.analysis) {
        each(api, agent, first, None, &conditions, &mut |measure, value| {
            let key = if order.is_some() { value_of(value) } else { Value::Null };
            rows.push((agent, measure.source, key));
        });
    }
    if let Some((_, most)) = order {
        rows.sort_by(|(.., a), (.., b)| if most < 0 { compare(b, a) } else { compare(a, b) });
        rows.truncate(most.unsigned_abs().try_into().unwrap_or(usize::MAX));
    }
    let (api, turns) = (api.clone(), api.turns());
    json_pages(turns, *b"[]", rows, move |page, (agent, source, _)| {
        let row: Vec<Value> = columns.iter().map(|column| cell(&api, agent, source, column)).collect();
        page.extend_from_slice(b",\n");
        let _ = escape::write_json(page, &row);
    })
}

/// A column's value at a data source; where it has none, the agent's first.
fn cell(api: &Api, agent: IpAddr, source: DataSource, name: &str) -> Value {
    let (mut own, mut first) = (None, None);
    each(api, agent, name, None, &Filter::default(), &mut |measure, value| {
        let place = if measure.source == source { &mut own } else { &mut first };
        if place.is_none() {
            *place = serde_json::to_value(Cell::new(agent, name, measure, value)).ok();
        }
    });
    own.or(first)
        .unwrap_or_else(|| json!({"agent": agent, "dataSource": Short(source).to_string(), "metricName": name}))
}
