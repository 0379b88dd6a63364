//! A session: its lanes, its datagrams, and when each is due.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use weir_program::clock::Nanos;
use weir_wire::signal::{
    Block, Cause, Channel, Clock, Element, Flags, Form, Header, Kind, Metadata, Packer, Position, encode,
};

use super::Outlet;
use super::lane::{Full, Lane, Packed};
use crate::seal::Sealer;

/// Who sends a stream.
#[derive(Debug)]
pub struct Stream {
    /// The station, or the server.
    pub station: String,
    /// Which of its streams.
    pub name: String,
    /// What protects it.
    pub sealer: Sealer,
    /// Most bytes of a datagram.
    pub most_bytes: usize,
    /// Whose fault it is that samples are not sent.
    pub fault: Cause,
}

/// Sends a stream. Each moment is told, and all that happens is calls of the outlet.
#[derive(Debug)]
pub struct Sender<O> {
    /// Of the next datagram.
    pub header: Header,
    /// Of no channels: they are in the lanes.
    metadata: Metadata,
    /// Where datagrams go.
    pub outlet: O,
    /// By the channel's number.
    pub lanes: BTreeMap<u16, Lane>,
    fault: Cause,
    most_bytes: usize,
    packer: Packer,
    packed: Vec<Packed>,
    sealer: Sealer,
    /// The datagram as it is sealed.
    scratch: Vec<u8>,
    /// When the oldest of what is in the packer was taken.
    since: Option<Nanos>,
    /// When a datagram was sent last.
    spoke: Nanos,
    /// Channels whose description is new.
    news: BTreeSet<u16>,
    /// The channel that is described next, when, and how often all were.
    turn: u16,
    turn_due: Nanos,
    rounds: usize,
    /// A channel is new, and nobody knows at which index it begins.
    has_newcomer: bool,
    /// Datagrams a second that its lanes make, about.
    pub per_s: f64,
    /// What was sent.
    pub counts: Counts,
}

/// Datagrams by kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Of samples and gaps.
    pub data: u64,
    /// Of positions.
    pub heartbeats: u64,
    /// Of descriptions.
    pub metadata: u64,
    /// That nothing more comes.
    pub ends: u64,
    /// Of any kind, that the outlet did not take.
    pub not_taken: u64,
    /// Bytes of those that were taken.
    pub bytes: u64,
}

impl<O: Outlet> Sender<O> {
    /// Of no channels yet.
    pub fn new(stream: Stream, outlet: O) -> Self {
        let Stream { station, name, sealer, most_bytes, fault } = stream;
        let most_bytes = most_bytes - sealer.overhead();
        // Random; never 0, which stands for none.
        let session = RandomState::new().hash_one(&station).max(1);
        let (kind, flags, clock) = (Kind::Data, Flags::default(), Clock::default());
        let software = concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned();
        Self {
            header: Header { kind, flags, clock, count: 0, session, sequence: 0 },
            metadata: Metadata { station, stream: name, software, channels: Vec::new() },
            outlet,
            lanes: BTreeMap::new(),
            fault,
            most_bytes,
            packer: Packer::new(most_bytes),
            packed: Vec::new(),
            sealer,
            scratch: Vec::new(),
            since: None,
            spoke: 0,
            news: BTreeSet::new(),
            turn: 0,
            turn_due: 0,
            rounds: 0,
            has_newcomer: false,
            per_s: 0.0,
            counts: Counts::default(),
        }
    }

    /// By which others know it.
    pub fn station(&self) -> &str {
        &self.metadata.station
    }

    /// Which of the station's streams.
    pub fn name(&self) -> &str {
        &self.metadata.stream
    }

    /// Samples that are in a datagram which is not sent yet.
    pub fn packed(&self) -> u64 {
        self.packed.iter().map(Packed::samples).sum()
    }

    /// A channel more.
    pub fn add(&mut self, mut lane: Lane) {
        let channel = lane.channel.id;
        lane.fault = self.fault;
        self.lanes.insert(channel, lane);
        self.has_newcomer = true;
        self.news.insert(channel);
    }

    /// A channel is described anew, with the next step.
    pub fn describe(&mut self, channel: Channel) {
        if let Some(lane) = self.lanes.get_mut(&channel.id) {
            self.news.insert(channel.id);
            lane.channel = channel;
        }
    }

    /// A channel is another one, or measured otherwise: what it was goes out before, and what it is now not before it is described.
    pub fn redefine(&mut self, channel: Channel, now: Nanos) {
        if let Some(lane) = self.lanes.get_mut(&channel.id) {
            lane.flush();
            self.drain(now);
            self.lanes.get_mut(&channel.id).into_iter().for_each(|lane| lane.is_described = false);
            self.describe(channel);
        }
    }

    /// The next samples of a channel.
    pub fn push(&mut self, channel: u16, first: u64, samples: &[f64], now: Nanos) {
        self.take(channel, now, |lane| lane.push(first, samples));
    }

    /// The next samples of a channel, as another has sent them.
    pub fn push_block(&mut self, block: &Block<'_>, now: Nanos) {
        self.take(block.channel, now, |lane| lane.push_block(block));
    }

    /// The next samples of a channel are not coming.
    pub fn miss(&mut self, channel: u16, first: u64, samples: u64, cause: Cause, now: Nanos) {
        self.take(channel, now, |lane| lane.miss(first, samples, cause));
    }

    /// Nothing more comes of a channel for a while.
    pub fn flush(&mut self, channel: u16, now: Nanos) {
        self.take(channel, now, Lane::flush);
    }

    fn take(&mut self, channel: u16, now: Nanos, with: impl FnOnce(&mut Lane)) {
        let Some(lane) = self.lanes.get_mut(&channel) else { return };
        with(lane);
        if lane.is_described && lane.waiting_bytes() >= self.most_bytes {
            if self.packer.is_empty() {
                self.since = lane.since;
            }
            self.drain_lane(channel, true, now);
            // What is left is the newest.
            self.lanes.get_mut(&channel).into_iter().for_each(|lane| lane.since = None);
        }
        self.lanes.get_mut(&channel).into_iter().for_each(|lane| lane.begin_to_wait(now));
    }

    /// Sends what waits, if it waits for so long, descriptions and heartbeats when they are due.
    pub fn step(&mut self, now: Nanos, delay: Nanos) {
        if self.describe_channels(now) {
            // Whoever comes now knows where slow channels stand, too.
            self.send_positions(Kind::Heartbeat, now);
        }
        if self.oldest().is_some_and(|since| now >= since + delay) {
            self.drain(now);
        }
        if now >= self.spoke + HEARTBEATS_APART {
            self.send_positions(Kind::Heartbeat, now);
        }
    }

    /// When it is to be stepped next.
    pub fn due(&self, delay: Nanos) -> Nanos {
        if !self.news.is_empty() {
            return 0;
        }
        let beat = (self.spoke + HEARTBEATS_APART).min(self.turn_due);
        self.oldest().map_or(beat, |since| beat.min(since + delay))
    }

    /// When the oldest of what waits was taken.
    fn oldest(&self) -> Option<Nanos> {
        self.lanes.values().filter_map(|lane| lane.since).chain(self.since).min()
    }

    /// Sends everything, and that nothing more comes: again and again for a while, for whoever does not hear it knows of no gap at the
    /// end.
    pub fn end(&mut self, now: Nanos, pause: impl Fn(Duration)) {
        while !self.news.is_empty() {
            self.describe_channels(now);
        }
        self.lanes.values_mut().for_each(Lane::flush);
        // What is not taken the first time is told as a gap the second time.
        for _ in 0..2 {
            self.drain(now);
        }
        self.lanes.values_mut().for_each(Lane::give_up);
        self.send_metadata(self.lanes.keys().copied().collect());
        self.send_positions(Kind::End, now);
        for apart in ENDS_APART {
            pause(apart);
            self.send_positions(Kind::End, now);
        }
    }

    /// Puts all that waits in datagrams.
    pub fn drain(&mut self, now: Nanos) {
        for channel in self.lanes.keys().copied().collect::<Vec<_>>() {
            self.drain_lane(channel, false, now);
        }
        self.send_packed(now);
        for lane in self.lanes.values_mut() {
            // What was not taken is tried again, but not at once.
            lane.since = None;
            lane.begin_to_wait(now);
        }
    }

    /// Puts what a lane has in datagrams: `whole`: only as much as fills some.
    fn drain_lane(&mut self, channel: u16, whole: bool, now: Nanos) {
        while let Some(lane) = self.lanes.get_mut(&channel).filter(|lane| lane.is_described) {
            if whole && lane.waiting_bytes() < self.most_bytes {
                break;
            }
            match lane.pack(&mut self.packer) {
                None => break,
                Some(Ok(packed)) => self.packed.push(packed),
                Some(Err(Full)) if self.packer.is_empty() => break,
                Some(Err(Full)) => self.send_packed(now),
            }
        }
        // As good as full: what comes next begins another.
        if whole && self.packer.room(Element::F64, Form::Samples) == 0 {
            self.send_packed(now);
        }
    }

    fn send_packed(&mut self, now: Nanos) {
        if self.packer.is_empty() {
            return;
        }
        if self.has_newcomer {
            // A first block that is lost is known to be.
            self.send_positions(Kind::Heartbeat, now);
        }
        let bytes = self.packer.finish(self.header);
        let taken = send(&mut self.outlet, &mut self.sealer, &mut self.scratch, &mut self.counts, bytes);
        if taken {
            self.counts.data += 1;
            self.header.sequence += 1;
            self.spoke = now;
        }
        // The number of one that was not taken is that of the next one that is.
        let (packed, lanes) = (&self.packed, &mut self.lanes);
        match taken {
            true => packed
                .iter()
                .for_each(|packed| lanes.get_mut(&packed.channel).into_iter().for_each(|lane| lane.settle(packed))),
            false => packed
                .iter()
                .rev()
                .for_each(|packed| lanes.get_mut(&packed.channel).into_iter().for_each(|lane| lane.owe(packed))),
        }
        self.packer.clear();
        self.packed.clear();
        self.since = None;
    }

    /// Describes what is new, and in turn each channel once a second (oftener at first: who listens then knows their names soon), a part
    /// at a time; whether all were described.
    fn describe_channels(&mut self, now: Nanos) -> bool {
        let mut told: BTreeSet<u16> = (0..PART).map_while(|_| self.news.pop_first()).collect();
        let mut is_whole = false;
        let is_turn = now >= self.turn_due;
        if is_turn {
            let part: Vec<u16> = self.lanes.range(self.turn..).map(|(&channel, _)| channel).take(PART).collect();
            let apart = FIRST_ROUNDS_APART.get(self.rounds).copied().unwrap_or(ROUNDS_APART);
            self.turn_due = now + apart * part.len().max(1) as u64 / self.lanes.len().max(1) as u64;
            self.turn = part.last().map_or(0, |last| last.saturating_add(1));
            is_whole = self.lanes.range(self.turn..).next().is_none();
            if is_whole {
                self.turn = 0;
                self.rounds += usize::from(!self.lanes.is_empty());
            }
            told.extend(part);
        }
        if is_turn || !told.is_empty() {
            self.send_metadata(told);
        }
        is_whole
    }

    fn send_metadata(&mut self, channels: BTreeSet<u16>) {
        let Self { header, metadata, lanes, most_bytes, outlet, sealer, scratch, counts, .. } = self;
        metadata.channels.clear();
        for channel in channels {
            self.news.remove(&channel);
            let Some(lane) = lanes.get_mut(&channel) else { continue };
            lane.is_described = true;
            metadata.channels.push(lane.channel.clone());
        }
        let header = Header { kind: Kind::Metadata, ..*header };
        encode::metadata(header, metadata, *most_bytes, &mut Vec::new(), |bytes| {
            counts.metadata += u64::from(send(outlet, sealer, scratch, counts, bytes));
        });
        self.per_s = self.lanes.values().map(Lane::bytes_per_s).sum::<f64>() / self.most_bytes as f64;
        self.outlet.expect(self.per_s);
    }

    fn send_positions(&mut self, kind: Kind, now: Nanos) {
        self.spoke = now;
        self.has_newcomer = false;
        let positions: Vec<Position> =
            self.lanes.iter().map(|(&channel, lane)| Position { channel, next: lane.told }).collect();
        let Self { header, most_bytes, outlet, sealer, scratch, counts, .. } = self;
        let header = Header { kind, ..*header };
        encode::positions(header, &positions, *most_bytes, &mut Vec::new(), |bytes| {
            let taken = u64::from(send(outlet, sealer, scratch, counts, bytes));
            *if kind == Kind::End { &mut counts.ends } else { &mut counts.heartbeats } += taken;
        });
    }
}

/// Seals and sends; whether it is on its way.
fn send(
    outlet: &mut impl Outlet,
    sealer: &mut Sealer,
    scratch: &mut Vec<u8>,
    counts: &mut Counts,
    bytes: &[u8],
) -> bool {
    scratch.clear();
    scratch.extend_from_slice(bytes);
    // What was just encoded is whole, and not sealed yet.
    let taken = sealer.seal(scratch).is_ok() && outlet.send(scratch);
    *if taken { &mut counts.bytes } else { &mut counts.not_taken } += if taken { scratch.len() as u64 } else { 1 };
    taken
}

/// Loss at the end of a stream shows within twice this.
const HEARTBEATS_APART: Nanos = 50_000_000;

/// From one round of descriptions to the next, and from the first ones: announced more than once (RFC 6762 section 8.3).
const ROUNDS_APART: Nanos = 1_000_000_000;
const FIRST_ROUNDS_APART: [Nanos; 2] = [100_000_000, 200_000_000];

/// Channels that are described together, where there are more: a few datagrams.
const PART: usize = 64;

/// From one word of the end to the next: the last ones behind an outage of some 100 ms.
const ENDS_APART: [Duration; 5] = [
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(40),
    Duration::from_millis(80),
    Duration::from_millis(160),
];
