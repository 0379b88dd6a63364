//! A stream: a session with its lanes, its datagrams and where they go.

use anyhow::Result;
use weir_program::clock::Nanos;
use weir_wire::signal::{self, Cause, Clock, Element, Flags, Form, Header, Kind, Metadata, Packer, Position, encode};

use super::lane::{Full, Lane, Packed};
use super::ledger::{SampleCount, StreamCount};
use super::outlets::{Outlets, dropped};
use super::pace::Pace;
use super::settings::{Group, Settings};
use crate::seal::Sealer;

/// A stream of a station.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) header: Header,
    pub(super) metadata: Metadata,
    pub(super) outlets: Outlets,
    /// By the channel's number; `None`: it is not in this stream.
    pub(super) lanes: Vec<Option<Lane>>,
    most_bytes: usize,
    packer: Packer,
    packed: Vec<Packed>,
    sealer: Sealer,
    /// The datagram as it is sealed, and what is not data.
    scratch: Vec<u8>,
    positions: Vec<Position>,
    pace: Pace,
    /// When the oldest of what is in the packer was taken.
    since: Option<Nanos>,
    /// When a datagram was sent last.
    spoke: Nanos,
    /// When metadata is due.
    metadata_due: Nanos,
    /// A channel is new, and nobody knows at which index it begins.
    has_newcomer: bool,
    counts: Counts,
}

/// Datagrams by kind.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    data: u64,
    heartbeats: u64,
    metadata: u64,
    ends: u64,
    not_taken: u64,
}

impl Stream {
    /// Opens its sockets.
    ///
    /// # Errors
    /// As for [`Outlets::open`].
    pub(super) fn open(
        name: &str,
        groups: &[Group],
        settings: &Settings,
        session: u64,
        sealer: Sealer,
    ) -> Result<Self> {
        let most_bytes = Outlets::most_bytes(groups).min(settings.most_bytes) - sealer.overhead();
        let header = Header {
            kind: Kind::Data,
            flags: Flags::default(),
            clock: Clock::default(),
            count: 0,
            session,
            sequence: 0,
        };
        let software = concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned();
        Ok(Self {
            header,
            metadata: Metadata {
                station: settings.name.clone(),
                stream: name.to_owned(),
                software,
                ..Metadata::default()
            },
            outlets: Outlets::open(groups, settings)?,
            lanes: Vec::new(),
            most_bytes,
            packer: Packer::new(most_bytes),
            packed: Vec::new(),
            sealer,
            scratch: Vec::new(),
            positions: Vec::new(),
            pace: Pace::new(LEAST_PACE),
            since: None,
            spoke: 0,
            metadata_due: 0,
            has_newcomer: false,
            counts: Counts::default(),
        })
    }

    /// A channel more, or none of it.
    pub(super) fn add(&mut self, lane: Option<Lane>, channel: signal::Channel) {
        if lane.is_some() {
            self.metadata.channels.push(channel);
            self.has_newcomer = true;
        }
        self.lanes.push(lane);
        self.follow_rates();
        self.tell_metadata();
    }

    /// The next samples of a channel.
    pub(super) fn push(&mut self, channel: usize, first: u64, samples: &[f64], now: Nanos) {
        let Some(lane) = &mut self.lanes[channel] else { return };
        lane.push(first, samples);
        if lane.waiting_bytes() >= self.most_bytes {
            if self.packer.is_empty() {
                self.since = lane.since;
            }
            self.drain_lane(channel, true, now);
            // What is left is the newest.
            self.lanes[channel].iter_mut().for_each(|lane| lane.since = None);
        }
        self.lanes[channel].iter_mut().for_each(|lane| lane.begin_to_wait(now));
    }

    /// The next samples of a channel are not coming.
    pub(super) fn miss(&mut self, channel: usize, first: u64, samples: u64, cause: Cause, now: Nanos) {
        let Some(lane) = &mut self.lanes[channel] else { return };
        lane.miss(first, samples, cause);
        lane.begin_to_wait(now);
    }

    /// Sends what waits, if it waits long enough, metadata and heartbeats when they are due.
    pub(super) fn step(&mut self, now: Nanos, delay: Nanos) {
        if now >= self.metadata_due {
            self.send_metadata(now);
            // Whoever comes now knows where slow channels stand, too.
            self.send_positions(Kind::Heartbeat, now);
        }
        if self.oldest().is_some_and(|since| now >= since + delay) {
            self.drain(now);
        }
        if now >= self.spoke + HEARTBEATS_APART {
            // What was not selected is told here: it is of no hurry.
            self.drain(now);
            if now >= self.spoke + HEARTBEATS_APART {
                self.send_positions(Kind::Heartbeat, now);
            }
        }
    }

    /// When it is to be stepped next.
    pub(super) fn due(&self, delay: Nanos) -> Nanos {
        let beat = (self.spoke + HEARTBEATS_APART).min(self.metadata_due);
        self.oldest().map_or(beat, |since| beat.min(since + delay))
    }

    /// When the oldest of what waits was taken.
    fn oldest(&self) -> Option<Nanos> {
        self.lanes.iter().flatten().filter_map(|lane| lane.since).chain(self.since).min()
    }

    /// Metadata is sent with the next step.
    pub(super) fn tell_metadata(&mut self) {
        self.metadata_due = 0;
    }

    /// Sends everything, and that nothing more comes.
    pub(super) fn end(&mut self, now: Nanos) {
        self.lanes.iter_mut().flatten().for_each(Lane::flush);
        // What is not taken the first time is told as a gap the second time.
        for _ in 0..2 {
            self.drain(now);
        }
        self.lanes.iter_mut().flatten().for_each(Lane::give_up);
        self.send_metadata(now);
        self.send_positions(Kind::End, now);
    }

    /// Says again that nothing more comes.
    pub(super) fn end_again(&mut self, now: Nanos) {
        self.send_positions(Kind::End, now);
    }

    /// Puts all that waits in datagrams.
    pub(super) fn drain(&mut self, now: Nanos) {
        for channel in 0..self.lanes.len() {
            self.drain_lane(channel, false, now);
        }
        self.send_packed(now);
        for lane in self.lanes.iter_mut().flatten() {
            // What was not taken is tried again, but not at once.
            lane.since = None;
            lane.begin_to_wait(now);
        }
    }

    /// Puts what a lane has in datagrams: `whole`: only as much as fills some.
    fn drain_lane(&mut self, channel: usize, whole: bool, now: Nanos) {
        while let Some(lane) = &mut self.lanes[channel] {
            if whole && lane.waiting_bytes() < self.most_bytes {
                break;
            }
            match lane.pack(channel, &mut self.packer) {
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
        if send(&mut self.outlets, &mut self.pace, &mut self.sealer, &mut self.scratch, bytes) {
            self.counts.data += 1;
            self.header.sequence += 1;
            self.spoke = now;
            for packed in &self.packed {
                if let Some(lane) = &mut self.lanes[packed.lane] {
                    lane.settle(packed);
                }
            }
        } else {
            // Its number is that of the next one that is taken.
            self.counts.not_taken += 1;
            for packed in self.packed.iter().rev() {
                if let Some(lane) = &mut self.lanes[packed.lane] {
                    lane.owe(packed);
                }
            }
        }
        self.packer.clear();
        self.packed.clear();
        self.since = None;
    }

    fn send_metadata(&mut self, now: Nanos) {
        self.metadata_due = now + METADATA_APART;
        // A wish or a reload may have made a lane faster.
        self.follow_rates();
        let lanes = self.lanes.iter().flatten();
        for (channel, lane) in self.metadata.channels.iter_mut().zip(lanes) {
            channel.bucket = lane.bucket();
        }
        let Self { header, metadata, most_bytes, outlets, pace, sealer, scratch, counts, .. } = self;
        let header = Header { kind: Kind::Metadata, ..*header };
        encode::metadata(header, metadata, *most_bytes, &mut Vec::new(), |bytes| {
            let taken = send(outlets, pace, sealer, scratch, bytes);
            *if taken { &mut counts.metadata } else { &mut counts.not_taken } += 1;
        });
    }

    fn send_positions(&mut self, kind: Kind, now: Nanos) {
        self.spoke = now;
        self.has_newcomer = false;
        self.positions.clear();
        let lanes = self.lanes.iter().flatten();
        self.positions.extend(lanes.map(|lane| Position { channel: lane.channel, next: lane.told() }));
        let Self { header, positions, most_bytes, outlets, pace, sealer, scratch, counts, .. } = self;
        let header = Header { kind, ..*header };
        encode::positions(header, positions, *most_bytes, &mut Vec::new(), |bytes| {
            let taken = send(outlets, pace, sealer, scratch, bytes);
            let sent = if kind == Kind::End { &mut counts.ends } else { &mut counts.heartbeats };
            *if taken { sent } else { &mut counts.not_taken } += 1;
        });
    }

    /// Datagrams a second that its lanes make, and how long one takes to fill, follow from their rates.
    fn follow_rates(&mut self) {
        self.pace.set(LEAST_PACE + 2.0 * self.datagrams_per_s());
    }

    /// Datagrams a second that its lanes make, about.
    pub(super) fn datagrams_per_s(&self) -> f64 {
        let bytes = |lane: &Lane| {
            let value = lane.element.size() as f64;
            let each = if lane.bucket() > 1 { 4.0 * value / f64::from(lane.bucket()) } else { value };
            lane.rate.per_s() * each
        };
        self.lanes.iter().flatten().map(bytes).sum::<f64>() / self.most_bytes as f64
    }

    /// Its account; `due`: samples that each channel had so far.
    pub(super) fn count(&self, due: &[u64]) -> StreamCount {
        let packed = self.packed.iter().map(Packed::samples).sum();
        let mut samples = SampleCount { waiting: packed, ..SampleCount::default() };
        for (lane, due) in self.lanes.iter().zip(due).filter_map(|(lane, due)| Some((lane.as_ref()?, due))) {
            samples.due += due;
            samples.sent += lane.sent;
            samples.waiting += lane.waiting();
            samples.overrun += lane.overrun;
            for (cause, count) in Cause::ALL.into_iter().zip(lane.gaps).filter(|(_, count)| *count > 0) {
                *samples.gaps.entry(cause.name()).or_default() += count;
            }
        }
        let Counts { data, heartbeats, metadata, ends, not_taken } = self.counts;
        let outlets = self.outlets.counts();
        debug_assert!(outlets.iter().all(|outlet| outlet.datagrams >= outlet.sent + dropped(&outlet.dropped)));
        StreamCount {
            name: self.metadata.stream.clone(),
            session: format!("{:016x}", self.header.session),
            channels: self.metadata.channels.len(),
            data,
            heartbeats,
            metadata,
            ends,
            not_taken,
            samples,
            outlets,
        }
    }
}

/// Seals and sends; whether at least one outlet took it.
fn send(outlets: &mut Outlets, pace: &mut Pace, sealer: &mut Sealer, scratch: &mut Vec<u8>, bytes: &[u8]) -> bool {
    pace.wait();
    if sealer.overhead() == 0 {
        return outlets.send(bytes);
    }
    scratch.clear();
    scratch.extend_from_slice(bytes);
    // What was just encoded is whole, and not sealed yet.
    sealer.seal(scratch).is_ok() && outlets.send(scratch)
}

/// Loss at the end of a stream shows within twice this.
const HEARTBEATS_APART: Nanos = 50_000_000;

const METADATA_APART: Nanos = 1_000_000_000;

/// Datagrams a second that are never too many: a hundredth of what 1 Gbit/s carries.
const LEAST_PACE: f64 = 2000.0;
