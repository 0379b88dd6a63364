//! What the page's clients have had.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::{Value, json};
use weir_service::http::Ended;

/// Counts of WebSockets.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// Clients that came.
    pub(super) clients: AtomicU64,
    /// Those that were refused, since there were too many.
    pub(super) refused: AtomicU64,
    /// Those that were ended since they did not read.
    pub(super) stuck: AtomicU64,
    /// Those that were ended since nothing was heard of them.
    pub(super) silent: AtomicU64,
    /// Those that were ended since they said what cannot be understood.
    pub(super) mistaken: AtomicU64,
    /// Messages with samples.
    pub(super) messages: AtomicU64,
    /// Their bytes.
    pub(super) bytes: AtomicU64,
}

impl Figures {
    /// By name; `now` are there, and connections made room for newer ones.
    pub(super) fn told(&self, now: usize, ended: &Ended) -> Value {
        let read = |count: &AtomicU64| count.load(Relaxed);
        let mut told = json!({
            "clients_now": now,
            "clients": read(&self.clients),
            "refused_full": read(&self.refused),
            "ended_stuck": read(&self.stuck),
            "ended_silent": read(&self.silent),
            "ended_mistaken": read(&self.mistaken),
            "messages": read(&self.messages),
            "bytes": read(&self.bytes),
        });
        for (name, count) in ended.figures() {
            told[name] = count;
        }
        told
    }
}

/// One more.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
