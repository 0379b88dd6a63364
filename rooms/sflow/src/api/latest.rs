//! Answers that are made once for all clients who follow the same question.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::Api;

/// A question's latest answer, and when its making began.
pub(super) type Latest = tokio::sync::Mutex<Option<(Instant, Bytes)>>;

/// The latest answers of all questions.
#[derive(Debug, Default)]
pub(crate) struct Shared(Mutex<HashMap<String, Arc<Latest>>>);

impl Shared {
    /// The place of a question's latest answer; it lasts as long as somebody has it.
    pub(super) fn of(&self, question: &str) -> Arc<Latest> {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        latest.retain(|known, answer| known == question || Arc::strong_count(answer) > 1);
        latest.entry(question.to_owned()).or_default().clone()
    }
}

/// What was made for another client, if it is no older than this; else it is made when it is the turn for it. `None`: nothing was made.
pub(super) async fn answer(
    api: &Arc<Api>,
    latest: &Latest,
    fresh: Duration,
    make: impl FnOnce(&Arc<Api>) -> Option<Bytes> + Send + 'static,
) -> Option<Bytes> {
    let asked = Instant::now();
    let mut latest = latest.lock().await;
    if let Some((begun, answer)) = &*latest
        && *begun + fresh > asked
    {
        return Some(answer.clone());
    }
    let begun = Instant::now();
    let answer = api.in_turn(make).await??;
    *latest = Some((begun, answer.clone()));
    Some(answer)
}
