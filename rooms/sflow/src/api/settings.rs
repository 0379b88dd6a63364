//! What clients put: flow definitions, thresholds and groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};
use weir_tee::config::values::Network;

use super::analysis::Groups;
use super::call::named;
use super::problem::{Answer, Problem, json_response};
use super::{Api, Call};
use crate::shard::Life;
use crate::thresholds::Threshold;

/// Carried out; there is nothing to say.
fn done() -> Answer {
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Carried out, but not quite as it was asked for, or not in force yet.
fn done_with(notes: &[String]) -> Answer {
    if notes.is_empty() { done() } else { Ok(json_response(StatusCode::OK, &json!({NOTES: notes}))) }
}

/// The key of what is said of a definition beside it. Who puts back what was read need not take it out.
pub(crate) const NOTES: &str = "notes";

fn found(value: Option<&impl serde::Serialize>, kind: &str, call: &Call, list: &str) -> Answer {
    let value = value.ok_or_else(|| Problem::absent(kind, call.part("name"), list))?;
    Ok(json_response(StatusCode::OK, value))
}

fn deleted(was_there: bool, kind: &str, call: &Call, list: &str) -> Answer {
    if was_there { done() } else { Err(Problem::absent(kind, call.part("name"), list)) }
}

pub(super) fn flows(api: &Arc<Api>, _: &Call) -> Answer {
    Ok(json_response(StatusCode::OK, &api.analysis.flows()))
}

pub(super) fn flow(api: &Arc<Api>, call: &Call) -> Answer {
    found(api.analysis.flows().get(call.part("name")), "flow definition", call, "/flow/json")
}

pub(super) fn put_flow(api: &Arc<Api>, call: &Call) -> Answer {
    let name = named(call.part("name")).map_err(Problem::request)?;
    // What it means the analyser knows; where it is no JSON, the place is told.
    let mut definition: Map<String, Value> = call.json()?;
    definition.remove(NOTES);
    done_with(&api.analysis.put_flow(name, &Value::Object(definition).to_string(), Life::Kept)?)
}

pub(super) fn delete_flow(api: &Arc<Api>, call: &Call) -> Answer {
    deleted(api.analysis.delete_flow(call.part("name")), "flow definition", call, "/flow/json")
}

pub(super) fn thresholds(api: &Arc<Api>, _: &Call) -> Answer {
    let thresholds = api.analysis.thresholds();
    let told = thresholds.iter().map(|(name, threshold)| (name.clone(), told(api, threshold)));
    Ok(json_response(StatusCode::OK, &told.collect::<Map<_, _>>()))
}

/// A threshold, and what it names that is not there.
fn told(api: &Api, threshold: &Threshold) -> Value {
    // Every key of a threshold has a form in JSON.
    let mut told = serde_json::to_value(threshold).unwrap_or_default();
    if let (Some(missing), Some(told)) = (api.analysis.missing(threshold), told.as_object_mut()) {
        told.insert(NOTES.into(), json!([missing]));
    }
    told
}

pub(super) fn threshold(api: &Arc<Api>, call: &Call) -> Answer {
    let thresholds = api.analysis.thresholds();
    let told = thresholds.get(call.part("name")).map(|threshold| told(api, threshold));
    found(told.as_ref(), "threshold", call, "/threshold/json")
}

pub(super) fn put_threshold(api: &Arc<Api>, call: &Call) -> Answer {
    let mut body: Map<String, Value> = call.json()?;
    let threshold: Threshold = match body.remove(NOTES) {
        None => call.json()?,
        Some(_) => serde_json::from_value(body.into()).map_err(|error| Problem::request(format!("body: {error}")))?,
    };
    let notes: Vec<String> = api.analysis.missing(&threshold).into_iter().collect();
    api.analysis.put_threshold(named(call.part("name")).map_err(Problem::request)?, threshold)?;
    done_with(&notes)
}

pub(super) fn delete_threshold(api: &Arc<Api>, call: &Call) -> Answer {
    deleted(api.analysis.delete_threshold(call.part("name")), "threshold", call, "/threshold/json")
}

pub(super) fn all_groups(api: &Arc<Api>, _: &Call) -> Answer {
    Ok(json_response(StatusCode::OK, &api.analysis.groups()))
}

pub(super) fn groups(api: &Arc<Api>, call: &Call) -> Answer {
    found(api.analysis.groups().get(call.part("name")), "group", call, "/group/json")
}

pub(super) fn put_groups(api: &Arc<Api>, call: &Call) -> Answer {
    let groups: BTreeMap<String, Vec<Network>> = call.json()?;
    for name in groups.keys() {
        named(name).map_err(Problem::request)?;
    }
    let nets = |list: Vec<Network>| list.into_iter().map(|Network(network)| network).collect();
    let groups = groups.into_iter().map(|(group, list)| (group, nets(list))).collect();
    api.analysis.put_groups(named(call.part("name")).map_err(Problem::request)?, groups)?;
    done()
}

pub(super) fn delete_groups(api: &Arc<Api>, call: &Call) -> Answer {
    let was_there = api.analysis.groups().contains_key(call.part("name"));
    if was_there {
        api.analysis.put_groups(call.part("name"), Groups::new())?;
    }
    deleted(was_there, "group", call, "/group/json")
}
