//! Places for clients that wait: long polls, streams, WebSockets. There are few.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;

/// Places of one kind.
#[derive(Debug)]
pub struct Places {
    free: Arc<Semaphore>,
    most: usize,
    /// What clients do in them.
    what: &'static str,
}

/// A place that is taken; given back when dropped.
#[derive(Debug)]
pub struct Place(#[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit);

impl Places {
    /// Of so many; `what` their clients do stands in refusals: `follow flows`.
    pub fn new(most: usize, what: &'static str) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), most, what }
    }

    /// Takes one.
    ///
    /// # Errors
    /// 503, if all are taken.
    pub fn take(&self) -> Result<Place, Problem> {
        let message = || format!("{} clients {} already: try again later", self.most, self.what);
        let full = |_| Problem::new(StatusCode::SERVICE_UNAVAILABLE, message());
        self.free.clone().try_acquire_owned().map(Place).map_err(full)
    }

    /// Those that are taken now.
    pub fn taken(&self) -> usize {
        self.most - self.free.available_permits()
    }
}
