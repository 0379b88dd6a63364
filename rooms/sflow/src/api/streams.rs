//! Whoever waits: long polls for events and completed flows, and streams of server-sent events.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::mpsc::{self, Sender};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::body::sent;
use super::flows::query;
use super::problem::{Answer, Problem, json_response};
use super::selection::agents_of;
use super::waiting::Place;
use super::{Api, Call};
use crate::events::{Log, Numbered};

pub(super) type Later = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Events after `eventID`, newest first; where there is none, the call waits for `timeout`.
pub(super) fn events(api: Arc<Api>, call: Call) -> Later {
    Box::pin(async move {
        let wanted = call.text("thresholdID").map(str::to_owned);
        let is_wanted =
            |event: &crate::events::Event| wanted.as_deref().is_none_or(|name| name == &*event.threshold_id);
        poll(&api, &call, api.analysis.events(), "eventID", "maxEvents", is_wanted).await
    })
}

/// Completed flows after `flowID`, likewise.
pub(super) fn completed(api: Arc<Api>, call: Call) -> Later {
    Box::pin(async move {
        let wanted = call.text("name").map(str::to_owned);
        let is_wanted = |flow: &super::CompletedFlow| wanted.as_deref().is_none_or(|name| name == flow.name);
        poll(&api, &call, api.analysis.completed_flows(), "flowID", "maxFlows", is_wanted).await
    })
}

async fn poll<T: Numbered + Serialize>(
    api: &Api,
    call: &Call,
    log: &Log<T>,
    after: &str,
    most: &str,
    wanted: impl FnMut(&T) -> bool,
) -> Answer {
    // As clients of sFlow-RT begin: with -1.
    let number = call.whole(after).and_then(|number| number.try_into().ok()).unwrap_or(0);
    let patience = call.seconds("timeout");
    let _place = if patience.is_zero() { None } else { Some(api.places.take(&call.held)?) };
    let records = log.wait(number, call.count(most), patience, wanted).await;
    let records: Vec<&T> = records.iter().map(|record| &**record).collect();
    Ok(json_response(StatusCode::OK, &records))
}

/// Each event as it happens; `Last-Event-ID` goes on after one, without it the stream begins now.
pub(super) fn event_stream(api: Arc<Api>, call: Call) -> Later {
    Box::pin(async move {
        let place = api.places.take(&call.held)?;
        let wanted = call.text("thresholdID").map(str::to_owned);
        let last = call.headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(|id| id.parse().ok());
        let after = last.or(call.whole("eventID").map(|id| id.try_into().unwrap_or(0)));
        // Before the answer begins: once a client has its head, no event is missed.
        let mut newest = api.analysis.events().newest();
        let mut at: u64 = after.unwrap_or(*newest.borrow());
        Ok(stream(place, move |client| async move {
            let log = api.analysis.events();
            loop {
                let reached = *newest.borrow_and_update();
                let is_wanted =
                    |event: &crate::events::Event| wanted.as_deref().is_none_or(|name| name == &*event.threshold_id);
                let events = log.next(at, BATCH, is_wanted);
                for event in &events {
                    at = event.id;
                    client.send(&format!("id: {}\nevent: threshold\n", event.id), &**event).await?;
                }
                if events.len() < BATCH {
                    // Those that are not wanted are not looked at again.
                    at = at.max(reached);
                    let quiet = Instant::now() + KEEP_ALIVE;
                    tokio::select! {
                        changed = newest.changed() => changed.map_err(|_| Gone)?,
                        () = sleep_until(quiet) => client.keep_alive().await?,
                        () = client.0.closed() => return Err(Gone),
                    }
                }
            }
        }))
    })
}

/// The active flows, again after each `interval`.
pub(super) fn flow_stream(api: Arc<Api>, call: Call) -> Later {
    Box::pin(async move {
        let agents = agents_of(&*api.analysis, &call)?;
        let name = call.part("name").to_owned();
        if !api.analysis.flows().contains_key(&name) {
            return Err(Problem::absent("flow definition", &name, "/flow/json"));
        }
        let place = api.places.take(&call.held)?;
        let (query, step) = (query(&call), call.seconds("interval"));
        Ok(stream(place, move |client| async move {
            let mut ticks = interval(step);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            let mut told = Instant::now();
            loop {
                tokio::select! {
                    _ = ticks.tick() => {}
                    () = sleep_until(told + KEEP_ALIVE) => {
                        client.keep_alive().await?;
                        told = Instant::now();
                        continue;
                    }
                    () = client.0.closed() => return Err(Gone),
                }
                let flows = {
                    let (api, name, agents) = (api.clone(), name.clone(), agents.clone());
                    let look = move || api.analysis.active_flows(&name, &agents, &query);
                    tokio::task::spawn_blocking(look).await.map_err(|_| Gone)?
                };
                // The definition has ended: so does the stream.
                let Some(flows) = flows else { return Err(Gone) };
                client.send("event: flows\n", &flows).await?;
                told = Instant::now();
            }
        }))
    })
}

/// The client has left, or does not read.
struct Gone;

struct Client(Sender<Bytes>);

impl Client {
    async fn send(&self, head: &str, data: &impl Serialize) -> Result<(), Gone> {
        let data = serde_json::to_string(data).map_err(|_| Gone)?;
        // JSON has no bare line ends, which would end the field.
        self.give(format!("{head}data: {data}\n\n").into()).await
    }

    async fn keep_alive(&self) -> Result<(), Gone> {
        self.give(Bytes::from_static(b":\n\n")).await
    }

    async fn give(&self, frame: Bytes) -> Result<(), Gone> {
        match timeout(PATIENCE, self.0.send(frame)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Gone),
        }
    }
}

fn stream<F: Future<Output = Result<(), Gone>> + Send + 'static>(
    place: Place,
    follow: impl FnOnce(Client) -> F + Send + 'static,
) -> Response {
    let (sender, frames) = mpsc::channel(1);
    tokio::spawn(async move {
        let _place = place;
        // Ends when the client does.
        let _ = follow(Client(sender)).await;
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, sent(frames)).into_response()
}

/// Events taken from the log at once.
const BATCH: usize = 64;

/// Silence after which a line shows that the stream lives, to proxies too.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a client may take to read what fills the buffers.
const PATIENCE: Duration = Duration::from_secs(30);
