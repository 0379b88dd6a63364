//! Why a request is not carried out: one JSON object with a sentence for people, and what programs want to know.

use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};

use weir_program::escape::write_json;

/// An answer that is an error: `{"error": "...", ...}`.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    fields: Map<String, Value>,
    /// A header that says how to go on.
    header: Option<(HeaderName, HeaderValue)>,
}

/// What a request is answered.
pub type Answer = Result<Response, Problem>;

impl Problem {
    /// With that sentence, which says what to do.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let fields = Map::from_iter([("error".to_owned(), Value::String(message.into()))]);
        Self { status, fields, header: None }
    }

    /// 400.
    pub fn request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 404: there is no such thing of this kind; the path lists those that there are.
    pub fn absent(kind: &str, name: impl std::fmt::Debug, list: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is no {kind} {name:?}; {list} lists those that there are"))
    }

    /// 405.
    pub fn method(method: &str, allowed: &str) -> Self {
        let message = format!("{method} is not for this path: it takes {allowed}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, message).header(header::ALLOW, allowed)
    }

    /// 500.
    pub fn mistake() -> Self {
        let message = "the request failed by a mistake in this program: its log says more";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// Adds a field for programs.
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(field.to_owned(), value.into());
        self
    }

    /// With a header.
    pub fn header(self, name: HeaderName, value: &str) -> Self {
        Self { header: HeaderValue::from_str(value).ok().map(|value| (name, value)), ..self }
    }

    /// What is told.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = json_response(self.status, &self.fields);
        response.headers_mut().extend(self.header);
        response
    }
}

/// An answer in JSON, which no cache keeps.
pub fn json_response(status: StatusCode, value: &impl Serialize) -> Response {
    let mut body = Vec::new();
    // Writing to memory does not fail, and values of ours have strings for keys.
    let _ = write_json(&mut body, value);
    (status, [(header::CONTENT_TYPE, JSON), (header::CACHE_CONTROL, "no-store")], Bytes::from(body)).into_response()
}

/// The media type of most answers.
pub const JSON: &str = "application/json";
