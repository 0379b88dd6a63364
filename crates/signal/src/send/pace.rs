//! Evenly spaced sends: a stall of this machine must not become a burst that overruns others.

use std::thread;
use std::time::Duration;

use weir_program::clock::{self, Nanos};

/// Lets a few datagrams go at once, and then so many a second.
#[derive(Debug)]
pub(super) struct Pace {
    per_s: f64,
    tokens: f64,
    refilled: Nanos,
}

impl Pace {
    pub(super) fn new(per_s: f64) -> Self {
        Self { per_s, tokens: BURST, refilled: clock::now() }
    }

    /// Goes on at another rate.
    pub(super) fn set(&mut self, per_s: f64) {
        self.per_s = per_s;
    }

    /// Waits until the next may go.
    pub(super) fn wait(&mut self) {
        let due = self.due(clock::now());
        if !due.is_zero() {
            thread::sleep(due);
            self.due(clock::now());
        }
        self.tokens -= 1.0;
    }

    /// How long until the next may go.
    fn due(&mut self, now: Nanos) -> Duration {
        self.tokens = (self.tokens + now.saturating_sub(self.refilled) as f64 * 1e-9 * self.per_s).min(BURST);
        self.refilled = now;
        Duration::from_secs_f64(((1.0 - self.tokens) / self.per_s).max(0.0))
    }
}

/// A few: the least queues on the way hold more.
const BURST: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_at_once_and_then_evenly() {
        let mut pace = Pace { per_s: 1000.0, tokens: BURST, refilled: 0 };
        let (mut now, mut sent) = (0, Vec::new());
        while sent.len() < 100 {
            let due = pace.due(now);
            if due.is_zero() {
                pace.tokens -= 1.0;
                sent.push(now);
            }
            now += due.as_nanos() as u64;
        }
        assert_eq!(sent[..4], [0; 4]);
        assert!(sent[4..].windows(2).all(|two| (999_990..1_000_010).contains(&(two[1] - two[0]))), "{sent:?}");
        // Nothing is saved up beyond a burst.
        let later = now + 10_000_000_000;
        assert!(pace.due(later).is_zero());
        assert!((pace.tokens - BURST).abs() < 1e-9);
    }
}
