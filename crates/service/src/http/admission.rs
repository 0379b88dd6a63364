//! Whose web page asks: a browser on this machine must not be made to read or change a local service by a stranger's page.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::Problem;
use super::server::Peer;

/// Who may ask, and what for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Whether everything can be read only.
    pub read_only: bool,
    /// Names by which clients know this host, besides its addresses and `localhost`. Of what comes to an address of
    /// loopback, no other `Host` is answered: a web page whose name its owner lets point here (DNS rebinding) is refused.
    pub hosts: Vec<String>,
    /// Origins whose pages may read answers and change things (CORS), as `https://noc.example:8443`; none unless told.
    pub origins: Vec<String>,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To read: browsers keep the answer from a stranger's page.
    Read,
    /// To change something, by whatever method.
    Change,
    /// To read by a WebSocket: browsers keep nothing of it from a stranger's page.
    Follow,
}

/// Lets through what [`Settings::admit`] admits, by its method or as a WebSocket, and tells browsers what they may do with answers.
pub(super) async fn admission(State(settings): State<Arc<Settings>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(settings.clone());
    let asked = parts.headers.clone();
    let purpose = if asked.contains_key(header::UPGRADE) { Purpose::Follow } else { Purpose::Read };
    let mut response = match settings.admit(&parts, purpose) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(refused) => refused.into_response(),
    };
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    settings.share(&asked, response.headers_mut());
    response
}

impl Settings {
    /// Refuses what a stranger's page can make a browser send: requests for another host's name, and from another origin
    /// what changes something or hands out what browsers do not guard.
    ///
    /// # Errors
    /// Whose page asks, and what would let it.
    pub fn admit(&self, request: &Parts, purpose: Purpose) -> Result<(), Problem> {
        // RFC 9112, 3.2. Who stands between may have looked at another one than we would.
        if request.headers.get_all(header::HOST).iter().nth(1).is_some() {
            return Err(Problem::request("more than one Host header"));
        }
        let host = match request.uri.authority() {
            Some(authority) => Some(authority.as_str()),
            None => text(&request.headers, &header::HOST),
        };
        if let Some(host) = host
            && request.extensions.get::<Peer>().is_some_and(|peer| peer.on_loopback)
            && !self.is_ours(host)
        {
            let message = format!(
                "Host {host:?} is none of this server's: use its address, or name it in the configuration (hosts)"
            );
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, message));
        }
        let harmless = matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let changes = purpose == Purpose::Change || !harmless;
        if changes && self.read_only {
            let message = "the API is read only here (read_only in the configuration)";
            return Err(Problem::new(StatusCode::FORBIDDEN, message));
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
            && (changes || purpose == Purpose::Follow)
        {
            let what = if changes { "change anything" } else { "follow anything" };
            let message =
                format!("pages of {stranger:?} may not {what} here: name their origin in the configuration (origins)");
            return Err(Problem::new(StatusCode::FORBIDDEN, message));
        }
        Ok(())
    }

    /// The headers by which a browser lets a page of another origin read the answer; none unless it is allowed.
    fn share(&self, request: &HeaderMap, answer: &mut HeaderMap) {
        if self.origins.is_empty() {
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
        self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }

    /// An address cannot be rebound; a name can, unless it is ours.
    fn is_ours(&self, host: &str) -> bool {
        let name = without_port(host);
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(name))
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
