//! One table of routes for each room: from it come the router, the checks of parameters, the index and the reference.

use std::fmt::Write;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::admission::{Purpose, Settings};
use super::call::{Call, Parameter};
use super::problem::{Answer, JSON, Problem};

/// What a path does by one method, for a room that has `S`.
#[derive(Debug)]
pub struct Route<S: 'static> {
    /// The method.
    pub verb: Verb,
    /// With its parts in braces.
    pub path: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// What it may be asked.
    pub query: &'static [Parameter],
    /// Whether further parameters are looked at by who answers.
    pub further: bool,
    /// An example of the body that it wants.
    pub body: Option<&'static str>,
    /// What it answers.
    pub media: &'static str,
    /// A call that can be tried.
    pub example: &'static str,
    run: Run<S>,
    /// Whether it changes something, though it is a GET.
    changes: bool,
}

/// A method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "RFC 9110, section 9")]
pub enum Verb {
    Get,
    Put,
    Post,
    Delete,
}

impl Verb {
    /// As requests have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// An answer that may have to wait.
pub type Later = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Who answers: beside the reactor, from what is in memory; the same, in turn with others that take long; or who waits.
#[derive(Debug)]
enum Run<S> {
    Now(fn(&Arc<S>, &Call) -> Answer),
    Long(fn(&Arc<S>, &Call) -> Answer),
    Later(fn(Arc<S>, Call) -> Later),
}

impl<S> Route<S> {
    /// What is read at once.
    pub const fn get(path: &'static str, about: &'static str, run: fn(&Arc<S>, &Call) -> Answer) -> Self {
        Self::new(path, about, Run::Now(run))
    }

    /// What is read in turn, since it may take long: one of the threads that answer is always for what is short.
    pub const fn long(path: &'static str, about: &'static str, run: fn(&Arc<S>, &Call) -> Answer) -> Self {
        Self::new(path, about, Run::Long(run))
    }

    /// What may have to wait for something.
    pub const fn later(path: &'static str, about: &'static str, run: fn(Arc<S>, Call) -> Later) -> Self {
        Self::new(path, about, Run::Later(run))
    }

    const fn new(path: &'static str, about: &'static str, run: Run<S>) -> Self {
        let (query, body): (&[Parameter], _) = (&[], None);
        Self {
            verb: Verb::Get,
            path,
            about,
            query,
            further: false,
            body,
            media: JSON,
            example: path,
            run,
            changes: false,
        }
    }

    /// With these parameters.
    pub const fn query(self, query: &'static [Parameter]) -> Self {
        Self { query, ..self }
    }

    /// With others that who answers looks at.
    pub const fn further(self) -> Self {
        Self { further: true, ..self }
    }

    /// With answers of this type.
    pub const fn media(self, media: &'static str) -> Self {
        Self { media, ..self }
    }

    /// With a call that can be tried, where the path is none.
    pub const fn example(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    /// By PUT, with a body like this.
    pub const fn put(self, body: &'static str) -> Self {
        Self { verb: Verb::Put, body: Some(body), ..self }
    }

    /// By POST.
    pub const fn post(self) -> Self {
        Self { verb: Verb::Post, ..self }
    }

    /// By DELETE.
    pub const fn delete(self) -> Self {
        Self { verb: Verb::Delete, ..self }
    }

    /// A GET that changes something.
    pub const fn changes(self) -> Self {
        Self { changes: true, ..self }
    }
}

/// The router of a room's tables, of which the first is listed; `turn`: whose turn it is to do long work.
pub fn router<S: Send + Sync + 'static>(
    state: &Arc<S>,
    tables: &[&'static [Route<S>]],
    turn: &Arc<Semaphore>,
) -> Router {
    let listed = tables.first().copied().unwrap_or_default();
    let all = || tables.iter().copied().flatten();
    let mut paths: Vec<&str> = all().map(|route| route.path).collect();
    paths.sort_unstable();
    paths.dedup();
    let mut router = Router::new();
    for path in paths {
        let mut methods = MethodRouter::new();
        let mut allowed = String::new();
        for route in all().filter(|route| route.path == path) {
            let filter = match route.verb {
                Verb::Get => MethodFilter::GET,
                Verb::Put => MethodFilter::PUT,
                Verb::Post => MethodFilter::POST,
                Verb::Delete => MethodFilter::DELETE,
            };
            allowed = allowed + route.verb.name() + ", ";
            let (state, turn) = (state.clone(), turn.clone());
            let carried = move |parts: Result<RawPathParams, RawPathParamsRejection>, request: Request| {
                let answer = carry_out(state.clone(), turn.clone(), route, parts, request);
                async { answer.await.unwrap_or_else(IntoResponse::into_response) }
            };
            methods = methods.merge(on(filter, carried));
        }
        allowed += if allowed.contains("GET") { "HEAD, OPTIONS" } else { "OPTIONS" };
        router = router.route(path, methods.fallback(async move |method: Method| refuse(&method, &allowed)));
    }
    router.fallback(async move |request: Request| unknown(listed, request.uri().path()))
}

async fn carry_out<S: Send + Sync + 'static>(
    state: Arc<S>,
    turn: Arc<Semaphore>,
    route: &'static Route<S>,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Answer {
    let (parts, body) = request.into_parts();
    if route.changes
        && let Some(settings) = parts.extensions.get::<Arc<Settings>>()
    {
        settings.admit(&parts, Purpose::Change)?;
    }
    let path = path.map_err(|error| Problem::request(format!("path: {error}")))?;
    let mut call = Call::checked(parts, route.query, route.further)?;
    call.path = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if let Some(example) = route.body {
        (call.body, call.example) = (read(body).await?, example);
    }
    let (run, turn) = match route.run {
        Run::Later(run) => return run(state, call).await,
        Run::Now(run) => (run, None),
        // Who leaves before gives the turn up.
        Run::Long(run) => (run, turn.acquire_owned().await.ok()),
    };
    let working = move || {
        let _turn = turn;
        run(&state, &call)
    };
    spawn_blocking(working).await.unwrap_or_else(|_| Err(Problem::mistake()))
}

async fn read(body: Body) -> Result<Bytes, Problem> {
    match timeout(PATIENCE, axum::body::to_bytes(body, LONGEST_BODY)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => {
            let message = format!("the body is longer than {LONGEST_BODY} bytes, or broke off");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message))
        }
        Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")),
    }
}

/// 405; or what there is, to who asks for that.
fn refuse(method: &Method, allowed: &str) -> Response {
    match method {
        &Method::OPTIONS => (StatusCode::NO_CONTENT, [(header::ALLOW, allowed)]).into_response(),
        method => Problem::method(method.as_str(), allowed).into_response(),
    }
}

/// 404, with the path that was probably meant.
fn unknown<S>(listed: &[Route<S>], path: &str) -> Problem {
    let near = |route: &&Route<S>| strsim::damerau_levenshtein(route.path, path);
    let nearest = listed.iter().min_by_key(near).filter(|route| near(route) <= path.len() / 3 + 1);
    let meant = nearest.map(|route| format!("; {} is near", route.path)).unwrap_or_default();
    Problem::new(StatusCode::NOT_FOUND, format!("there is no path {path:?}{meant}; / lists all"))
}

/// Every path, a line each.
pub fn index<S>(routes: &[Route<S>]) -> String {
    let line = |route: &Route<S>| {
        let names: Vec<String> = route.query.iter().map(|parameter| format!("{}=", parameter.name)).collect();
        let query = if names.is_empty() { String::new() } else { format!("?{}", names.join("&")) };
        format!("{:<7}{}{query}\n", route.verb.name(), route.path)
    };
    routes.iter().map(line).collect()
}

/// The reference of a table, for a page of `docs/`.
pub fn reference<S>(routes: &[Route<S>]) -> String {
    let mut page = String::from("| | |\n|---|---|\n");
    for Route { verb, path, about, query, .. } in routes {
        // Writing to a string does not fail.
        let _ = write!(page, "| `{} {path}` | {about}", verb.name());
        for parameter in *query {
            let _ = write!(page, "<br>{parameter}");
        }
        page.push_str(" |\n");
    }
    page
}

/// Bytes of a body: some thousands of networks.
const LONGEST_BODY: usize = 1024 * 1024;

/// How long a body may take.
const PATIENCE: Duration = Duration::from_secs(10);
