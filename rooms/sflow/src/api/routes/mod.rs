//! What is made from the one table of routes: the index, and `docs/sflow-rest.md`; the router is `weir_service`'s.

mod table;

use std::fmt::Write;
use std::sync::Arc;

use axum::Router;
use axum::response::IntoResponse;
use weir_service::http::{self, Call, is_wanted};

use super::Api;
use super::problem::Answer;
use table::OF_THE_PAGE;
pub(super) use table::PARTS;
pub(crate) use table::ROUTES;

/// A path by one method.
pub(crate) type Route = http::Route<Api>;

pub(crate) fn router(api: &Arc<Api>) -> Router {
    http::router(api, &[ROUTES, OF_THE_PAGE], &api.turns())
}

fn index(_: &Arc<Api>, call: &Call) -> Answer {
    if is_wanted(&call.parts.headers) { super::page::index(call) } else { Ok(http::index(ROUTES).into_response()) }
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
        if route.further {
            page.push_str(
                "\nParameters are conditions on metrics: `?os_name=linux&os_name=windows&host_name=*web*`. A name's values \
                 are alternatives, and `*` stands for any text.\n",
            );
        }
        let _ = write!(page, "\n```\n{} {}\n", route.verb.name(), route.example);
        route.body.map(|body| writeln!(page, "{body}"));
        if route.path != "/" {
            let _ = writeln!(page, "\n{}", answer(route.verb.name(), route.example, route.body).trim_end());
        }
        page.push_str("```\n");
    }
    page
}
