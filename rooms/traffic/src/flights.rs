//! The times of single messages, for analysis of events during each.

use weir_program::clock::Nanos;

/// A delivered message on its way, in ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Its number.
    pub number: u64,
    /// Its due time; without the probe's extension, its send time.
    pub intended: Nanos,
    /// The time of the send call.
    pub sent: Nanos,
    /// The return of the receive call.
    pub received: Nanos,
}

impl Flight {
    /// Time from due to received.
    pub fn late(&self) -> Nanos {
        self.received.saturating_sub(self.intended)
    }
}

/// A message that was sent, in ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Its due time.
    pub intended: Nanos,
    /// The time of the send call.
    pub sent: Nanos,
}
