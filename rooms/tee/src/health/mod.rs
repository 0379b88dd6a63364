//! Whether an address of a destination is thought to live: evidence in, one verdict out.
//!
//! ```text
//! workers: ICMP, send errors --\
//!                               note -> state (one atomic word) -> up?      workers, for every datagram of a group
//! probes: TCP, ping ----------/    (health/state)               -> verdict  control thread: log, ledger
//! kernel: neighbours ---------> hop (another)                   -> gate     workers, for every batch
//! ```
//!
//! Reports that prove nothing have what is sent remembered by every worker ([`Health::doubts_reports`]); see
//! `worker/reports` for which are believed.
//!
//! Workers ask [`Health::up`] and note what they see; probes note what they find. All of it is atomic, so that nobody
//! waits for anybody. The control thread looks at every verdict from time to time and tells what has changed
//! ([`Observer`]).

mod hop;
mod news;
pub(crate) mod ping;
pub(crate) mod probe;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use state::State;
use weir_kernel::next_hops::Neighbour;

pub(crate) use hop::{Gate, Hop};
pub(crate) use news::News;

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
    /// A [`State`] in one word.
    state: AtomicU64,
    /// Times it was found dead. It follows the state a moment later, whose low digits of it are exact.
    downs: AtomicU64,
    /// A [`Hop`] in one word.
    hop: AtomicU64,
    /// By what the kernel tells of it; unset: nobody listens.
    news: OnceLock<Arc<News>>,
    /// Until when what is sent there is remembered, ms; 0: it is not.
    doubted: AtomicU64,
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
    /// ICMP said that its port is unreachable; it has not been tried since.
    PortUnreachable,
    /// A router said that its host or network cannot be reached, or may not; it has not been tried since.
    HostUnreachable,
    /// The kernel refused to send to it several times in a row; it has not been tried since.
    SendErrors,
    /// Probes fail.
    Probe,
    /// The neighbour on the way to it does not answer (ARP, ND).
    NextHop,
    /// No route leads to it.
    NoRoute,
}

/// Notices changes of one verdict, for the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observer {
    verdict: Verdict,
}

/// A verdict that has changed. `Display` says it in a few words, to be put behind the destination's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
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
        // The clock is looked at only for those that have been dead.
        match (self.state(), self.hop()) {
            (state, hop) if state.never_down() && hop.gate == Gate::Open && !hop.closed => true,
            (state, hop) => {
                let now = now();
                !hop.closed && hop.answers(now) && state.shunned(now).is_none()
            }
        }
    }

    /// What is known of its next hop.
    pub(crate) fn hop(&self) -> Hop {
        Hop::from_word(self.hop.load(Ordering::Relaxed))
    }

    /// What the kernel says of its next hop comes by these news, each time the same.
    pub(crate) fn follow(&self, news: &Arc<News>) {
        self.news.get_or_init(|| Arc::clone(news));
    }

    /// Whether all that the kernel has said of its next hop until now has been heard.
    pub(crate) fn has_heard_all(&self) -> bool {
        self.news.get().is_none_or(|news| news.are_known())
    }

    /// The kernel has said something of its next hop; returns whether that changes anything.
    pub(crate) fn hear(&self, neighbour: Option<Neighbour>) -> bool {
        self.change_hop(|hop| hop.hear(neighbour, now()))
    }

    /// So its next hop stands in the kernel's table; likewise.
    pub(crate) fn see(&self, neighbour: Option<Neighbour>) -> bool {
        self.change_hop(|hop| hop.see(neighbour, now()))
    }

    /// The kernel is about to give its next hop up; likewise.
    pub(crate) fn doubt(&self) -> bool {
        self.change_hop(Hop::doubt)
    }

    /// No next hop is asked, or another than was thought; likewise.
    pub(crate) fn free(&self) -> bool {
        self.change_hop(Hop::free)
    }

    /// A datagram was sent, so that the kernel asks.
    pub(crate) fn ask(&self) {
        self.change_hop(|hop| hop.ask(now()));
    }

    /// Says whether there is no socket, since no route leads there.
    pub(crate) fn set_closed(&self, closed: bool) {
        self.change_hop(|hop| hop.set_closed(closed));
    }

    /// Something was reported of it: whoever sends there is to remember what, for as long, so that the next report can be held
    /// against it.
    pub(crate) fn doubt_reports(&self, lasts: Duration) {
        self.doubted.fetch_max(now() + lasts.as_millis() as u64, Ordering::Relaxed);
    }

    /// Whether what is sent there is to be remembered.
    pub(crate) fn doubts_reports(&self) -> bool {
        // The first report of a trial must be believed.
        if self.state().is_untried() {
            return true;
        }
        // The clock is looked at only where there is a doubt.
        match self.doubted.load(Ordering::Relaxed) {
            0 => false,
            until if until > now() => true,
            until => {
                let _ = self.doubted.compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
                false
            }
        }
    }

    /// Takes note.
    pub fn note(&self, evidence: Evidence) {
        // Called for every batch: the line must not change hands while all is well.
        let state = self.state();
        if evidence == Evidence::Sent && state.without_errors() && !state.is_untried() {
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
        let after = before.note(evidence, now);
        if before.is_untried() && !after.is_untried() {
            self.doubt_reports(TRIAL);
        }
        if before.downs() != after.downs() {
            self.downs.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn verdict_at(&self, now: u64) -> Verdict {
        let (state, hop) = (self.state(), self.hop());
        let unanswered = (!hop.answers(now)).then_some(Cause::NextHop);
        let down = hop.closed.then_some(Cause::NoRoute).or(unanswered).or_else(|| state.down(now));
        Verdict { down, downs: state.all_downs(self.downs.load(Ordering::Relaxed)) }
    }

    fn change_hop(&self, change: impl Fn(Hop) -> Hop) -> bool {
        let changed = |word| Some(change(Hop::from_word(word)).word()).filter(|next| *next != word);
        self.hop.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed).is_ok()
    }

    fn state(&self) -> State {
        State::from_word(self.state.load(Ordering::Relaxed))
    }
}

impl Observer {
    /// What has changed since the last look; at first, since it lived.
    pub(crate) fn look(&mut self, health: &Health) -> Option<Change> {
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
pub(crate) const HOLD_DOWN: Duration = Duration::from_secs(10);
