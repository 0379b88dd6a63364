//! What other threads may ask of a running agent.

use std::sync::{Mutex, PoisonError};

use weir_service::Observable;
use weir_service::metrics::Samples;

use crate::ledger::Ledger;
use crate::metrics;

/// The ledger as of the last look.
#[derive(Debug, Default)]
pub(crate) struct State(Mutex<Ledger>);

impl State {
    pub(crate) fn set(&self, ledger: Ledger) {
        // A ledger is replaced as a whole: it is never half written.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ledger;
    }
}

impl Observable for State {
    type Ledger = Ledger;

    fn metrics(&self, samples: &mut Samples<'_>) {
        metrics::metrics(samples, &self.ledger());
    }

    fn ledger(&self) -> Ledger {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn ready(&self) -> Result<(), String> {
        let ledger = self.ledger();
        match ledger.collectors.iter().any(|collector| collector.address.is_some()) {
            true => Ok(()),
            false => Err("no collector's name has an address yet".into()),
        }
    }
}
