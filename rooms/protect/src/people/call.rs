//! A request of somebody who was recognised, checked by its route.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use weir_service::http::Held;

use super::access::Person;
use super::problem::Problem;
use super::routes::Route;
use super::{People, Role};

pub(super) struct Call {
    pub(super) route: &'static Route,
    pub(super) person: Person,
    /// The number in the path.
    pub(super) id: u64,
    pub(super) query: Vec<(String, String)>,
    pub(super) held: Held,
}

impl People {
    /// Who asks.
    ///
    /// # Errors
    /// Nobody who is known.
    pub(super) fn recognise(&self, request: &Parts) -> Result<Person, Problem> {
        let asked = request.headers.get(header::AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
        if let Some(person) = asked.and_then(|token| self.tokens().recognise(token)) {
            return Ok(person);
        }
        let client = request.extensions.get::<Held>().and_then(Held::client);
        let failed = self.attempts().fail(client.unwrap_or(NOBODY), Instant::now());
        if let Some(line) = failed.line {
            tracing::warn!("{line}");
        }
        Err(Problem::unknown(failed.wait))
    }
}

/// The token of `Bearer TOKEN` (RFC 6750, section 2.1); the scheme in whatever case (RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(BEARER.len())?;
    scheme.eq_ignore_ascii_case(BEARER).then(|| token.trim_ascii())
}

impl Person {
    /// Whether they may.
    ///
    /// # Errors
    /// What they would need.
    pub(super) fn may(&self, role: Role) -> Result<(), Problem> {
        if self.role >= role {
            return Ok(());
        }
        let message = format!("{} may look, not act: give that token the role act", self.name);
        Err(Problem::new(StatusCode::FORBIDDEN, message))
    }
}

impl Call {
    pub(super) fn text<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A whole number within bounds; `None`: it is not given.
    pub(super) fn whole(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        let wrong = || Problem::request(format!("{name}={text}: is to be a whole number from {least} to {most}"));
        number.map(Some).ok_or_else(wrong)
    }

    /// Refuses parameters that are not known.
    pub(super) fn check(&self) -> Result<(), Problem> {
        let known: Vec<&str> = self.route.query.iter().map(|(name, _)| *name).collect();
        let Some((name, _)) = self.query.iter().find(|(name, _)| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        let takes = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(Problem::request(format!("unknown parameter {name:?}: this path takes {takes}")))
    }
}

const BEARER: &[u8] = b"Bearer ";

/// Whoever comes by a connection that tells nothing of its client.
const NOBODY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
