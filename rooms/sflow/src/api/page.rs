//! The page: a browser that asks for `/` gets it, other clients the index.

use std::sync::{Arc, LazyLock};

use axum::http::StatusCode;
use weir_service::http::Page;

use super::problem::{Answer, Problem};
use super::{Api, Call};

/// The page itself.
pub(super) fn index(call: &Call) -> Answer {
    serve("index.html", call)
}

/// A file that it needs.
pub(super) fn file(_: &Arc<Api>, call: &Call) -> Answer {
    serve(call.part("file"), call)
}

fn serve(name: &str, call: &Call) -> Answer {
    let file = PAGE.file(name, &call.parts.headers);
    file.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, format!("the page has no file {name:?}")))
}

macro_rules! file {
    ($name:literal, $media:literal) => {
        ($name, $media, include_bytes!(concat!("../../page/", $name)).as_slice())
    };
}

static PAGE: LazyLock<Page> = LazyLock::new(|| {
    let files = [
        file!("index.html", "text/html; charset=utf-8"),
        file!("page.js", "text/javascript; charset=utf-8"),
        file!("worker.js", "text/javascript; charset=utf-8"),
        file!("page.css", "text/css; charset=utf-8"),
    ];
    Page::new(files, &[])
});
