//! How every channel is: its alarm, and whether samples come.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_units::format::{plain, printable};
use weir_wire::signal::{Block, Channel, Limits, Values};

use super::events::Draft;
use super::latch::Latch;
use super::limits::{Watch, severity, words};
use super::settings::Watching;
use crate::api::{Acknowledged, Alarm, NotAcknowledged, Severity, State};

/// How every channel is, by its key in the history.
#[derive(Debug, Default)]
pub(super) struct Board {
    entries: BTreeMap<u32, Entry>,
    watching: Arc<Watching>,
}

#[derive(Debug)]
struct Entry {
    station: String,
    channel: Arc<Channel>,
    watch: Watch,
    alarm: Alarm,
    latch: Latch,
    /// When a value was last beyond the limit of the alarm.
    confirmed: Duration,
    stale: bool,
    since_ns: i64,
    /// When samples came last, by the clock that never steps.
    heard: Duration,
    /// The longest time that one block has stood for, or a sample of its rate does.
    longest: Duration,
    /// It has ended in order: nothing is expected.
    ended: Option<End>,
}

/// What has ended in order, so that nothing more of a channel is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Its station.
    Station,
    /// A channel that it is made of.
    Input,
    /// A reload has taken it away.
    Derived,
}

impl Board {
    /// Follows a channel from now on, or what is known of it has changed.
    pub(super) fn follow(&mut self, key: u32, station: &str, channel: &Arc<Channel>, now: Duration, wall: i64) {
        let watch = self.watching.watch(station, channel);
        // Before its first block, too, nothing comes within less.
        let period = Duration::from_nanos(channel.rate.nanos(1).clamp(0, i128::from(u64::MAX)) as u64);
        let period = period.min(LONGEST_PERIOD);
        match self.entries.get_mut(&key) {
            Some(entry) => {
                entry.watch = watch;
                entry.channel = channel.clone();
                entry.ended = None;
                entry.longest = entry.longest.max(period);
            }
            None => {
                let entry = Entry {
                    station: station.to_owned(),
                    channel: channel.clone(),
                    watch,
                    alarm: Alarm::None,
                    latch: Latch::default(),
                    confirmed: Duration::ZERO,
                    stale: false,
                    since_ns: wall,
                    heard: now,
                    longest: period,
                    ended: None,
                };
                self.entries.insert(key, entry);
            }
        }
    }

    /// Limits and times have changed.
    pub(super) fn rewatch(&mut self, watching: Arc<Watching>) {
        for entry in self.entries.values_mut() {
            entry.watch = watching.watch(&entry.station, &entry.channel);
        }
        self.watching = watching;
    }

    /// The limits that are in force for a channel.
    pub(super) fn limits(&self, station: &str, channel: &Channel) -> Limits {
        self.watching.limits(station, channel)
    }

    /// The limits that are in force for all channels, by their keys.
    pub(super) fn all_limits(&self) -> Vec<(u32, Limits)> {
        let of = |(&key, entry): (&u32, &Entry)| (key, self.watching.limits(&entry.station, &entry.channel));
        self.entries.iter().map(of).collect()
    }

    /// All channels, as `station/channel`.
    pub(super) fn names(&self) -> Vec<String> {
        self.entries.values().map(|entry| format!("{}/{}", entry.station, entry.channel.name)).collect()
    }

    /// A block of the channel may stand for so long: it is not stale before.
    pub(super) fn expect(&mut self, key: u32, longest: Duration) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.longest = entry.longest.max(longest);
        }
    }

    /// Samples, or a gap, which is none.
    pub(super) fn take(&mut self, key: u32, block: &Block<'_>, now: Duration, told: &mut Vec<Draft>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if matches!(block.values, Values::Gap(_)) {
            return;
        }
        entry.heard = now;
        let stands_for = block.rate.nanos(block.samples()).clamp(0, i128::from(u64::MAX)) as u64;
        entry.longest = entry.longest.max(Duration::from_nanos(stands_for));
        entry.ended = None;
        if entry.stale {
            entry.stale = false;
            entry.since_ns = block.time;
            told.push(entry.draft(block.time, Severity::Info, "stale", "samples come again".into()));
        }
        if !entry.watch.is_idle() {
            entry.judge(block, now, told);
        }
    }

    /// A channel is no longer kept.
    pub(super) fn forget(&mut self, key: u32) {
        self.entries.remove(&key);
    }

    /// A channel has ended in order.
    pub(super) fn end(&mut self, key: u32, end: End) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.ended = Some(end);
        }
    }

    /// Who has become stale.
    pub(super) fn look(&mut self, now: Duration, wall: i64) -> Vec<Draft> {
        let mut told = Vec::new();
        for entry in self.entries.values_mut() {
            if entry.stale || now < entry.heard + self.watching.stale(entry.longest) {
                continue;
            }
            entry.stale = true;
            entry.since_ns = wall;
            let age = plain((now - entry.heard).as_secs_f64());
            let (severity, text) = match (entry.ended, entry.channel.bucket) {
                (Some(end), _) => (Severity::Info, end.words().to_owned()),
                (_, 0) => (Severity::Info, "it is not sent: nobody has asked for it".to_owned()),
                _ => (Severity::Minor, format!("no samples for {age} s")),
            };
            told.push(entry.draft(wall, severity, "stale", text));
        }
        told
    }

    /// Somebody has seen the alarms of a channel.
    pub(super) fn acknowledge(
        &mut self,
        key: u32,
        seen: Option<Alarm>,
        by: Acknowledged,
    ) -> Result<(Alarm, Draft), NotAcknowledged> {
        let entry = self.entries.get_mut(&key).ok_or(NotAcknowledged::Unknown)?;
        let (name, time_ns) = (by.by.clone(), by.time_ns);
        let alarm = entry.latch.acknowledge(seen, entry.alarm, by)?;
        let text = format!("{}: acknowledged by {}", words(alarm), printable(&name));
        Ok((alarm, entry.draft(time_ns, Severity::Info, "acknowledged", text)))
    }

    /// Of all channels.
    pub(super) fn states(&self) -> Vec<State> {
        let state = |(&key, entry): (&u32, &Entry)| State {
            key,
            alarm: entry.alarm,
            stale: entry.stale,
            since_ns: entry.since_ns,
            unacknowledged: entry.latch.owed(),
            acknowledged: entry.latch.word(),
        };
        self.entries.iter().map(state).collect()
    }
}

impl End {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Station => "its station has ended",
            Self::Input => "a channel that it is made of has ended",
            Self::Derived => "it is no longer derived",
        }
    }
}

impl Entry {
    /// The worst value decides, at once. What is less bad has to last: a signal that passes a limit fifty times a second is one alarm.
    fn judge(&mut self, block: &Block<'_>, now: Duration, told: &mut Vec<Draft>) {
        let Channel { scale, offset, .. } = *self.channel;
        let seen = block.buckets().fold([f64::NAN; 3], |[_, least, greatest], (_, bucket)| {
            [bucket.last, least.min(bucket.least), greatest.max(bucket.greatest)]
        });
        let measured = |value: f64| value * scale + offset;
        let judged = seen.map(|value| (self.watch.judge(measured(value), self.alarm), measured(value)));
        let (worst, value) = judged
            .into_iter()
            .fold(judged[0], |worst, one| if severity(one.0) > severity(worst.0) { one } else { worst });
        let still = judged.iter().any(|&(alarm, _)| alarm == self.alarm) && severity(worst) <= severity(self.alarm);
        if still && self.alarm != Alarm::None {
            self.confirmed = now;
            return;
        }
        let is_worse = severity(worst) > severity(self.alarm);
        if worst != self.alarm && (is_worse || now >= self.confirmed + HOLD) {
            self.latch.pass(self.alarm, worst);
            (self.alarm, self.since_ns, self.confirmed) = (worst, block.time, now);
            told.push(self.passed(block.time, worst, value));
        }
    }

    fn passed(&self, time_ns: i64, alarm: Alarm, value: f64) -> Draft {
        let unit = printable(&self.channel.unit);
        let space = if unit.is_empty() { "" } else { " " };
        let limit = self.watch.limit(alarm).map(|limit| format!(" (limit {})", plain(limit))).unwrap_or_default();
        let text = format!("{}: {}{space}{unit}{limit}", words(alarm), plain(value));
        self.draft(time_ns, severity(alarm), "alarm", text)
    }

    fn draft(&self, time_ns: i64, severity: Severity, kind: &'static str, text: String) -> Draft {
        let (station, channel) = (self.station.clone(), self.channel.name.clone());
        Draft { time_ns, severity, station, channel, kind, text, remedy: None }
    }
}

/// Of a channel that says that it is slower than this it is told all the same that nothing comes.
const LONGEST_PERIOD: Duration = Duration::from_secs(3600);

/// So long an alarm stays at least, and a value has to be better before it goes.
const HOLD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use weir_wire::signal::{Element, Rate};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn board(rate: Rate) -> Board {
        let limits = Limits { high: Some(20.0), ..Limits::default() };
        let channel = Channel { name: "T".into(), unit: "K".into(), limits, rate, scale: 2.0, ..Channel::default() };
        let mut board = Board::default();
        board.follow(3, "s", &Arc::new(channel), Duration::ZERO, 5);
        board
    }

    fn feed(board: &mut Board, rate: Rate, now: Duration, values: &[f32]) -> Vec<String> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let values = Values::Samples(Element::F32, &bytes);
        let mut told = Vec::new();
        board.take(3, &Block { channel: 0, first: 0, time: 77, rate, values }, now, &mut told);
        told.into_iter().map(|draft| draft.text).collect()
    }

    #[test]
    fn the_worst_counts_at_once_and_what_is_better_has_to_last() {
        let rate = Rate::hertz(1000);
        let mut board = board(rate);
        let at = |tenths: u32| SECOND * tenths / 10;
        assert_eq!(feed(&mut board, rate, at(10), &[1.0, 2.0]), [""; 0]);
        assert_eq!(feed(&mut board, rate, at(11), &[1.0, 15.0, 2.0]), ["high: 30 K (limit 20)"]);
        let state = State { key: 3, alarm: Alarm::High, since_ns: 77, unacknowledged: Alarm::High, ..State::default() };
        assert_eq!(board.states(), [state]);
        // Fifty times a second beyond it, and back.
        for tenth in 12..60 {
            assert_eq!(feed(&mut board, rate, at(tenth), &[1.0]), [""; 0]);
            assert_eq!(feed(&mut board, rate, at(tenth), &[1.0, 11.0, 1.0]), [""; 0]);
        }
        assert_eq!(feed(&mut board, rate, at(68), &[1.0]), [""; 0]);
        assert_eq!(feed(&mut board, rate, at(69), &[1.0]), ["within its limits: 2 K"]);
        // It is over, and still to be seen by somebody.
        assert_eq!((board.states()[0].alarm, board.states()[0].unacknowledged), (Alarm::None, Alarm::High));
        let by = || Acknowledged { by: "jo\u{1b}".into(), time_ns: 99 };
        let (alarm, draft) = board.acknowledge(3, None, by()).unwrap();
        assert_eq!((alarm, draft.time_ns, draft.text.as_str()), (Alarm::High, 99, "high: acknowledged by jo "));
        assert_eq!(board.acknowledge(3, None, by()), Err(NotAcknowledged::Nothing));
        assert_eq!(board.acknowledge(4, None, by()), Err(NotAcknowledged::Unknown));
    }

    /// A window of a second makes nothing before it is full, and three of them are no silence.
    #[test]
    fn what_is_expected_late_is_not_stale_before() {
        let mut board = board(Rate::hertz(1000));
        board.expect(3, SECOND);
        assert_eq!(board.look(SECOND * 29 / 10, 9), []);
        assert_eq!(board.look(SECOND * 31 / 10, 9).len(), 1);
    }

    #[test]
    fn slow_channels_are_not_stale_before_their_first_sample() {
        let of = |per_sample| board(Rate { per_second: 1, per_sample });
        let (mut slow, mut slowest) = (of(5), of(u32::MAX));
        assert_eq!((slow.look(SECOND * 149 / 10, 9), slowest.look(SECOND * 10_799, 9)), (vec![], vec![]));
        assert_eq!((slow.look(SECOND * 15, 9).len(), slowest.look(SECOND * 10_800, 9).len()), (1, 1));
    }

    /// A rule's limits are those that are told, before and after a reload.
    #[test]
    fn limits_in_force_are_the_rules() {
        let mut board = board(Rate::hertz(1000));
        assert_eq!(board.all_limits()[0].1.high, Some(20.0));
        let limits = Limits { high: Some(5.0), very_high: Some(9.0), ..Limits::default() };
        let rules = vec![super::super::settings::Rule { channel: "s/*".into(), limits }];
        board.rewatch(Arc::new(Watching { rules, ..Watching::default() }));
        let (key, told) = board.all_limits()[0];
        assert_eq!((key, told.high, told.very_high), (3, Some(5.0), Some(9.0)));
    }

    #[test]
    fn slow_channels_may_be_silent_for_longer() {
        let (slow, fast) = (Rate::hertz(1), Rate::hertz(1000));
        let (mut slow_board, mut fast_board) = (board(slow), board(fast));
        feed(&mut slow_board, slow, SECOND, &[1.0]);
        feed(&mut fast_board, fast, SECOND, &[1.0]);
        let mut stale = |seconds| {
            let now = Duration::from_secs_f64(seconds);
            [&mut slow_board, &mut fast_board].map(|board| board.look(now, 9).len())
        };
        assert_eq!([1.4, 1.6, 3.9, 4.1, 5.0].map(&mut stale), [[0, 0], [0, 1], [0, 0], [1, 0], [0, 0]]);
        assert_eq!(feed(&mut slow_board, slow, SECOND * 6, &[1.0]), ["samples come again"]);
        assert!(!slow_board.states()[0].stale && fast_board.states()[0].stale);
    }
}
