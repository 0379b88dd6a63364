//! People: who may look and act, what they are shown, and whom the room tells by itself.
//!
//! ```text
//! a room's HTTP, behind its admission --> access: whose token? --> routes: one table
//!                                                          | attempts: counted, limited     | Shown: board, journal, commands
//!                                                          v                                v
//!                                                     401, 429                    JSON, server-sent events, page
//!
//! the guard --> hooks: a bounded queue a receiver --> a program, a webhook, syslog
//! ```
//!
//! Nothing is here unless `[protect.access]` says who may ask.

mod access;
mod attempts;
mod call;
pub mod hooks;
mod live;
mod page;
mod problem;
mod routes;
mod shown;
mod told;
pub(crate) mod words;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use axum::Router;
use weir_service::http::Places;

pub use access::{Person, Role, Tokens, TokensError};
pub use attempts::Refusals;
pub use routes::page;
pub use shown::{Denied, Shown};

use attempts::Attempts;

/// `[protect.access]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The file of tokens.
    pub tokens: PathBuf,
}

/// What handlers have, and what is counted of them.
pub struct People {
    shown: Arc<dyn Shown>,
    tokens: RwLock<Arc<Tokens>>,
    attempts: Mutex<Attempts>,
    /// For those who follow.
    places: Places,
}

impl People {
    /// For people of these tokens.
    pub fn new(shown: Arc<dyn Shown>, tokens: Tokens) -> Self {
        Self {
            shown,
            tokens: RwLock::new(Arc::new(tokens)),
            attempts: Mutex::new(Attempts::new()),
            places: Places::new(PLACES, "follow attacks"),
        }
    }

    /// Lets these in from now on, and nobody else: streams of others end.
    pub fn adopt(&self, tokens: Tokens) {
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
    }

    /// Requests without a known token.
    pub fn refusals(&self) -> Refusals {
        self.attempts().counts()
    }

    fn tokens(&self) -> Arc<Tokens> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The routes below `/protect`, to be merged into a room's router.
pub fn router(people: &Arc<People>) -> Router {
    routes::router(people)
}

/// Clients that follow at once.
const PLACES: usize = 64;
