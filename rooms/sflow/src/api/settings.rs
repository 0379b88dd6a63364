//! What clients put: flow definitions, thresholds, groups and the topology.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Map, Value};

use super::analysis::{Groups, Topology};
use super::call::named;
use super::problem::{Answer, Problem, json_response};
use super::{Api, Call};
use crate::thresholds::Threshold;

/// Carried out; there is nothing to say.
fn done() -> Answer {
    Ok(StatusCode::NO_CONTENT.into_response())
}

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
    let name = call.new_name()?;
    // What it means the analyser knows; where it is no JSON, the place is told.
    let definition: Map<String, Value> = call.json()?;
    api.analysis.put_flow(name, &Value::Object(definition).to_string())?;
    done()
}

pub(super) fn delete_flow(api: &Arc<Api>, call: &Call) -> Answer {
    deleted(api.analysis.delete_flow(call.part("name")), "flow definition", call, "/flow/json")
}

pub(super) fn thresholds(api: &Arc<Api>, _: &Call) -> Answer {
    Ok(json_response(StatusCode::OK, &api.analysis.thresholds()))
}

pub(super) fn threshold(api: &Arc<Api>, call: &Call) -> Answer {
    found(api.analysis.thresholds().get(call.part("name")), "threshold", call, "/threshold/json")
}

pub(super) fn put_threshold(api: &Arc<Api>, call: &Call) -> Answer {
    let threshold: Threshold = call.json()?;
    api.analysis.put_threshold(call.new_name()?, threshold)?;
    done()
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
    let groups: Groups = call.json()?;
    for name in groups.keys() {
        named(name)?;
    }
    api.analysis.put_groups(call.new_name()?, groups)?;
    done()
}

pub(super) fn delete_groups(api: &Arc<Api>, call: &Call) -> Answer {
    let was_there = api.analysis.groups().contains_key(call.part("name"));
    if was_there {
        api.analysis.put_groups(call.part("name"), Groups::new())?;
    }
    deleted(was_there, "group", call, "/group/json")
}

pub(super) fn topology(api: &Arc<Api>, _: &Call) -> Answer {
    Ok(json_response(StatusCode::OK, &api.analysis.topology()))
}

pub(super) fn put_topology(api: &Arc<Api>, call: &Call) -> Answer {
    let topology: Topology = call.json()?;
    for (name, link) in &topology.links {
        for node in [&link.node1, &link.node2] {
            if !topology.nodes.contains_key(node) {
                return Err(Problem::request(format!("link {name:?}: there is no node {node:?} among the nodes")));
            }
        }
    }
    api.analysis.put_topology(topology)?;
    done()
}
