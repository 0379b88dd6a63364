//! The account of a station: what its channels had, and what became of each sample and datagram.

use std::collections::BTreeMap;

use weir_program::ledger;
use weir_wire::signal::Cause;

use weir_signal::send::{self, Counts, Outlets, Sender};

ledger! {
    /// Everything that was counted since the start. Each account closes: a stream's samples due = sent + gaps + waiting + unexplained, an
    /// outlet's datagrams = sent + dropped + unexplained.
    pub struct Ledger {
        /// Seconds since the start.
        elapsed_s: f64,
        /// 1: nothing is unexplained; 0: a fault in weir.
        closed: bool => Gauge "weir_station_ledger_closed",
        /// What is unexplained, of all accounts together.
        unexplained: i64,
        /// Its name.
        station: String,
        /// Channels.
        channels: usize => Gauge "weir_station_channels",
        /// Channels that there was no room for, as often as they came.
        channels_refused: u64 => Counter "weir_station_refused" ["channels"],
        /// How often the day's clock was stepped.
        clock_steps: u64 => Counter "weir_station_clock_steps",
        /// `display`, and `full` where there is one.
        streams: Vec<StreamCount> => each,
        /// Where samples come from.
        sources: Vec<SourceCount> => each,
    }

    /// A stream.
    pub struct StreamCount by name {
        /// `display`, `full`.
        name: String,
        /// 16 hexadecimal digits.
        session: String,
        /// Channels in it.
        channels: usize,
        /// Datagrams of data that at least one outlet took.
        data: u64 => Counter "weir_station_data" ["datagrams"] {stream},
        /// Heartbeats, likewise.
        heartbeats: u64,
        /// Datagrams of metadata, likewise.
        metadata: u64,
        /// Ends, likewise.
        ends: u64,
        /// Datagrams that no outlet took.
        not_taken: u64,
        /// Samples.
        samples: SampleCount => each,
        /// Where it goes.
        outlets: Vec<OutletCount> => each,
    }

    /// Samples of all channels of a stream.
    pub struct SampleCount {
        /// Samples that the sources had, or should have had.
        due: u64 => Counter "weir_station_due" ["samples"] {stream},
        /// Samples in datagrams, themselves or in buckets.
        sent: u64 => Counter "weir_station_sent" ["samples"] {stream},
        /// Samples that were told to be missing, by cause.
        gaps: BTreeMap<&'static str, u64> => Counter "weir_station_gap" ["samples"] {stream, cause},
        /// Of the gaps of cause `station`, samples given up since more came than was sent.
        overrun: u64 => Counter "weir_station_overrun" ["samples"] {stream},
        /// In buckets that are not full, and in no datagram yet; none at the end.
        waiting: u64,
        /// `due` less its parts.
        unexplained: i64,
    }

    /// A place that a stream goes to.
    pub struct OutletCount by to {
        /// Address, and interface.
        to: String,
        /// Datagrams for it.
        datagrams: u64,
        /// Datagrams given to the network.
        sent: u64 => Counter "weir_station_sent" ["datagrams"] {stream, outlet},
        /// Payload bytes given to the network.
        bytes: u64 => Counter "weir_station_sent" ["bytes"] {stream, outlet},
        /// Datagrams that the kernel did not take, by reason: docs/monitor-station.md explains each.
        dropped: BTreeMap<&'static str, u64> => Counter "weir_station_dropped" ["datagrams"] {stream, outlet, reason},
        /// `datagrams` less its parts.
        unexplained: i64,
    }

    /// A source.
    pub struct SourceCount by name {
        /// What it is called.
        name: String,
        /// 1: the source has ended or failed.
        over: bool => Gauge "weir_station_source_over" {source},
        /// Datagrams received.
        datagrams: u64,
        /// Datagrams that the socket of a source had no room for.
        dropped: u64 => Counter "weir_station_source_dropped" ["datagrams"] {source},
        /// Values read.
        points: u64 => Counter "weir_station_read" ["points"] {source},
        /// Of those, for channels that there was no room for.
        refused: u64,
        /// Of those, second ones of a slot: the source is faster than its rate.
        crowded: u64,
        /// Of those, older than their channel's last.
        late: u64,
        /// Of those, from the future.
        misplaced: u64,
        /// Of those, with times before 2000: their unit is another one, or they count from a start.
        early: u64,
        /// How often times of a channel began anew: the clock of their sender was set, or began again.
        time_steps: u64 => Counter "weir_station_source_time_steps" {source},
        /// Lines or datagrams that could not be read, or not wholly.
        unreadable: u64 => Counter "weir_station_unreadable" ["lines"] {source},
        /// Samples that a source should have had, and had not.
        missed: u64 => Counter "weir_station_missed" ["samples"] {source},
        /// How it misses samples.
        missed_by: &'static str,
    } together {
        /// Values read that became no sample, by reason.
        Counter "weir_station_lost" ["points"] {source, reason}: refused, crowded, late, misplaced;
    }
}

impl StreamCount {
    /// `due`: samples that each channel had so far.
    pub(super) fn of(sender: &Sender<Outlets>, due: &[u64]) -> Self {
        let mut samples = SampleCount { waiting: sender.packed(), ..SampleCount::default() };
        for (&channel, lane) in &sender.lanes {
            samples.due += due.get(usize::from(channel)).copied().unwrap_or(0);
            samples.sent += lane.sent;
            samples.waiting += lane.waiting();
            samples.overrun += lane.overrun;
            for (cause, count) in Cause::ALL.into_iter().zip(lane.gaps).filter(|(_, count)| *count > 0) {
                *samples.gaps.entry(cause.name()).or_default() += count;
            }
        }
        let Counts { data, heartbeats, metadata, ends, not_taken, .. } = sender.counts;
        let (name, session) = (sender.name().to_owned(), format!("{:016x}", sender.header.session));
        let outlet = |count: send::OutletCount| {
            let send::OutletCount { to, datagrams, sent, bytes, dropped } = count;
            OutletCount { to, datagrams, sent, bytes, dropped, unexplained: 0 }
        };
        let (channels, outlets) = (sender.lanes.len(), sender.outlet.counts().into_iter().map(outlet).collect());
        Self { name, session, channels, data, heartbeats, metadata, ends, not_taken, samples, outlets }
    }
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
