//! What clients put: flow definitions, thresholds and groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::{Map, Value, json};
use weir_tee::config::values::Network;

use super::analysis::Groups;
use super::call::named;
use super::problem::{Answer, Problem, json_response};
use super::{Api, Call};
use crate::flows::Checked;
use crate::shard::{Life, Shards};
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
const NOTES: &str = "notes";

fn found(value: Option<&impl Serialize>, kind: &str, call: &Call, list: &str) -> Answer {
    let value = value.ok_or_else(|| Problem::absent(kind, call.part("name"), list))?;
    Ok(json_response(StatusCode::OK, value))
}

fn deleted(was_there: bool, kind: &str, call: &Call, list: &str) -> Answer {
    if was_there { done() } else { Err(Problem::absent(kind, call.part("name"), list)) }
}

/// A definition as JSON, with notes on what it names that is not there.
fn with_notes(definition: &impl Serialize, notes: Vec<String>) -> Value {
    // Every key of a definition has a form in JSON.
    let mut written = serde_json::to_value(definition).unwrap_or_default();
    if !notes.is_empty() {
        written[NOTES] = notes.into();
    }
    written
}

/// The flow definitions by name, with notes.
pub(super) fn written_flows(api: &Api) -> BTreeMap<String, Value> {
    let written = |checked: &Checked| with_notes(checked.definition(), api.shards.missing_of_flow(checked));
    api.shards.flow_definitions().into_iter().map(|(name, checked)| (name, written(&checked))).collect()
}

/// Begins a flow definition or changes it; one that is the same keeps its flows. Returns notes: numbers that were brought within
/// their bounds, and names that are not there.
pub(crate) fn define(shards: &Shards, name: &str, definition: Value, life: Life) -> Result<Vec<String>, Problem> {
    let definition = serde_json::from_value(definition).map_err(|error| Problem::request(error.to_string()))?;
    let mut notes = shards.define_flow(name, definition, life)?;
    notes.extend(shards.flow_definition(name).iter().flat_map(|checked| shards.missing_of_flow(checked)));
    Ok(notes)
}

pub(super) fn flows(api: &Arc<Api>, _: &Call) -> Answer {
    Ok(json_response(StatusCode::OK, &written_flows(api)))
}

pub(super) fn flow(api: &Arc<Api>, call: &Call) -> Answer {
    found(written_flows(api).get(call.part("name")), "flow definition", call, "/flow/json")
}

pub(super) fn put_flow(api: &Arc<Api>, call: &Call) -> Answer {
    let name = named(call.part("name")).map_err(Problem::request)?;
    let mut definition: Map<String, Value> = call.json()?;
    definition.remove(NOTES);
    done_with(&define(&api.shards, name, definition.into(), Life::Kept)?)
}

pub(super) fn delete_flow(api: &Arc<Api>, call: &Call) -> Answer {
    deleted(api.shards.remove_flow(call.part("name")), "flow definition", call, "/flow/json")
}

fn written_thresholds(api: &Api) -> BTreeMap<String, Value> {
    let notes = |threshold: &Threshold| api.shards.missing_of_threshold(threshold).into_iter().collect();
    let thresholds = api.shards.threshold_definitions().into_iter();
    thresholds.map(|(name, threshold)| (name, with_notes(&threshold, notes(&threshold)))).collect()
}

pub(super) fn thresholds(api: &Arc<Api>, _: &Call) -> Answer {
    Ok(json_response(StatusCode::OK, &written_thresholds(api)))
}

pub(super) fn threshold(api: &Arc<Api>, call: &Call) -> Answer {
    found(written_thresholds(api).get(call.part("name")), "threshold", call, "/threshold/json")
}

pub(super) fn put_threshold(api: &Arc<Api>, call: &Call) -> Answer {
    let mut body: Map<String, Value> = call.json()?;
    let threshold: Threshold = match body.remove(NOTES) {
        None => call.json()?,
        Some(_) => serde_json::from_value(body.into()).map_err(|error| Problem::request(format!("body: {error}")))?,
    };
    let notes: Vec<String> = api.shards.missing_of_threshold(&threshold).into_iter().collect();
    api.shards.define_threshold(named(call.part("name")).map_err(Problem::request)?, threshold)?;
    done_with(&notes)
}

pub(super) fn delete_threshold(api: &Arc<Api>, call: &Call) -> Answer {
    deleted(api.shards.remove_threshold(call.part("name")), "threshold", call, "/threshold/json")
}

pub(super) fn all_groups(api: &Arc<Api>, _: &Call) -> Answer {
    Ok(json_response(StatusCode::OK, &api.shards.group_definitions()))
}

pub(super) fn groups(api: &Arc<Api>, call: &Call) -> Answer {
    found(api.shards.group_definitions().get(call.part("name")), "group", call, "/group/json")
}

pub(super) fn put_groups(api: &Arc<Api>, call: &Call) -> Answer {
    let groups: BTreeMap<String, Vec<Network>> = call.json()?;
    for name in groups.keys() {
        named(name).map_err(Problem::request)?;
    }
    let nets = |list: Vec<Network>| list.into_iter().map(|Network(network)| network).collect();
    let groups = groups.into_iter().map(|(group, list)| (group, nets(list))).collect();
    if api.shards.group_definitions().len() >= SETS {
        let message = format!("there are {SETS} sets of groups already: take one away first");
        return Err(Problem::request(message));
    }
    define_groups(api, named(call.part("name")).map_err(Problem::request)?, groups)?;
    done()
}

pub(super) fn delete_groups(api: &Arc<Api>, call: &Call) -> Answer {
    let was_there = api.shards.group_definitions().contains_key(call.part("name"));
    if was_there {
        define_groups(api, call.part("name"), Groups::new())?;
    }
    deleted(was_there, "group", call, "/group/json")
}

fn define_groups(api: &Api, name: &str, groups: Groups) -> Result<(), Problem> {
    api.shards.define_groups(name, groups).map_err(|error| Problem::request(error.to_string()))
}

/// Sets of groups at once.
const SETS: usize = 256;
