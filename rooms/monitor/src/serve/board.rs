//! How every channel is, by what the history has of it: its alarm, whether samples come, what is missing.

use std::sync::Arc;
use std::time::Duration;

use weir_units::format::{plain, printable};
use weir_wire::signal::{Block, Channel, Rate, Values};

use super::changes;
use super::derive;
use super::events::Draft;
use super::latch::Latch;
use super::limits::{Watch, severity, words};
use super::losses::Losses;
use super::settings::{Watching, Window};
use crate::api::{Acknowledged, Alarm, NotAcknowledged, Severity, State};
use weir_signal::history::{Cursor, History, Listed, Readers};

/// How every channel is, as of the last look.
#[derive(Debug, Default)]
pub(super) struct Board {
    readers: Readers<Entry>,
    losses: Losses,
    /// Channels that were forgotten for others.
    pub(super) forgotten: u64,
    /// When it was looked last.
    looked: Duration,
}

#[derive(Debug, Default)]
struct Entry {
    cursor: Cursor,
    alarm: Alarm,
    latch: Latch,
    /// When a value was last beyond the limit of the alarm.
    confirmed: Duration,
    stale: bool,
    since_ns: i64,
    /// When samples came last, by the clock that never steps.
    heard: Duration,
    /// The longest time that what came at once has stood for, or a sample of its rate does.
    longest: Duration,
    /// When it was said to be measured otherwise.
    renewed: Option<Duration>,
}

/// A look at all channels.
struct Look<'a> {
    watching: &'a Watching,
    now: Duration,
    wall: i64,
    /// Since the last one: so much is not sent at once, but has gathered.
    gathered: Duration,
    told: Vec<Draft>,
}

impl Board {
    /// Looks at what is new, and at what does not come; returns what there is to say.
    pub(super) fn look(&mut self, history: &History, watching: &Watching, now: Duration, wall: i64) -> Vec<Draft> {
        let Self { readers, losses, forgotten, looked } = self;
        let gathered = now.saturating_sub(std::mem::replace(looked, now));
        let mut look = Look { watching, now, wall, gathered, told: Vec::new() };
        let readers = readers.follow(history, |listed, before| {
            let cursor = history.cursor(listed.id(), i64::MIN);
            match before {
                Some((was, entry)) if was.is_called(&listed.station, &listed.stream, &listed.channel.name) => {
                    let is_due = entry.renewed.is_none_or(|then| now >= then + changes::APART);
                    look.told.extend(is_due.then(|| changes::told_renewed(&was, listed, wall)));
                    Entry { cursor, renewed: if is_due { Some(now) } else { entry.renewed }, ..entry }
                }
                before => {
                    *forgotten += u64::from(before.is_some());
                    Entry { cursor, since_ns: wall, heard: now, ..Entry::default() }
                }
            }
        });
        for (listed, entry) in readers {
            let watch = Watch::new(listed.limits, watching.hysteresis);
            let mut cursor = entry.cursor;
            while history.read(&mut cursor, |block| match block.values {
                // What is derived lacks what its inputs lack.
                Values::Gap(_) if listed.channel.derived => {}
                Values::Gap(gap) => {
                    losses.add(&listed.station, &listed.channel.name, gap.cause, gap.samples, block.time);
                }
                _ => entry.take(listed, &watch, &block, &mut look),
            }) {}
            entry.cursor = cursor;
            entry.age(listed, history, &mut look);
        }
        look.told.extend(losses.tell(now));
        look.told
    }

    /// Somebody has seen the alarms of a channel.
    pub(super) fn acknowledge(
        &mut self,
        key: u32,
        seen: Option<Alarm>,
        by: Acknowledged,
    ) -> Result<(Alarm, Draft), NotAcknowledged> {
        let (listed, entry) = self.readers.0.get_mut(key as usize).ok_or(NotAcknowledged::Unknown)?;
        let (name, time_ns) = (by.by.clone(), by.time_ns);
        let alarm = entry.latch.acknowledge(seen, entry.alarm, by)?;
        let text = format!("{}: acknowledged by {}", words(alarm), printable(&name));
        Ok((alarm, draft(listed, time_ns, Severity::Info, "acknowledged", text)))
    }

    /// Of all channels.
    pub(super) fn states(&self) -> Vec<State> {
        let state = |(listed, entry): &(Arc<Listed>, Entry)| State {
            key: listed.key,
            alarm: entry.alarm,
            stale: entry.stale,
            since_ns: entry.since_ns,
            unacknowledged: entry.latch.owed(),
            acknowledged: entry.latch.word(),
        };
        self.readers.0.iter().map(state).collect()
    }
}

impl Entry {
    /// Samples.
    fn take(&mut self, listed: &Listed, watch: &Watch, block: &Block<'_>, look: &mut Look<'_>) {
        self.heard = look.now;
        let at_once = period(block.rate, block.samples()).saturating_sub(look.gathered);
        self.longest = self.longest.max(at_once);
        if std::mem::take(&mut self.stale) {
            self.since_ns = block.time;
            look.told.push(draft(listed, block.time, Severity::Info, "stale", "samples come again".into()));
        }
        if !watch.is_idle() {
            self.judge(listed, watch, block, look);
        }
    }

    /// Whether nothing has come for too long.
    fn age(&mut self, listed: &Listed, history: &History, look: &mut Look<'_>) {
        let Listed { station, channel, .. } = listed;
        let made = look.watching.made(station, &channel.name);
        // Nothing can come before a window is full, or within a period.
        let window = made.and_then(|made| made.window).map_or(Duration::ZERO, Window::length);
        let longest = self.longest.max(period(channel.rate, 1).min(LONGEST_PERIOD)).max(window);
        if self.stale || look.now < self.heard + look.watching.stale(longest) {
            return;
        }
        (self.stale, self.since_ns) = (true, look.wall);
        let has_ended = history.extent(listed.key).is_some_and(|extent| extent.has_ended);
        let (severity, text) = match (has_ended, channel.bucket) {
            (true, _) if made.is_some() => (Severity::Info, "a channel that it is made of has ended".to_owned()),
            (true, _) if station == derive::STATION => (Severity::Info, "it is no longer derived".to_owned()),
            (true, _) => (Severity::Info, "its station has ended".to_owned()),
            (_, 0) => (Severity::Info, "it is not sent: nobody has asked for it".to_owned()),
            _ => (Severity::Minor, format!("no samples for {} s", plain((look.now - self.heard).as_secs_f64()))),
        };
        look.told.push(draft(listed, look.wall, severity, "stale", text));
    }

    /// The worst value decides, at once. What is less bad has to last: a signal that passes a limit fifty times a second is one alarm.
    fn judge(&mut self, listed: &Listed, watch: &Watch, block: &Block<'_>, look: &mut Look<'_>) {
        let Channel { scale, offset, .. } = listed.channel;
        let seen = block.buckets().fold([f64::NAN; 3], |[_, least, greatest], (_, bucket)| {
            [bucket.last, least.min(bucket.least), greatest.max(bucket.greatest)]
        });
        let measured = |value: f64| value * scale + offset;
        let judged = seen.map(|value| (watch.judge(measured(value), self.alarm), measured(value)));
        let (worst, value) = judged
            .into_iter()
            .fold(judged[0], |worst, one| if severity(one.0) > severity(worst.0) { one } else { worst });
        let still = judged.iter().any(|&(alarm, _)| alarm == self.alarm) && severity(worst) <= severity(self.alarm);
        if still && self.alarm != Alarm::None {
            self.confirmed = look.now;
            return;
        }
        let is_worse = severity(worst) > severity(self.alarm);
        if worst != self.alarm && (is_worse || look.now >= self.confirmed + HOLD) {
            self.latch.pass(self.alarm, worst);
            (self.alarm, self.since_ns, self.confirmed) = (worst, block.time, look.now);
            look.told.push(passed(listed, watch, block.time, worst, value));
        }
    }
}

fn passed(listed: &Listed, watch: &Watch, time_ns: i64, alarm: Alarm, value: f64) -> Draft {
    let unit = printable(&listed.channel.unit);
    let space = if unit.is_empty() { "" } else { " " };
    let limit = watch.limit(alarm).map(|limit| format!(" (limit {})", plain(limit))).unwrap_or_default();
    let text = format!("{}: {}{space}{unit}{limit}", words(alarm), plain(value));
    draft(listed, time_ns, severity(alarm), "alarm", text)
}

fn draft(listed: &Listed, time_ns: i64, severity: Severity, kind: &'static str, text: String) -> Draft {
    let (station, channel) = (listed.station.clone(), listed.channel.name.clone());
    Draft { time_ns, severity, station, channel, kind, text, remedy: None }
}

/// How long so many samples stand for.
fn period(rate: Rate, samples: u64) -> Duration {
    Duration::from_nanos(rate.nanos(samples).clamp(0, i128::from(u64::MAX)) as u64)
}

/// From one look to the next.
pub(super) const LOOKS_APART: Duration = Duration::from_millis(100);

/// Of a channel that says that it is slower than this it is told all the same that nothing comes.
const LONGEST_PERIOD: Duration = Duration::from_secs(3600);

/// So long an alarm stays at least, and a value has to be better before it goes.
const HOLD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use weir_wire::signal::{Element, Limits};

    use super::*;
    use weir_signal::history::Bounds;

    const SECOND: Duration = Duration::from_secs(1);

    /// A channel of its own history.
    struct Watched {
        history: History,
        board: Board,
        watching: Watching,
        rate: Rate,
    }

    impl Watched {
        fn new(rate: Rate) -> Self {
            let history = History::new(Bounds::default());
            let limits = Limits { high: Some(20.0), ..Limits::default() };
            let channel =
                Channel { name: "T".into(), unit: "K".into(), limits, rate, scale: 2.0, ..Channel::default() };
            history.write().channel("s", "display", &channel).unwrap();
            let mut watched = Self { history, board: Board::default(), watching: Watching::default(), rate };
            watched.look(Duration::ZERO);
            watched
        }

        fn look(&mut self, now: Duration) -> Vec<String> {
            let told = self.board.look(&self.history, &self.watching, now, 9);
            told.into_iter().map(|draft| draft.text).collect()
        }

        fn feed(&mut self, now: Duration, values: &[f32]) -> Vec<String> {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let values = Values::Samples(Element::F32, &bytes);
            let mut writing = self.history.write();
            let id = self.board.readers.0[0].0.id();
            writing.append(id, &Block { channel: 0, first: 0, time: 77, rate: self.rate, values });
            drop(writing);
            self.look(now)
        }
    }

    #[test]
    fn the_worst_counts_at_once_and_what_is_better_has_to_last() {
        let mut watched = Watched::new(Rate::hertz(1000));
        let at = |tenths: u32| SECOND * tenths / 10;
        assert_eq!(watched.feed(at(1), &[1.0, 2.0]), [""; 0]);
        assert_eq!(watched.feed(at(2), &[1.0, 15.0, 2.0]), ["high: 30 K (limit 20)"]);
        let state = State { alarm: Alarm::High, since_ns: 77, unacknowledged: Alarm::High, ..State::default() };
        assert_eq!(watched.board.states(), [state]);
        // Fifty times a second beyond it, and back.
        for tenth in 3..51 {
            assert_eq!(watched.feed(at(tenth), &[1.0]), [""; 0]);
            assert_eq!(watched.feed(at(tenth), &[1.0, 11.0, 1.0]), [""; 0]);
        }
        assert_eq!(watched.feed(at(54), &[1.0]), [""; 0]);
        assert_eq!(watched.feed(at(59), &[1.0]), [""; 0]);
        assert_eq!(watched.feed(at(60), &[1.0]), ["within its limits: 2 K"]);
        // It is over, and still to be seen by somebody.
        let board = &mut watched.board;
        assert_eq!((board.states()[0].alarm, board.states()[0].unacknowledged), (Alarm::None, Alarm::High));
        let by = || Acknowledged { by: "jo\u{1b}".into(), time_ns: 99 };
        let (alarm, draft) = board.acknowledge(0, None, by()).unwrap();
        assert_eq!((alarm, draft.time_ns, draft.text.as_str()), (Alarm::High, 99, "high: acknowledged by jo "));
        assert_eq!(board.acknowledge(0, None, by()), Err(NotAcknowledged::Nothing));
        assert_eq!(board.acknowledge(4, None, by()), Err(NotAcknowledged::Unknown));
    }

    #[test]
    fn slow_channels_are_not_stale_before_their_first_sample() {
        let of = |per_sample| Watched::new(Rate { per_second: 1, per_sample });
        let (mut slow, mut slowest) = (of(5), of(u32::MAX));
        assert_eq!((slow.look(SECOND * 149 / 10), slowest.look(SECOND * 10_799)), (vec![], vec![]));
        assert_eq!((slow.look(SECOND * 15).len(), slowest.look(SECOND * 10_800).len()), (1, 1));
    }

    #[test]
    fn slow_channels_may_be_silent_for_longer() {
        let (mut slow, mut fast) = (Watched::new(Rate::hertz(1)), Watched::new(Rate::hertz(1000)));
        let at = |tenths: u32| SECOND * tenths / 10;
        slow.feed(at(1), &[1.0]);
        fast.feed(at(1), &[1.0]);
        let mut stale = |tenths| [&mut slow, &mut fast].map(|watched| watched.look(at(tenths)).len());
        assert_eq!([5, 7, 30, 32, 50].map(&mut stale), [[0, 0], [0, 1], [0, 0], [1, 0], [0, 0]]);
        assert_eq!(slow.feed(SECOND * 6, &[1.0]), ["samples come again"]);
        assert!(!slow.board.states()[0].stale && fast.board.states()[0].stale);
    }

    /// What has gathered while nobody looked is not what a station sends at once.
    #[test]
    fn a_late_look_does_not_make_channels_patient() {
        let mut watched = Watched::new(Rate::hertz(1000));
        watched.feed(SECOND * 5, &[1.0; 5000]);
        assert_eq!(watched.look(SECOND * 6), ["no samples for 1 s"]);
    }
}
