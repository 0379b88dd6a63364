//! Whose web page asks: a browser on this machine must not be made to read or change a local analyser by a stranger's page.

use std::net::IpAddr;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

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

/// A request that is not admitted, and why, in one line.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// 400, 421 or 403.
    pub status: StatusCode,
    /// Why, and what to do.
    pub message: String,
}

/// Of a request that came to a loopback address.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnLoopback;

impl Settings {
    /// Refuses what a stranger's page can make a browser send: requests for another host's name, and from another origin
    /// what changes something or hands out what browsers do not guard. All requests count as come to `loopback`; else their
    /// connections tell.
    ///
    /// # Errors
    /// Whose page asks, and what would let it.
    pub fn admit(&self, request: &Parts, loopback: bool, purpose: Purpose) -> Result<(), Refused> {
        // RFC 9112, 3.2. Who stands between may have looked at another one than we would.
        if request.headers.get_all(header::HOST).iter().nth(1).is_some() {
            let message = "more than one Host header".to_owned();
            return Err(Refused { status: StatusCode::BAD_REQUEST, message });
        }
        let host = match request.uri.authority() {
            Some(authority) => Some(authority.as_str()),
            None => text(&request.headers, &header::HOST),
        };
        if let Some(host) = host
            && (loopback || request.extensions.get::<OnLoopback>().is_some())
            && !self.is_ours(host)
        {
            let message = format!(
                "Host {host:?} is none of this server's: name it in the configuration (hosts), or use its address"
            );
            return Err(Refused { status: StatusCode::MISDIRECTED_REQUEST, message });
        }
        let harmless = matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let changes = purpose == Purpose::Change || !harmless;
        if changes && self.read_only {
            let message = "the API is read only here (read_only in the configuration)".to_owned();
            return Err(Refused { status: StatusCode::FORBIDDEN, message });
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
            return Err(Refused { status: StatusCode::FORBIDDEN, message });
        }
        Ok(())
    }

    /// The headers by which a browser lets a page of another origin read the answer; none unless it is allowed.
    pub fn share(&self, request: &HeaderMap, answer: &mut HeaderMap) {
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
