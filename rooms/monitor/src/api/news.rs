//! States and events as all clients are told them: asked of the room once, however many there are.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::{Api, Event, State};

/// What is known now. Cloning costs little.
#[derive(Clone, Debug, Default)]
pub(super) struct News {
    pub(super) states: Arc<Vec<State>>,
    /// The latest, the oldest first.
    pub(super) events: Arc<VecDeque<Arc<Event>>>,
}

impl News {
    /// Number of the newest event, or 0.
    pub(super) fn newest(&self) -> u64 {
        self.events.back().map_or(0, |event| event.id)
    }
}

/// Asks the room again and again.
pub(super) async fn gather(api: Arc<Api>) {
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let known = api.news.borrow().clone();
        let states = api.shown.states();
        let fresh = api.shown.events_since(known.newest());
        if fresh.is_empty() && *known.states == states {
            continue;
        }
        let mut events = known.events;
        if !fresh.is_empty() {
            let events = Arc::make_mut(&mut events);
            events.extend(fresh.into_iter().map(Arc::new));
            events.drain(..events.len().saturating_sub(MOST_EVENTS));
        }
        let states = if *known.states == states { known.states } else { Arc::new(states) };
        api.news.send_replace(News { states, events });
    }
}

/// How often.
const PAUSE: Duration = Duration::from_millis(200);

/// Events that a page is told when it comes.
const MOST_EVENTS: usize = 500;
