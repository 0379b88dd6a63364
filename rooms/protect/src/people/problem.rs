//! Why a request is not carried out.

use axum::http::{StatusCode, header};
pub(super) use weir_service::http::{Answer, Problem, json_response};

use super::shown::Denied;

/// 404.
pub(super) fn absent(id: u64) -> Problem {
    Problem::absent("attack", id, "/protect/attacks")
}

/// 401, or 429 if it was tried too often.
pub(super) fn unknown(wait: Option<u64>) -> Problem {
    let Some(seconds) = wait else {
        let message = "no known token: send Authorization: Bearer TOKEN, with one of the file `tokens` names";
        let problem = Problem::new(StatusCode::UNAUTHORIZED, message);
        return problem.header(header::WWW_AUTHENTICATE, "Bearer realm=\"weir protect\"");
    };
    let message = format!("too many requests without a known token from this address: wait {seconds} s");
    Problem::new(StatusCode::TOO_MANY_REQUESTS, message).header(header::RETRY_AFTER, &seconds.to_string())
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Absent(id) => absent(id),
            Denied::Refused(why) => Self::new(StatusCode::CONFLICT, why),
            Denied::Silent => Self::new(StatusCode::SERVICE_UNAVAILABLE, denied.to_string()),
        }
    }
}
