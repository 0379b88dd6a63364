//! What other threads may ask of a running station.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_service::Observable;
use weir_service::metrics::Samples;

use super::ledger::Ledger;
use super::metrics;

/// The station as of a moment ago.
#[derive(Debug, Default)]
pub(super) struct State(Mutex<Ledger>);

impl State {
    pub(super) fn set(&self, ledger: Ledger) {
        *self.seen() = ledger;
    }

    fn seen(&self) -> MutexGuard<'_, Ledger> {
        // It is replaced as a whole: it is never half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observable for State {
    type Ledger = Ledger;

    fn metrics(&self, samples: &mut Samples<'_>) {
        metrics::metrics(samples, &self.ledger());
    }

    fn ledger(&self) -> Ledger {
        self.seen().clone()
    }

    fn ready(&self) -> Result<(), String> {
        let seen = self.seen();
        let taken = |outlet: &super::ledger::OutletCount| outlet.sent > 0;
        match seen.streams.iter().find(|stream| !stream.outlets.iter().any(taken)) {
            Some(stream) => Err(format!("nothing of the stream {} was sent yet", stream.name)),
            None => Ok(()),
        }
    }
}
