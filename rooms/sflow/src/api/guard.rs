//! Whose web page asks: a browser on this machine must not be made to read or change a local analyser by a stranger's page.

use std::net::IpAddr;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use super::Api;
use super::problem::Problem;

/// Of a request that came to a loopback address.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnLoopback;

impl Api {
    /// Refuses what a stranger's page can make a browser send: requests for another host's name, and changes from
    /// another origin.
    pub(super) fn admit(&self, request: &Parts) -> Result<(), Problem> {
        let host = match request.uri.authority() {
            Some(authority) => Some(authority.as_str()),
            None => text(&request.headers, &header::HOST),
        };
        if let Some(host) = host
            && (self.loopback || request.extensions.get::<OnLoopback>().is_some())
            && !self.is_ours(host)
        {
            let message =
                format!("Host {host:?} is none of this server's: name it in the settings' hosts, or use its address");
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, message));
        }
        let changes = !matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS);
        if changes && self.settings.read_only {
            return Err(Problem::new(StatusCode::FORBIDDEN, "the API is read only here"));
        }
        if let Some(origin) = text(&request.headers, &header::ORIGIN)
            && changes
            && !self.allows(origin)
            && origin.split_once("://").map(|(_, host)| host) != host
        {
            let message = format!("pages of {origin:?} may not change anything here: name it in the settings' origins");
            return Err(Problem::new(StatusCode::FORBIDDEN, message));
        }
        Ok(())
    }

    /// The headers by which a browser lets a page of another origin read the answer; none unless it is allowed.
    pub(super) fn share(&self, request: &HeaderMap, answer: &mut HeaderMap) {
        if self.settings.origins.is_empty() {
            return;
        }
        answer.append(header::VARY, HeaderValue::from_static("Origin"));
        if let Some(origin) = request.get(header::ORIGIN)
            && origin.to_str().is_ok_and(|origin| self.allows(origin))
        {
            answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, PUT, DELETE"));
            answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Content-Type"));
        }
    }

    fn allows(&self, origin: &str) -> bool {
        self.settings.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }

    /// An address cannot be rebound; a name can, unless it is ours.
    fn is_ours(&self, host: &str) -> bool {
        let name = without_port(host);
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.settings.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(name))
    }
}

fn without_port(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("(no text)"))
}
