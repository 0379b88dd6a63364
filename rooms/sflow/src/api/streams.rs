//! Whoever waits: long polls for events and completed flows, and streams of server-sent events. A frame is made when the
//! connection has room for it: whoever reads slowly gets fewer, not older ones.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::sleep;
use weir_service::http::{Later, Place, event as frame, events as stream, frames};

use super::flows::query;
use super::latest::{ALIVE, KEEP_ALIVE, Question, follow};
use super::problem::{Answer, Problem, json_response};
use super::selection::agents_of;
use super::{Api, Call};
use crate::events::{Event, Log};

/// Events after `eventID`, newest first; where there is none, the call waits for `timeout`.
pub(super) fn events(api: Arc<Api>, call: Call) -> Later {
    Box::pin(async move {
        let wanted = call.text("thresholdID").map(str::to_owned);
        let is_wanted = |event: &Event| wanted.as_deref().is_none_or(|name| name == &*event.threshold_id);
        poll(&api, &call, api.shards.events(), "eventID", "maxEvents", is_wanted).await
    })
}

/// Completed flows after `flowID`, likewise.
pub(super) fn completed(api: Arc<Api>, call: Call) -> Later {
    Box::pin(async move {
        let wanted = call.text("name").map(str::to_owned);
        let is_wanted = |flow: &super::CompletedFlow| wanted.as_deref().is_none_or(|name| name == flow.name);
        poll(&api, &call, api.shards.completed(), "flowID", "maxFlows", is_wanted).await
    })
}

async fn poll<T: Serialize>(
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
    let _place = if patience.is_zero() { None } else { Some(api.places.take()?) };
    let records = log.wait(number, call.count(most), patience, wanted).await;
    let records: Vec<&T> = records.iter().map(|record| &**record).collect();
    Ok(json_response(StatusCode::OK, &records))
}

/// Each event as it happens; `Last-Event-ID` goes on after one, without it the stream begins now.
pub(super) fn event_stream(api: Arc<Api>, call: Call) -> Later {
    Box::pin(async move {
        let place = api.places.take()?;
        let wanted = call.text("thresholdID").map(str::to_owned);
        let last = call.header("last-event-id").and_then(|id| id.parse().ok());
        let after = last.or(call.whole("eventID").map(|id| id.try_into().unwrap_or(0)));
        // Before the answer begins: once a client has its head, no event is missed.
        let newest = api.shards.events().newest();
        let at: u64 = after.unwrap_or(*newest.borrow());
        let events = Events { api, wanted, newest, at, batch: VecDeque::new(), _place: place };
        Ok(stream(frames(events, Events::next)))
    })
}

/// A stream of events.
struct Events {
    api: Arc<Api>,
    wanted: Option<String>,
    newest: watch::Receiver<u64>,
    /// The last that was told.
    at: u64,
    batch: VecDeque<Arc<Event>>,
    _place: Place,
}

impl Events {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            if let Some(event) = self.batch.pop_front() {
                self.at = event.id;
                return Some((frame(&format!("id: {}\nevent: threshold\n", event.id), &*event), self));
            }
            let reached = *self.newest.borrow_and_update();
            let wanted = self.wanted.as_deref();
            let is_wanted = |event: &Event| wanted.is_none_or(|name| name == &*event.threshold_id);
            self.batch = self.api.shards.events().next(self.at, BATCH, is_wanted).into();
            if self.batch.is_empty() {
                // Those that are not wanted are not looked at again.
                self.at = self.at.max(reached);
                tokio::select! {
                    changed = self.newest.changed() => changed.ok()?,
                    () = sleep(KEEP_ALIVE) => return Some((ALIVE, self)),
                }
            }
        }
    }
}

/// The active flows, again after each `interval`.
pub(super) fn flow_stream(api: Arc<Api>, call: Call) -> Later {
    Box::pin(async move {
        let agents = agents_of(&*api.analysis, &call)?;
        let name = call.part("name").to_owned();
        if api.shards.flow_definition(&name).is_none() {
            return Err(Problem::absent("flow definition", &name, "/flow/json"));
        }
        let (query, apart) = (query(&call), call.seconds("interval"));
        let latest = api.latest.of(&format!("{name:?} {agents:?} {query:?}"));
        // Where the definition has ended, the stream does.
        let make = move |api: &Arc<Api>| {
            let flows = api.analysis.active_flows(&name, &agents, &query)?;
            Some(frame("event: flows\n", &flows))
        };
        follow(api, vec![Question { latest, make: Arc::new(make) }], apart, FRESH)
    })
}

/// Events taken from the log at once.
const BATCH: usize = 64;

/// How much older than asked for a frame may be that another client's question has made: half the least interval.
const FRESH: Duration = Duration::from_millis(50);
