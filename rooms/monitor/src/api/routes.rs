//! REST: what is there, the past of a channel, events, the account.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, Path, Request};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_program::escape::write_json;
use weir_service::http::{Held, Purpose, is_wanted};

use super::figures::count;
use super::rows::{Asked, csv, rows};
use super::{Alarm, Api, NotAcknowledged, live};
use crate::history::Listed;

/// Why a request is not carried out: `{"error": "..."}`.
#[derive(Debug)]
struct Problem {
    status: StatusCode,
    message: String,
}

type Answer = Result<Response, Problem>;

/// A request, admitted.
struct Call {
    query: Vec<(String, String)>,
    request: Request,
}

pub(super) fn router(api: &Arc<Api>) -> Router {
    let on = |purpose: Purpose, run: fn(&Arc<Api>, &Call) -> Answer| {
        let api = api.clone();
        any(move |request: Request| {
            let api = api.clone();
            async move { admitted(&api, purpose, request).and_then(|call| run(&api, &call)).into_response() }
        })
    };
    let follow = {
        let api = api.clone();
        any(move |request: Request| {
            let api = api.clone();
            async move { follow(api, request).await }
        })
    };
    let history = {
        let api = api.clone();
        any(move |request: Request| {
            let api = api.clone();
            async move {
                let call = match admitted(&api, Purpose::Read, request) {
                    Ok(call) => call,
                    Err(problem) => return problem.into_response(),
                };
                // It may take long: beside the reactor.
                let working = api.clone();
                let answer = tokio::task::spawn_blocking(move || history(&working, &call)).await;
                answer.unwrap_or_else(|_| Err(mistake())).into_response()
            }
        })
    };
    let file = {
        let api = api.clone();
        any(move |Path(name): Path<String>, request: Request| {
            let api = api.clone();
            async move {
                let call = admitted(&api, Purpose::Read, request);
                call.and_then(|call| page(&api, &name, &call)).into_response()
            }
        })
    };
    let (lost, shared) = (api.clone(), api.clone());
    Router::new()
        .route("/", on(Purpose::Read, index))
        .route("/page/{file}", file)
        .route("/live", follow)
        .route("/channels", on(Purpose::Read, channels))
        .route("/history", history)
        .route("/events", on(Purpose::Read, events))
        .route("/acknowledge", on(Purpose::Change, acknowledge))
        .route("/ledger", on(Purpose::Read, ledger))
        .fallback(move |request: Request| {
            let api = lost.clone();
            async move {
                let path = request.uri().path().to_owned();
                let absent = |_| {
                    let message = format!("there is no path {path:?}; / lists all");
                    Err::<Response, _>(Problem { status: StatusCode::NOT_FOUND, message })
                };
                admitted(&api, Purpose::Read, request).and_then(absent).into_response()
            }
        })
        .layer(from_fn(move |request: Request, next: Next| {
            let api = shared.clone();
            async move {
                let asked = request.headers().clone();
                let mut response = next.run(request).await;
                response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
                api.settings.share(&asked, response.headers_mut());
                response
            }
        }))
}

/// What there is, for who is no browser.
const INDEX: &str = "\
GET /channels                    all channels, with their keys
GET /history?key=                the past of one; from= and to= in ms since 1970, of the end if negative; columns=; format=csv
GET /events?since=               events after one
GET /ledger                      the account
GET /live                        a WebSocket: docs/monitor.md
POST /acknowledge?station=&stream=&channel=&by=    alarms of a channel are seen; alarm= the worst that was shown
";

fn index(api: &Arc<Api>, call: &Call) -> Answer {
    match is_wanted(call.request.headers()) {
        true => page(api, "index.html", call),
        false => Ok(INDEX.into_response()),
    }
}

fn page(api: &Api, name: &str, call: &Call) -> Answer {
    let file = api.page.file(name, call.request.headers());
    file.ok_or_else(|| Problem { status: StatusCode::NOT_FOUND, message: format!("the page has no file {name:?}") })
}

fn channels(api: &Arc<Api>, call: &Call) -> Answer {
    call.check(&[])?;
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

fn history(api: &Api, call: &Call) -> Answer {
    call.check(&["key", "from", "to", "columns", "format"])?;
    let asked = Asked {
        key: call.number("key", None, 0.0, f64::from(u32::MAX))? as u32,
        from: call.number("from", Some(-60_000.0), f64::MIN, f64::MAX)?,
        to: call.number("to", Some(-0.0), f64::MIN, f64::MAX)?,
        columns: call.number("columns", Some(1000.0), 1.0, 100_000.0)? as u32,
    };
    let catalog = api.shown.history().catalog();
    let listed = catalog.iter().find(|listed| listed.key == asked.key).ok_or_else(|| Problem {
        status: StatusCode::NOT_FOUND,
        message: format!("there is no channel {}; /channels lists those that there are", asked.key),
    })?;
    let rows = rows(api.shown.history(), listed, &asked);
    let accepted = call.request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_table =
        accepted.split(',').any(|media| media.split(';').next().is_some_and(|media| media.trim() == "text/csv"));
    match call.text("format").unwrap_or(if is_table { "csv" } else { "json" }) {
        "csv" => Ok(([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], csv(&rows)).into_response()),
        "json" => Ok(json_response(StatusCode::OK, &rows)),
        other => Err(Problem::request(format!("format={other}: is to be json or csv"))),
    }
}

fn events(api: &Arc<Api>, call: &Call) -> Answer {
    call.check(&["since"])?;
    // Numbers of events are counted up from 1.
    let since = call.number("since", Some(0.0), 0.0, f64::MAX)? as u64;
    Ok(json_response(StatusCode::OK, &api.shown.events_since(since)))
}

/// Of a page of another server of this feed it comes without what browsers ask leave for: all of it is in the query.
fn acknowledge(api: &Arc<Api>, call: &Call) -> Answer {
    call.check(&["station", "stream", "channel", "by", "alarm"])?;
    let needed = |name: &str| call.text(name).ok_or_else(|| Problem::request(format!("{name}: this path needs it")));
    let channel = [needed("station")?, needed("stream")?, needed("channel")?];
    let by = needed("by")?.trim();
    if by.is_empty() || by.len() > LONGEST_NAME || by.chars().any(char::is_control) {
        let range = format!("1 to {LONGEST_NAME} bytes, none of them a control character");
        return Err(Problem::request(format!("by: is to be {range}")));
    }
    let alarm =
        |text: &str| Alarm::deserialize(serde::de::value::StrDeserializer::<serde::de::value::Error>::new(text));
    let seen = call.text("alarm").map(|text| {
        let range = "very_low, low, high or very_high";
        alarm(text).map_err(|_| Problem::request(format!("alarm={text}: is to be {range}")))
    });
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
        Problem { status, message }
    };
    let alarm = api.shown.acknowledge(channel, seen.transpose()?, by).map_err(refused)?;
    Ok(json_response(StatusCode::OK, &json!({"acknowledged": alarm, "by": by})))
}

fn ledger(api: &Arc<Api>, call: &Call) -> Answer {
    call.check(&[])?;
    let told = json!({"server": api.shown.ledger(), "page": api.figures.told(api.places.taken(), &api.ended)});
    Ok(json_response(StatusCode::OK, &told))
}

/// A WebSocket, if there is a place.
async fn follow(api: Arc<Api>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    if let Err(refused) = api.settings.admit(&parts, false, Purpose::Follow) {
        return Problem::from(refused).into_response();
    }
    let held = parts.extensions.get::<Held>().cloned().unwrap_or_default();
    let place = match api.places.take(&held) {
        Ok(place) => place,
        Err(full) => {
            count(&api.figures.refused);
            let problem = Problem { status: StatusCode::SERVICE_UNAVAILABLE, message: full.to_string() };
            return problem.into_response();
        }
    };
    match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => {
            let upgrade = upgrade.max_message_size(LONGEST_ASK).max_frame_size(LONGEST_ASK);
            upgrade.on_upgrade(move |socket| live::follow(api, socket, place))
        }
        Err(refused) => refused.into_response(),
    }
}

fn admitted(api: &Api, purpose: Purpose, request: Request) -> Result<Call, Problem> {
    let (parts, body) = request.into_parts();
    api.settings.admit(&parts, false, purpose)?;
    let (is_taken, taken) = match purpose {
        Purpose::Change => (parts.method == Method::POST, "POST"),
        Purpose::Read | Purpose::Follow => (matches!(parts.method, Method::GET | Method::HEAD), "GET"),
    };
    if !is_taken {
        let message = format!("{} is not for this path: it takes {taken}", parts.method);
        return Err(Problem { status: StatusCode::METHOD_NOT_ALLOWED, message });
    }
    let query = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
    Ok(Call { query, request: Request::from_parts(parts, body) })
}

impl Call {
    fn text(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A number within bounds, or its default; without one it has to be given.
    fn number(&self, name: &str, default: Option<f64>, least: f64, most: f64) -> Result<f64, Problem> {
        let Some(text) = self.text(name) else {
            return default.ok_or_else(|| Problem::request(format!("{name}: this path needs it")));
        };
        let number = text.parse().ok().filter(|number: &f64| (least..=most).contains(number));
        number.ok_or_else(|| {
            let range = if most > 1e9 { "a number".to_owned() } else { format!("a number from {least} to {most}") };
            Problem::request(format!("{name}={text}: is to be {range}"))
        })
    }

    /// Refuses parameters that are not known.
    fn check(&self, known: &[&str]) -> Result<(), Problem> {
        let Some((name, _)) = self.query.iter().find(|(name, _)| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        let takes = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(Problem::request(format!("unknown parameter {name:?}: this path takes {takes}")))
    }
}

impl Problem {
    fn request(message: String) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message }
    }
}

impl From<weir_service::http::Refused> for Problem {
    fn from(refused: weir_service::http::Refused) -> Self {
        Self { status: refused.status, message: refused.message }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        json_response(self.status, &json!({"error": self.message}))
    }
}

fn mistake() -> Problem {
    let message = "the request failed by a mistake in this program: its log says more".to_owned();
    Problem { status: StatusCode::INTERNAL_SERVER_ERROR, message }
}

fn json_response(status: StatusCode, value: &impl Serialize) -> Response {
    let mut body = Vec::new();
    // Writing to memory does not fail, and values of ours have strings for keys.
    let _ = write_json(&mut body, value);
    (status, [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], Bytes::from(body))
        .into_response()
}

/// Milliseconds since 1970 of nanoseconds, as browsers count.
pub(super) fn millis(nanos: i64) -> f64 {
    // In halves, so that what is below a millisecond stays.
    (nanos / 1_000_000) as f64 + (nanos % 1_000_000) as f64 / 1e6
}

/// Bytes of a name that somebody acknowledges under.
const LONGEST_NAME: usize = 60;

/// Bytes of what a client says at once: some thousand keys.
const LONGEST_ASK: usize = 64 * 1024;
