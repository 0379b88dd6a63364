//! The one table of routes: from it come the router, the checks of parameters, the index, the OpenAPI description and
//! `docs/sflow-rest.md`.

mod table;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use bytes::Bytes;
use tokio::time::timeout;
use weir_service::http::{Held, Purpose, is_wanted};

use super::call::Parameter;
use super::problem::{Answer, Problem};
use super::streams::Later;
use super::{Api, Call};
use table::OF_THE_PAGE;
pub(super) use table::PARTS;
pub(crate) use table::ROUTES;

/// What a path does by one method.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) verb: Verb,
    pub(crate) path: &'static str,
    pub(crate) about: &'static str,
    pub(crate) query: &'static [Parameter],
    /// Whether all other parameters are conditions on metrics.
    pub(crate) conditions: bool,
    /// An example of the body that it wants.
    pub(crate) body: Option<&'static str>,
    pub(crate) media: &'static str,
    /// A call that can be tried.
    pub(crate) example: &'static str,
    pub(crate) run: Run,
    /// Whether it changes something, though it is a GET.
    pub(crate) changes: bool,
    /// Whether it may take long: then it is done in turn.
    pub(crate) long: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Put,
    Delete,
}

impl Verb {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// Who answers: at once, from what is in memory; or who may have to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    Now(fn(&Arc<Api>, &Call) -> Answer),
    Later(fn(Arc<Api>, Call) -> Later),
}

const fn get(
    path: &'static str,
    example: &'static str,
    about: &'static str,
    run: fn(&Arc<Api>, &Call) -> Answer,
) -> Route {
    let media = super::problem::JSON;
    Route {
        verb: Verb::Get,
        path,
        about,
        query: &[],
        conditions: false,
        body: None,
        media,
        example,
        run: Run::Now(run),
        changes: false,
        long: false,
    }
}

impl Route {
    const fn query(self, query: &'static [Parameter]) -> Self {
        Self { query, ..self }
    }

    const fn conditions(self) -> Self {
        Self { conditions: true, ..self }
    }

    const fn media(self, media: &'static str) -> Self {
        Self { media, ..self }
    }

    const fn put(self, body: &'static str) -> Self {
        Self { verb: Verb::Put, body: Some(body), ..self }
    }

    const fn delete(self) -> Self {
        Self { verb: Verb::Delete, ..self }
    }

    const fn changes(self) -> Self {
        Self { changes: true, ..self }
    }

    const fn long(self) -> Self {
        Self { long: true, ..self }
    }

    const fn later(self, run: fn(Arc<Api>, Call) -> Later) -> Self {
        Self { run: Run::Later(run), ..self }
    }
}

pub(crate) fn router(api: Arc<Api>) -> Router {
    let mut router = Router::new();
    let mut paths: Vec<&str> = ROUTES.iter().chain(OF_THE_PAGE).map(|route| route.path).collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        router = router.route(path, methods(&api, path));
    }
    router.fallback(move |request: Request| {
        let api = api.clone();
        async move {
            let (parts, _) = request.into_parts();
            let refused = api.admit(&parts, Purpose::Read).err();
            refused.unwrap_or_else(|| unknown(parts.uri.path())).into_response()
        }
    })
}

fn methods(api: &Arc<Api>, path: &'static str) -> MethodRouter {
    let routes = || ROUTES.iter().chain(OF_THE_PAGE).filter(move |route| route.path == path);
    let mut names: Vec<&str> = routes().map(|route| route.verb.name()).collect();
    names.extend(["HEAD", "OPTIONS"]);
    let allowed = names.join(", ");
    let mut methods = MethodRouter::new();
    for route in routes() {
        let filter = match route.verb {
            Verb::Get => MethodFilter::GET,
            Verb::Put => MethodFilter::PUT,
            Verb::Delete => MethodFilter::DELETE,
        };
        let api = api.clone();
        methods =
            methods.merge(on(filter, move |parts: Result<RawPathParams, RawPathParamsRejection>, request: Request| {
                let api = api.clone();
                async move { carry_out(api, route, parts, request).await }
            }));
    }
    let api = api.clone();
    methods.fallback(move |request: Request| {
        let (api, allowed) = (api.clone(), allowed.clone());
        async move {
            let (parts, _) = request.into_parts();
            let mut response = match api.admit(&parts, Purpose::Read) {
                Err(refused) => refused.into_response(),
                Ok(()) if parts.method == Method::OPTIONS => {
                    let allow = HeaderValue::from_str(&allowed).unwrap_or_else(|_| HeaderValue::from_static("GET"));
                    (StatusCode::NO_CONTENT, [(header::ALLOW, allow)]).into_response()
                }
                Ok(()) => Problem::method(parts.method.as_str(), &allowed).into_response(),
            };
            api.settings.share(&parts.headers, response.headers_mut());
            response
        }
    })
}

async fn carry_out(
    api: Arc<Api>,
    route: &'static Route,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let answer = async {
        api.admit(&parts, if route.changes { Purpose::Change } else { Purpose::Read })?;
        let path = path.map_err(|error| Problem::request(format!("path: {error}")))?;
        let query = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
        let body = if route.body.is_some() { read(body).await? } else { Bytes::new() };
        let call = Call {
            route,
            path: path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            query,
            headers: parts.headers.clone(),
            body,
            held: parts.extensions.get::<Held>().cloned().unwrap_or_default(),
        };
        call.check()?;
        match route.run {
            Run::Later(run) => run(api.clone(), call).await,
            Run::Now(run) => {
                let answer = if route.long {
                    api.in_turn(move |api| run(api, &call)).await
                } else {
                    let api = api.clone();
                    tokio::task::spawn_blocking(move || run(&api, &call)).await.ok()
                };
                answer.unwrap_or_else(|| {
                    let message = "the request failed by a mistake in this program: its log says more";
                    Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, message))
                })
            }
        }
    };
    let mut response = answer.await.unwrap_or_else(IntoResponse::into_response);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    api.settings.share(&parts.headers, response.headers_mut());
    response
}

async fn read(body: axum::body::Body) -> Result<Bytes, Problem> {
    match timeout(PATIENCE, axum::body::to_bytes(body, LONGEST_BODY)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => {
            let message = format!("the body is longer than {LONGEST_BODY} bytes, or broke off");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message))
        }
        Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")),
    }
}

/// 404, with the path that was probably meant.
fn unknown(path: &str) -> Problem {
    let near = |route: &&Route| strsim::damerau_levenshtein(route.path, path);
    let nearest = ROUTES.iter().min_by_key(near).filter(|route| near(route) <= path.len() / 3 + 1);
    let meant = nearest.map(|route| format!("; {} is near", route.path)).unwrap_or_default();
    Problem::new(StatusCode::NOT_FOUND, format!("there is no path {path:?}{meant}; / lists all"))
}

fn index(_: &Arc<Api>, call: &Call) -> Answer {
    if is_wanted(&call.headers) {
        return super::page::index(call);
    }
    let mut text = String::new();
    for route in ROUTES {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:<7}{}", route.verb.name(), route.path);
    }
    Ok(text.into_response())
}

/// The page that describes every route, for `docs/sflow-rest.md`: `answer` gives what an example's method, call and body
/// are answered.
pub fn page(mut answer: impl FnMut(&str, &str, Option<&str>) -> String) -> String {
    let mut page = String::from("\n## In braces\n\n");
    for (name, about) in PARTS {
        let _ = writeln!(page, "- `{{{name}}}`: {about}");
    }
    for route in ROUTES {
        let _ = writeln!(page, "\n## `{} {}`\n\n{}", route.verb.name(), route.path, route.about);
        if !route.query.is_empty() {
            page.push_str("\n| parameter | is | unless told | |\n|---|---|---|---|\n");
            for parameter in route.query {
                let default = parameter.kind.default().filter(|default| default != "-1").unwrap_or_default();
                let range = parameter.kind.range();
                let _ = writeln!(page, "| `{}` | {range} | {default} | {} |", parameter.name, parameter.about);
            }
        }
        if route.conditions {
            page.push_str(
                "\nParameters are conditions on metrics: `?os_name=linux&os_name=windows&host_name=*web*`. A name's values \
                 are alternatives, and `*` stands for any text.\n",
            );
        }
        let _ = write!(page, "\n```\n{} {}\n", route.verb.name(), route.example);
        route.body.map(|body| writeln!(page, "{body}"));
        if !matches!(route.path, "/" | "/openapi.json") {
            let _ = writeln!(page, "\n{}", answer(route.verb.name(), route.example, route.body).trim_end());
        }
        page.push_str("```\n");
    }
    page
}

/// Bytes of a body: some thousands of networks.
const LONGEST_BODY: usize = 1024 * 1024;

/// How long a body may take.
const PATIENCE: Duration = Duration::from_secs(10);
