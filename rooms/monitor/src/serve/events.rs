//! What has happened, the last of it, for the page and whoever asks.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::api::{Event, Severity};

/// The last events. Bounded: the oldest go.
#[derive(Debug, Default)]
pub struct Events(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Event>,
    last: u64,
}

/// An event that has no number yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) time_ns: i64,
    pub(super) severity: Severity,
    pub(super) station: String,
    pub(super) channel: String,
    pub(super) kind: &'static str,
    pub(super) text: String,
    pub(super) remedy: Option<String>,
}

impl Events {
    /// Keeps them, in their order.
    pub(super) fn extend(&self, drafts: impl IntoIterator<Item = Draft>) {
        let mut kept = self.kept();
        for Draft { time_ns, severity, station, channel, kind, text, remedy } in drafts {
            kept.last += 1;
            let event = Event { id: kept.last, time_ns, severity, station, channel, kind, text, remedy };
            if kept.events.len() == MOST {
                kept.events.pop_front();
            }
            kept.events.push_back(event);
        }
    }

    /// Those that came after the one of this number, the oldest first.
    pub fn since(&self, id: u64) -> Vec<Event> {
        let kept = self.kept();
        let from = kept.events.partition_point(|event| event.id <= id);
        kept.events.range(from..).cloned().collect()
    }

    /// How many there have been.
    pub fn count(&self) -> u64 {
        self.kept().last
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Every event is whole once it is in.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Events that are kept.
const MOST: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go() {
        let events = Events::default();
        let draft = |n: usize| Draft {
            time_ns: n as i64,
            severity: Severity::Info,
            station: String::new(),
            channel: String::new(),
            kind: "alarm",
            text: n.to_string(),
            remedy: None,
        };
        events.extend((0..MOST + 5).map(draft));
        let kept = events.since(0);
        assert_eq!((kept.len(), kept[0].id, events.count()), (MOST, 6, MOST as u64 + 5));
        assert_eq!(
            events.since(MOST as u64 + 3).iter().map(|event| event.time_ns).collect::<Vec<_>>(),
            [10_003, 10_004]
        );
        assert!(events.since(u64::MAX).is_empty());
    }
}
