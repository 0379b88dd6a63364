//! The life of a program as a table of states: pure, its events carry their times.
//!
//! | state | entered when | leaves to |
//! |---|---|---|
//! | planned | the network is up | starting, at `start` |
//! | starting | it was started | running: it is ready; failed: it ended, or [`READY_WITHIN`] are over |
//! | running | | stopping at `stop`; killed at `kill`; ended: status 0; failed: another one |
//! | stopping | SIGTERM | ended: whatever its status; failed: SIGKILL after [`ENDS_WITHIN`] |
//! | ended, killed, failed, absent | | |

use std::time::Duration;

use weir_program::clock::{Nanos, nanos};

/// When a program starts and stops. Times are ns of CLOCK_MONOTONIC; `Nanos::MAX`: not yet known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) start: Nanos,
    pub(super) stop: Nanos,
    pub(super) kill: Nanos,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Planned,
    Starting {
        since: Nanos,
    },
    Running,
    Stopping {
        since: Nanos,
    },
    Ended,
    Killed,
    /// The program is not on this machine.
    Absent,
    Failed(String),
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    /// Time has passed.
    Clock,
    Started,
    NotStarted(State),
    Ready,
    Exited(i32),
}

/// The action to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Start,
    Terminate,
    Kill,
}

pub(super) struct Life {
    pub(super) plan: Plan,
    pub(super) state: State,
}

impl Life {
    pub(super) fn step(&mut self, event: Event, now: Nanos) -> Option<Action> {
        let (kill, stop) = (now >= self.plan.kill, now >= self.plan.stop);
        let (next, action) = match (&self.state, event) {
            (State::Planned, Event::Clock) if stop || kill => (State::Ended, None),
            (State::Planned, Event::Clock) if now >= self.plan.start => return Some(Action::Start),
            (State::Planned, Event::Started) => (State::Starting { since: now }, None),
            (State::Planned, Event::NotStarted(why)) => (why, None),
            (State::Starting { .. } | State::Running, Event::Clock) if kill => (State::Killed, Some(Action::Kill)),
            (State::Starting { .. } | State::Running, Event::Clock) if stop => {
                (State::Stopping { since: now }, Some(Action::Terminate))
            }
            (State::Starting { since }, Event::Clock) if now >= since + nanos(READY_WITHIN) => {
                (State::Failed(format!("was not ready within {READY_WITHIN:?}")), Some(Action::Kill))
            }
            (State::Starting { .. }, Event::Ready) => (State::Running, None),
            (State::Starting { .. }, Event::Exited(status)) => {
                (State::Failed(format!("ended with status {status} before it was ready")), None)
            }
            (State::Running, Event::Exited(0)) | (State::Stopping { .. }, Event::Exited(_)) => (State::Ended, None),
            (State::Running, Event::Exited(status)) => (State::Failed(format!("ended with status {status}")), None),
            (State::Stopping { since }, Event::Clock) if now >= since + nanos(ENDS_WITHIN) => {
                (State::Failed(format!("did not end within {ENDS_WITHIN:?} of SIGTERM")), Some(Action::Kill))
            }
            _ => return None,
        };
        self.state = next;
        action
    }

    /// Whether the state is final.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended | State::Killed | State::Absent | State::Failed(_))
    }
}

/// A third of systemd's default for a service (TimeoutStartSec is 90 s): a cell waits for it.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// The time that Docker waits before it kills.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const S: Nanos = 1_000_000_000;

    fn life() -> Life {
        Life { plan: Plan { start: S, stop: 5 * S, kill: Nanos::MAX }, state: State::Planned }
    }

    fn running() -> Life {
        let mut life = life();
        assert_eq!(life.step(Event::Clock, S / 2), None);
        assert_eq!(life.step(Event::Clock, S), Some(Action::Start));
        assert_eq!(life.step(Event::Started, S), None);
        assert_eq!((life.step(Event::Ready, S), &life.state), (None, &State::Running));
        life
    }

    #[test]
    fn a_program_starts_is_ready_and_is_asked_to_end() {
        let mut life = running();
        assert_eq!(life.step(Event::Clock, 4 * S), None);
        assert_eq!(life.step(Event::Clock, 5 * S), Some(Action::Terminate));
        assert!(!life.is_over());
        assert_eq!(life.step(Event::Exited(143), 6 * S), None);
        assert_eq!(life.state, State::Ended);
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let mut life = running();
        life.step(Event::Clock, 5 * S);
        assert_eq!(life.step(Event::Clock, 14 * S), None);
        assert_eq!(life.step(Event::Clock, 15 * S), Some(Action::Kill));
        assert_eq!(life.state, State::Failed("did not end within 10s of SIGTERM".into()));
    }

    #[test]
    fn what_ends_by_itself_is_judged_by_its_status() {
        let ended = |status| {
            let mut life = running();
            life.step(Event::Exited(status), 2 * S);
            life.state
        };
        assert_eq!(ended(0), State::Ended);
        assert_eq!(ended(3), State::Failed("ended with status 3".into()));
        let mut early = life();
        early.step(Event::Started, S);
        early.step(Event::Exited(0), S);
        assert_eq!(early.state, State::Failed("ended with status 0 before it was ready".into()));
    }

    #[test]
    fn a_program_that_is_never_ready_fails() {
        let mut life = life();
        life.plan.stop = Nanos::MAX;
        life.step(Event::Started, S);
        assert_eq!(life.step(Event::Clock, 30 * S), None);
        assert_eq!(life.step(Event::Clock, 31 * S), Some(Action::Kill));
        assert_eq!(life.state, State::Failed("was not ready within 30s".into()));
        // What comes then changes nothing.
        assert_eq!(life.step(Event::Ready, 32 * S), None);
        assert!(life.is_over());
    }

    #[test]
    fn a_kill_is_no_failure_and_one_that_is_absent_is_over() {
        let mut life = running();
        life.plan.kill = 3 * S;
        assert_eq!((life.step(Event::Clock, 3 * S), &life.state), (Some(Action::Kill), &State::Killed));
        let mut absent = self::life();
        absent.step(Event::NotStarted(State::Absent), S);
        assert!(absent.is_over());
        let mut stopped = self::life();
        assert_eq!((stopped.step(Event::Clock, 6 * S), &stopped.state), (None, &State::Ended), "never started");
    }
}
