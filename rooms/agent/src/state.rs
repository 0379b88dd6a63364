//! What other threads may ask of a running agent.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_service::Observable;
use weir_service::metrics::Samples;

use crate::ledger::Ledger;

/// The account as of the last look, and why no interface is counted: they cannot be listed, or there is none of those that are wanted.
#[derive(Debug, Default)]
pub(crate) struct State(Mutex<(Ledger, Option<String>)>);

impl State {
    pub(crate) fn set(&self, ledger: Ledger, uncounted: Option<String>) {
        *self.seen() = (ledger, uncounted);
    }

    fn seen(&self) -> MutexGuard<'_, (Ledger, Option<String>)> {
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
        self.seen().0.clone()
    }

    fn ready(&self) -> Result<(), String> {
        let (ledger, uncounted) = &*self.seen();
        if !ledger.collectors.iter().any(|collector| collector.address.is_some()) {
            return Err("no collector's name has an address yet".into());
        }
        uncounted.clone().map_or(Ok(()), Err)
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
