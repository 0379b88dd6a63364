//! REST: what is there, the past of a channel, events, the account.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::json;
use weir_service::http::{
    ANY, Answer, Call, Kind, Parameter, Problem, Route, index, is_wanted, json_response, reference,
};

use super::rows::{Asked, csv, rows};
use super::{Alarm, Api, NotAcknowledged, live};
use weir_signal::history::Listed;

pub(super) static ROUTES: &[Route<Api>] = &[
    Route::get("/", "These paths; a browser is shown the page.", |api, call| match is_wanted(&call.parts.headers) {
        true => page(api, "index.html", call),
        false => Ok(index(ROUTES).into_response()),
    })
    .media("text/plain"),
    Route::get("/channels", "All channels, with their keys, how they are, and what there is of them.", channels),
    Route::long(
        "/history",
        "The past of a channel, thinned: least, greatest, first and last of each row, and what is missing.",
        history,
    )
    .query(&[
        Parameter::whole("key", 0, u32::MAX as i64, None, "the channel, as `/channels` has it").needed(),
        Parameter::real("from", f64::MIN, f64::MAX, -60_000.0, "from when on, ms since 1970; if negative, of the end"),
        Parameter::real("to", f64::MIN, f64::MAX, -0.0, "until when, likewise"),
        Parameter::whole("columns", 1, 100_000, Some(1000), "rows at most"),
        Parameter::new(
            "format",
            Kind::Choice { of: &["json", "csv"], default: None },
            "how it is told; without it as `Accept` says, JSON unless that is `text/csv`",
        ),
    ]),
    Route::get("/events", "Events, the oldest first.", events).query(&[Parameter::whole(
        "since",
        0,
        ANY,
        Some(0),
        "only those after the one of this number",
    )]),
    Route::get("/ledger", "The account of what came, and of the page.", ledger),
    Route::later("/live", "A WebSocket: what the page shows.", |api, call| {
        let following = api.clone();
        Box::pin(async move { api.sockets.upgrade(call, move |socket| live::follow(following, socket)).await })
    }),
    Route::get("/acknowledge", "Alarms of a channel are seen.", acknowledge).post().query(&[
        Parameter::text("station", "of the channel").needed(),
        Parameter::text("stream", "of the channel").needed(),
        Parameter::text("channel", "its name").needed(),
        Parameter::text("by", "who has seen them").needed(),
        Parameter::new(
            "alarm",
            Kind::Choice { of: &["very_low", "low", "high", "very_high"], default: None },
            "the worst that was shown: a worse one stays",
        ),
    ]),
];

/// Files of the page.
pub(super) static OF_THE_PAGE: &[Route<Api>] =
    &[Route::get("/page/{file}", "A file of the page.", |api, call| page(api, call.part("file"), call))];

/// The reference of all paths, for `docs/monitor-rest.md`.
pub fn paths() -> String {
    reference(ROUTES)
}

fn page(api: &Api, name: &str, call: &Call) -> Answer {
    let file = api.page.file(name, &call.parts.headers);
    file.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, format!("the page has no file {name:?}")))
}

fn channels(api: &Arc<Api>, _: &Call) -> Answer {
    let states: HashMap<u32, _> = api.shown.states().into_iter().map(|state| (state.key, state)).collect();
    let told = |listed: &Arc<Listed>| {
        let extent = api.shown.history().extent(listed.key).unwrap_or_default();
        let mut told = live::described(listed);
        told["begin"] = json!(extent.begin);
        told["end"] = json!(extent.end);
        told["begin_ms"] = json!(millis(extent.begin_time));
        told["end_ms"] = json!(millis(extent.end_time));
        if let Some(state) = states.get(&listed.key) {
            let stated = live::stated(state);
            stated.as_object().into_iter().flatten().for_each(|(name, value)| told[name] = value.clone());
        }
        told
    };
    let catalog = api.shown.history().catalog();
    Ok(json_response(StatusCode::OK, &catalog.iter().map(told).collect::<Vec<_>>()))
}

fn history(api: &Arc<Api>, call: &Call) -> Answer {
    let asked = Asked {
        key: call.count("key") as u32,
        from: call.real("from"),
        to: call.real("to"),
        columns: call.count("columns") as u32,
    };
    let catalog = api.shown.history().catalog();
    let listed = catalog.iter().find(|listed| listed.key == asked.key);
    let listed = listed.ok_or_else(|| Problem::absent("channel", asked.key, "/channels"))?;
    let rows = rows(api.shown.history(), listed, &asked);
    let accepted = call.header(header::ACCEPT).unwrap_or_default();
    let is_table =
        accepted.split(',').any(|media| media.split(';').next().is_some_and(|media| media.trim() == "text/csv"));
    match call.text("format").unwrap_or(if is_table { "csv" } else { "json" }) {
        "csv" => Ok(([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], csv(&rows)).into_response()),
        _ => Ok(json_response(StatusCode::OK, &rows)),
    }
}

fn events(api: &Arc<Api>, call: &Call) -> Answer {
    // Numbers of events are counted up from 1.
    Ok(json_response(StatusCode::OK, &api.shown.events_since(call.count("since") as u64)))
}

/// Of a page of another server of this feed it comes without what browsers ask leave for: all of it is in the query.
fn acknowledge(api: &Arc<Api>, call: &Call) -> Answer {
    let [station, stream, channel, by] =
        ["station", "stream", "channel", "by"].map(|name| call.text(name).unwrap_or_default());
    let (channel, by) = ([station, stream, channel], by.trim());
    if by.is_empty() || by.len() > LONGEST_NAME || by.chars().any(char::is_control) {
        let range = format!("1 to {LONGEST_NAME} bytes, none of them a control character");
        return Err(Problem::request(format!("by: is to be {range}")));
    }
    let alarm =
        |text: &str| Alarm::deserialize(serde::de::value::StrDeserializer::<serde::de::value::Error>::new(text));
    let seen = call.text("alarm").map(alarm).transpose().map_err(|error| Problem::request(error.to_string()))?;
    let refused = |why: NotAcknowledged| {
        let (status, message) = match why {
            NotAcknowledged::Unknown => {
                (StatusCode::NOT_FOUND, "there is no such channel; /channels lists those that there are".to_owned())
            }
            NotAcknowledged::Nothing => (StatusCode::CONFLICT, "there is nothing to acknowledge".to_owned()),
            NotAcknowledged::Worse(alarm) => {
                let message = format!("it is worse than that by now: {}", json!(alarm).as_str().unwrap_or_default());
                (StatusCode::CONFLICT, message)
            }
        };
        Problem::new(status, message)
    };
    let alarm = api.shown.acknowledge(channel, seen, by).map_err(refused)?;
    Ok(json_response(StatusCode::OK, &json!({"acknowledged": alarm, "by": by})))
}

fn ledger(api: &Arc<Api>, _: &Call) -> Answer {
    let mut page: serde_json::Map<_, _> =
        api.sockets.figures().into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
    for (name, count) in [("messages", &api.messages), ("bytes", &api.bytes)] {
        page.insert(name.to_owned(), count.load(Relaxed).into());
    }
    page.insert("connections_ended_full".to_owned(), api.ended.count().into());
    Ok(json_response(StatusCode::OK, &json!({"server": api.shown.ledger(), "page": page})))
}

/// Milliseconds since 1970 of nanoseconds, as browsers count.
pub(super) fn millis(nanos: i64) -> f64 {
    // In halves, so that what is below a millisecond stays.
    (nanos / 1_000_000) as f64 + (nanos % 1_000_000) as f64 / 1e6
}

/// Bytes of a name that somebody acknowledges under.
const LONGEST_NAME: usize = 60;
