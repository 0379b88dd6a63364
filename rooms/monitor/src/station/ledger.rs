//! The account of a station: what its channels had, and what became of each sample and datagram.

use std::collections::BTreeMap;

use serde::Serialize;

/// Everything that was counted since the start. Each account closes: a stream's samples due = sent + gaps + waiting + unexplained, an
/// outlet's datagrams = sent + dropped + unexplained.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ledger {
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// Whether nothing is unexplained.
    pub closed: bool,
    /// What is unexplained, of all accounts together.
    pub unexplained: i64,
    /// Its name.
    pub station: String,
    /// Channels.
    pub channels: usize,
    /// Channels that there was no room for, or whose name another source has: as often as they came.
    pub channels_refused: u64,
    /// How often the day's clock was stepped.
    pub clock_steps: u64,
    /// `display`, and `full` where there is one.
    pub streams: Vec<StreamCount>,
    /// Where samples come from.
    pub sources: Vec<SourceCount>,
    /// What others asked.
    pub requests: RequestCount,
}

/// A stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamCount {
    /// `display`, `full`.
    pub name: String,
    /// 16 hexadecimal digits.
    pub session: String,
    /// Channels in it.
    pub channels: usize,
    /// Datagrams of data that at least one outlet took.
    pub data: u64,
    /// Heartbeats, likewise.
    pub heartbeats: u64,
    /// Datagrams of metadata, likewise.
    pub metadata: u64,
    /// Ends, likewise.
    pub ends: u64,
    /// Datagrams that no outlet took.
    pub not_taken: u64,
    /// Samples.
    pub samples: SampleCount,
    /// Where it goes.
    pub outlets: Vec<OutletCount>,
}

/// Samples of all channels of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SampleCount {
    /// That the sources had, or should have had.
    pub due: u64,
    /// In datagrams, themselves or in buckets.
    pub sent: u64,
    /// Told to be missing, by cause.
    pub gaps: BTreeMap<&'static str, u64>,
    /// Of the gaps of cause `station`, those that were given up since more came than was sent; the others no outlet took.
    pub overrun: u64,
    /// In buckets that are not full, and in no datagram yet; none at the end.
    pub waiting: u64,
    /// `due` less its parts.
    pub unexplained: i64,
}

/// A place that a stream goes to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OutletCount {
    /// Address, and interface.
    pub to: String,
    /// Datagrams for it.
    pub datagrams: u64,
    /// Given to the network.
    pub sent: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Not taken by the kernel, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// `datagrams` less its parts.
    pub unexplained: i64,
}

/// A source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SourceCount {
    /// What it is called.
    pub name: String,
    /// Whether there is nothing more: it has ended, or failed.
    pub over: bool,
    /// Datagrams received.
    pub datagrams: u64,
    /// Datagrams that its socket had no room for.
    pub dropped: u64,
    /// Values read; of generators and the like none.
    pub points: u64,
    /// Of those, for channels that there was no room for.
    pub refused: u64,
    /// Of those, second ones of a slot: the source is faster than its rate.
    pub crowded: u64,
    /// Of those, older than their channel's last.
    pub late: u64,
    /// Of those, from the future.
    pub misplaced: u64,
    /// Lines, or datagrams of JSON, that could not be read, or not wholly.
    pub unreadable: u64,
    /// Samples of all its channels that it should have had, and had not: gaps of cause `source`.
    pub missed: u64,
    /// How it misses samples.
    pub missed_by: &'static str,
}

/// Requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestCount {
    /// For metadata.
    pub metadata: u64,
    /// Wishes granted.
    pub granted: u64,
    /// Wishes refused: from elsewhere, of another session, of no such channel, beyond bounds.
    pub refused: u64,
    /// Datagrams that were no request.
    pub malformed: u64,
    /// Not sealed as this station's keys demand, or heard before.
    pub unsealed: u64,
    /// Channels that are sent as somebody wishes.
    pub in_force: usize,
}

impl Ledger {
    /// Adds up what is unexplained.
    pub(super) fn close(mut self) -> Self {
        for stream in &mut self.streams {
            let SampleCount { due, sent, gaps, waiting, unexplained, .. } = &mut stream.samples;
            *unexplained = due.wrapping_sub(*sent + *waiting + gaps.values().sum::<u64>()) as i64;
            self.unexplained += unexplained.abs();
            for outlet in &mut stream.outlets {
                let parts = outlet.sent + outlet.dropped.values().sum::<u64>();
                outlet.unexplained = outlet.datagrams.wrapping_sub(parts) as i64;
                self.unexplained += outlet.unexplained.abs();
            }
        }
        self.closed = self.unexplained == 0;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_over_is_shown() {
        let samples =
            SampleCount { due: 10, sent: 5, gaps: BTreeMap::from([("source", 2)]), waiting: 1, ..Default::default() };
        let outlet =
            OutletCount { datagrams: 3, sent: 1, dropped: BTreeMap::from([("no_route", 1)]), ..Default::default() };
        let stream = StreamCount { samples, outlets: vec![outlet], ..StreamCount::default() };
        let ledger = Ledger { streams: vec![stream], ..Ledger::default() }.close();
        assert_eq!((ledger.unexplained, ledger.closed), (3, false));
        assert!(Ledger::default().close().closed);
    }
}
