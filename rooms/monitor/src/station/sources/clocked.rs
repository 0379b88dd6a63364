//! Samples that are paced by the station's clock.

use weir_program::clock::Nanos;
use weir_wire::signal::Rate;

/// How far a source has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocked {
    rate: Rate,
    /// When it began.
    begun: Nanos,
    /// Index of the next sample.
    next: u64,
}

/// Samples that are due: so many were missed first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) missed: u64,
    pub(super) samples: u64,
}

impl Clocked {
    pub(super) fn new(rate: Rate, begun: Nanos) -> Self {
        Self { rate, begun, next: 0 }
    }

    /// What is due; who stood still for longer than a second misses what is older, as the source of a real signal would.
    pub(super) fn take(&mut self, now: Nanos) -> Due {
        let due = self.rate.samples(now.saturating_sub(self.begun).into());
        let behind = due.saturating_sub(self.next);
        let most = self.rate.samples(LONGEST).max(1);
        let missed = behind.saturating_sub(most);
        self.next = self.next.max(due);
        Due { missed, samples: behind - missed }
    }

    /// The same, of those samples of which only the newest can still be measured.
    pub(super) fn take_newest(&mut self, now: Nanos) -> Due {
        let Due { missed, samples } = self.take(now);
        Due { missed: missed + samples.saturating_sub(1), samples: samples.min(1) }
    }

    /// When the next is due.
    pub(super) fn due(&self) -> Nanos {
        let after = u64::try_from(self.rate.nanos(self.next + 1)).unwrap_or(Nanos::MAX);
        // A nanosecond more: the time is cut.
        self.begun.saturating_add(after).saturating_add(1)
    }
}

const LONGEST: i128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sample_is_due_twice_and_what_is_old_is_missed() {
        let mut clocked = Clocked::new(Rate { per_second: 44_100, per_sample: 1 }, 500);
        let (mut total, mut now) = (0, 500);
        for step in [1, 22_676, 1, 1_000_000, 999_000_000, 37] {
            now += step;
            total += clocked.take(now).samples;
            assert_eq!(total, 44_100 * (now - 500) / 1_000_000_000);
            assert!(clocked.due() > now && clocked.take(clocked.due() - 2).samples == 0);
        }
        let next = clocked.due();
        assert_eq!(clocked.take(next), Due { missed: 0, samples: 1 });
        assert_eq!(clocked.take(next + 3_000_000_000), Due { missed: 88_200, samples: 44_100 });
        assert_eq!(clocked.take_newest(next + 4_000_000_000), Due { missed: 44_099, samples: 1 });
    }
}
