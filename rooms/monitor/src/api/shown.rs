//! What a server shows: asked by the page and by REST, kept by the room.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_wire::signal::Cause;

use weir_signal::history::History;

/// What is shown. Asked on the threads of HTTP, often: it answers from memory.
pub trait Shown: Send + Sync {
    /// The last minutes of every channel.
    fn history(&self) -> &History;

    /// The state of every channel, by its key in the history.
    fn states(&self) -> Vec<State>;

    /// Events that came after the one of this number, the oldest first; of 0 all that are kept.
    fn events_since(&self, id: u64) -> Vec<Event>;

    /// The account of the room.
    fn ledger(&self) -> serde_json::Value;

    /// Other servers of this feed, as a browser reaches them: `http://control-2:5180`.
    fn peers(&self) -> Vec<String>;

    /// Somebody has seen the alarms of a channel (station, stream, name), up to the worst that was shown to them. Returns the worst that
    /// there was.
    ///
    /// # Errors
    /// There is no such channel, nothing to acknowledge, or something worse than what they saw.
    fn acknowledge(&self, channel: [&str; 3], seen: Option<Alarm>, by: &str) -> Result<Alarm, NotAcknowledged> {
        let _ = (channel, seen, by);
        Err(NotAcknowledged::Unknown)
    }
}

/// Whether samples that are missing by a cause were lost, and not only not wanted or not made.
pub(crate) fn is_loss(cause: Cause) -> bool {
    !matches!(cause, Cause::Unselected | Cause::Restart)
}

/// Where it was lost, and what to do.
pub(crate) fn words(cause: Cause) -> (&'static str, &'static str) {
    match cause {
        Cause::Unknown => ("somewhere", "weir loss account on both machines tells where"),
        Cause::Source => {
            ("before the station: its source overran or stood still", "look at the station's source and log")
        }
        Cause::Unselected => ("nowhere: they were not wanted", "ask the station for them"),
        Cause::Station => {
            ("in the station, or by its kernel", "thin more or pace the station; weir loss check on its machine")
        }
        Cause::Network => (
            "between the machines",
            "look at the switches: mixed speeds without pause frames (`ethtool -A`), snooping without a querier; weir monitor check tests the path; \
             two groups (A/B) make up for it",
        ),
        Cause::Host => (
            "by this machine, in front of its sockets",
            "a longer ring and fewer interrupts (`ethtool -G IF rx N`, `ethtool -C IF rx-usecs N`), net.core.netdev_max_backlog: weir loss check \
             --apply tries them",
        ),
        Cause::Socket => (
            "in the receive buffer of this server",
            "a larger receive_buffer (up to net.core.rmem_max), a reader that stalls less: weir loss check computes it",
        ),
        Cause::Server => ("in a server on the way", "look at that server's load and events"),
        Cause::Viewer => ("in a viewer", "give it more time or fewer signals"),
        Cause::Restart => ("while nothing ran that would have taken them", "none is needed"),
    }
}

/// Something has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Its number, from 1; each greater than the one before.
    pub id: u64,
    /// When, ns since 1970 UTC.
    pub time_ns: i64,
    /// How bad it is.
    pub severity: Severity,
    /// The station that it is of; empty: of the server itself.
    pub station: String,
    /// The channel; empty: of all of the station's.
    pub channel: String,
    /// What kind, in one word for programs: `alarm`, `stale`, `gap`, `twin`, `restart`, `time`, `scale`.
    pub kind: &'static str,
    /// What, in one sentence for people.
    pub text: String,
    /// What to do, if it is known.
    pub remedy: Option<String>,
}

/// How bad an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something is as it should be again, or is worth knowing.
    Info,
    /// Somebody should look.
    Minor,
    /// Somebody should act.
    Major,
}

/// How a channel is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Its key in the history.
    pub key: u32,
    /// Which limit is passed.
    pub alarm: Alarm,
    /// Whether no samples come.
    pub stale: bool,
    /// Since when all of this, ns since 1970 UTC.
    pub since_ns: i64,
    /// The worst alarm that nobody has acknowledged; it stays when it is over.
    pub unacknowledged: Alarm,
    /// Who has acknowledged the alarm that there is.
    pub acknowledged: Option<Arc<Acknowledged>>,
}

/// Whose word it is that an alarm was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// As they call themselves.
    pub by: String,
    /// When, ns since 1970 UTC.
    pub time_ns: i64,
}

/// Why nothing is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAcknowledged {
    /// There is no such channel.
    Unknown,
    /// Nothing is to be acknowledged.
    Nothing,
    /// It is worse than what was seen.
    Worse(Alarm),
}

/// Which limit a channel has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Alarm {
    /// None.
    #[default]
    None,
    /// `very_low`.
    VeryLow,
    /// `low`.
    Low,
    /// `high`.
    High,
    /// `very_high`.
    VeryHigh,
}
