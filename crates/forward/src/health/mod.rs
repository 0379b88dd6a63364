//! Whether an address of a destination is thought to live: evidence in, one verdict out.
//!
//! ```text
//! workers: ICMP, send errors --\
//!                               note -> state (a circuit breaker) -> up?      workers, for every datagram of a group
//! probes: TCP, ping ----------/                                   -> verdict  control thread: log, ledger
//! kernel: neighbours ---------> hop                               -> gate     workers, for every batch
//! ```
//!
//! See `worker/reports` for which ICMP is believed. The control thread looks at every verdict from time to time and logs
//! what has changed ([`Observer`]).

mod hop;
mod state;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use state::State;
use weir_kernel::next_hops::Neighbour;

pub use hop::{ENTRY_MADE, Gate, Hop};

/// What somebody saw of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// ICMP said that its port is unreachable, and quoted what was sent.
    PortUnreachable,
    /// ICMP said that its host or network is unreachable, and quoted what was sent.
    HostUnreachable,
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
    state: Mutex<State>,
    /// As [`State::shunned_until`], for who may not wait.
    shunned_until: AtomicU64,
    /// As [`State::is_troubled`], likewise.
    is_troubled: AtomicBool,
    /// The next hop on the way to it.
    pub hop: Hop,
}

/// What is thought of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why it is thought to be dead; `None`: it is thought to live.
    pub down: Option<Cause>,
    /// Times that it was found dead since the start.
    pub downs: u64,
}

/// Why an address is thought to be dead, the graver the later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The kernel refused to send to it several times in a row; it has not been tried since.
    SendErrors,
    /// A router said that its host or network cannot be reached, or may not; it has not been tried since.
    HostUnreachable,
    /// ICMP said that its port is unreachable; it has not been tried since.
    PortUnreachable,
    /// Probes fail.
    Probe,
    /// The neighbour on the way to it does not answer (ARP, ND).
    NextHop,
    /// No route leads to it.
    NoRoute,
}

/// Notices changes of one verdict, for the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observer {
    verdict: Verdict,
}

/// A verdict that has changed. `Display` says it in a few words, to be put behind the destination's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is dead now.
    Down(Cause),
    /// It is dead for another reason than before.
    Still(Cause),
    /// It lives: something was sent after [`HOLD_DOWN`], and nothing has been heard for [`TRIAL`]; or a probe was answered.
    Up,
    /// It was dead so often since it was last looked at, and lives again.
    Flapped(u64),
}

impl Health {
    /// Whether groups may choose it: it is thought to live, or is to be tried. Without probes that is after [`HOLD_DOWN`];
    /// with them, when one is answered.
    pub fn up(&self) -> bool {
        if self.hop.is_closed() {
            return false;
        }
        // The clock is looked at only for those that have been dead.
        match (self.shunned_until.load(Ordering::Relaxed), self.hop.gate()) {
            (0, Gate::Open) => true,
            (until, _) => {
                let now = now();
                now >= until && self.hop.answers(now)
            }
        }
    }

    /// A datagram was sent, so that the kernel asks the next hop.
    pub fn ask(&self) {
        self.hop.asked(now());
    }

    /// What the kernel's table has of the next hop. Returns whether that changes anything, and whether what is sent goes elsewhere,
    /// so that the next hop does not matter.
    pub fn see(&self, neighbour: Option<Neighbour>) -> (bool, bool) {
        if neighbour.is_none() && self.hop.is_elsewhere(now()) {
            return (self.hop.set_gate(Gate::Open), true);
        }
        (self.hop.hear(neighbour), false)
    }

    /// Takes note.
    pub fn note(&self, evidence: Evidence) {
        // Called for every batch: nothing is written while all is well.
        if evidence == Evidence::Sent && !self.is_troubled.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state();
        state.note(evidence, now());
        self.shunned_until.store(state.shunned_until(), Ordering::Relaxed);
        self.is_troubled.store(state.is_troubled(), Ordering::Relaxed);
    }

    /// The verdict now, and how often it was that it is dead.
    pub fn verdict(&self) -> Verdict {
        let (state, now) = (self.state(), now());
        let unanswered = (!self.hop.answers(now)).then_some(Cause::NextHop);
        let closed = self.hop.is_closed().then_some(Cause::NoRoute);
        Verdict { down: closed.or(unanswered).or_else(|| state.down(now)), downs: state.downs }
    }

    /// Times that reports, send errors or probes have changed whether it counts as dead.
    pub fn turns(&self) -> u64 {
        let state = self.state();
        2 * state.downs - u64::from(state.down(now()).is_some())
    }

    /// Nobody panics while holding it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer {
    /// What has changed since the last look; at first, since it lived.
    pub fn look(&mut self, health: &Health) -> Option<Change> {
        let (before, now) = (self.verdict, health.verdict());
        self.verdict = now;
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
            Self::HostUnreachable => "a router reports that its host or network is unreachable (ICMP)",
            Self::SendErrors => "it cannot be sent to",
            Self::Probe => "its probes fail",
            Self::NextHop => "the next hop does not answer (ARP, ND)",
            Self::NoRoute => "no route leads to it",
        })
    }
}

/// Milliseconds since the first call, and 1: never 0.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}

/// How long a destination must have stood without a new report, after something was sent to it again: a router that asks for
/// it tells after three seconds.
const TRIAL: Duration = Duration::from_secs(4);

/// How long groups pass over what ICMP or send errors speak of, without new evidence.
pub const HOLD_DOWN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn changes_are_noticed_once() {
        let (health, mut observer) = (Health::default(), Observer::default());
        assert_eq!(observer.look(&health), None);
        health.note(Evidence::PortUnreachable);
        assert!(!health.up());
        assert_eq!(observer.look(&health), Some(Change::Down(Cause::PortUnreachable)));
        assert_eq!(observer.look(&health), None);
        health.note(Evidence::ProbeFailed);
        health.note(Evidence::ProbeFailed);
        assert_eq!(observer.look(&health), Some(Change::Still(Cause::Probe)));
        health.note(Evidence::ProbeAnswered);
        assert!(health.up());
        assert_eq!(observer.look(&health), Some(Change::Up));
        for _ in 0..2 {
            health.note(Evidence::PortUnreachable);
            health.note(Evidence::ProbeAnswered);
        }
        let flapped = observer.look(&health).unwrap();
        assert_eq!((flapped, flapped.to_string().as_str()), (Change::Flapped(2), "up, was down 2 times in between"));
        assert_eq!(health.verdict(), Verdict { down: None, downs: 3 });
    }

    #[test]
    fn threads_that_find_it_dead_at_once_count_it_once() {
        for _ in 0..100 {
            let health = Health::default();
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| (0..100).for_each(|_| health.note(Evidence::PortUnreachable)));
                }
            });
            assert_eq!(health.verdict(), Verdict { down: Some(Cause::PortUnreachable), downs: 1 });
        }
    }
}
