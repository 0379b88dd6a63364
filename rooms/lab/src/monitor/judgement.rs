//! What viewers have seen, against what stations had.

use std::collections::HashMap;
use std::time::Duration;

use weir_program::clock::Nanos;
use weir_stats::Distribution;
use weir_traffic::Window;
use weir_wire::signal::{Cause, Rate};

use super::programs::Told;
use super::viewer::{Line, Record};

/// What became of all signals.
#[derive(Debug)]
pub struct Report {
    /// From the start of the stations to when they were told to end.
    pub window: Window,
    /// Whether that came early.
    pub stopped: bool,
    /// Samples of all channels of all stations.
    pub sent: u64,
    /// Datagrams of data.
    pub datagrams: u64,
    /// Of each viewer, in the order of the scenario.
    pub viewers: Vec<Seen>,
    /// What else a reader must know.
    pub remarks: Vec<String>,
}

/// What became of them at a viewer.
#[derive(Debug)]
pub struct Seen {
    /// Samples shown; a bucket is as many as it stands for.
    pub shown: u64,
    /// Of those, within the sending window.
    pub in_window: u64,
    /// Samples before the first that it was told of: it joined later, as it were.
    pub before: u64,
    /// Samples told to be missing, by cause.
    pub missing: [u64; Cause::ALL.len()],
    /// Samples behind the last word of a station that is said to be silent: of its end nothing came through.
    pub unheard: u64,
    /// Samples of which nothing is known: sent - shown - missing - before - unheard, of each channel without its sign.
    pub unexplained: i64,
    /// From when a sample was (of a bucket: its first) to when it was shown.
    pub delays: Distribution,
    /// From the end of a gap to when it was told.
    pub gap_ages: Distribution,
    /// From a channel's last sample to when all of its samples were shown or told to be missing: the latest of all channels.
    /// `None`: some never were.
    pub closed: Option<Nanos>,
    /// The longest time in which nothing of a station was shown.
    pub silence: Nanos,
    /// Datagrams of data that came in their order, and that did not come.
    pub datagrams: (u64, u64),
    /// Datagrams that found its receive buffer full.
    pub socket_drops: u64,
    /// How the signal of one channel is drawn, by the rate of its samples: gaps, as index, samples and cause.
    pub gaps: Vec<(u64, u64, Cause)>,
    /// Samples of a channel.
    pub channel_samples: u64,
    /// Of a channel.
    pub rate: Option<Rate>,
}

impl Report {
    /// How long was sent.
    pub fn used(&self) -> Duration {
        Duration::from_nanos(self.window.end.saturating_sub(self.window.start))
    }
}

impl Seen {
    /// Samples told to be missing, whyever.
    pub fn all_missing(&self) -> u64 {
        self.missing.iter().sum()
    }
}

pub(super) fn judge(
    window: Window,
    stopped: bool,
    told: &[Told],
    truth: &[Record],
    seen: Vec<Record>,
    faults: Vec<String>,
) -> Report {
    let mut remarks = faults;
    let mut origins = HashMap::new();
    let mut due = HashMap::new();
    for station in told {
        if station.unexplained != 0 {
            remarks.push(format!("station {}: {} unexplained in its own account", station.name, station.unexplained));
        }
        if station.unsent > 0 {
            remarks.push(format!("station {}: could not send {} samples", station.name, station.unsent));
        }
        due.insert(station.name.as_str(), station.due);
    }
    for (name, line) in truth.iter().flat_map(|witness| &witness.lines) {
        origins.insert(name.clone(), line.clone());
    }
    // A station's channels are alike, and begin at once.
    let mut channels: HashMap<&str, u64> = HashMap::new();
    origins.keys().for_each(|(station, _)| *channels.entry(station).or_default() += 1);
    let each = |station: &str| {
        let channels = channels.get(station).copied().unwrap_or(0).max(1);
        due.get(station).map_or(0, |due| due / channels)
    };
    let viewers = seen.into_iter().map(|record| judged(&origins, &each, record)).collect();
    Report {
        window,
        stopped,
        sent: told.iter().map(|station| station.due).sum(),
        datagrams: told.iter().map(|station| station.datagrams).sum(),
        viewers,
        remarks,
    }
}

/// `origins`: channels as they were in front of every link. `each`: samples that each channel of a station had.
fn judged(origins: &HashMap<(String, String), Line>, each: &dyn Fn(&str) -> u64, record: Record) -> Seen {
    let Record { lines, delays, gap_ages, in_window, silence, silent, counts, gaps } = record;
    let mut seen = Seen {
        shown: 0,
        in_window,
        before: 0,
        missing: [0; Cause::ALL.len()],
        unheard: 0,
        unexplained: 0,
        delays,
        gap_ages,
        closed: Some(0),
        silence,
        datagrams: (counts.in_order, counts.lost),
        socket_drops: counts.socket_drops,
        gaps,
        channel_samples: 0,
        rate: None,
    };
    for (name, origin) in origins {
        let due = each(&name.0);
        let Some(line) = lines.get(name) else {
            seen.unexplained += due as i64;
            seen.closed = None;
            continue;
        };
        // Servers count from elsewhere: by its time, its first sample is this one of the station.
        let began = i128::from(origin.first_time) - origin.rate.nanos(origin.first);
        let half = origin.rate.nanos(1) / 2;
        let before = origin.rate.samples(i128::from(line.first_time) - began + half);
        let missing: u64 = line.missing.iter().sum();
        let left = due as i64 - (before + line.shown + missing) as i64;
        let unheard = if silent.contains(&name.0) { left.max(0) } else { 0 };
        seen.unheard += unheard.unsigned_abs();
        seen.unexplained += (left - unheard).abs() + line.jumps as i64;
        seen.before += before;
        seen.shown += line.shown;
        seen.missing.iter_mut().zip(line.missing).for_each(|(sum, missing)| *sum += missing);
        let closed = u64::try_from(line.told - line.end_time).unwrap_or(0);
        seen.closed = seen.closed.filter(|_| left == 0).map(|latest| latest.max(closed));
        (seen.channel_samples, seen.rate) = (due, Some(origin.rate));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(first: u64, first_time: i64, shown: u64, lost: u64) -> Line {
        let mut missing = [0; Cause::ALL.len()];
        missing[Cause::Network as usize] = lost;
        let next = first + shown + lost;
        Line {
            rate: Rate::hertz(1000),
            first,
            first_time,
            next,
            end_time: first_time + (shown + lost) as i64 * 1_000_000,
            shown,
            missing,
            jumps: 0,
            told: first_time + (shown + lost) as i64 * 1_000_000 + 30_000_000,
        }
    }

    fn record(line: Option<Line>) -> Record {
        let name = ("s".to_owned(), "sine0".to_owned());
        Record { lines: line.into_iter().map(|line| (name.clone(), line)).collect(), ..Record::default() }
    }

    /// A station that had 1000 samples from 5 s on, as a viewer saw it.
    fn judged(seen: Option<Line>) -> Seen {
        judged_by(record(seen))
    }

    fn judged_by(seen: Record) -> Seen {
        let told = Told { name: "s".into(), due: 1000, unsent: 0, datagrams: 10, unexplained: 0 };
        let truth = record(Some(line(0, 5_000_000_000, 1000, 0)));
        let window = Window { start: 0, end: 1 };
        judge(window, false, &[told], &[truth], vec![seen], Vec::new()).viewers.remove(0)
    }

    #[test]
    fn every_sample_is_shown_or_missing_or_unexplained() {
        let all = judged(Some(line(0, 5_000_000_000, 990, 10)));
        assert_eq!((all.shown, all.all_missing(), all.before, all.unexplained), (990, 10, 0, 0));
        assert_eq!(all.closed, Some(30_000_000));
        // A server counts from elsewhere; its first sample is the station's hundredth.
        let late = judged(Some(line(7_000_000, 5_100_000_000, 900, 0)));
        assert_eq!((late.before, late.unexplained), (100, 0));
        let short = judged(Some(line(0, 5_000_000_000, 990, 9)));
        assert_eq!((short.unexplained, short.closed), (1, None));
        let twice = judged(Some(line(0, 5_000_000_000, 1001, 0)));
        assert_eq!(twice.unexplained, 1);
        assert_eq!(judged(None).unexplained, 1000);
        // Its last word came to nobody, and the viewer says that it is silent.
        let silent =
            judged_by(Record { silent: ["s".to_owned()].into(), ..record(Some(line(0, 5_000_000_000, 900, 0))) });
        assert_eq!((silent.unheard, silent.unexplained, silent.closed), (100, 0, None));
    }
}
