//! What other threads may ask of a running tee: its ledger, its standing, its health.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use weir_service::admin::Service;
use weir_service::metrics::Samples;
use weir_service::notify;
use weir_service::pulse::Pulses;

use crate::ledger::Ledger;
use crate::metrics::{self, Standing};
use crate::worker::Workers;

/// A running tee as seen from outside.
pub(super) struct State {
    pub(super) workers: Workers,
    pulses: Pulses,
    standing: Mutex<Standing>,
    stopping: AtomicBool,
}

impl State {
    pub(super) fn new(workers: Workers, pulses: Pulses, threads: usize) -> Self {
        let standing = Standing { workers: threads, loaded: unix_time(), ..Standing::default() };
        Self { workers, pulses, standing: Mutex::new(standing), stopping: AtomicBool::new(false) }
    }

    pub(super) fn ledger(&self) -> Ledger {
        self.workers.ledger()
    }

    /// Counts a reload.
    pub(super) fn reloaded(&self, successfully: bool) {
        // Nobody panics while holding it.
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        if successfully {
            standing.reloads += 1;
            standing.loaded = unix_time();
        } else {
            standing.failed_reloads += 1;
        }
    }

    /// From now on no more traffic should be led here.
    pub(super) fn stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}

impl Service for State {
    fn metrics(&self, samples: &mut Samples<'_>) {
        let standing = *self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        metrics::metrics(samples, &self.ledger(), &standing);
    }

    fn ledger(&self) -> Value {
        // Its keys are strings: it has a form in JSON.
        serde_json::to_value(self.workers.ledger()).unwrap_or_default()
    }

    fn ready(&self) -> Result<(), String> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err("stopping".into());
        }
        if self.workers.plan().outlets.iter().all(|outlet| outlet.address.is_none()) {
            return Err("no destination's name resolves yet".into());
        }
        Ok(())
    }

    fn healthy(&self) -> Result<(), String> {
        self.pulses.check(Instant::now(), notify::PATIENCE)
    }
}

fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
