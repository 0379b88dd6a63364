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

use serde_json::{Value, json};
use weir_service::http::{Later, event as frame};

use super::latest::{self, Question};
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
        let question = |text: &str| {
            let (ask, call) = Ask::parse(text)?;
            let (latest, text) = (api.latest.of(text), text.to_owned());
            let make = move |api: &Arc<Api>| {
                let answer: Value = match (ask.answer)(api, &call) {
                    Ok(answer) => json!({"ask": text, "answer": answer}),
                    Err(problem) => json!({"ask": text, "problem": problem.fields()}),
                };
                Some(frame("event: answer\n", &answer))
            };
            Ok(Question { latest, make: Arc::new(make) })
        };
        let questions = asked.into_iter().map(question).collect::<Result<_, Problem>>()?;
        latest::follow(api.clone(), questions, TICK, FRESH)
    })
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
