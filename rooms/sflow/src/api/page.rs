//! The page: files that `make web` builds, in the binary. A browser that asks for `/` gets it, other clients the index.

use std::io::Write;
use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::problem::{Answer, Problem};
use super::{Api, Call};

/// A file of the page.
struct File {
    name: &'static str,
    media: &'static str,
    bytes: &'static [u8],
    gzip: Bytes,
    /// Changes with the contents.
    tag: String,
}

macro_rules! file {
    ($name:literal, $media:literal) => {
        ($name, $media, include_bytes!(concat!("../../page/", $name)).as_slice())
    };
}

const BUILT: [(&str, &str, &[u8]); 4] = [
    file!("index.html", "text/html; charset=utf-8"),
    file!("page.js", "text/javascript; charset=utf-8"),
    file!("worker.js", "text/javascript; charset=utf-8"),
    file!("page.css", "text/css; charset=utf-8"),
];

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    let file = |(name, media, bytes): (&'static str, &'static str, &'static [u8])| {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        // Writing to memory does not fail.
        let _ = gzip.write_all(bytes);
        let gzip = gzip.finish().unwrap_or_default().into();
        File { name, media, bytes, gzip, tag: format!("W/\"{:08x}{:x}\"", crc32fast::hash(bytes), bytes.len()) }
    };
    BUILT.into_iter().map(file).collect()
});

/// Whether whoever asks shows pages.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    text(headers, &header::ACCEPT).is_some_and(|accepted| accepted.contains("text/html"))
}

/// The page itself.
pub(super) fn index(call: &Call) -> Answer {
    serve("index.html", &call.headers)
}

/// A file that it needs.
pub(super) fn file(_: &Arc<Api>, call: &Call) -> Answer {
    serve(call.part("file"), &call.headers)
}

fn serve(name: &str, request: &HeaderMap) -> Answer {
    let file = FILES.iter().find(|file| file.name == name);
    let file = file.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, format!("the page has no file {name:?}")))?;
    let known = text(request, &header::IF_NONE_MATCH).unwrap_or_default();
    let mut response = if known.split(',').any(|tag| tag.trim() == file.tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        whole(file, text(request, &header::ACCEPT_ENCODING).unwrap_or_default())
    };
    let tag = file.tag.parse().map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the tag is none"))?;
    let headers = response.headers_mut();
    headers.insert(header::ETAG, tag);
    for (name, value) in HEADERS {
        headers.insert(name, value.parse().unwrap_or(header::HeaderValue::from_static("")));
    }
    Ok(response)
}

fn whole(file: &File, encodings: &str) -> Response {
    let zipped = encodings.split(',').any(|encoding| encoding.trim().split(';').next() == Some("gzip"));
    let media = [(header::CONTENT_TYPE, file.media)];
    match zipped {
        true => (media, [(header::CONTENT_ENCODING, "gzip")], Body::from(file.gzip.clone())).into_response(),
        false => (media, Body::from(file.bytes)).into_response(),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Nothing but these files and this server: no script of a page, no other origin, no frame around it.
const HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
         frame-ancestors 'none'; form-action 'none'",
    ),
    // Kept, but asked for each time: a newer binary has newer files.
    (header::CACHE_CONTROL, "no-cache"),
    (header::VARY, "Accept, Accept-Encoding"),
    (header::REFERRER_POLICY, "no-referrer"),
];
