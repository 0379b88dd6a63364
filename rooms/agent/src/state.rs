//! What other threads may ask of a running agent.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_service::Observable;
use weir_service::metrics::Samples;

use crate::ledger::Ledger;

/// The agent as of the last look.
#[derive(Debug, Default)]
pub(crate) struct State(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    ledger: Ledger,
    /// Why interfaces cannot be listed.
    unlisted: Option<String>,
}

impl State {
    pub(crate) fn set(&self, ledger: Ledger, unlisted: Option<String>) {
        *self.seen() = Seen { ledger, unlisted };
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // It is replaced as a whole: it is never half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observable for State {
    type Ledger = Ledger;

    fn metrics(&self, samples: &mut Samples<'_>) {
        samples.ledger(&self.ledger());
    }

    fn ledger(&self) -> Ledger {
        self.seen().ledger.clone()
    }

    fn ready(&self) -> Result<(), String> {
        let seen = self.seen();
        if !seen.ledger.collectors.iter().any(|collector| collector.address.is_some()) {
            return Err("no collector's name has an address yet".into());
        }
        seen.unlisted.clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::CollectorCount;

    #[test]
    fn who_cannot_list_interfaces_is_not_ready() {
        let state = State::default();
        let told = Ledger {
            collectors: vec![CollectorCount { address: Some("192.0.2.1:6343".into()), ..CollectorCount::default() }],
            ..Ledger::default()
        };
        assert!(state.ready().is_err());
        state.set(told.clone(), None);
        assert_eq!(state.ready(), Ok(()));
        state.set(told, Some("list interfaces: no memory".into()));
        assert_eq!(state.ready(), Err("list interfaces: no memory".into()));
    }
}
