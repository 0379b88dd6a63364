//! Answers that are made once for all clients who follow the same question.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep};
use weir_service::http::{Place, events, frames};

use super::Api;
use super::problem::Answer;

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

/// Makes a frame; `None`: the stream ends.
type Make = dyn Fn(&Arc<Api>) -> Option<Bytes> + Send + Sync;

/// A question of a stream.
pub(super) struct Question {
    /// Its latest answer, which all who ask the same share.
    pub(super) latest: Arc<Latest>,
    pub(super) make: Arc<Make>,
}

/// A stream to one client, which answers its questions in turn.
struct Follower {
    api: Arc<Api>,
    questions: Vec<Question>,
    /// How old an answer may be that was made for another client.
    fresh: Duration,
    /// Which one is answered next.
    next: usize,
    ticks: Interval,
    _place: Place,
}

/// Answers these questions again and again, once each `apart`. A frame is made when the connection has room for it.
///
/// # Errors
/// All places are taken.
pub(super) fn follow(api: Arc<Api>, questions: Vec<Question>, apart: Duration, fresh: Duration) -> Answer {
    let place = api.flow_streams.take()?;
    let mut ticks = interval(apart);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    Ok(events(frames(Follower { api, questions, fresh, next: 0, ticks, _place: place }, Follower::next)))
}

impl Follower {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        if self.next == 0 {
            tokio::select! {
                _ = self.ticks.tick() => {}
                () = sleep(KEEP_ALIVE) => return Some((ALIVE, self)),
            }
        }
        let question = &self.questions[self.next];
        let asked = Instant::now();
        let mut latest = question.latest.lock().await;
        let frame = match &*latest {
            Some((begun, answer)) if *begun + self.fresh > asked => answer.clone(),
            _ => {
                let (begun, make) = (Instant::now(), question.make.clone());
                let answer = self.api.in_turn(move |api| make(api)).await??;
                *latest = Some((begun, answer.clone()));
                answer
            }
        };
        drop(latest);
        self.next = (self.next + 1) % self.questions.len();
        Some((frame, self))
    }
}

/// Silence after which a line shows that a stream lives, to proxies too.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) const ALIVE: Bytes = Bytes::from_static(b":\n\n");
