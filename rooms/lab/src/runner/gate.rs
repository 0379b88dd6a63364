//! Lets cells run side by side as long as the processors carry them.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cost::Cost;

/// Waiting jobs, and what the running ones need. Jobs that need more than [`ALONE`] of the room run alone.
pub(super) struct Gate<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
    /// Processors that may be busy.
    room: f64,
}

struct State<J> {
    waiting: VecDeque<(J, Cost)>,
    busy: f64,
    running: usize,
}

/// A job that runs; its room is free again when this is dropped.
pub(super) struct Pass<'g, J> {
    gate: &'g Gate<J>,
    processors: f64,
}

impl<J: Copy> Gate<J> {
    /// A gate with jobs in the order in which they are looked at; infinite `room`: all at once.
    pub(super) fn new(jobs: impl IntoIterator<Item = (J, Cost)>, room: f64) -> Self {
        let state = State { waiting: jobs.into_iter().collect(), busy: 0.0, running: 0 };
        Gate { state: Mutex::new(state), changed: Condvar::new(), room }
    }

    /// The first job that there is room for, as soon as there is one; `None`: none is waiting any more.
    pub(super) fn next(&self) -> Option<(J, Pass<'_, J>)> {
        let mut state = lock(&self.state);
        loop {
            if state.waiting.is_empty() {
                return None;
            }
            if let Some((job, _, processors)) = state.take(self.room) {
                return Some((job, Pass { gate: self, processors }));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets nobody in any more.
    pub(super) fn close(&self) {
        lock(&self.state).waiting.clear();
        self.changed.notify_all();
    }

    /// How long it takes until all have run, with at most `workers` at once, if every guess is right.
    pub(super) fn expected(&self, workers: usize) -> Duration {
        let state = lock(&self.state);
        let mut state = State { waiting: state.waiting.clone(), busy: 0.0, running: 0 };
        let (mut now, mut running) = (Duration::ZERO, Vec::<(Duration, f64)>::new());
        while !state.waiting.is_empty() || !running.is_empty() {
            while running.len() < workers
                && let Some((_, cost, processors)) = state.take(self.room)
            {
                running.push((now + cost.time, processors));
            }
            let Some(first) = (0..running.len()).min_by_key(|&index| running[index].0) else { break };
            let (end, processors) = running.swap_remove(first);
            now = end;
            state.give_back(processors);
        }
        now
    }
}

impl<J> State<J> {
    /// The first job that there is room for, what it was guessed to need, and the processors it got.
    fn take(&mut self, room: f64) -> Option<(J, Cost, f64)> {
        let index = self.waiting.iter().position(|(_, cost)| self.admits(cost, room))?;
        let (job, cost) = self.waiting.remove(index)?;
        Some((job, cost, self.occupy(&cost, room)))
    }

    fn admits(&self, cost: &Cost, room: f64) -> bool {
        self.running == 0 || (cost.processors <= room * ALONE && self.busy + cost.processors <= room)
    }

    fn occupy(&mut self, cost: &Cost, room: f64) -> f64 {
        // One that runs alone takes all there is.
        let processors = if cost.processors > room * ALONE { room } else { cost.processors };
        self.busy += processors;
        self.running += 1;
        processors
    }

    fn give_back(&mut self, processors: f64) {
        self.busy -= processors;
        self.running -= 1;
    }
}

impl<J> Drop for Pass<'_, J> {
    fn drop(&mut self) {
        lock(&self.gate.state).give_back(self.processors);
        self.gate.changed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The share of the room beyond which a job runs alone.
const ALONE: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(costs: &[f64], room: f64) -> Gate<usize> {
        let cost = |processors| Cost { processors, time: Duration::from_secs(10) };
        Gate::new(costs.iter().map(|&processors| cost(processors)).enumerate(), room)
    }

    #[test]
    fn what_fits_runs_side_by_side() {
        let gate = gate(&[0.4, 0.4, 0.4, 0.2], 1.0);
        let (first, second, third) = (gate.next().unwrap(), gate.next().unwrap(), gate.next().unwrap());
        assert_eq!((first.0, second.0, third.0), (0, 1, 3), "the small one passes the one that does not fit");
        drop(first);
        assert_eq!(gate.next().unwrap().0, 2);
        assert!(gate.next().is_none());
    }

    #[test]
    fn who_fills_the_machine_runs_alone() {
        let gate = gate(&[1.6, 0.1, 0.1], 1.0);
        let big = gate.next().unwrap();
        assert_eq!(big.0, 0);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| gate.next().unwrap().0);
            drop(big);
            assert_eq!(other.join().unwrap(), 1);
        });
    }

    #[test]
    fn a_closed_gate_lets_nobody_in() {
        let gate = gate(&[1.0, 1.0], 1.0);
        let first = gate.next().unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| gate.next().map(|(job, _)| job));
            gate.close();
            assert_eq!(other.join().unwrap(), None);
        });
        drop(first);
    }

    #[test]
    fn the_expected_time_follows_the_room() {
        let ten = |workers, costs: &[f64], room| gate(costs, room).expected(workers).as_secs();
        assert_eq!(ten(8, &[0.1; 8], 1.0), 10);
        assert_eq!(ten(2, &[0.1; 8], 1.0), 40);
        assert_eq!(ten(8, &[0.5, 0.5, 0.5, 0.5], 1.0), 20);
        assert_eq!(ten(8, &[2.0, 0.1, 0.1], 1.0), 20);
        assert_eq!(ten(8, &[2.0; 3], f64::INFINITY), 10);
    }
}
