//! Flows: their keys, and what is active.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use super::analysis::ActiveFlows;
use super::problem::{Answer, Problem, json_response};
use super::selection::{agents_of, passes, source_of};
use super::{Agents, Api, Call, conditions};
use crate::events::Short;
use crate::flows::{self, AggMode};

/// Keys that samples had, with the milliseconds since; with `all=true`, every key with what it is.
pub(super) fn keys(api: &Arc<Api>, call: &Call) -> Answer {
    let all = call.text("all") == Some("true");
    let mut keys = Map::new();
    for ((name, about), age) in flows::keys().zip(api.analysis.key_ages()) {
        let age = age.map(|seconds| (seconds * 1000.0) as u64);
        if all {
            keys.insert(name.to_owned(), json!({"about": about, "lastUpdate": age}));
        } else if let Some(age) = age {
            keys.insert(name.to_owned(), json!(age));
        }
    }
    Ok(json_response(StatusCode::OK, &keys))
}

/// What a call asks of the active flows.
pub(super) fn query(call: &Call) -> ActiveFlows {
    ActiveFlows { most: call.count("maxFlows"), least: call.real("minValue"), mode: mode(call) }
}

/// How a call wants reports joined, if it says so.
pub(crate) fn mode(call: &Call) -> Option<AggMode> {
    call.text("aggMode").and_then(AggMode::named)
}

pub(super) fn active(api: &Arc<Api>, call: &Call) -> Answer {
    let agents = agents_of(&*api.analysis, call)?;
    Ok(json_response(StatusCode::OK, &active_flows(api, call, &agents)?))
}

pub(super) fn active_flows(api: &Api, call: &Call, agents: &Agents) -> Result<Vec<super::ActiveFlow>, Problem> {
    let name = call.part("name");
    let flows = api.analysis.active_flows(name, agents, &query(call));
    flows.ok_or_else(|| Problem::absent("flow definition", name, "/flow/json"))
}

/// The value of a definition at each data source, or at the one before its name: `4.tcp`.
pub(super) fn values(api: &Arc<Api>, call: &Call) -> Answer {
    let agents = agents_of(&*api.analysis, call)?;
    let asked = call.part("name");
    let whole = api.analysis.flow_values(asked, &agents, None);
    let (source, name) = source_of(asked);
    let values = whole.or_else(|| api.analysis.flow_values(name, &agents, source));
    let values = values.ok_or_else(|| Problem::absent("flow definition", asked, "/flow/json"))?;
    let conditions = conditions(call)?;
    let mut answers = Vec::new();
    for value in values.iter().filter(|value| passes(&*api.analysis, value.agent, value.source, &conditions)) {
        let Ok(Value::Object(mut fields)) = serde_json::to_value(value) else { continue };
        fields.insert("metricName".into(), json!(asked));
        if value.stale {
            // What was, is no value now.
            fields.remove("metricValue");
        }
        answers.push(fields);
    }
    Ok(json_response(StatusCode::OK, &answers))
}

/// Where the largest flows are seen: by key, the data sources at which it is among the largest, largest first.
pub(super) fn locations(api: &Arc<Api>, call: &Call) -> Answer {
    let agents = agents_of(&*api.analysis, call)?;
    let name = call.part("name");
    let values = api.analysis.flow_values(name, &agents, None);
    let values = values.ok_or_else(|| Problem::absent("flow definition", name, "/flow/json"))?;
    let wanted = call.text("key");
    let mut places: BTreeMap<&str, Vec<(f64, Value)>> = BTreeMap::new();
    for value in values.iter().filter(|value| !value.stale) {
        for flow in value.top.iter().filter(|flow| wanted.is_none_or(|key| key == flow.key)) {
            let place =
                json!({"agent": value.agent, "dataSource": Short(value.source).to_string(), "value": flow.value});
            places.entry(&flow.key).or_default().push((flow.value, place));
        }
    }
    let mut answer = Map::new();
    for (key, mut places) in places {
        places.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        answer.insert(key.to_owned(), places.into_iter().map(|(_, place)| place).collect());
    }
    Ok(json_response(StatusCode::OK, &answer))
}
