//! A day of two stations in a minute: the receiver, the history and the archive on a clock that is scaled.
//!
//! What is told here is told by time alone, so that a clock of the test's own is as good as the kernel's. `WEIR_HOURS` sets how long
//! the day is.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

mod sys;

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use weir_monitor::archive::{self, Limits, Recorder, State};
use weir_program::pulse::Pulses;
use weir_signal::history::{Bounds, ChannelId, History};
use weir_signal::receive::{self, Moment, News, Sessions, Sink, Stream, Witness};
use weir_testbed::random;
use weir_wire::signal::{
    Block, Channel, Clock, Element, Flags, Form, Header, Kind, Metadata, Packer, Position, Rate, Values, encode,
};

/// A sender of a few channels, whose sample i is i.
struct Station {
    name: &'static str,
    session: u64,
    sequence: u64,
    /// Of its first sample, ns since 1970.
    origin: i64,
    next: u64,
    packer: Packer,
    scratch: Vec<u8>,
}

/// Where all is kept, and counted.
struct Keeper<'a> {
    history: &'a History,
    keys: HashMap<(u64, u16), ChannelId>,
    recorder: Recorder,
    /// Of each session's first channel: the index behind its last block.
    reached: HashMap<u64, u64>,
    shown: u64,
    missing: u64,
    restarts: u64,
    /// When the session of a stream began, ns since 1970.
    origins: HashMap<u64, i64>,
}

struct Idle;

impl Witness for Idle {
    fn host_dropped(&mut self, _: Duration) -> bool {
        false
    }
}

impl Sink for Keeper<'_> {
    fn channel(&mut self, stream: &Arc<Stream>, channel: &Arc<Channel>) {
        let key = self.history.write().channel(&stream.station, &stream.name, channel).unwrap();
        self.keys.insert((stream.session, channel.id), key);
        self.recorder.channel(stream, channel);
    }

    fn block(&mut self, stream: &Arc<Stream>, block: &Block<'_>) {
        self.recorder.block(stream, block);
        self.history.write().append(self.keys[&(stream.session, block.channel)], block);
        // No drift: a sample has the time of its index, however late in the day.
        assert_eq!(i128::from(block.time), i128::from(self.origins[&stream.session]) + RATE.nanos(block.first));
        if block.channel == 0 {
            let reached = self.reached.entry(stream.session).or_default();
            assert_eq!(*reached, block.first, "in order, once");
            *reached = block.end();
        }
        match block.values {
            Values::Gap(gap) => self.missing += gap.samples,
            _ => self.shown += block.samples(),
        }
    }

    fn stream(&mut self, stream: &Arc<Stream>, news: News) {
        self.restarts += u64::from(news == News::Restarted);
        self.recorder.stream(stream, news);
    }

    fn flush(&mut self) {
        self.recorder.flush();
    }
}

impl Station {
    fn new(name: &'static str, session: u64, origin: i64) -> Self {
        Self { name, session, sequence: 0, origin, next: 0, packer: Packer::new(1472), scratch: Vec::new() }
    }

    fn header(&self, kind: Kind) -> Header {
        let (flags, clock) = (Flags::default(), Clock::default());
        Header { kind, flags, clock, count: 0, session: self.session, sequence: self.sequence }
    }

    fn metadata(&mut self, mut send: impl FnMut(&[u8])) {
        let channel = |id: u16| Channel { id, name: format!("ramp{id}"), rate: RATE, ..Channel::default() };
        let channels = (0..CHANNELS).map(channel).collect();
        let metadata = Metadata { station: self.name.into(), stream: "full".into(), channels, ..Metadata::default() };
        encode::metadata(self.header(Kind::Metadata), &metadata, 1472, &mut self.scratch, &mut send);
    }

    fn positions(&mut self, kind: Kind, mut send: impl FnMut(&[u8])) {
        let positions: Vec<Position> = (0..CHANNELS).map(|channel| Position { channel, next: self.next }).collect();
        encode::positions(self.header(kind), &positions, 1472, &mut self.scratch, &mut send);
    }

    fn data(&mut self) -> &[u8] {
        self.packer.clear();
        for channel in 0..CHANNELS {
            let time = i64::try_from(i128::from(self.origin) + RATE.nanos(self.next)).unwrap();
            let position = (channel, self.next, time);
            let bytes = self.packer.block(position, RATE, (Element::F32, Form::Samples), EACH);
            (self.next..self.next + u64::from(EACH)).for_each(|index| bytes.extend((index as f32).to_le_bytes()));
        }
        let header = self.header(Kind::Data);
        self.next += u64::from(EACH);
        self.sequence += 1;
        self.packer.finish(header)
    }
}

#[test]
fn a_day_drifts_nowhere_and_grows_nothing() {
    let hours: u64 = std::env::var("WEIR_HOURS").map_or(24, |hours| hours.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(random::seed());
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { cut_bytes: 8 << 20, leave: 0, queue: QUEUE, ..Limits::default() };
    let settings = archive::Settings { directory: dir.path().into(), prefix: "day".into(), limits };
    let state = Arc::new(State::default());
    let recorder = Recorder::start(&settings, state.clone(), Pulses::new().pulse("archive")).unwrap();
    let bounds = Bounds { span: Duration::from_secs(60), bytes: 4 << 20, ..Bounds::default() };
    let history = History::new(bounds);
    let mut keeper = Keeper {
        history: &history,
        keys: HashMap::new(),
        recorder,
        reached: HashMap::new(),
        shown: 0,
        missing: 0,
        restarts: 0,
        origins: HashMap::new(),
    };
    let mut sessions = Sessions::new(receive::Bounds::default());
    let mut session = 0;
    let mut fresh = |name, now: Duration, keeper: &mut Keeper<'_>| {
        session += 1;
        let origin = BEGIN + now.as_nanos() as i64;
        keeper.origins.insert(session, origin);
        Station::new(name, session, origin)
    };
    let mut stations = ["one", "two"].map(|name| fresh(name, Duration::ZERO, &mut keeper));
    let (mut sent, mut lost, mut starts) = (0, 0, 2);
    let mut memory = Vec::new();
    let (steps, an_hour) = (hours * 36_000, 36_000);
    for step in 0..steps {
        let now = STEP * u32::try_from(step).unwrap();
        let moment = Moment { now, wall: BEGIN + now.as_nanos() as i64, drops: 0 };
        for (number, station) in (0..).zip(&mut stations) {
            // Each hour, one after the other: as one that is told to end.
            let restarts = 18_000 + number * 9_000;
            if (restarts..restarts + 2).contains(&(step % an_hour)) {
                station.positions(Kind::End, |bytes| sessions.take(bytes, source(), moment, &mut Idle, &mut keeper));
                continue;
            }
            // Its end counts once what was sent before it has come, or is given up.
            if step % an_hour == restarts + 2 {
                *station = fresh(station.name, now, &mut keeper);
                starts += 1;
            }
            // What is begun has come, so that every sample is known of.
            if station.next == 0 || step % 10 == 0 {
                let take = |bytes: &[u8]| sessions.take(bytes, source(), moment, &mut Idle, &mut keeper);
                station.metadata(take);
            }
            station.positions(Kind::Heartbeat, |bytes| sessions.take(bytes, source(), moment, &mut Idle, &mut keeper));
            let arrives = random.u32(0..100) > 0;
            let datagram = station.data();
            sent += u64::from(EACH) * u64::from(CHANNELS);
            if arrives {
                sessions.take(datagram, source(), moment, &mut Idle, &mut keeper);
            } else {
                lost += u64::from(EACH) * u64::from(CHANNELS);
            }
        }
        sessions.look(moment, &mut Idle, &mut keeper);
        keeper.flush();
        // A disk has a day's time for a day.
        while step % 100 == 0 && state.ledger(false).waiting > 1 << 19 {
            thread::sleep(Duration::from_millis(1));
        }
        if step % (an_hour / 4) == 0 {
            memory.push(sys::held());
        }
    }
    let now = STEP * u32::try_from(steps).unwrap();
    let moment = |later| Moment { now: now + later, wall: BEGIN + (now + later).as_nanos() as i64, drops: 0 };
    for station in &mut stations {
        let moment = moment(Duration::ZERO);
        station.positions(Kind::End, |bytes| sessions.take(bytes, source(), moment, &mut Idle, &mut keeper));
    }
    sessions.look(moment(Duration::from_secs(1)), &mut Idle, &mut keeper);
    keeper.flush();

    assert_eq!((keeper.shown, keeper.missing), (sent - lost, lost), "every sample is shown or a gap");
    assert_eq!(keeper.restarts, starts - 2, "each start is noticed");
    assert_eq!(sessions.counts(0).unexplained(), 0);
    let extents = (0..2 * u32::from(CHANNELS)).map(|key| history.extent(key).unwrap());
    extents.for_each(|extent| assert_eq!(extent.end_time, moment(Duration::ZERO).wall));
    let Keeper { recorder, shown, missing, .. } = keeper;
    recorder.finish();
    let ledger = state.ledger(true);
    assert!(ledger.closed, "{ledger:?}");
    assert_eq!((ledger.kept.get(), ledger.missing.get()), (shown, missing), "{ledger:?}");
    let files = fs::read_dir(dir.path()).unwrap().count() as u64;
    assert!(files == ledger.files.get() && (hours < 12 || files > 2), "{files} files, {ledger:?}");
    // Once it has begun: sessions that are gone for ten minutes are forgotten, and files are ended. The memory of what waits for
    // the disk is taken bit by bit, by chance. All that is kept in a day would be hundreds of MiB.
    let settled = memory.len() / 4;
    let (before, after) = (memory[settled..2 * settled + 1].iter().max(), memory[3 * settled..].iter().max());
    let (before, after) = (*before.unwrap(), *after.unwrap());
    assert!(after < before + QUEUE + (8 << 20), "{before} bytes in the morning, {after} at night: {memory:?}");
}

fn source() -> std::net::SocketAddr {
    ([192, 0, 2, 1], 5110).into()
}

const CHANNELS: u16 = 2;
const RATE: Rate = Rate { per_second: 50, per_sample: 1 };

/// Samples of a datagram, and how long they take.
const EACH: u16 = 5;
const STEP: Duration = Duration::from_millis(100);

/// What may wait for the disk, bytes.
const QUEUE: usize = 64 << 20;

/// 2026-11-23.
const BEGIN: i64 = 1_795_392_000_000_000_000;
