//! Whose web page asks: a browser on this machine must not be made to read or change a local analyser by a stranger's page.

use std::net::IpAddr;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::Api;
use super::problem::Problem;

/// Of a request that came to a loopback address.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnLoopback;

impl Api {
    /// Refuses what a stranger's page can make a browser send: requests for another host's name, and from another origin
    /// what `changes` something, by whatever method.
    pub(super) fn admit(&self, request: &Parts, changes: bool) -> Result<(), Problem> {
        let host = match request.uri.authority() {
            Some(authority) => Some(authority.as_str()),
            None => text(&request.headers, &header::HOST),
        };
        if let Some(host) = host
            && (self.loopback || request.extensions.get::<OnLoopback>().is_some())
            && !self.is_ours(host)
        {
            let message = format!(
                "Host {host:?} is none of this server's: name it in the configuration (hosts), or use its address"
            );
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, message));
        }
        let changes = changes || !matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS);
        if changes && self.settings.read_only {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "the API is read only here (read_only in the configuration)",
            ));
        }
        let origin = text(&request.headers, &header::ORIGIN);
        let stranger = match origin {
            Some(origin) if self.allows(origin) => None,
            Some(origin) => Some(origin).filter(|origin| origin.split_once("://").map(|(_, host)| host) != host),
            // Of what a page embeds, browsers name no origin; that it is a stranger's, they tell here. A page of another
            // port is of the same site.
            None => text(&request.headers, &FETCH_SITE).filter(|site| !matches!(*site, "same-origin" | "none")),
        };
        if let Some(stranger) = stranger
            && changes
        {
            let message = format!(
                "pages of {stranger:?} may not change anything here: name their origin in the configuration (origins)"
            );
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

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("(no text)"))
}

/// Where the page is from that made a browser ask: `same-origin`, `same-site`, `cross-site`, or `none` if a person did (W3C
/// Fetch Metadata Request Headers, 2.3).
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
