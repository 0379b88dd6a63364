//! The times of a plan's phases.

use std::sync::Arc;

use super::delay::nanos;
use super::{Nanos, Plan};

/// The phases of a plan on the clock. Phase 0 is the plan's beginning, phase n its n-th step.
#[derive(Clone, Debug)]
pub(super) struct Timetable {
    /// Start of each phase, from time 0; ascending, the first is 0.
    begins: Arc<[Nanos]>,
    /// The period of the plan.
    repeat: Option<Nanos>,
    /// Time 0. `None`: not set yet, and phase 0 applies.
    zero: Option<Nanos>,
}

/// A period in which a plan is in one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stay {
    /// Stays before this one; 0 is the time before time 0.
    pub(super) number: u64,
    /// The phase.
    pub(super) phase: usize,
    /// First instant of it.
    pub(super) begins: Nanos,
    /// First instant after it; `Nanos::MAX`: never.
    pub(super) ends: Nanos,
}

impl Timetable {
    /// The phases with their own time, in order, and their times.
    pub(super) fn new(plan: &Plan) -> (Vec<usize>, Self) {
        let repeat = plan.repeat.map(nanos).filter(|&repeat| repeat > 0);
        let mut steps: Vec<(Nanos, usize)> =
            plan.steps.iter().enumerate().map(|(index, step)| (nanos(step.after), index + 1)).collect();
        steps.retain(|&(after, _)| repeat.is_none_or(|repeat| after < repeat));
        steps.sort();
        let begins = std::iter::once(0).chain(steps.iter().map(|&(after, _)| after)).collect();
        let phases = std::iter::once(0).chain(steps.iter().map(|&(_, phase)| phase)).collect();
        (phases, Timetable { begins, repeat, zero: None })
    }

    /// The same plan on the clock of another.
    pub(super) fn on_clock_of(self, other: &Timetable) -> Self {
        Timetable { zero: other.zero, ..self }
    }

    /// Sets time 0.
    pub(super) fn start(&mut self, zero: Nanos) {
        self.zero = Some(zero);
    }

    /// Time 0, if it is not after the stay `stay`.
    pub(super) fn origin(&self, stay: &Stay) -> Nanos {
        if stay.number == 0 { 0 } else { self.zero.unwrap_or(0) }
    }

    /// The stay that contains `time`.
    pub(super) fn at(&self, time: Nanos) -> Stay {
        let before = |ends| Stay { number: 0, phase: 0, begins: 0, ends };
        let Some(zero) = self.zero else { return before(Nanos::MAX) };
        let Some(passed) = time.checked_sub(zero) else { return before(zero) };
        let (round, within) = self.repeat.map_or((0, passed), |repeat| (passed / repeat, passed % repeat));
        let phase = self.begins.partition_point(|&begins| begins <= within) - 1;
        // The round began at or before `time`.
        let base = zero + round * self.repeat.unwrap_or(0);
        let ends = self.begins.get(phase + 1).copied().or(self.repeat);
        Stay {
            number: round.saturating_mul(self.begins.len() as u64).saturating_add(phase as u64 + 1),
            phase,
            begins: base + self.begins[phase],
            ends: ends.map_or(Nanos::MAX, |ends| base.saturating_add(ends)),
        }
    }

    /// Duration of each phase within `over` from time 0.
    pub(super) fn shares(&self, over: Nanos) -> Vec<u128> {
        let (rounds, rest) = self.repeat.map_or((0, over), |repeat| (over / repeat, over % repeat));
        let ends = |phase: usize| self.begins.get(phase + 1).copied();
        (0..self.begins.len())
            .map(|phase| {
                let begins = self.begins[phase];
                let whole = ends(phase).or(self.repeat).map_or(0, |ends| u128::from(ends - begins));
                let last = ends(phase).unwrap_or(Nanos::MAX).min(rest).saturating_sub(begins);
                u128::from(rounds) * whole + u128::from(last)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::{Impairments, Step};
    use super::*;

    #[test]
    fn phases_follow_one_another_and_start_again() {
        let mut timetable = timetable(&[3, 5], Some(10));
        let stay = |number, phase, begins, ends| Stay { number, phase, begins, ends };
        assert_eq!(timetable.at(1_000), stay(0, 0, 0, Nanos::MAX), "the clock has not been started");
        timetable.start(100);
        let expected = [
            (0, stay(0, 0, 0, 100)),
            (99, stay(0, 0, 0, 100)),
            (100, stay(1, 0, 100, 103)),
            (103, stay(2, 1, 103, 105)),
            (109, stay(3, 2, 105, 110)),
            (110, stay(4, 0, 110, 113)),
            (1_000_000_004, stay(300_000_000 - 30 + 2, 1, 1_000_000_003, 1_000_000_005)),
        ];
        for (time, stay) in expected {
            assert_eq!(timetable.at(time), stay, "{time}");
        }
    }

    #[test]
    fn last_phase_of_a_plan_without_repeat_stays() {
        let mut timetable = timetable(&[3], None);
        timetable.start(0);
        assert_eq!(timetable.at(u64::MAX), Stay { number: 2, phase: 1, begins: 3, ends: Nanos::MAX });
    }

    proptest! {
        /// Walking from end to end visits the same stays as looking them up, and their lengths add up.
        #[test]
        fn stays_fill_the_time(
            steps in prop::collection::btree_set(1..50u64, 0..6), repeat in prop::option::of(50..80u64),
            zero in 0..1_000u64, over in 0..1_000u64,
        ) {
            let steps: Vec<u64> = steps.into_iter().collect();
            let mut timetable = timetable(&steps, repeat);
            timetable.start(zero);
            let mut shares = vec![0; steps.len() + 1];
            let mut stay = timetable.at(zero);
            for time in zero..zero + over {
                if time >= stay.ends {
                    let next = timetable.at(stay.ends);
                    prop_assert_eq!((next.number, next.begins), (stay.number + 1, stay.ends));
                    stay = next;
                }
                prop_assert_eq!(timetable.at(time), stay);
                shares[stay.phase] += 1;
            }
            prop_assert_eq!(timetable.shares(over), shares);
        }

        #[test]
        fn any_time_has_its_stay(
            steps in prop::collection::vec(any::<u64>(), 0..4), repeat: Option<u64>, zero: u64, time: u64,
        ) {
            let mut timetable = timetable(&steps, repeat);
            timetable.start(zero);
            let stay = timetable.at(time);
            prop_assert!(stay.begins <= time && (time < stay.ends || stay.ends == Nanos::MAX));
        }
    }

    fn timetable(steps: &[u64], repeat: Option<u64>) -> Timetable {
        let step = |&after| Step { after: Duration::from_nanos(after), impairments: Impairments::default() };
        let (steps, repeat) = (steps.iter().map(step).collect(), repeat.map(Duration::from_nanos));
        Timetable::new(&Plan { first: Impairments::default(), steps, repeat }).1
    }
}
