//! Who or what is called so: agents, interfaces, and addresses of flows.

use std::collections::HashSet;
use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::api::problem::{Answer, Problem, json_response};
use crate::api::{ActiveFlows, Agents, Api, Call};
use crate::events::Short;
use crate::flows::Definition;

/// `{"agents": [...], "interfaces": [...], "flows": [...]}`, few of each, and whether there are more.
pub(in crate::api) fn search(api: &Arc<Api>, call: &Call) -> Answer {
    let text = call.text("text").unwrap_or_default().trim().to_lowercase();
    if text.is_empty() {
        return Err(Problem::request("text: say what to look for"));
    }
    let survey = api.live.survey(&*api.analysis);
    let mut agents = Vec::new();
    let mut interfaces = Vec::new();
    for row in &survey.agents {
        if agents.len() <= MOST && row.is_called(&text) {
            agents.push(json!({"agent": row.agent, "host": row.told.host, "troubles": row.troubles}));
        }
        if interfaces.len() <= MOST {
            api.analysis.interfaces(row.agent, &mut |interface| {
                if let Some(name) = interface.name.filter(|name| name.to_lowercase().contains(&text)) {
                    let source = Short(interface.source).to_string();
                    interfaces
                        .push(json!({"agent": row.agent, "host": row.told.host, "dataSource": source, "name": name}));
                }
            });
        }
    }
    let answer = json!({"agents": few(agents), "interfaces": few(interfaces), "flows": few(flows(api, &text))});
    Ok(json_response(StatusCode::OK, &answer))
}

/// Among the largest flows of each definition, those of which a key has the text.
fn flows(api: &Api, text: &str) -> Vec<Value> {
    let (mut found, mut told) = (Vec::new(), HashSet::new());
    let query = ActiveFlows { most: RANKED, least: 0.0, mode: None };
    for (name, checked) in api.shards.flow_definitions() {
        let Definition { keys: of, value: unit, fs, .. } = checked.definition();
        for flow in api.analysis.active_flows(&name, &Agents::All, &query).unwrap_or_default() {
            let keys: Vec<&str> = flow.key.split(&**fs).collect();
            let is_called = keys.iter().any(|key| key.to_lowercase().contains(text));
            if is_called && found.len() <= MOST && told.insert((of.clone(), unit.clone(), flow.key.clone())) {
                found.push(json!({"name": name, "of": of, "unit": unit, "keys": keys, "value": flow.value}));
            }
        }
    }
    found
}

fn few(mut found: Vec<Value>) -> Value {
    let more = found.len() > MOST;
    found.truncate(MOST);
    json!({"rows": found, "more": more})
}

/// What is told of each kind.
const MOST: usize = 20;

/// Flows of each definition that are looked at.
const RANKED: usize = 1000;
