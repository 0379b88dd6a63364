//! People: who may look and act, what they are shown, and whom the room tells by itself.
//!
//! ```text
//! a room's HTTP --> admit: whose token? --> routes: one table --> Commands: board, journal
//!                     | 401, 403                              --> JSON, server-sent events, page
//!
//! the guard --> hooks: a bounded queue a receiver --> a program, syslog
//! ```
//!
//! Nothing is here unless `[protect.access]` says who may ask.

mod access;
pub mod hooks;
mod live;
mod page;
mod routes;
mod told;
pub(crate) mod words;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use weir_service::http::{Peer, Places, Problem};

use crate::model::Board;
use crate::room::Commands;
pub use access::{Person, Role, Tokens};
pub use routes::page;

/// What handlers have, and what is counted of them.
pub struct People {
    commands: Commands,
    tokens: RwLock<Arc<Tokens>>,
    /// Requests without a known token.
    unknown: AtomicU64,
    /// When a line was last logged about them.
    logged: Mutex<Option<Instant>>,
    /// For those who follow.
    places: Places,
}

impl People {
    /// For people of these tokens.
    pub fn new(commands: Commands, tokens: Tokens) -> Self {
        Self {
            commands,
            tokens: RwLock::new(Arc::new(tokens)),
            unknown: AtomicU64::new(0),
            logged: Mutex::new(None),
            places: Places::new(PLACES, "follow attacks"),
        }
    }

    /// Lets these in from now on, and nobody else: streams of others end.
    pub fn adopt(&self, tokens: Tokens) {
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
    }

    /// Requests without a known token.
    pub fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed)
    }

    fn tokens(&self) -> Arc<Tokens> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn board(&self) -> Arc<Board> {
        self.commands.board().borrow().clone()
    }

    /// The request with the [`Person`] who asks: who is known may look, and whoever has the role may act.
    fn admit(&self, mut request: Request) -> Result<Request, Problem> {
        let token = request.headers().get(header::AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
        let Some(person) = token.and_then(|token| self.tokens().recognise(token)) else {
            return Err(self.refuse(request.extensions().get::<Peer>()));
        };
        if person.role < Role::Act && !matches!(*request.method(), Method::GET | Method::HEAD) {
            let message = format!("{} may look, not act: give that token the role act", person.name);
            return Err(Problem::new(StatusCode::FORBIDDEN, message));
        }
        request.extensions_mut().insert(person);
        Ok(request)
    }

    /// 401. Tokens are too long to be guessed, so nobody is locked out.
    fn refuse(&self, peer: Option<&Peer>) -> Problem {
        let count = self.unknown.fetch_add(1, Ordering::Relaxed) + 1;
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.is_none_or(|at| at.elapsed() >= LINES_APART) {
            *logged = Some(Instant::now());
            let from = peer.map(|peer| format!(", the last from {}", peer.client)).unwrap_or_default();
            tracing::warn!(
                "protect: {count} requests without a known token since the start{from} (is a token of `tokens` wrong, or does somebody try?)"
            );
        }
        let message = "no known token: send Authorization: Bearer TOKEN, with one of the file `tokens` names";
        Problem::new(StatusCode::UNAUTHORIZED, message)
            .header(header::WWW_AUTHENTICATE, "Bearer realm=\"weir protect\"")
    }
}

/// The token of `Bearer TOKEN` (RFC 6750, section 2.1); the scheme in whatever case (RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"Bearer ";
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

/// The routes below `/protect`, to be merged into a room's router.
pub fn router(people: &Arc<People>) -> Router {
    routes::router(people)
}

/// Clients that follow at once.
const PLACES: usize = 64;

/// From one line of the log about unknown tokens to the next.
const LINES_APART: Duration = Duration::from_secs(10);
