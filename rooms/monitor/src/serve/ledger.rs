//! The account of a server: what came, what of it is shown, what is missing and why.

use std::fmt;

use weir_program::ledger;
use weir_service::losses::grouped;
use weir_service::metrics::Family;
use weir_units::format::{counted, printable, span};

use crate::outputs::{OutputCount, latest};
use weir_signal::receive::{Counts, News, Stream};

ledger! {
    /// Everything that was counted since the start. It closes when each datagram and each datagram of data has one fate.
    pub struct Ledger {
        /// Seconds since the start.
        elapsed_s: f64,
        /// 1: nothing is unexplained; 0: a fault in weir.
        closed: bool => Gauge "weir_monitor_ledger_closed",
        /// What is unexplained.
        unexplained: i64,
        /// Channels that are kept.
        channels: usize => Gauge "weir_monitor_channels",
        /// Of those, channels without samples for too long.
        stale: usize => Gauge "weir_monitor_stale_channels",
        /// Of those, channels beyond a limit.
        in_alarm: usize => Gauge "weir_monitor_alarmed_channels",
        /// Of those, channels with an alarm that nobody has acknowledged, be it over or not.
        unacknowledged: usize => Gauge "weir_monitor_unacknowledged_channels",
        /// Times that a channel came for which there was no room.
        crowded_channels: u64,
        /// Channels that were forgotten for others, since nothing had come for them for a while.
        forgotten_channels: u64,
        /// Events so far.
        events: u64 => Counter "weir_monitor_events",
        /// What the sockets gave.
        received: Counts => each,
        /// What was sent on to viewers; null: nothing is.
        published: Option<SentCount> => each,
        /// What other tools were sent.
        outputs: Vec<OutputCount> => each,
        /// How often another server was followed, of those that send the same on.
        changes: u64,
        /// Samples that were due while a station did not run, by the times on both sides, or where its clock was set meanwhile by what
        /// passed here: gaps of cause `restart`, beside those of `received`.
        due_in_restarts: u64,
        /// Streams, by name.
        streams: Vec<StreamCount>,
    }

    /// A stream that is known.
    pub struct StreamCount {
        /// Its station.
        station: String,
        /// Its name.
        stream: String,
        /// Its session, in hexadecimal.
        session: String,
        /// Where it comes from.
        source: String,
        /// What has become of it: `live`, `silent`, `ended`.
        state: &'static str,
        /// What keeps its clock: `unknown`, `free`, `ntp`, `ptp`.
        clock: &'static str,
    }

    /// What was sent on, as the ledger has it.
    pub struct SentCount {
        /// Datagrams sent on to viewers, each once whatever number of groups it went to; absent without `[publish]`.
        datagrams: u64 => Counter "weir_monitor_published" ["datagrams"],
        /// Their payload bytes; absent without `[publish]`.
        bytes: u64 => Counter "weir_monitor_published" ["bytes"],
        /// Datagrams for viewers that the kernel did not take for one of the groups; absent without `[publish]`.
        not_taken: u64 => Counter "weir_monitor_published_refused" ["datagrams"],
    }
}

/// Every family of a server, in the order in which it is exposed.
pub fn families() -> Vec<Family> {
    [ledger::families::<Ledger>(), latest::families()].concat()
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
                News::Ended => "ended",
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
        let Counts { datagrams, samples, missing, missing_told, lost, copies, late, refused, .. } = &self.received;
        writeln!(
            f,
            "{}: {} datagrams, {} samples of {}, {} missing",
            span(self.elapsed_s),
            grouped(*datagrams),
            grouped(*samples),
            counted(self.channels, "channel"),
            grouped(missing.sum()),
        )?;
        for (cause, samples) in missing.all().iter().filter(|(_, samples)| *samples > 0) {
            writeln!(f, "  missing, {cause}: {}", grouped(*samples))?;
        }
        let told = "of these, missing where they were sent, as told from there";
        let counts = [(told, missing_told), ("datagrams lost", lost), ("copies", copies)];
        for (what, count) in counts.into_iter().chain([("late", late)]) {
            if *count > 0 {
                writeln!(f, "  {what}: {}", grouped(*count))?;
            }
        }
        for (reason, count) in refused.all().iter().filter(|(_, count)| *count > 0) {
            writeln!(f, "  refused, {reason}: {}", grouped(*count))?;
        }
        for OutputCount { to, points, datagrams, refused } in &self.outputs {
            writeln!(
                f,
                "  output {to}: {} points in {} datagrams, {} refused",
                grouped(*points),
                grouped(*datagrams),
                refused
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
    use weir_wire::signal::Cause;

    use super::*;

    #[test]
    fn causes_that_add_up_to_too_much_are_shown() {
        let mut ledger = Ledger::default();
        ledger.received.missing.add(Cause::Network as usize, u64::MAX);
        ledger.received.missing.add(Cause::Source as usize, 1);
        assert!(ledger.to_string().contains(&format!("{} missing", grouped(u64::MAX))));
    }

    #[test]
    fn what_was_lost_before_a_sender_is_told_apart() {
        let mut ledger = Ledger::default();
        ledger.received.missing.add(Cause::Network as usize, 7);
        ledger.received.missing_told = 5;
        let told = "  missing, network: 7\n  of these, missing where they were sent, as told from there: 5\n";
        assert!(ledger.to_string().contains(told), "{ledger}");
    }
}
