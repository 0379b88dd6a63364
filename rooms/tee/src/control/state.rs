//! What other threads may ask of a running tee: its ledger, its metrics, whether it does its job.

use std::sync::Arc;

use weir_service::Observable;
use weir_service::metrics::Samples;

use crate::metrics;
use weir_forward::ledger::Ledger;
use weir_forward::worker::Workers;

/// A running tee as seen from outside.
pub(super) struct State {
    pub(super) workers: Arc<Workers>,
    threads: usize,
}

impl State {
    pub(super) fn new(workers: Arc<Workers>, threads: usize) -> Self {
        Self { workers, threads }
    }
}

impl Observable for State {
    type Ledger = Ledger;

    fn metrics(&self, samples: &mut Samples<'_>) {
        metrics::metrics(samples, self.ledger(), self.threads);
    }

    fn ledger(&self) -> Ledger {
        self.workers.ledger()
    }

    fn ready(&self) -> Result<(), String> {
        if self.workers.plan().outlets.iter().all(|outlet| outlet.address.is_none()) {
            return Err("no destination's name resolves yet".into());
        }
        Ok(())
    }
}
