//! What the page shows, as one stream of server-sent events: answers to what it asks, the latest alone.
//!
//! ```text
//! ask=summary&ask=agents?sort=loss --> once a second, each in turn --> survey (all agents), flows, events
//!                                          | one answer for all who ask the same
//!                                          v
//!                            event: answer {"ask": ..., "answer": ...}
//! ```
//!
//! An answer is made when the connection has room for it: who reads slowly gets fewer, not older ones. A page has one stream for
//! all of its tabs.

mod answer;
mod search;
mod survey;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{Interval, MissedTickBehavior, interval};
use weir_service::http::{Later, Place, event as frame, events as stream, frames};

use super::latest::{self, Latest};
use super::problem::Problem;
use super::{Analysis, Api, Call};
use answer::Ask;
pub(super) use search::search;
use survey::{Survey, Surveyor};

/// What all streams share.
#[derive(Debug, Default)]
pub(crate) struct Live {
    surveyor: Mutex<Surveyor>,
}

impl Live {
    fn survey(&self, analysis: &dyn Analysis) -> Arc<Survey> {
        lock(&self.surveyor).survey(analysis, std::time::Instant::now())
    }

    /// Gives back what nobody asks for any more. Never waits: who looks at all agents just now still asks.
    pub(crate) fn rest(&self) {
        if let Ok(mut surveyor) = self.surveyor.try_lock() {
            surveyor.rest(std::time::Instant::now());
        }
    }
}

/// Whether a text is a question.
pub fn is_question(text: &str) -> bool {
    Ask::parse(text).is_ok()
}

/// Streams the answers to all questions of the call.
pub(super) fn follow(api: Arc<Api>, call: Call) -> Later {
    Box::pin(async move {
        let asked: Vec<&str> = call.texts("ask").collect();
        if asked.is_empty() || asked.len() > MOST {
            return Err(Problem::request(format!("ask: ask 1 to {MOST} questions, as ask=summary")));
        }
        let mut questions = Vec::new();
        for text in asked {
            questions.push(Question {
                text: text.to_owned(),
                asked: Arc::new(Ask::parse(text)?),
                latest: api.latest.of(text),
            });
        }
        let place = api.flow_streams.take()?;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Ok(stream(frames(Follower { api, questions, next: 0, ticks, _place: place }, Follower::next)))
    })
}

/// A stream to one client.
struct Follower {
    api: Arc<Api>,
    questions: Vec<Question>,
    /// Which one is answered next.
    next: usize,
    ticks: Interval,
    _place: Place,
}

struct Question {
    text: String,
    asked: Arc<(&'static Ask, Call)>,
    latest: Arc<Latest>,
}

impl Follower {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        if self.next == 0 {
            self.ticks.tick().await;
        }
        let question = &self.questions[self.next];
        let frame = question.latest(&self.api).await?;
        self.next = (self.next + 1) % self.questions.len();
        Some((frame, self))
    }
}

impl Question {
    async fn latest(&self, api: &Arc<Api>) -> Option<Bytes> {
        let (text, asked) = (self.text.clone(), self.asked.clone());
        let make = move |api: &Arc<Api>| {
            let (ask, call) = &*asked;
            let answer: Value = match (ask.answer)(api, call) {
                Ok(answer) => json!({"ask": text, "answer": answer}),
                Err(problem) => json!({"ask": text, "problem": problem.fields()}),
            };
            Some(frame("event: answer\n", &answer))
        };
        latest::answer(api, &self.latest, FRESH, make).await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Questions of one stream.
const MOST: usize = 24;

/// From one round of answers to the next.
const TICK: Duration = Duration::from_secs(1);

/// How old an answer may be that was made for another client.
const FRESH: Duration = Duration::from_millis(500);
