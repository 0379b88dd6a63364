//! What other threads may ask of a running station.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_service::Observable;
use weir_service::metrics::Samples;

use super::ledger::Ledger;

/// The station as of a moment ago.
#[derive(Debug)]
pub(super) struct State(Mutex<Ledger>);

impl State {
    /// Of a station that has not begun.
    pub(super) fn new(station: &str) -> Self {
        Self(Mutex::new(Ledger { station: station.to_owned(), ..Ledger::default() }.close()))
    }

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
        samples.ledger(&self.ledger());
    }

    fn ledger(&self) -> Ledger {
        self.seen().clone()
    }

    fn ready(&self) -> Result<(), String> {
        let seen = self.seen();
        let taken = |outlet: &super::ledger::OutletCount| outlet.sent > 0;
        if seen.streams.is_empty() {
            return Err("it has not begun yet".into());
        }
        match seen.streams.iter().find(|stream| !stream.outlets.iter().any(taken)) {
            Some(stream) => Err(format!("nothing of the stream {} was sent yet", stream.name)),
            None => Ok(()),
        }
    }
}
