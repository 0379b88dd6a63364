//! Reloads of the configuration, as metrics tell of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// What became of reloads since the start. Clones share the counts.
#[derive(Clone, Debug)]
pub struct Reloads(Arc<Mutex<ReloadCounts>>);

/// The counts of [`Reloads`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReloadCounts {
    /// Those that took effect.
    pub succeeded: u64,
    /// Those that changed nothing, for the file was bad.
    pub failed: u64,
    /// When the configuration in force was loaded, Unix time in seconds.
    pub loaded: f64,
}

impl Reloads {
    /// None yet: the configuration in force has been loaded now.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(ReloadCounts { succeeded: 0, failed: 0, loaded: unix_time() })))
    }

    pub(crate) fn count(&self, succeeded: bool) {
        // Nobody panics while holding it.
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if succeeded {
            counts.succeeded += 1;
            counts.loaded = unix_time();
        } else {
            counts.failed += 1;
        }
    }

    /// The counts now.
    pub fn counts(&self) -> ReloadCounts {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
