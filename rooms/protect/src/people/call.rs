//! A request of somebody who was recognised, checked by its route.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use weir_service::http::{self, Peer};

use super::access::Person;
use super::problem::{Problem, unknown};
use super::routes::Route;
use super::{People, Role};

pub(super) struct Call {
    pub(super) route: &'static Route,
    pub(super) person: Person,
    /// The number in the path.
    pub(super) id: u64,
    pub(super) asked: http::Call,
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
        let client = request.extensions.get::<Peer>().map_or(NOBODY, |peer| network(peer.client));
        let failed = self.attempts().fail(client, Instant::now());
        if let Some(line) = failed.line {
            tracing::warn!("{line}");
        }
        Err(unknown(failed.wait))
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

/// Whose tries they count to: of IPv6 the network of 64 bits that a host has.
fn network(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

const BEARER: &[u8] = b"Bearer ";

/// Whoever comes by a connection that tells nothing of its client.
const NOBODY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
