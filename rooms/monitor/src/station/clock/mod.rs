//! The sample clock: what paces sources, and what its times are worth.
//!
//! Samples are paced by CLOCK_MONOTONIC, which nobody can step; their times are that clock's on the day of CLOCK_REALTIME, found when it
//! starts. Where the day's clock is stepped, times follow from the next block on, and the index goes on as if nothing had been.

mod sys;

use nix::time::{ClockId, clock_gettime};
use weir_service::clock::{self, Nanos};
use weir_wire::signal::{Clock, ClockSource};

/// A moment, by both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moment {
    /// Since the station started.
    pub(super) elapsed: Nanos,
    /// Since 1970 UTC, by the sample clock.
    pub(super) utc: i64,
}

/// Runs since the station started.
#[derive(Debug)]
pub(super) struct SampleClock {
    started: Nanos,
    /// UTC of the start.
    origin: i64,
    /// What keeps it right, where somebody says so.
    told: Option<ClockSource>,
}

impl SampleClock {
    pub(super) fn start(told: Option<ClockSource>) -> Self {
        let started = clock::now();
        Self { started, origin: utc(), told }
    }

    pub(super) fn now(&self) -> Moment {
        let elapsed = clock::now().saturating_sub(self.started);
        Moment { elapsed, utc: self.origin + elapsed as i64 }
    }

    /// By how much the day's clock was stepped since this was asked last, ns; from now on times follow it. `None`: by less than
    /// [`LEAST_STEP`].
    pub(super) fn follow_steps(&mut self) -> Option<i64> {
        let step = utc() - self.now().utc;
        (step.abs() >= LEAST_STEP).then(|| {
            self.origin += step;
            step
        })
    }

    /// What its times are worth now, as the kernel knows it: adjtimex(2).
    pub(super) fn quality(&self) -> Clock {
        let kept = sys::kept();
        let source = match (self.told, &kept) {
            (Some(told), _) => told,
            (None, Some(kept)) if kept.synchronized => ClockSource::Ntp,
            (None, Some(_)) => ClockSource::FreeRunning,
            (None, None) => ClockSource::Unknown,
        };
        let error = kept.filter(|kept| kept.synchronized).map(|kept| exponent(kept.most_error_ns));
        Clock { source, error }
    }
}

fn utc() -> i64 {
    clock_gettime(ClockId::CLOCK_REALTIME).map_or(0, |t| t.tv_sec() * 1_000_000_000 + t.tv_nsec())
}

/// The least n of which 2^n is no less.
fn exponent(nanos: u64) -> u8 {
    nanos.max(1).next_power_of_two().trailing_zeros() as u8
}

/// Clocks are read one behind the other, and a machine may stand still between the two.
const LEAST_STEP: i64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_rounded_up() {
        assert_eq!([0, 1, 2, 3, 1000, 1 << 20].map(exponent), [0, 0, 1, 2, 10, 20]);
    }

    #[test]
    fn times_follow_a_step_once() {
        let mut clock = SampleClock::start(Some(ClockSource::Ptp));
        assert_eq!(clock.quality().source, ClockSource::Ptp);
        let before = clock.now();
        clock.origin -= 5_000_000_000;
        let step = clock.follow_steps().unwrap();
        assert!((step - 5_000_000_000).abs() < LEAST_STEP, "{step}");
        let now = clock.now();
        assert!((now.utc - before.utc) - ((now.elapsed - before.elapsed) as i64) < LEAST_STEP);
        assert_eq!(clock.follow_steps(), None);
    }
}
