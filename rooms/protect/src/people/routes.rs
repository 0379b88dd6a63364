//! The one table of routes below `/protect`: from it come the router, the checks of parameters, the index and the table of
//! `docs/protect.md`.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request};
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use axum::routing::any;
use ipnet::IpNet;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::timeout;
use weir_service::http::{self, ANY, Parameter, is_wanted};

use super::call::Call;
use super::page::PAGE;
use super::problem::{Answer, Problem, absent, json_response};
use super::{People, Role, live, told};
use crate::config::values::Network;
use crate::model::Command;

/// What a path does.
#[derive(Debug)]
pub(super) struct Route {
    verb: &'static str,
    pub(super) path: &'static str,
    what: What,
    pub(super) query: &'static [Parameter],
    /// An example of the body that it wants.
    body: Option<&'static str>,
    about: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    State,
    Attacks,
    Attack,
    History,
    Groups,
    Journal,
    Live,
    Approve,
    Withdraw,
    Extend,
    Add,
    Stop,
    Resume,
    Sweep,
}

const fn get(path: &'static str, what: What, about: &'static str) -> Route {
    Route { verb: "GET", path, what, query: &[], body: None, about }
}

const fn post(path: &'static str, what: What, about: &'static str) -> Route {
    Route { verb: "POST", path, what, query: &[], body: None, about }
}

impl Route {
    const fn query(self, query: &'static [Parameter]) -> Self {
        Self { query, ..self }
    }

    const fn body(self, body: &'static str) -> Self {
        Self { body: Some(body), ..self }
    }

    fn needs(&self) -> Role {
        if self.verb == "GET" { Role::Read } else { Role::Act }
    }

    /// The number in a path, if it is this one's; 0 where there is none.
    fn matches(&self, path: &str) -> Option<u64> {
        let (mut wanted, mut parts, mut id) = (self.path.split('/'), path.split('/'), 0);
        loop {
            match (wanted.next(), parts.next()) {
                (None, None) => return Some(id),
                (Some("{id}"), Some(part)) => id = part.parse().ok()?,
                (Some(one), Some(other)) if one == other => {}
                _ => return None,
            }
        }
    }
}

static ROUTES: &[Route] = &[
    get("/protect/state", What::State, "Mode, stop, speaker, caps and what they are used by, counts since the start."),
    get("/protect/attacks", What::Attacks, "Attacks that are not over, the newest first, each in a row.")
        .query(&[Parameter::whole("most", 1, 10_000, Some(1000), "how many at most")]),
    get(
        "/protect/attacks/{id}",
        What::Attack,
        "All that is known of one: evidence, rules, doubts, routes and what the speaker says of them, harm, refusal.",
    ),
    get("/protect/history", What::History, "Those that are over, likewise.")
        .query(&[Parameter::whole("most", 1, 10_000, Some(100), "how many at most")]),
    get("/protect/groups", What::Groups, "What is protected: networks, mode, thresholds in force."),
    get("/protect/journal", What::Journal, "Who did what when, the newest first.").query(&[
        Parameter::whole("before", 0, ANY, None, "only entries older than the one of this number"),
        Parameter::whole("most", 1, 1000, Some(100), "how many at most"),
    ]),
    get(
        "/protect/live",
        What::Live,
        "Server-sent events: `board` whenever something changes, and each second: `state`, the first 200 `attacks`, who `you` are.",
    )
    .query(&[Parameter::whole("attack", 0, ANY, None, "number of an attack of which all is told")]),
    post("/protect/attacks/{id}/approve", What::Approve, "Announces what is pending, or was refused for its harm."),
    post("/protect/attacks/{id}/withdraw", What::Withdraw, "Withdraws its routes; nothing more is done until it is over."),
    post("/protect/attacks/{id}/extend", What::Extend, "Lets its routes live for so many seconds from now on.")
        .body(r#"{"seconds": 3600}"#),
    post(
        "/protect/routes",
        What::Add,
        "Blackholes a prefix of a protected group for so long, whatever is found; it is withdrawn and extended by its number as an attack is.",
    )
    .body(r#"{"prefix": "192.0.2.7/32", "seconds": 3600}"#),
    post("/protect/stop", What::Stop, "Withdraws everything at once; nothing is announced until it is resumed, over restarts too."),
    post("/protect/resume", What::Resume, "Goes on after a stop."),
    post("/protect/sweep", What::Sweep, "Withdraws routes with the number of another Weir, or of this one before its journal was lost."),
];

pub(super) fn router(people: &Arc<People>) -> Router {
    let shell = |name: Option<&'static str>| {
        any(async move |file: Option<Path<String>>, request: Request| {
            let name = name.map(str::to_owned).or(file.map(|Path(file)| file)).unwrap_or_default();
            shown(&name, request).unwrap_or_else(IntoResponse::into_response)
        })
    };
    let people = people.clone();
    let asked = any(move |request: Request| {
        let people = people.clone();
        async move { carry_out(&people, request).await.unwrap_or_else(IntoResponse::into_response) }
    });
    Router::new()
        .route("/protect", shell(Some("index.html")))
        .route("/protect/", shell(Some("index.html")))
        .route("/protect/page/{file}", shell(None))
        .route("/protect/{*rest}", asked)
}

/// A file of the page; who shows none gets the index in place of it.
fn shown(name: &str, request: Request) -> Answer {
    let (parts, _) = request.into_parts();
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Err(Problem::method(parts.method.as_str(), "GET, HEAD"));
    }
    if name == "index.html" && !is_wanted(&parts.headers) {
        return Ok(index().into_response());
    }
    let file = PAGE.file(name, &parts.headers);
    file.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, format!("the page has no file {name:?}")))
}

fn index() -> String {
    let mut text = String::from("Authorization: Bearer TOKEN\n");
    for route in ROUTES {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:<5}{}", route.verb, route.path);
    }
    text
}

async fn carry_out(people: &Arc<People>, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    // Whoever is not known learns nothing, not even what there is.
    let person = people.recognise(&parts)?;
    let (route, id) = routed(&parts.method, parts.uri.path())?;
    person.may(route.needs())?;
    let call = Call { route, person, id, asked: http::Call::checked(parts, route.query, false)? };
    match route.what {
        What::Live => live::follow(people, &call),
        _ if route.needs() == Role::Act => act(people, &call, body).await,
        _ => {
            let people = people.clone();
            // It may take long, or wait for a disk: beside the reactor.
            let answer = tokio::task::spawn_blocking(move || look(&people, &call)).await;
            answer.unwrap_or_else(|_| Err(Problem::mistake()))
        }
    }
}

fn routed(method: &Method, path: &str) -> Result<(&'static Route, u64), Problem> {
    let found: Vec<_> = ROUTES.iter().filter_map(|route| Some((route, route.matches(path)?))).collect();
    let asked = if method == Method::HEAD { "GET" } else { method.as_str() };
    match (found.iter().find(|(route, _)| route.verb == asked), found.first()) {
        (Some(&found), _) => Ok(found),
        (None, Some((other, _))) => Err(Problem::method(asked, if other.verb == "GET" { "GET, HEAD" } else { "POST" })),
        (None, None) => {
            let message = format!("there is no path {path:?}; /protect lists all");
            Err(Problem::new(StatusCode::NOT_FOUND, message))
        }
    }
}

fn look(people: &People, call: &Call) -> Answer {
    let board = people.shown.board().borrow().clone();
    let most = call.asked.count("most");
    Ok(match call.route.what {
        What::State => json_response(StatusCode::OK, &told::state(&board, SystemTime::now())),
        What::Attacks => json_response(StatusCode::OK, &told::rows(&board.attacks, most)),
        What::History => json_response(StatusCode::OK, &told::rows(&board.history, most)),
        What::Groups => json_response(StatusCode::OK, &told::groups(&board)),
        What::Journal => {
            let before = call.asked.whole("before").and_then(|number| number.try_into().ok());
            let entries = people.shown.journal(before, most);
            let broken = |why: String| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why);
            json_response(StatusCode::OK, &entries.map_err(broken)?)
        }
        _ => {
            let attack = told::attack(&board, call.id).ok_or_else(|| absent(call.id))?;
            json_response(StatusCode::OK, &told::whole(attack))
        }
    })
}

/// What a body of `extend` says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Longer {
    seconds: u64,
}

impl Longer {
    fn seconds(&self) -> Result<u64, Problem> {
        let Self { seconds } = *self;
        let wrong = || Problem::request(format!("seconds: {seconds} is not 1 to {LONGEST_LIFE}; an example: 3600"));
        (1..=LONGEST_LIFE).contains(&seconds).then_some(seconds).ok_or_else(wrong)
    }
}

/// What a body of `routes` says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Added {
    prefix: String,
    seconds: u64,
}

impl Added {
    /// What is meant may be narrower than what a prefix with bits behind it says.
    fn prefix(&self) -> Result<IpNet, Problem> {
        let wrong = |what: String| Problem::request(format!("prefix: {:?} {what}", self.prefix));
        let Network(prefix) = self.prefix.parse().map_err(|_| {
            wrong("is neither a prefix nor an address: write e.g. 192.0.2.7 or 2001:db8::/64".to_owned())
        })?;
        let (meant, alone) = (prefix.trunc(), prefix.addr());
        let is_whole = meant == prefix;
        is_whole
            .then_some(prefix)
            .ok_or_else(|| wrong(format!("has bits behind its prefix: write {meant}, or {alone} alone")))
    }
}

async fn act(people: &Arc<People>, call: &Call, body: Body) -> Answer {
    let id = call.id;
    let command = match call.route.what {
        What::Approve => Command::Approve { id },
        What::Withdraw => Command::Withdraw { id },
        What::Extend => Command::Extend { id, seconds: read::<Longer>(call.route, body).await?.seconds()? },
        What::Add => {
            let added = read::<Added>(call.route, body).await?;
            Command::Add { prefix: added.prefix()?, seconds: Longer { seconds: added.seconds }.seconds()? }
        }
        What::Resume => Command::Resume,
        What::Sweep => Command::Sweep,
        _ => Command::Stop,
    };
    let (shown, by) = (people.shown.clone(), call.person.name.clone());
    let done = tokio::task::spawn_blocking(move || shown.command(&by, command)).await;
    let done = done.map_err(|_| Problem::mistake())??;
    Ok(json_response(StatusCode::OK, &json!({"done": done})))
}

async fn read<T: DeserializeOwned>(route: &Route, body: Body) -> Result<T, Problem> {
    let example = route.body.unwrap_or_default();
    let wrong = |why: String| Problem::request(format!("{why}; an example: {example}"));
    let bytes = match timeout(PATIENCE, axum::body::to_bytes(body, LONGEST_BODY)).await {
        Ok(bytes) => bytes.map_err(|_| wrong(format!("the body is longer than {LONGEST_BODY} bytes, or broke off")))?,
        Err(_) => return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")),
    };
    serde_json::from_slice(&bytes).map_err(|error| wrong(format!("body: {error}")))
}

/// The table of all routes, for `docs/protect.md`.
pub fn page() -> String {
    let mut page = String::from("| | needs | |\n|---|---|---|\n");
    for route in ROUTES {
        let needs = if route.needs() == Role::Act { "act" } else { "read" };
        let query: String = route.query.iter().map(|parameter| format!(" {parameter}.")).collect();
        let body = route.body.map(|body| format!(" Body: `{body}`.")).unwrap_or_default();
        // Writing to a string does not fail.
        let _ = writeln!(page, "| `{} {}` | {needs} | {}{query}{body} |", route.verb, route.path, route.about);
    }
    page
}

/// Bytes of a body.
const LONGEST_BODY: usize = 4096;

/// How long a body may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Seconds that routes may be let live at once: 30 days.
const LONGEST_LIFE: u64 = 30 * 86_400;
