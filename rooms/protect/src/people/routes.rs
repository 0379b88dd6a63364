//! The table of routes below `/protect`, and the page for everybody.

use std::num::NonZeroU64;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request};
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use axum::routing::any;
use ipnet::IpNet;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;
use tower_service::Service;
use weir_service::http::{self, ANY, Answer, Call, Parameter, Problem, Route, is_wanted, json_response};

use super::access::Person;
use super::page::PAGE;
use super::{People, live, told};
use crate::config::values::Network;
use crate::guard::Denied;
use crate::model::Command;

type Way = Route<People>;

static ROUTES: &[Way] = &[
    Way::get(
        "/protect/state",
        "Mode, stop, speaker, caps and what they are used by, counts since the start.",
        |people, _| Ok(json_response(StatusCode::OK, &told::state(&people.board()))),
    ),
    Way::get("/protect/attacks", "Attacks that are not over, the newest first, each in a row.", |people, call| {
        Ok(json_response(StatusCode::OK, &told::rows(&people.board().attacks, call.count("most"))))
    })
    .query(&[Parameter::whole("most", 1, 10_000, Some(1000), "how many at most")]),
    Way::get(
        "/protect/attacks/{id}",
        "All that is known of one: evidence, rules, doubts, routes and what the speaker says of them, harm, refusal.",
        |people, call| {
            let (board, id) = (people.board(), id(call)?);
            let attack = told::attack(&board, id).ok_or_else(|| absent(id))?;
            Ok(json_response(StatusCode::OK, &told::whole(attack, board.speaker.as_ref())))
        },
    ),
    Way::get("/protect/history", "Those that are over, likewise.", |people, call| {
        Ok(json_response(StatusCode::OK, &told::rows(&people.board().history, call.count("most"))))
    })
    .query(&[Parameter::whole("most", 1, 10_000, Some(100), "how many at most")]),
    Way::get("/protect/groups", "What is protected: networks, mode, thresholds in force.", |people, _| {
        Ok(json_response(StatusCode::OK, &people.board().groups))
    }),
    Way::get("/protect/journal", "Who did what when, the newest first.", |people, call| {
        let before = call.whole("before").and_then(|number| number.try_into().ok());
        Ok(json_response(StatusCode::OK, &people.commands.journal(before, call.count("most"))))
    })
    .query(&[
        Parameter::whole("before", 0, ANY, None, "only entries older than the one of this number"),
        Parameter::whole("most", 1, 1000, Some(100), "how many at most"),
    ]),
    Way::later(
        "/protect/live",
        "Server-sent events: `board` whenever something changes, and each second: `state`, the first 200 `attacks`, who `you` are.",
        |people, call| Box::pin(async move { live::follow(&people, &call) }),
    )
    .query(&[Parameter::whole("attack", 0, ANY, None, "number of an attack of which all is told")]),
    Way::get(
        "/protect/attacks/{id}/approve",
        "Announces what is pending, or was refused for its harm or a doubt.",
        |people, call| act(people, call, Command::Approve { id: id(call)? }),
    )
    .post(),
    Way::get(
        "/protect/attacks/{id}/withdraw",
        "Withdraws its routes; nothing more is done until it is over.",
        |people, call| act(people, call, Command::Withdraw { id: id(call)? }),
    )
    .post(),
    Way::get(
        "/protect/attacks/{id}/extend",
        "Lets its routes live for so many seconds from now on: `{\"seconds\": 3600}`.",
        |people, call| {
            let Longer { seconds } = call.json()?;
            act(people, call, Command::Extend { id: id(call)?, seconds: seconds.get() })
        },
    )
    .put(r#"{"seconds": 3600}"#)
    .post(),
    Way::get(
        "/protect/routes",
        "Blackholes a prefix of a protected group for so long, whatever is found: `{\"prefix\": \"192.0.2.7/32\", \"seconds\": 3600}`. \
         It is withdrawn and extended by its number as an attack is.",
        |people, call| {
            let Added { prefix, seconds } = call.json()?;
            act(people, call, Command::Add { prefix: whole(prefix)?, seconds: seconds.get() })
        },
    )
    .put(r#"{"prefix": "192.0.2.7/32", "seconds": 3600}"#)
    .post(),
    Way::get(
        "/protect/stop",
        "Withdraws everything at once; nothing is announced until it is resumed, over restarts too.",
        |people, call| act(people, call, Command::Stop),
    )
    .post(),
    Way::get("/protect/resume", "Goes on after a stop.", |people, call| act(people, call, Command::Resume)).post(),
];

pub(super) fn router(people: &Arc<People>) -> Router {
    let shell = |name: Option<&'static str>| {
        any(async move |file: Option<Path<String>>, request: Request| {
            let name = name.map(str::to_owned).or(file.map(|Path(file)| file)).unwrap_or_default();
            shown(&name, request).unwrap_or_else(IntoResponse::into_response)
        })
    };
    let (people, table) = (people.clone(), http::router(people, &[ROUTES], &Arc::new(Semaphore::new(1))));
    let asked = any(move |request: Request| {
        // Whoever is not known learns nothing, not even what there is.
        let (admitted, mut table) = (people.admit(request), table.clone());
        async move {
            match admitted {
                Ok(request) => table.call(request).await.into_response(),
                Err(problem) => problem.into_response(),
            }
        }
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
        let index = http::index(ROUTES);
        return Ok(format!("Authorization: Bearer TOKEN\n{index}").into_response());
    }
    let file = PAGE.file(name, &parts.headers);
    file.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, format!("the page has no file {name:?}")))
}

/// The number in the path.
fn id(call: &Call) -> Result<u64, Problem> {
    let id = call.part("id");
    id.parse().map_err(|_| Problem::absent("attack", id, "/protect/attacks"))
}

fn absent(id: u64) -> Problem {
    Problem::absent("attack", id, "/protect/attacks")
}

fn act(people: &People, call: &Call, command: Command) -> Answer {
    let by = call.parts.extensions.get::<Person>().ok_or_else(Problem::mistake)?;
    let done = people.commands.ask(command, &by.name).map_err(|denied| match denied {
        Denied::Unknown(id) => absent(id),
        Denied::Refused(why) => Problem::new(StatusCode::CONFLICT, why),
        Denied::Silent => Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("{denied}: see Weir's log")),
    })?;
    Ok(json_response(StatusCode::OK, &json!({"done": done})))
}

/// What a body of `extend` says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Longer {
    seconds: NonZeroU64,
}

/// What a body of `routes` says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Added {
    prefix: Network,
    seconds: NonZeroU64,
}

/// What is meant may be narrower than what a prefix with bits after it says.
fn whole(prefix: Network) -> Result<IpNet, Problem> {
    prefix.whole().map_err(|what| Problem::request(format!("prefix: {prefix} {what}")))
}

/// The table of all routes, for `docs/protect-rest.md`.
pub fn page() -> String {
    http::reference(ROUTES)
}
