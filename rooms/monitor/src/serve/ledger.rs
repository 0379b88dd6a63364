//! The account of a server: what came, what of it is shown, what is missing and why.

use std::fmt;

use serde::Serialize;
use weir_service::losses::grouped;
use weir_units::format::{counted, printable, span};

use crate::outputs::OutputCount;
use crate::receive::{Counts, News, Stream};

/// Everything that was counted since the start. It closes when each datagram and each datagram of data has one fate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ledger {
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// Whether nothing is unexplained.
    pub closed: bool,
    /// What is unexplained.
    pub unexplained: i64,
    /// Channels that are kept.
    pub channels: usize,
    /// Of those, channels without samples for too long.
    pub stale: usize,
    /// Of those, channels beyond a limit.
    pub in_alarm: usize,
    /// Channels with an alarm that nobody has acknowledged, be it over or not.
    pub unacknowledged: usize,
    /// Times that a channel came for which there was no room.
    pub crowded_channels: u64,
    /// Channels that were forgotten for others, since nothing had come for them for a while.
    pub forgotten_channels: u64,
    /// Events so far.
    pub events: u64,
    /// What the sockets gave.
    pub received: Counts,
    /// What was sent on to viewers; null: nothing is.
    pub published: Option<SentCount>,
    /// What other tools were sent.
    pub outputs: Vec<OutputCount>,
    /// How often another server was followed, of those that send the same on.
    pub changes: u64,
    /// Samples that were due while a station did not run, by the times on both sides, or where its clock was set meanwhile by what passed
    /// here: gaps of cause `restart`, beside those of `received`.
    pub due_in_restarts: u64,
    /// Of the samples that `received` misses by cause `server`, those that no server of a feed had: behind the last of one that stopped or
    /// was started again, and in front of the first of the next.
    pub missing_between_servers: u64,
    /// Feeds of servers that were forgotten for others, since nobody of them was heard, and channels of feeds that no server had any
    /// more; and channels refused where all were heard.
    pub forgotten_feeds: u64,
    /// See `forgotten_feeds`.
    pub refused_feeds: u64,
    /// Streams, by name.
    pub streams: Vec<StreamCount>,
}

/// A stream that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamCount {
    /// Its station.
    pub station: String,
    /// Its name.
    pub stream: String,
    /// Its session, in hexadecimal.
    pub session: String,
    /// Where it comes from.
    pub source: String,
    /// What has become of it: `live`, `silent`, `ended`.
    pub state: &'static str,
    /// What keeps its clock: `unknown`, `free`, `ntp`, `ptp`.
    pub clock: &'static str,
}

/// What was sent on, as the ledger has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SentCount {
    /// Datagrams given to the network: one of each counts once, whatever number of groups it went to.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Datagrams that the kernel did not take for one of the groups.
    pub not_taken: u64,
}

impl StreamCount {
    pub(super) fn new(stream: &Stream, news: News) -> Self {
        use weir_wire::signal::ClockSource::{FreeRunning, Ntp, Ptp, Unknown};
        Self {
            station: stream.station.clone(),
            stream: stream.name.clone(),
            session: format!("{:016x}", stream.session),
            source: stream.source.to_string(),
            state: match news {
                News::Silent => "silent",
                News::Ended | News::Unserved => "ended",
                _ => "live",
            },
            clock: match stream.clock.source {
                Unknown => "unknown",
                FreeRunning => "free",
                Ntp => "ntp",
                Ptp => "ptp",
            },
        }
    }
}

impl Ledger {
    /// Adds up what is unexplained.
    pub(super) fn close(mut self) -> Self {
        self.unexplained = self.received.unexplained();
        self.closed = self.unexplained == 0;
        self
    }
}

/// For people: a line of totals, a line a stream.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { datagrams, samples, missing, missing_told, inherited, lost, copies, late, refused, .. } =
            &self.received;
        let gone = missing.values().fold(0, |sum: u64, &samples| sum.saturating_add(samples));
        writeln!(
            f,
            "{}: {} datagrams, {} samples of {}, {} missing",
            span(self.elapsed_s),
            grouped(*datagrams),
            grouped(*samples),
            counted(self.channels, "channel"),
            grouped(gone),
        )?;
        for (cause, samples) in missing.iter().filter(|(_, samples)| **samples > 0) {
            writeln!(f, "  missing, {cause}: {}", grouped(*samples))?;
        }
        let told = "of these, missing where they were sent, as told from there";
        let derived = "missing of what servers derive, as of its inputs";
        let counts = [(told, missing_told), (derived, inherited), ("datagrams lost", lost), ("copies", copies)];
        for (what, count) in counts.into_iter().chain([("late", late)]) {
            if *count > 0 {
                writeln!(f, "  {what}: {}", grouped(*count))?;
            }
        }
        for (reason, count) in refused.iter().filter(|(_, count)| **count > 0) {
            writeln!(f, "  refused, {reason}: {}", grouped(*count))?;
        }
        for OutputCount { to, points, datagrams, refused } in &self.outputs {
            writeln!(
                f,
                "  output {to}: {} points in {} datagrams, {refused} refused",
                grouped(*points),
                grouped(*datagrams)
            )?;
        }
        for stream in &self.streams {
            let StreamCount { station, stream, source, state, .. } = stream;
            writeln!(f, "  {}/{} from {source}: {state}", printable(station), printable(stream))?;
        }
        if !self.closed {
            writeln!(f, "  unexplained: {}", self.unexplained)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_that_add_up_to_too_much_are_shown() {
        let mut ledger = Ledger::default();
        ledger.received.missing = [("network", u64::MAX), ("source", 1)].into();
        assert!(ledger.to_string().contains(&format!("{} missing", grouped(u64::MAX))));
    }

    #[test]
    fn what_was_lost_before_a_sender_is_told_apart() {
        let mut ledger = Ledger::default();
        (ledger.received.missing, ledger.received.missing_told) = ([("network", 7)].into(), 5);
        let told = "  missing, network: 7\n  of these, missing where they were sent, as told from there: 5\n";
        assert!(ledger.to_string().contains(told), "{ledger}");
    }
}
