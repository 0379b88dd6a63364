//! A watch as a service's room: its control thread reads the machine, again and again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_service::Room;
use weir_units::format::counted;

use super::attach::Attached;
use super::machine::Machine;
use super::state::State;

/// The control thread's own.
pub(super) struct Watch {
    pub(super) machine: Machine,
    pub(super) attached: Attached,
    pub(super) state: Arc<State>,
    pub(super) pace: Pace,
}

/// When the machine is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The next reading.
    pub(super) due: Instant,
    /// From one reading to the next.
    pub(super) interval: Duration,
    /// The last; `None`: that of the end.
    pub(super) until: Option<Instant>,
}

impl Room for Watch {
    type News = std::convert::Infallible;
    type State = State;
    const ENDING: &'static str = "reading the last counters";

    fn state(&self) -> Arc<State> {
        self.state.clone()
    }

    fn status(&self) -> String {
        counted(self.state.latest().sockets.len(), "socket")
    }

    fn begin(&mut self) -> Instant {
        self.pace.next()
    }

    fn look(&mut self) -> Option<Instant> {
        if self.pace.until.is_some_and(|until| until <= Instant::now()) {
            return None;
        }
        self.state.set(self.machine.read(&mut self.attached));
        // What took longer than the interval is not caught up with.
        self.pace.due = (self.pace.due + self.pace.interval).max(Instant::now());
        Some(self.pace.next())
    }

    /// Reads once more, so that the last snapshot has everything.
    fn end(&mut self) {
        self.state.set(self.machine.read(&mut self.attached));
        self.state.end();
    }
}

impl Pace {
    fn next(&self) -> Instant {
        self.until.map_or(self.due, |until| until.min(self.due))
    }
}
