//! Why a request is not carried out: one JSON object with a sentence for people, and the place for editors.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use weir_service::http;

use super::analysis::Rejected;
use crate::escape;
use crate::thresholds::Refused;

/// An answer that is an error: `{"error": "...", ...}`.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    fields: Map<String, Value>,
    /// The methods that would do.
    allow: Option<String>,
}

pub(crate) type Answer = Result<Response, Problem>;

impl Problem {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let fields = Map::from_iter([("error".to_owned(), Value::String(message.into()))]);
        Self { status, fields, allow: None }
    }

    /// 400.
    pub(crate) fn request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 404: there is no such thing of this kind; the path lists those that there are.
    pub(crate) fn absent(kind: &str, name: &str, list: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is no {kind} {name:?}; {list} lists those that there are"))
    }

    /// 405.
    pub(crate) fn method(method: &str, allowed: &str) -> Self {
        let mut problem =
            Self::new(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not for this path: it takes {allowed}"));
        problem.allow = Some(allowed.to_owned());
        problem
    }

    /// What is told.
    pub(crate) fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// Adds a field for programs.
    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(field.to_owned(), value.into());
        self
    }
}

impl From<Rejected> for Problem {
    fn from(rejected: Rejected) -> Self {
        let mut problem = Self::request(rejected.message);
        if let Some(key) = rejected.key {
            problem = problem.with("key", key);
        }
        if let Some((text, offset)) = rejected.place {
            let caret = caret(&text, offset);
            problem = problem.with("offset", offset).with("text", text).with("caret", caret);
        }
        problem
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        Self::request(refused.to_string())
    }
}

impl From<http::Refused> for Problem {
    fn from(refused: http::Refused) -> Self {
        Self::new(refused.status, refused.message)
    }
}

/// 503.
impl From<http::Full> for Problem {
    fn from(full: http::Full) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, full.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = json_response(self.status, &self.fields);
        if let Some(allow) = self.allow.and_then(|allow| HeaderValue::from_str(&allow).ok()) {
            response.headers_mut().insert(header::ALLOW, allow);
        }
        response
    }
}

/// A line that, set below the text in type of one width, points at a byte of it.
fn caret(text: &str, offset: usize) -> String {
    let before = text.char_indices().take_while(|(at, _)| *at < offset).count();
    format!("{}^", " ".repeat(before))
}

pub(crate) fn json_response(status: StatusCode, value: &impl serde::Serialize) -> Response {
    let mut body = Vec::new();
    // Values of ours have strings for keys.
    if let Err(error) = escape::write_json(&mut body, value) {
        body = json!({"error": error.to_string()}).to_string().into();
    }
    (status, [(header::CONTENT_TYPE, JSON)], body).into_response()
}

pub(crate) const JSON: &str = "application/json";
