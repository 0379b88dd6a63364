//! What other threads may ask of a running tee: its ledger, its metrics, whether it does its job.

use weir_service::metrics::Samples;
use weir_service::{Observable, ReloadCounts, Reloads};

use crate::ledger::Ledger;
use crate::metrics::{self, Statistics};
use crate::worker::Workers;

/// A running tee as seen from outside.
pub(super) struct State {
    pub(super) workers: Workers,
    reloads: Reloads,
    threads: usize,
}

impl State {
    pub(super) fn new(workers: Workers, reloads: Reloads, threads: usize) -> Self {
        Self { workers, reloads, threads }
    }
}

impl Observable for State {
    type Ledger = Ledger;

    fn metrics(&self, samples: &mut Samples<'_>) {
        let ReloadCounts { succeeded, failed, loaded } = self.reloads.counts();
        let standing = Statistics { workers: self.threads, reloads: succeeded, failed_reloads: failed, loaded };
        metrics::metrics(samples, &self.ledger(), &standing);
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
