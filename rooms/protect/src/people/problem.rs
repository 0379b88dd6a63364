//! Why a request is not carried out: `{"error": "..."}`, one sentence.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;
use weir_program::escape::write_json;
use weir_service::http;

use super::shown::Denied;

/// An answer that is an error.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    message: String,
    /// A header that says how to go on.
    header: Option<(header::HeaderName, HeaderValue)>,
}

pub(super) type Answer = Result<Response, Problem>;

impl Problem {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), header: None }
    }

    /// 400.
    pub(super) fn request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 404.
    pub(super) fn absent(id: u64) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            format!("there is no attack {id}; /protect/attacks lists those that there are"),
        )
    }

    /// 401, or 429 if it was tried too often.
    pub(super) fn unknown(wait: Option<u64>) -> Self {
        let Some(seconds) = wait else {
            let message = "no known token: send Authorization: Bearer TOKEN, with one of the file `tokens` names";
            let challenge = HeaderValue::from_static("Bearer realm=\"weir protect\"");
            let header = Some((header::WWW_AUTHENTICATE, challenge));
            return Self { header, ..Self::new(StatusCode::UNAUTHORIZED, message) };
        };
        let message = format!("too many requests without a known token from this address: wait {seconds} s");
        let header = Some((header::RETRY_AFTER, HeaderValue::from(seconds)));
        Self { header, ..Self::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }

    /// 405.
    pub(super) fn method(method: &str, allowed: &'static str) -> Self {
        let message = format!("{method} is not for this path: it takes {allowed}");
        let header = Some((header::ALLOW, HeaderValue::from_static(allowed)));
        Self { header, ..Self::new(StatusCode::METHOD_NOT_ALLOWED, message) }
    }

    /// 500.
    pub(super) fn mistake() -> Self {
        let message = "the request failed by a mistake in this program: its log says more";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
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

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Absent(id) => Self::absent(id),
            Denied::Refused(why) => Self::new(StatusCode::CONFLICT, why),
            Denied::Silent => Self::new(StatusCode::SERVICE_UNAVAILABLE, denied.to_string()),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = json_response(self.status, &json!({"error": self.message}));
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

pub(super) fn json_response(status: StatusCode, value: &impl Serialize) -> Response {
    let mut body = Vec::new();
    // Writing to memory does not fail, and values of ours have strings for keys.
    let _ = write_json(&mut body, value);
    (status, [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], body).into_response()
}
