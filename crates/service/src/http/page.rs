//! A page: files that `make web` builds, in the binary, for browsers that keep them until there are others.

use std::io::Write;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;

/// The files of a page.
#[derive(Debug)]
pub struct Page {
    files: Vec<File>,
    policy: HeaderValue,
}

/// Name, media type, contents of a file.
pub type Built = (&'static str, &'static str, &'static [u8]);

#[derive(Debug)]
struct File {
    name: &'static str,
    media: &'static str,
    bytes: &'static [u8],
    gzip: Vec<u8>,
    /// Changes with the contents.
    tag: String,
}

/// Whether whoever asks shows pages.
pub fn is_wanted(headers: &HeaderMap) -> bool {
    text(headers, &header::ACCEPT).is_some_and(|accepted| accepted.contains("text/html"))
}

impl Page {
    /// Of these files, which may connect to their own server and to these origins: `http://control-2:5180`.
    pub fn new(built: impl IntoIterator<Item = Built>, others: &[String]) -> Self {
        let file = |(name, media, bytes): Built| {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
            // Writing to memory does not fail.
            let _ = gzip.write_all(bytes);
            let gzip = gzip.finish().unwrap_or_default();
            File { name, media, bytes, gzip, tag: format!("W/\"{:08x}{:x}\"", crc32fast::hash(bytes), bytes.len()) }
        };
        // What would begin another directive is no origin.
        let is_origin = |other: &&String| !other.contains([' ', ';', ',']) && HeaderValue::from_str(other).is_ok();
        let others: String = others.iter().filter(is_origin).map(|other| format!(" {other}")).collect();
        let policy = POLICY.replace("connect-src 'self'", &format!("connect-src 'self'{others}"));
        let policy = HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static(POLICY));
        Self { files: built.into_iter().map(file).collect(), policy }
    }

    /// A file, by its name, as whoever asks takes it. `None`: there is none.
    pub fn file(&self, name: &str, request: &HeaderMap) -> Option<Response> {
        let file = self.files.iter().find(|file| file.name == name)?;
        let known = text(request, &header::IF_NONE_MATCH).unwrap_or_default();
        let mut response = if known.split(',').any(|tag| tag.trim() == file.tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            file.whole(text(request, &header::ACCEPT_ENCODING).unwrap_or_default())
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, HeaderValue::from_str(&file.tag).ok()?);
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policy.clone());
        for (name, value) in HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        Some(response)
    }
}

impl File {
    fn whole(&self, encodings: &str) -> Response {
        let zipped = encodings.split(',').any(|encoding| encoding.trim().split(';').next() == Some("gzip"));
        let media = [(header::CONTENT_TYPE, self.media)];
        match zipped {
            true => (media, [(header::CONTENT_ENCODING, "gzip")], Body::from(self.gzip.clone())).into_response(),
            false => (media, Body::from(self.bytes)).into_response(),
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Nothing but these files and this server: no script of a page, no other origin, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; frame-ancestors 'none'; form-action 'none'";

const HEADERS: [(HeaderName, &str); 3] = [
    // Kept, but asked for each time: a newer binary has newer files.
    (header::CACHE_CONTROL, "no-cache"),
    (header::VARY, "Accept, Accept-Encoding"),
    (header::REFERRER_POLICY, "no-referrer"),
];
