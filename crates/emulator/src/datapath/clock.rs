//! Time: CLOCK_MONOTONIC, and the kernel's arrival stamps translated to it.

use nix::time::{ClockId, clock_gettime};

use crate::model::Nanos;

/// How long a measured offset between the clocks is used. Both are slewed equally, so only a stepped CLOCK_REALTIME
/// (settimeofday, a leap second) changes it.
const REMEASURE: Nanos = 1_000_000;

/// Translates stamps of CLOCK_REALTIME, the only clock of the kernel's stamps, to CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    now: Nanos,
    ahead: Nanos,
    measured: Option<Nanos>,
}

impl Clock {
    /// Reads the clock.
    pub(super) fn tick(&mut self) -> Nanos {
        self.now = read(ClockId::CLOCK_MONOTONIC);
        if self.measured.is_none_or(|at| self.now - at > REMEASURE) {
            let real = read(ClockId::CLOCK_REALTIME);
            let after = read(ClockId::CLOCK_MONOTONIC);
            self.ahead = real.wrapping_sub(self.now + (after - self.now) / 2);
            self.measured = Some(after);
            self.now = after;
        }
        self.now
    }

    /// The time of the last tick.
    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    /// A frame's arrival by its stamp (CLOCK_REALTIME), never after the last tick. Without a stamp: the last tick.
    pub(super) fn arrival(&self, stamp: Option<Nanos>) -> Nanos {
        stamp.map_or(self.now, |stamp| {
            let arrival = stamp.wrapping_sub(self.ahead);
            if arrival > self.now { self.now } else { arrival }
        })
    }
}

/// CPU time of the calling thread.
pub(super) fn cpu_time() -> std::time::Duration {
    std::time::Duration::from_nanos(read(ClockId::CLOCK_THREAD_CPUTIME_ID))
}

fn read(clock: ClockId) -> Nanos {
    // These clocks always exist, so reading them does not fail.
    clock_gettime(clock).map_or(0, |t| t.tv_sec() as Nanos * 1_000_000_000 + t.tv_nsec() as Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_translated_to_the_monotonic_clock() {
        let mut clock = Clock::default();
        clock.tick();
        let stamp = read(ClockId::CLOCK_REALTIME);
        let now = clock.tick();
        let arrival = clock.arrival(Some(stamp));
        assert!(arrival <= now && now - arrival < 1_000_000, "{} ns", now - arrival);
        assert_eq!(clock.arrival(Some(stamp + 1_000_000_000)), now, "no frame arrives in the future");
        assert_eq!(clock.arrival(None), now);
    }
}
