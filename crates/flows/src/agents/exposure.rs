//! Since when the samples of a datagram may have been taken.
//!
//! A burst is what comes within a quarter of the silence before it (100 to 500 ms). Samples of a burst were taken since the datagram before it:
//! whatever an agent, a network or this machine has held up comes as a burst after a silence.

use super::{Nanos, SECOND};

/// Of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exposure {
    last: Nanos,
    begun: Nanos,
    span: Nanos,
    since: Nanos,
    is_known: bool,
}

impl Exposure {
    /// A datagram came. For how long before its samples may have been taken; `None`: it is of the first burst, of which nobody knows.
    pub(crate) fn enter(&mut self, now: Nanos) -> Option<Nanos> {
        if self.last == 0 {
            (self.since, self.begun, self.span) = (now, now, LEAST);
        } else if now - self.begun > self.span {
            (self.since, self.begun, self.is_known) = (self.last, now, true);
            self.span = ((now - self.last) / 4).clamp(LEAST, LONGEST);
        }
        self.last = now;
        self.is_known.then(|| (now - self.since).min(MOST))
    }
}

/// Bounds of a burst's span, and of an exposure: see the manual.
const LEAST: Nanos = SECOND / 10;
const LONGEST: Nanos = SECOND / 2;
const MOST: Nanos = 10 * SECOND;
