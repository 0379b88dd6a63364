//! Agents and the analyser itself.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use super::problem::{Answer, JSON, json_response};
use super::selection::agent_of;
use super::{Api, Call, pages};
use crate::escape;

pub(super) fn version(_: &Arc<Api>, _: &Call) -> Answer {
    Ok(concat!("weir-", env!("CARGO_PKG_VERSION")).into_response())
}

pub(super) fn ready(_: &Arc<Api>, _: &Call) -> Answer {
    Ok(json_response(StatusCode::OK, &serde_json::json!({"ready": true})))
}

pub(super) fn analyzer(api: &Arc<Api>, _: &Call) -> Answer {
    let mut figures = figures(api);
    figures.insert("connections_ended_full".to_owned(), api.ended.count().into());
    Ok(json_response(StatusCode::OK, &figures))
}

/// What is counted of all shards together.
pub(super) fn figures(api: &Api) -> Map<String, Value> {
    let mut figures = api.shards.statistics().figures();
    figures.insert("workers".to_owned(), api.shards.len().into());
    figures
}

/// An object by address, written as it is read.
pub(super) fn agents(api: &Arc<Api>, call: &Call) -> Answer {
    let mut wanted = BTreeSet::new();
    for name in call.texts("agent") {
        wanted.insert(agent_of(&*api.analysis, name)?);
    }
    let addresses: Vec<IpAddr> = if wanted.is_empty() { api.analysis.agents() } else { wanted.into_iter().collect() };
    let (api, turns) = (api.clone(), api.turns());
    json_pages(turns, *b"{}", addresses, move |page, address| {
        if let Some(agent) = api.analysis.agent(address) {
            page.extend_from_slice(format!(",\n\"{address}\":").as_bytes());
            // Writing to memory does not fail.
            let _ = escape::write_json(page, &agent);
        }
    })
}

/// A list or an object, written as it is read: `write` appends the entries of an item, each behind a comma and a new line.
pub(super) fn json_pages<T: Send + Unpin + 'static>(
    turns: Arc<Semaphore>,
    [open, close]: [u8; 2],
    items: Vec<T>,
    mut write: impl FnMut(&mut Vec<u8>, T) + Send + Unpin + 'static,
) -> Answer {
    let (mut items, mut is_empty) = (items.into_iter(), true);
    let body = pages(turns, move |page| {
        let begin = page.len();
        let Some(item) = items.next() else {
            page.extend([if is_empty { open } else { b'\n' }, close, b'\n']);
            return false;
        };
        write(page, item);
        // Before the first entry is no comma.
        if is_empty && page.len() > begin {
            (page[begin], is_empty) = (open, false);
        }
        true
    });
    Ok(([(header::CONTENT_TYPE, JSON)], body).into_response())
}
