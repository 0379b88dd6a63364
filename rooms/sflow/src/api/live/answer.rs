//! Answers to what a page asks.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::ask::{Ask, Flows, Of, SEPARATOR};
use super::survey::{Row, Survey, sorted};
use crate::api::{ActiveFlows, Agents, Api, Interface, Load, Problem};
use crate::events::Short;

/// The answer as it is now.
pub(super) fn answer(api: &Arc<Api>, ask: &Ask) -> Result<Value, Problem> {
    match ask {
        Ask::Summary => Ok(summary(api)),
        Ask::Agents { find, sort, troubled, offset, count } => {
            let survey = api.live.survey(&*api.analysis);
            let wanted = |row: &&Row| (!troubled || !row.troubles.is_empty()) && row.is_called(find);
            let mut rows: Vec<&Row> = survey.agents.iter().filter(wanted).collect();
            sorted(&mut rows, sort);
            let shown: Vec<&&Row> = rows.iter().skip(*offset).take(*count).collect();
            Ok(json!({"age": age(&survey), "matched": rows.len(), "rows": shown}))
        }
        Ask::Agent(address) => agent(api, *address),
        Ask::Heat { find, count } => Ok(heat(api, find, *count)),
        Ask::Flows(flows) => active(api, flows),
        Ask::Events { count } => {
            let events = api.analysis.events();
            let newest: Vec<_> = events.after(0, *count, |_| true);
            let newest: Vec<_> = newest.iter().map(|event| &**event).collect();
            Ok(json!({"events": newest, "evicted": events.evicted(), "thresholds": api.analysis.thresholds()}))
        }
    }
}

fn summary(api: &Api) -> Value {
    let survey = api.live.survey(&*api.analysis);
    json!({
        "age": age(&survey),
        "took": survey.took.as_millis() as u64,
        "version": env!("CARGO_PKG_VERSION"),
        "sum": survey.sum,
        "analyzer": api.analysis.analyzer(),
        "flows": api.analysis.flows().len(),
        "thresholds": api.analysis.thresholds().len(),
        "newestEvent": *api.analysis.events().newest().borrow(),
        "protect": api.protects,
    })
}

/// An interface, as an answer has it.
#[derive(Serialize)]
struct Port {
    #[serde(rename = "dataSource")]
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(rename = "lastUpdate")]
    age: u64,
    #[serde(flatten)]
    load: Load,
}

impl Port {
    fn new(interface: &Interface<'_>) -> Self {
        Self {
            source: Short(interface.source).to_string(),
            name: interface.name.map(str::to_owned),
            age: interface.age.as_millis() as u64,
            load: interface.load,
        }
    }
}

/// The interfaces of an agent, in their order; of many the busiest, and how many there are.
fn ports(api: &Api, agent: IpAddr, most: usize) -> (Vec<Port>, usize) {
    let mut ports = Vec::new();
    api.analysis.interfaces(agent, &mut |interface| ports.push(Port::new(&interface)));
    let all = ports.len();
    if all > most {
        let order: Vec<String> = ports.iter().map(|port| port.source.clone()).collect();
        let busy = |port: &Port| port.load.utilization().unwrap_or(-1.0);
        ports.sort_by(|a, b| busy(b).total_cmp(&busy(a)));
        ports.truncate(most);
        ports.sort_by_key(|port| order.iter().position(|source| *source == port.source));
    }
    (ports, all)
}

fn agent(api: &Api, address: IpAddr) -> Result<Value, Problem> {
    let told = api.analysis.agent(address);
    let told = told.ok_or_else(|| Problem::absent("agent", address.to_string(), "/agents/json"))?;
    let survey = api.live.survey(&*api.analysis);
    let row = survey.agents.iter().find(|row| row.agent == address);
    let (ports, all) = ports(api, address, PORTS);
    Ok(json!({"agent": address, "told": told, "row": row, "interfaces": all, "ports": ports}))
}

fn heat(api: &Api, find: &str, count: usize) -> Value {
    let survey = api.live.survey(&*api.analysis);
    let mut rows: Vec<&Row> = survey.agents.iter().filter(|row| row.is_called(find)).collect();
    sorted(&mut rows, "utilization");
    let shown = rows.iter().take(count).map(|row| {
        let (ports, all) = ports(api, row.agent, CELLS);
        json!({"agent": row.agent, "host": row.told.host, "interfaces": all, "ports": ports})
    });
    json!({"age": age(&survey), "matched": rows.len(), "rows": shown.collect::<Vec<_>>()})
}

/// The largest flows, and all others together. `flows` lists `[keys, value, low, high, samples, agent, data source]`.
fn active(api: &Api, asked: &Flows) -> Result<Value, Problem> {
    let (name, definition) = match &asked.of {
        Of::Name(name) => (name.clone(), api.analysis.flows().remove(name)),
        Of::Definition(definition) => {
            let name = api.tried.name(&*api.analysis, &definition.to_string(), Instant::now())?;
            (name, Some(definition.clone()))
        }
    };
    let absent = || Problem::absent("flow definition", &name, "/flow/json");
    let definition = definition.ok_or_else(absent)?;
    let agents = asked.agent.map_or(Agents::All, |agent| Agents::These(vec![agent]));
    let query = ActiveFlows { most: RANKED, least: 0.0, mode: asked.mode };
    let ranked = api.analysis.active_flows(&name, &agents, &query).ok_or_else(absent)?;
    let others = ranked.get(asked.count..).unwrap_or_default();
    let fs = definition["fs"].as_str().unwrap_or(",");
    let shown = ranked.iter().take(asked.count).map(|flow| {
        let keys: Vec<&str> = flow.key.split(fs).collect();
        json!({
            "keys": keys,
            "value": flow.value,
            "low": flow.estimate.low,
            "high": flow.estimate.high,
            "samples": flow.estimate.samples,
            "flowN": flow.sources,
            "stale": flow.stale,
            "lastUpdate": flow.age.as_millis() as u64,
            "agent": flow.agent,
            "dataSource": Short(flow.source).to_string(),
        })
    });
    let mut answer = json!({
        "name": name,
        "flows": shown.collect::<Vec<_>>(),
        // Of means there is no sum.
        "others": {"flows": others.len(), "value": others.iter().map(|flow| flow.value).fold(0.0, |sum, value| sum + value)},
        "more": ranked.len() == RANKED,
    });
    let keys: Map<String, Value> = match definition {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let told = keys.into_iter().filter(|(key, value)| key != "fs" || value.as_str() != Some(SEPARATOR));
    answer["definition"] = Value::Object(told.collect());
    Ok(answer)
}

/// How old what a survey tells is, ms.
fn age(survey: &Survey) -> u64 {
    survey.begun.elapsed().as_millis() as u64
}

/// Interfaces of one agent that are told.
const PORTS: usize = 1024;

/// Interfaces of one agent that a map of many shows.
const CELLS: usize = 64;

/// Flows that are ranked, at most.
const RANKED: usize = 1000;
