//! A viewer: the receiver of the room, with a sink that counts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use weir_kernel::namespaces::NetNs;
use weir_kernel::scheduling;
use weir_monitor::receive::{Counts, Follow, Listen, News, Receiver, Settings, Sink, Stream};
use weir_program::clock::{self, Nanos, nanos};
use weir_stats::Distribution;
use weir_traffic::Window;
use weir_wire::signal::{Block, Cause, Channel, Rate, Values};

use crate::scenario::ReaderStall;

/// What a viewer is like.
pub(super) struct Setting {
    pub(super) listen: Vec<Listen>,
    /// Bytes; `None`: as the room has it.
    pub(super) buffer: Option<usize>,
    /// Where it runs; `None`: anywhere.
    pub(super) processor: Option<usize>,
}

/// A receiver that has joined its groups.
pub(super) struct Viewer {
    receiver: Receiver,
    ns: NetNs,
    processor: Option<usize>,
}

/// What a viewer has seen.
#[derive(Default)]
pub(super) struct Record {
    /// By station and channel.
    pub(super) lines: HashMap<(String, String), Line>,
    /// From when a sample was to when it was handed out, ns.
    pub(super) delays: Distribution,
    /// From the end of a gap to when it was handed out.
    pub(super) gap_ages: Distribution,
    /// Samples shown within the sending window.
    pub(super) in_window: u64,
    /// The longest time within the window in which nothing of a station was shown, once it had begun.
    pub(super) silence: Nanos,
    /// Stations of which it was told that they are silent, and not that they have ended.
    pub(super) silent: HashSet<String>,
    /// What the receiver counted.
    pub(super) counts: Counts,
    /// Gaps of the first channel seen, as far as they are kept: first index and how many samples, why.
    pub(super) gaps: Vec<(u64, u64, Cause)>,
}

/// A channel as it was shown.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) rate: Rate,
    /// The first block: its index, and when that was, ns since 1970 UTC.
    pub(super) first: u64,
    pub(super) first_time: i64,
    /// The index behind the last block, and its time.
    pub(super) next: u64,
    pub(super) end_time: i64,
    /// Samples shown, and samples told to be missing, by cause.
    pub(super) shown: u64,
    pub(super) missing: [u64; Cause::ALL.len()],
    /// Blocks that did not begin where the one before had ended.
    pub(super) jumps: u64,
    /// When the last block was handed out, ns since 1970 UTC.
    pub(super) told: i64,
}

impl Viewer {
    pub(super) fn open(ns: &NetNs, setting: Setting) -> Result<Self> {
        let Setting { listen, buffer, processor } = setting;
        let settings = Settings { listen, ..Settings::default() };
        let settings = Settings { receive_buffer: buffer.unwrap_or(settings.receive_buffer), ..settings };
        let receiver = ns.run(|| Receiver::open(&settings))??;
        Ok(Self { receiver, ns: ns.try_clone()?, processor })
    }

    /// Watches until it is over.
    pub(super) fn run(
        mut self,
        over: &AtomicBool,
        window: Window,
        realtime: bool,
        stall: Option<ReaderStall>,
    ) -> Result<Record> {
        // Inside, for what it asks of stations goes out there.
        let ns = self.ns.try_clone()?;
        let record = ns.run(|| {
            if realtime {
                // One that does not get it is late, and says so.
                let _ = scheduling::become_real_time();
            }
            if let Some(processor) = self.processor {
                let _ = scheduling::run_on(processor);
            }
            self.watch(over, window, stall)
        })?;
        Ok(record)
    }

    fn watch(&mut self, over: &AtomicBool, window: Window, stall: Option<ReaderStall>) -> Record {
        let mut tally = Follow::new(Tally::new(window));
        let mut stalls = stall.map(|stall| (window.start + nanos(stall.every.duration()), stall));
        while !over.load(Ordering::Relaxed) {
            self.receiver.take(LONGEST, &mut tally);
            if let Some((at, stall)) = &mut stalls
                && clock::now() >= *at
            {
                thread::sleep(stall.length.duration());
                *at += nanos(stall.every.duration());
            }
        }
        let counts = self.receiver.shared().counts();
        let tally = tally.inner();
        Record { counts, ..std::mem::take(&mut tally.record) }
    }
}

/// The sink.
struct Tally {
    record: Record,
    window: Window,
    names: HashMap<(u64, u16), (String, String)>,
    /// When something of a station was shown last.
    shown: HashMap<String, Nanos>,
    /// The channel whose gaps are kept.
    kept: Option<(String, String)>,
}

impl Tally {
    fn new(window: Window) -> Self {
        Self { record: Record::default(), window, names: HashMap::new(), shown: HashMap::new(), kept: None }
    }

    fn values(&mut self, station: &str, block: &Block<'_>, wall: i64) {
        let record = &mut self.record;
        let (now, count) = (clock::now(), block.samples());
        if now < self.window.end {
            record.in_window += count;
            if let Some(last) = self.shown.get_mut(station) {
                record.silence = record.silence.max(now - *last);
                *last = now;
            } else {
                self.shown.insert(station.to_owned(), now);
            }
        }
        let step = match block.values {
            Values::Buckets(_, bucket, _) => u64::from(bucket),
            _ => 1,
        };
        // Of a bucket its oldest sample.
        for at in (0..count).step_by(usize::try_from(step).unwrap_or(1).max(1)) {
            let time = i128::from(block.time) + block.rate.nanos(at);
            record.delays.record(u64::try_from(i128::from(wall) - time).unwrap_or(0));
        }
    }
}

impl Sink for Tally {
    fn channel(&mut self, stream: &Arc<Stream>, channel: &Arc<Channel>) {
        self.names.insert((stream.session, channel.id), (stream.station.clone(), channel.name.clone()));
    }

    fn block(&mut self, stream: &Arc<Stream>, block: &Block<'_>) {
        let Some(name) = self.names.get(&(stream.session, block.channel)).cloned() else { return };
        let wall = wall();
        let samples = block.samples();
        let end_time = i64::try_from(i128::from(block.time) + block.rate.nanos(samples)).unwrap_or(i64::MAX);
        let line = self.record.lines.entry(name.clone()).or_insert_with(|| Line {
            rate: block.rate,
            first: block.first,
            first_time: block.time,
            next: block.first,
            end_time: block.time,
            shown: 0,
            missing: [0; Cause::ALL.len()],
            jumps: 0,
            told: 0,
        });
        line.jumps += u64::from(line.next != block.first);
        (line.next, line.end_time, line.told) = (block.end(), end_time, wall);
        let Values::Gap(gap) = block.values else {
            // Of a gap in front of the first sample the time was a guess.
            if line.shown == 0 {
                line.first_time = begin(block, line.first);
            }
            line.shown += samples;
            self.values(&name.0, block, wall);
            return;
        };
        line.missing[gap.cause as usize] += samples;
        let begun = line.first;
        self.record.gap_ages.record(u64::try_from(wall - end_time).unwrap_or(0));
        if self.record.gaps.len() < MOST_GAPS && *self.kept.get_or_insert_with(|| name.clone()) == name {
            self.record.gaps.push((block.first - begun, samples, gap.cause));
        }
    }

    fn stream(&mut self, stream: &Arc<Stream>, news: News) {
        match news {
            News::Silent => self.record.silent.insert(stream.station.clone()),
            _ => self.record.silent.remove(&stream.station),
        };
    }
}

/// When the sample of an index before the block was.
fn begin(block: &Block<'_>, first: u64) -> i64 {
    let time = i128::from(block.time) - block.rate.nanos(block.first.saturating_sub(first));
    i64::try_from(time).unwrap_or(block.time)
}

fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The end is heard within it.
const LONGEST: Duration = Duration::from_millis(20);

/// Gaps that are kept of a channel.
const MOST_GAPS: usize = 100_000;

#[cfg(test)]
mod tests {
    use weir_wire::signal::{Clock, Element, Gap};

    use super::*;

    #[test]
    fn a_guessed_time_is_not_held_against_the_first_sample() {
        let mut tally = Tally::new(Window { start: 0, end: Nanos::MAX });
        let stream = Arc::new(Stream {
            session: 7,
            station: "a".into(),
            name: "s".into(),
            source: ([127, 0, 0, 1], 1).into(),
            clock: Clock::default(),
        });
        let rate = Rate::hertz(1000);
        tally.channel(&stream, &Arc::new(Channel { id: 1, name: "x".into(), rate, ..Channel::default() }));
        let gap = Values::Gap(Gap { samples: 71, cause: Cause::Network });
        tally.block(&stream, &Block { channel: 1, first: 0, time: 5_071_000_000, rate, values: gap });
        let values = Values::Samples(Element::F32, &[0; 8]);
        tally.block(&stream, &Block { channel: 1, first: 71, time: 5_071_000_000, rate, values });
        let line = &tally.record.lines[&("a".to_owned(), "x".to_owned())];
        assert_eq!((line.first_time, line.shown, line.jumps), (5_000_000_000, 2, 0));
    }
}
