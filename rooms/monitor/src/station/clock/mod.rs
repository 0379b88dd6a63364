//! The sample clock: what paces sources, and what its times are worth.
//!
//! Samples are paced by CLOCK_MONOTONIC, which nobody can step; their times are that clock's on the day of CLOCK_REALTIME, found when it
//! starts. Where the day's clock is stepped, times follow from the next block on, and the index goes on as if nothing had been.

mod sys;

use nix::time::{ClockId, clock_gettime};
use weir_program::clock::{self, Nanos};
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
        let looks = [Look::take(), Look::take(), Look::take()];
        let best = looks.into_iter().min_by_key(Look::width).unwrap_or_default();
        Self { started: best.before, origin: best.utc, told }
    }

    pub(super) fn now(&self) -> Moment {
        let elapsed = clock::now().saturating_sub(self.started);
        Moment { elapsed, utc: self.origin + elapsed as i64 }
    }

    /// By how much the day's clock was stepped since this was asked last, ns; from now on times follow it. `None`: by less than
    /// [`LEAST_STEP`].
    pub(super) fn follow_steps(&mut self) -> Option<i64> {
        let step = self.step(Look::take())?;
        self.origin += step;
        Some(step)
    }

    /// By how much the day's clock was stepped at least: what may as well be the time that a look took is no step.
    fn step(&self, look: Look) -> Option<i64> {
        let utc = |at: Nanos| self.origin + at.saturating_sub(self.started) as i64;
        let (least, most) = (look.utc - utc(look.after), look.utc - utc(look.before));
        [(least >= LEAST_STEP).then_some(least), (most <= -LEAST_STEP).then_some(most)].into_iter().flatten().next()
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

/// A look at the day's clock between two at the monotonic one: a machine may stand still between any two of them.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    before: Nanos,
    utc: i64,
    after: Nanos,
}

impl Look {
    fn take() -> Self {
        Self { before: clock::now(), utc: utc(), after: clock::now() }
    }

    /// By how much it may be wrong.
    fn width(&self) -> Nanos {
        self.after.saturating_sub(self.before)
    }
}

fn utc() -> i64 {
    clock_gettime(ClockId::CLOCK_REALTIME).map_or(0, |t| t.tv_sec() * 1_000_000_000 + t.tv_nsec())
}

/// The least n of which 2^n is no less.
fn exponent(nanos: u64) -> u8 {
    nanos.max(1).next_power_of_two().trailing_zeros() as u8
}

/// What keeps a clock right moves it by less.
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
        // What a look that took long leaves of it, the next one finds.
        let step: i64 = std::iter::from_fn(|| clock.follow_steps()).sum();
        assert!((step - 5_000_000_000).abs() < LEAST_STEP, "{step}");
        let now = clock.now();
        assert!((now.utc - before.utc) - ((now.elapsed - before.elapsed) as i64) < LEAST_STEP);
        assert_eq!(clock.follow_steps(), None);
    }

    /// However long the machine stands still between two looks, and whichever: it is no step, and a step is seen beside it.
    #[test]
    fn a_standstill_between_looks_is_no_step() {
        let clock = SampleClock { started: 1_000, origin: 50_000_000_000, told: None };
        let (long, at) = (250_000_000, 900_001_000);
        let right = clock.origin + 900_000_000;
        for (before, after) in [(at - long, at), (at, at + long), (at, at)] {
            assert_eq!(clock.step(Look { before, utc: right, after }), None);
            let forward = clock.step(Look { before, utc: right + 700_000_000, after }).unwrap();
            assert!((450_000_000..=700_000_000).contains(&forward), "{forward}");
            let back = clock.step(Look { before, utc: right - 700_000_000, after }).unwrap();
            assert!((-700_000_000..=-450_000_000).contains(&back), "{back}");
        }
    }
}
