//! What people are shown, and whom they ask.

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::Value;
use tokio::sync::watch;
use weir_service::http::Problem;

use super::routes::absent;
use crate::model::{Board, Command};

/// Whoever guards.
pub trait Shown: Send + Sync + 'static {
    /// How things stand, now and whenever they change.
    fn board(&self) -> watch::Receiver<Arc<Board>>;

    /// Has a command carried out, and waits for the answer: what was done, in one line.
    ///
    /// # Errors
    /// Why it was not.
    fn command(&self, by: &str, command: Command) -> Result<String, Denied>;

    /// Entries of the journal, the newest first, no more than `most`; with `before` those older than that number.
    ///
    /// # Errors
    /// The journal cannot be read, in one line.
    fn journal(&self, before: Option<u64>, most: usize) -> Result<Vec<Value>, String>;
}

/// Why a command is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// There is no such attack.
    #[error("there is no attack {0}")]
    Absent(u64),
    /// It makes no sense now, or a limit is against it; one line.
    #[error("{0}")]
    Refused(String),
    /// The guard does not answer.
    #[error("the guard does not answer: the log of weir says more")]
    Silent,
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
