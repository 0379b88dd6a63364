//! Places for clients that wait: long polls and streams. There are few, and a connection in one is not taken for idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;

/// The places of a server.
#[derive(Debug)]
pub(crate) struct Places(Arc<Semaphore>);

/// How many requests of a connection wait for good reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held(Arc<AtomicUsize>);

/// A place that is taken; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    held: Held,
}

/// Clients that wait at once.
pub(crate) const PLACES: usize = 256;

impl Default for Places {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(PLACES)))
    }
}

impl Places {
    pub(crate) fn take(&self, held: &Held) -> Result<Place, Problem> {
        let permit = self.0.clone().try_acquire_owned().map_err(|_| {
            let message = format!("{PLACES} clients wait or follow a stream already: try again later");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, message)
        })?;
        held.0.fetch_add(1, Ordering::Relaxed);
        Ok(Place { _permit: permit, held: held.clone() })
    }
}

impl Held {
    pub(crate) fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.held.0.fetch_sub(1, Ordering::Relaxed);
    }
}
