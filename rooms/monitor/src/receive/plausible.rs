//! What a sender can have got to since it was last heard: a datagram that was forged or damaged blinds no living stream.

use std::time::Duration;

/// Whether numbers go on as those before them, or jump and are believed once enough in a row agree.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    /// The last one that was not plausible, when it came, and how many in a row agree.
    at: u64,
    then: Duration,
    agree: u8,
}

impl Doubt {
    /// What is plausible ends a row of what is not. `number` is in doubt unless it is `plausible`; returns whether to believe it.
    pub(super) fn judge(&mut self, number: u64, plausible: bool, step: u64, now: Duration) -> bool {
        if plausible {
            self.agree = 0;
            return true;
        }
        // A copy is no second witness; a heartbeat that says the same later is.
        let goes_on = match number.checked_sub(self.at) {
            Some(0) => now >= self.then + COPIES_WITHIN,
            Some(more) => more <= step,
            None => false,
        };
        let is_copy = number == self.at && !goes_on;
        if self.agree > 0 && is_copy {
            return self.agree >= ENOUGH;
        }
        self.agree = if self.agree > 0 && goes_on { self.agree.saturating_add(1) } else { 1 };
        (self.at, self.then) = (number, now);
        self.agree >= ENOUGH
    }
}

/// How far `count` in `span` may have gone on after a silence: twice what that makes at this rate, and [`SLACK`] and a stall's worth.
pub(super) fn reach(count: u64, span: Duration, silence: Duration) -> u64 {
    let time = silence.as_nanos().saturating_mul(2).saturating_add(STALL.as_nanos());
    let more = u128::from(count).saturating_mul(time) / span.as_nanos().max(1);
    u64::try_from(more).unwrap_or(u64::MAX).saturating_add(SLACK)
}

/// What may come at once at any rate.
pub(super) const SLACK: u64 = 65_536;

/// So much of a stream may come, or be missing, at once.
const STALL: Duration = Duration::from_secs(10);

/// Datagrams in a row that agree are believed: the sender did jump.
pub(super) const ENOUGH: u8 = 8;

/// Copies of a datagram come so close together; heartbeats are 50 ms apart.
const COPIES_WITHIN: Duration = Duration::from_millis(25);
