//! What a page may ask, and the answers.

use std::net::IpAddr;
use std::time::Instant;

use axum::http::Request;
use serde_json::{Value, json};
use weir_service::http::{ANY, Parameter};

use super::survey::{Row, Survey, sorted};
use crate::api::agents::figures;
use crate::api::selection::agent_of;
use crate::api::settings::written_flows;
use crate::api::{ActiveFlows, Agents, Api, Call, Problem, mode};

/// A question of the page: `agents?find=leaf&sort=loss`. The same words are the same question, and have one answer.
#[derive(Debug)]
pub(super) struct Ask {
    name: &'static str,
    parameters: &'static [Parameter],
    pub(super) answer: fn(&Api, &Call) -> Result<Value, Problem>,
}

const FIND: Parameter = Parameter::text("find", "part of an agent's address or name");

static QUESTIONS: [Ask; 6] = [
    Ask { name: "summary", parameters: &[], answer: summary },
    Ask {
        name: "agents",
        parameters: &[
            FIND,
            Parameter::text("sort", "by which column; the worst first unless given"),
            Parameter::text("troubled", "only agents in trouble"),
            Parameter::whole("offset", 0, ANY, Some(0), "rows to leave out"),
            Parameter::whole("count", 0, 500, Some(50), "rows"),
        ],
        answer: agents,
    },
    Ask { name: "agent", parameters: &[Parameter::text("agent", "address or name").needed()], answer: agent },
    Ask {
        name: "heat",
        parameters: &[FIND, Parameter::whole("count", 0, 100, Some(40), "agents, the busiest first")],
        answer: heat,
    },
    Ask {
        name: "flows",
        parameters: &[
            Parameter::text("name", "a definition; else one begins that lasts as long as it is asked for"),
            Parameter::text("keys", "as in a definition"),
            Parameter::text("value", "as in a definition"),
            Parameter::text("filter", "as in a definition"),
            Parameter::text("values", "as in a definition"),
            Parameter::real("t", f64::MIN, f64::MAX, 2.0, "as in a definition"),
            Parameter::text("dropped", "discarded packets"),
            Parameter::text("agent", "only of this one"),
            Parameter::whole("count", 0, 100, Some(10), "flows, the largest first"),
            Parameter::text("aggMode", "as in a definition"),
        ],
        answer: active,
    },
    Ask {
        name: "events",
        parameters: &[Parameter::whole("count", 0, 1000, Some(100), "events, the newest first")],
        answer: events,
    },
];

impl Ask {
    /// The question that a text is, and its parameters.
    pub(super) fn parse(text: &str) -> Result<(&'static Self, Call), Problem> {
        let name = text.split('?').next().unwrap_or_default();
        let ask = QUESTIONS.iter().find(|ask| ask.name == name).ok_or_else(|| {
            let names = QUESTIONS.each_ref().map(|ask| ask.name).join(", ");
            Problem::request(format!("ask={name}: there is no such question; there are {names}"))
        })?;
        let request = Request::get(format!("/{text}")).body(());
        let parts = request.map_err(|error| Problem::request(format!("ask={name}: {error}")))?.into_parts().0;
        Ok((ask, Call::checked(parts, ask.parameters, false)?))
    }
}

/// What agents' addresses or names have to have in them, in lower case.
fn find(call: &Call) -> String {
    call.text("find").unwrap_or_default().to_lowercase()
}

fn agents(api: &Api, call: &Call) -> Result<Value, Problem> {
    let (survey, find, troubled) = (api.live.survey(&*api.analysis), find(call), call.text("troubled").is_some());
    let wanted = |row: &&Row| (!troubled || !row.troubles.is_empty()) && row.is_called(&find);
    let mut rows: Vec<&Row> = survey.agents.iter().filter(wanted).collect();
    sorted(&mut rows, call.text("sort").unwrap_or_default());
    let shown: Vec<&&Row> = rows.iter().skip(call.count("offset")).take(call.count("count")).collect();
    Ok(json!({"age": age(&survey), "matched": rows.len(), "rows": shown}))
}

fn events(api: &Api, call: &Call) -> Result<Value, Problem> {
    let events = api.shards.events();
    let newest = events.after(0, call.count("count"), |_| true);
    let newest: Vec<_> = newest.iter().map(|event| &**event).collect();
    Ok(json!({"events": newest, "evicted": events.evicted(), "thresholds": api.shards.threshold_definitions()}))
}

fn summary(api: &Api, _: &Call) -> Result<Value, Problem> {
    let survey = api.live.survey(&*api.analysis);
    Ok(json!({
        "age": age(&survey),
        "took": survey.took.as_millis() as u64,
        "version": env!("CARGO_PKG_VERSION"),
        "sum": survey.sum,
        "analyzer": figures(api),
        "flows": api.shards.flow_definitions().len(),
        "thresholds": api.shards.threshold_definitions().len(),
        "newestEvent": *api.shards.events().newest().borrow(),
        "protect": api.protects,
    }))
}

/// The interfaces of an agent, in their order; of many the busiest, and how many there are.
fn ports(api: &Api, agent: IpAddr, most: usize) -> (Vec<Value>, usize) {
    let mut ports = Vec::new();
    api.analysis.interfaces(agent, &mut |interface| {
        // Every field of an interface has a form in JSON.
        let port = serde_json::to_value(interface).unwrap_or_default();
        ports.push((ports.len(), interface.load.utilization().unwrap_or(-1.0), port));
    });
    let all = ports.len();
    if all > most {
        ports.sort_by(|(_, a, _), (_, b, _)| b.total_cmp(a));
        ports.truncate(most);
        ports.sort_by_key(|(place, ..)| *place);
    }
    (ports.into_iter().map(|(.., port)| port).collect(), all)
}

fn agent(api: &Api, call: &Call) -> Result<Value, Problem> {
    let address = agent_of(&*api.analysis, call.text("agent").unwrap_or_default())?;
    let told = api.analysis.agent(address);
    let told = told.ok_or_else(|| Problem::absent("agent", address.to_string(), "/agents/json"))?;
    let survey = api.live.survey(&*api.analysis);
    let row = survey.agents.iter().find(|row| row.agent == address);
    let (ports, all) = ports(api, address, PORTS);
    Ok(json!({"agent": address, "told": told, "row": row, "interfaces": all, "ports": ports}))
}

fn heat(api: &Api, call: &Call) -> Result<Value, Problem> {
    let (survey, find) = (api.live.survey(&*api.analysis), find(call));
    let mut rows: Vec<&Row> = survey.agents.iter().filter(|row| row.is_called(&find)).collect();
    sorted(&mut rows, "utilization");
    let shown = rows.iter().take(call.count("count")).map(|row| {
        let (ports, all) = ports(api, row.agent, CELLS);
        json!({"agent": row.agent, "host": row.told.host, "interfaces": all, "ports": ports})
    });
    Ok(json!({"age": age(&survey), "matched": rows.len(), "rows": shown.collect::<Vec<_>>()}))
}

/// A definition with [`SEPARATOR`] between its keys, as a question has it.
fn definition(call: &Call) -> Value {
    let mut definition =
        json!({"fs": SEPARATOR, "n": 10, "t": call.real("t"), "dropped": call.text("dropped").is_some()});
    for key in ["keys", "value", "filter", "values"] {
        if let Some(text) = call.text(key) {
            definition[key] = text.into();
        }
    }
    definition
}

/// The largest flows, and all others together.
fn active(api: &Api, call: &Call) -> Result<Value, Problem> {
    let name = match call.text("name") {
        Some(name) => name.to_owned(),
        None => api.tried.name(&api.shards, &definition(call), Instant::now())?,
    };
    let absent = || Problem::absent("flow definition", &name, "/flow/json");
    let mut definition = written_flows(api).remove(&name).ok_or_else(absent)?;
    let agents = match call.text("agent") {
        Some(agent) => Agents::These(vec![agent_of(&*api.analysis, agent)?]),
        None => Agents::All,
    };
    let (query, count) = (ActiveFlows { most: RANKED, least: 0.0, mode: mode(call) }, call.count("count"));
    let ranked = api.analysis.active_flows(&name, &agents, &query).ok_or_else(absent)?;
    let others = ranked.get(count..).unwrap_or_default();
    let fs = definition["fs"].as_str().unwrap_or(",").to_owned();
    let shown = ranked.iter().take(count).map(|flow| {
        // Every field of a flow has a form in JSON.
        let mut shown = serde_json::to_value(flow).unwrap_or_default();
        shown["keys"] = flow.key.split(&fs).collect();
        shown
    });
    // No user asked for the separator.
    if let Some(definition) = definition.as_object_mut().filter(|_| fs == SEPARATOR) {
        definition.remove("fs");
    }
    Ok(json!({
        "name": name,
        "definition": definition,
        "flows": shown.collect::<Vec<_>>(),
        // Of means there is no sum.
        "others": {"flows": others.len(), "value": others.iter().map(|flow| flow.value).fold(0.0, |sum, value| sum + value)},
        "more": ranked.len() == RANKED,
    }))
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

/// Between the keys of flows, as no name has it.
const SEPARATOR: &str = "\u{1f}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_understood_or_refused() {
        let (ask, call) = Ask::parse("agents?find=Leaf+1&sort=loss&offset=50").unwrap();
        assert_eq!((ask.name, &*find(&call), call.text("sort")), ("agents", "leaf 1", Some("loss")));
        assert_eq!((call.count("offset"), call.count("count")), (50, 50));
        let (_, call) = Ask::parse("flows?keys=vlan&value=bytes&t=5&filter=ipttl%3D1").unwrap();
        let expected = json!({"keys": "vlan", "value": "bytes", "t": 5.0, "filter": "ipttl=1", "fs": SEPARATOR, "n": 10,
            "dropped": false});
        assert_eq!(definition(&call), expected);
        for wrong in ["", "agent", "heat?count=101", "events?find=1&x=2", "summary?find=a", "flows?t=a", "agents?\n"] {
            assert!(Ask::parse(wrong).is_err(), "{wrong}");
        }
    }
}
