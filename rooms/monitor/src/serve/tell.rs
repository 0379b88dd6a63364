//! When metadata is told, and of which channels: all of them each second, a part at a time, and at once what is new of them.
//!
//! What a second brings is bounded, whatever changes: all channels once, and as many again ([`LEAST`] where they are
//! few) that are new. What is beyond that comes with its turn, within a second.

use std::collections::BTreeSet;
use std::time::Duration;

/// Which channels' metadata is due.
#[derive(Debug)]
pub(super) struct Telling {
    all: BTreeSet<u32>,
    /// Those of which something was not told yet.
    news: BTreeSet<u32>,
    looked: Duration,
    /// Channels that are due by time, and the first that has its turn next.
    due: f64,
    next: u32,
    /// Channels that may be told beside those.
    spare: f64,
}

/// What is to be told now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// Channels, the least first; none: only who sends.
    pub(super) keys: BTreeSet<u32>,
    /// Everybody has been told of all channels with these.
    pub(super) is_whole: bool,
}

impl Telling {
    /// Of no channels.
    pub(super) fn new() -> Self {
        Self {
            all: BTreeSet::new(),
            news: BTreeSet::new(),
            looked: Duration::ZERO,
            due: 1.0,
            next: 0,
            spare: LEAST,
        }
    }

    /// A channel is new, or what is known of it is.
    pub(super) fn change(&mut self, key: u32) {
        self.all.insert(key);
        self.news.insert(key);
    }

    /// What is to be told at a moment; `None`: nothing.
    pub(super) fn due(&mut self, now: Duration) -> Option<Due> {
        let count = self.all.len().max(1) as f64;
        let passed = now.saturating_sub(self.looked).as_secs_f64() / APART.as_secs_f64();
        self.looked = now;
        self.due = (self.due + passed * count).min(count);
        self.spare = (self.spare + passed * count.max(LEAST)).min(LEAST);
        let mut told = Due { keys: BTreeSet::new(), is_whole: false };
        while self.spare >= 1.0
            && let Some(key) = self.news.pop_first()
        {
            self.spare -= 1.0;
            told.keys.insert(key);
        }
        let part = count.min(PART as f64);
        let mut has_turn = false;
        while self.due >= part {
            self.due -= part;
            has_turn = true;
            for &key in self.all.range(self.next..).take(PART) {
                self.news.remove(&key);
                told.keys.insert(key);
                self.next = key + 1;
            }
            if self.all.range(self.next..).next().is_none() {
                self.next = 0;
                told.is_whole = true;
            }
        }
        (has_turn || told.is_whole || !told.keys.is_empty()).then_some(told)
    }
}

/// From one turn of a channel to the next.
const APART: Duration = Duration::from_secs(1);

/// Channels at once beside those that have their turn, and as many a second at least.
const LEAST: f64 = 512.0;

/// Channels that have their turn together, where there are more: a few datagrams.
const PART: usize = 64;

#[cfg(test)]
mod tests {
    use weir_wire::signal::{Channel, Clock, ClockSource, Flags, Header, Kind, Metadata, encode};

    use super::*;

    const STEP: Duration = Duration::from_millis(5);

    /// Calls for some seconds, with what is done in front of each; what was told, a second each.
    fn told(telling: &mut Telling, seconds: u32, mut before: impl FnMut(&mut Telling)) -> Vec<Vec<Due>> {
        let mut now = telling.looked;
        let mut second = || {
            let step = |_| {
                now += STEP;
                before(telling);
                telling.due(now)
            };
            (0..200).filter_map(step).collect()
        };
        (0..seconds).map(|_| second()).collect()
    }

    fn channels(second: &[Due]) -> usize {
        second.iter().map(|due| due.keys.len()).sum()
    }

    /// Datagrams and their bytes, as they are sent.
    fn sent(second: &[Due]) -> (usize, usize) {
        let clock = Clock { source: ClockSource::Unknown, error: None };
        let header = Header { kind: Kind::Metadata, flags: Flags::default(), clock, count: 0, session: 1, sequence: 0 };
        let (mut datagrams, mut bytes) = (0, 0);
        for due in second {
            let channel = |&key: &u32| Channel { id: key as u16, name: format!("channel {key}"), ..Channel::default() };
            let channels = due.keys.iter().map(channel).collect();
            let metadata =
                Metadata { station: "server".into(), stream: "view".into(), channels, ..Metadata::default() };
            encode::metadata(header, &metadata, 1472, &mut Vec::new(), |datagram| {
                datagrams += 1;
                bytes += datagram.len();
            });
        }
        (datagrams, bytes)
    }

    #[test]
    fn all_come_each_second_and_no_more_when_nothing_changes() {
        let mut telling = Telling::new();
        (0..4000).for_each(|key| telling.change(key));
        drop(told(&mut telling, 2, |_| ()));
        for second in told(&mut telling, 3, |_| ()) {
            let keys: BTreeSet<u32> = second.iter().flat_map(|due| due.keys.iter().copied()).collect();
            assert!(keys.len() >= 4000 - PART && (4000 - PART..=4000 + PART).contains(&channels(&second)));
            assert!(second.iter().all(|due| due.keys.len() <= PART), "paced");
            assert!(second.iter().filter(|due| due.is_whole).count() <= 2);
        }
    }

    #[test]
    fn what_changes_all_the_time_is_bounded() {
        let mut telling = Telling::new();
        (0..4000).for_each(|key| telling.change(key));
        let mut key = 0;
        let seconds = told(&mut telling, 5, |telling| {
            for _ in 0..100 {
                key = (key + 7) % 4000;
                telling.change(key);
            }
        });
        for second in &seconds {
            assert!(channels(second) <= 2 * 4000 + 512 + PART, "{}", channels(second));
            assert!(second.iter().all(|due| due.keys.len() <= 512 + PART));
            let (datagrams, bytes) = sent(second);
            assert!(datagrams <= 1000 && bytes <= 1_000_000, "{datagrams} datagrams, {bytes} bytes");
        }
        for second in &seconds[1..] {
            let keys: BTreeSet<u32> = second.iter().flat_map(|due| due.keys.iter().copied()).collect();
            assert!(keys.len() >= 4000 - PART, "none waits for longer: {}", keys.len());
        }
    }

    #[test]
    fn one_change_tells_of_one_channel() {
        let mut telling = Telling::new();
        (0..40).for_each(|key| telling.change(key));
        assert_eq!(telling.due(STEP).map(|due| due.keys.len()), Some(40));
        telling.change(7);
        assert_eq!(telling.due(STEP * 2), Some(Due { keys: [7].into(), is_whole: false }));
        assert_eq!((telling.news.contains(&7), telling.due(STEP * 3)), (false, None));
    }
}
