//! The time as analysis sees it.

use std::time::{SystemTime, UNIX_EPOCH};

use weir_program::clock;

use crate::agents::Nanos;

/// A moment: for intervals, and for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// By the clock that never jumps.
    pub nanos: Nanos,
    /// Milliseconds since 1970, by the clock that people set.
    pub unix_ms: u64,
}

impl Now {
    /// The present.
    pub fn read() -> Self {
        let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        Self { nanos: clock::now(), unix_ms }
    }
}
