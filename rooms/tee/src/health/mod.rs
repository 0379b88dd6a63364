//! Whether an address of a destination is thought to live: evidence in, one verdict out.
//!
//! ```text
//! workers: ICMP, send errors --\
//!                               note -> state (one atomic word) -> up?      workers, for every datagram of a group
//! probes: TCP, ping ----------/    (health/state)               -> verdict  control thread: log, ledger
//! ```
//!
//! Workers ask [`Health::up`] and note what they see; probes note what they find. All of it is atomic, so that nobody
//! waits for anybody. The control thread looks at every verdict from time to time and tells what has changed
//! ([`Observer`]).

pub(crate) mod ping;
pub(crate) mod probe;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use state::State;

/// What somebody saw of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// ICMP said that its port is unreachable.
    PortUnreachable,
    /// The kernel refused to send to it.
    SendError,
    /// The kernel took a datagram for it. That says little: a neighbour that never answers has datagrams taken for it.
    Sent,
    /// A probe found no life.
    ProbeFailed,
    /// A probe of the service was answered.
    ProbeAnswered,
    /// A probe of the host was answered. That says nothing about the port.
    HostAnswered,
}

/// The verdict on one address. Shared by all workers.
#[derive(Debug, Default)]
pub struct Health {
    /// A [`State`] in one word.
    state: AtomicU64,
    /// Times it was found dead. It follows the state a moment later, whose low digits of it are exact.
    downs: AtomicU64,
}

/// What is thought of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why it is thought to be dead; `None`: it is thought to live.
    pub down: Option<Cause>,
    /// Times that it was found dead since the start.
    pub downs: u64,
}

/// Why an address is thought to be dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// ICMP said that its port is unreachable, within [`HOLD_DOWN`].
    PortUnreachable,
    /// The kernel refused to send to it several times in a row, within [`HOLD_DOWN`].
    SendErrors,
    /// Probes fail.
    Probe,
}

/// Notices changes of one verdict, for the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observer(Verdict);

/// A verdict that has changed. `Display` says it in a few words, to be put behind the destination's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is dead now.
    Down(Cause),
    /// It is dead for another reason than before.
    Still(Cause),
    /// It lives, or is tried again: nothing has been heard for [`HOLD_DOWN`].
    Up,
    /// It was dead so often since it was last looked at, and lives again.
    Flapped(u64),
}

impl Health {
    /// Whether it is thought to live. Without probes it is tried again after [`HOLD_DOWN`]; with them, when one is
    /// answered.
    pub fn up(&self) -> bool {
        // The clock is looked at only for those that have been dead.
        match self.state() {
            state if state.never_down() => true,
            state => state.down(now()).is_none(),
        }
    }

    /// Takes note.
    pub fn note(&self, evidence: Evidence) {
        // Called for every batch: the line must not change hands while all is well.
        if evidence == Evidence::Sent && self.state().without_errors() {
            return;
        }
        self.note_at(evidence, now());
    }

    /// The verdict now, and how often it was that it is dead.
    pub fn verdict(&self) -> Verdict {
        self.verdict_at(now())
    }

    fn note_at(&self, evidence: Evidence, now: u64) {
        let next = |word| Some(State::from_word(word).note(evidence, now).word());
        // Never fails: there is always a next state.
        let Ok(before) = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) else { return };
        let before = State::from_word(before);
        if before.downs() != before.note(evidence, now).downs() {
            self.downs.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn verdict_at(&self, now: u64) -> Verdict {
        let state = self.state();
        Verdict { down: state.down(now), downs: state.all_downs(self.downs.load(Ordering::Relaxed)) }
    }

    fn state(&self) -> State {
        State::from_word(self.state.load(Ordering::Relaxed))
    }
}

impl Observer {
    /// What has changed since the last look; at first, since it lived.
    pub(crate) fn look(&mut self, health: &Health) -> Option<Change> {
        let (before, now) = (self.0, health.verdict());
        self.0 = now;
        match (before.down, now.down) {
            (None, Some(cause)) => Some(Change::Down(cause)),
            (Some(before), Some(cause)) => (before != cause).then_some(Change::Still(cause)),
            (Some(_), None) => Some(Change::Up),
            (None, None) => match now.downs - before.downs {
                0 => None,
                times => Some(Change::Flapped(times)),
            },
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down(cause) => write!(f, "down: {cause}"),
            Self::Still(cause) => write!(f, "still down: {cause}"),
            Self::Up => f.write_str("up"),
            Self::Flapped(1) => f.write_str("up, was down in between"),
            Self::Flapped(times) => write!(f, "up, was down {times} times in between"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PortUnreachable => "its port is unreachable (ICMP)",
            Self::SendErrors => "it cannot be sent to",
            Self::Probe => "its probes fail",
        })
    }
}

/// Milliseconds since the first call, and 1: never 0.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}

/// How long a verdict of ICMP or send errors lasts without new evidence.
pub(crate) const HOLD_DOWN: Duration = Duration::from_secs(10);
