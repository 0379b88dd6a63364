//! The times of single messages, for those who must know what happened during each.

use weir_program::clock::Nanos;

/// A delivered message on its way, in ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Its number.
    pub number: u64,
    /// When it was due to be sent; without the probe's extension, when it was sent.
    pub intended: Nanos,
    /// The send call.
    pub sent: Nanos,
    /// The receive call's return.
    pub received: Nanos,
}

impl Flight {
    /// From when it was due to when it was received.
    pub fn late(&self) -> Nanos {
        self.received.saturating_sub(self.intended)
    }
}

/// A message that was sent, in ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When it was due.
    pub intended: Nanos,
    /// The send call.
    pub sent: Nanos,
}
