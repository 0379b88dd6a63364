//! One session of a sender: its datagrams in order, its channels, what is known of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use weir_wire::signal::{Block, Body, Cause, Channel, Clock, Datagram, Metadata, Position, Positions, Values};

use super::channel::{Kept, Track};
use super::counts::{Counts, Refused};
use super::echo::Echo;
use super::order::{Held, Hole, Order, Verdict};
use super::plausible::{Doubt, SLACK, reach};
use super::{Moment, News, Sink, Stream, Witness};

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: u64,
    pub(super) source: SocketAddr,
    /// Addresses that have sent data of it, or said the same as one that has at the same time; the latest at the back.
    sources: Vec<SocketAddr>,
    echo: Echo,
    doubt: Doubt,
    /// When it began, when its numbers last went on, and how many of its datagrams were handed out.
    began: Duration,
    moved: Duration,
    taken: u64,
    clock: Clock,
    pub(super) first_heard: Duration,
    pub(super) last_heard: Duration,
    pub(super) life: Life,
    order: Order,
    /// Where the sender says its channels stand once everything before this number is here.
    announced: Option<(u64, Vec<Position>)>,
    /// The number in front of which the session ends.
    end: Option<u64>,
    tracks: HashMap<u16, Track, foldhash::fast::FixedState>,
    /// Holes so far, and why the last one came about.
    holes: u64,
    cause: Cause,
    /// Datagrams that the sockets had dropped when the last one in order came.
    drops: u64,
    /// Station and stream, as the sender has them.
    pub(super) claim: Option<(String, String)>,
    /// How it is shown; `None`: nobody has been told yet.
    stream: Option<Arc<Stream>>,
    queue: Queue,
    pub(super) asked: (u32, Duration),
}

/// Blocks that wait for a name.
#[derive(Debug, Default)]
struct Queue {
    bytes: usize,
    /// When the first of them began to wait.
    since: Option<Duration>,
}

/// Whether a session is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Live,
    Silent,
    Ended,
    /// Another session has its name since it was silent.
    Replaced,
}

/// What the receiver has, for a session that is being fed.
pub(super) struct Around<'a, S: ?Sized> {
    pub(super) tally: &'a mut Counts,
    pub(super) queued: &'a mut usize,
    pub(super) witness: &'a mut dyn Witness,
    pub(super) sink: &'a mut S,
    pub(super) window: Duration,
}

impl Session {
    pub(super) fn new(id: u64, source: SocketAddr, clock: Clock, moment: Moment) -> Self {
        Self {
            id,
            source,
            sources: Vec::new(),
            echo: Echo::default(),
            doubt: Doubt::default(),
            began: moment.now,
            moved: moment.now,
            taken: 0,
            clock,
            first_heard: moment.now,
            last_heard: moment.now,
            life: Life::Live,
            order: Order::default(),
            announced: None,
            end: None,
            tracks: HashMap::default(),
            holes: 0,
            cause: Cause::Unknown,
            drops: moment.drops,
            claim: None,
            stream: None,
            queue: Queue::default(),
            asked: (0, Duration::ZERO),
        }
    }

    /// How it is shown; `None`: nobody has been told yet.
    pub(super) fn stream(&self) -> Option<&Arc<Stream>> {
        self.stream.as_ref()
    }

    /// Whether blocks wait for a name, and since when.
    pub(super) fn waiting_since(&self) -> Option<Duration> {
        self.queue.since
    }

    /// Whether data of it was taken, or waits for what is before it.
    pub(super) fn has_data(&self) -> bool {
        self.taken > 0 || self.order.waiting() > 0
    }

    pub(super) fn waits(&self) -> u64 {
        self.order.waiting() as u64
    }

    pub(super) fn is_pending(&self) -> bool {
        self.order.is_pending()
    }

    /// Whether a datagram can be of this sender: numbers and indices go on from those before, or enough in a row agree; what is no data
    /// comes from where data comes from, or is a copy of what does. `bytes`: the whole of it.
    pub(super) fn admit(
        &mut self,
        datagram: &Datagram<'_>,
        bytes: &[u8],
        source: SocketAddr,
        now: Duration,
    ) -> Result<(), Refused> {
        let is_data = matches!(datagram.body, Body::Data(_));
        // Until there is data, who began it speaks for it.
        let is_own = self.sources.contains(&source) || self.sources.is_empty() && source == self.source;
        if !is_own && !is_data && !self.echo.is_one(bytes, now) {
            return Err(Refused::Stranger);
        }
        let number = datagram.header.sequence;
        if number >= MOST_NUMBER {
            return Err(Refused::Absurd);
        }
        let reached = self.order.reached();
        let span = self.moved.saturating_sub(self.began).max(Duration::from_secs(1));
        let reach = reach(self.taken, span, now.saturating_sub(self.moved));
        let is_near = reached.is_none_or(|reached| number.saturating_sub(reached) <= reach);
        // Only its own source ends, or adds to, a row of what is in doubt.
        let mut believed = match is_own {
            true => self.doubt.judge(number, is_near, SLACK, now),
            false => is_near,
        };
        let mut fits = |channel, end, rate| {
            let Some(track) = self.tracks.get_mut(&channel) else { return };
            believed &= track.believes(end, rate, is_own, now);
        };
        match datagram.body {
            Body::Data(blocks) => blocks.for_each(|block| fits(block.channel, block.end(), Some(block.rate))),
            Body::Heartbeat(positions) | Body::End(positions) => {
                positions.for_each(|position| fits(position.channel, position.next, None));
            }
            Body::Metadata(_) | Body::Request(_) => {}
        }
        if !believed {
            return Err(Refused::Absurd);
        }
        let is_recent = reached.is_none_or(|reached| reached.saturating_sub(number) <= MOST_WAITING as u64);
        match (is_data, is_own) {
            (true, _) if is_recent => self.trust(source),
            (true, _) => {}
            (false, true) => self.echo.hear(bytes, now),
            // The other of two ways: both speak for it from now on. It pushes out none that does already.
            (false, false) => {
                if self.sources.is_empty() {
                    self.trust(self.source);
                }
                if self.sources.len() < MOST_SOURCES {
                    self.trust(source);
                }
            }
        }
        Ok(())
    }

    /// What is no data is taken from there from now on.
    fn trust(&mut self, source: SocketAddr) {
        if self.sources.last() != Some(&source) {
            self.sources.retain(|other| *other != source);
            if self.sources.len() >= MOST_SOURCES {
                self.sources.remove(0);
            }
            self.sources.push(source);
        }
    }

    /// Takes a datagram of this session. `bytes`: the whole of it, which has been read already.
    pub(super) fn take<S: Sink + ?Sized>(
        &mut self,
        datagram: &Datagram<'_>,
        bytes: &[u8],
        moment: Moment,
        around: &mut Around<'_, S>,
    ) -> Result<(), Refused> {
        let header = datagram.header;
        if header.clock != self.clock {
            self.clock = header.clock;
            self.stream =
                self.stream.as_ref().map(|stream| Arc::new(Stream { clock: header.clock, ..(**stream).clone() }));
        }
        let reached = self.order.next();
        match datagram.body {
            Body::Data(blocks) => match self.order.judge(header.sequence) {
                Verdict::Due => {
                    self.hand_out(blocks, moment, around);
                    self.order.advance();
                }
                Verdict::Early => {
                    around.tally.waiting += 1;
                    self.order.hold(header.sequence, bytes, moment);
                }
                Verdict::Copy => around.tally.copies += 1,
                Verdict::Late => around.tally.late += 1,
                Verdict::Absurd => return Err(Refused::Absurd),
            },
            Body::Heartbeat(positions) => {
                self.announce(header.sequence, positions, moment);
            }
            Body::End(positions) => {
                // One that data has gone beyond was none.
                if self.announce(header.sequence, positions, moment) {
                    self.end = Some(header.sequence);
                }
            }
            Body::Metadata(fields) => {
                let metadata = Metadata::parse(fields).map_err(Refused::Malformed)?;
                self.learn(metadata, around)?;
            }
            Body::Request(_) => {}
        }
        self.settle(moment, around);
        if self.order.next() != reached {
            self.moved = moment.now;
        }
        Ok(())
    }

    /// Whether a datagram can have been sent just now: by its number it is none of those that came.
    pub(super) fn is_news(&self, datagram: &Datagram<'_>) -> bool {
        let number = datagram.header.sequence;
        match datagram.body {
            Body::Data(_) => self.order.is_new(number),
            _ => self.order.next().is_none_or(|next| number >= next),
        }
    }

    /// Whether data comes from beyond what was said to be the end: it was not.
    pub(super) fn goes_on(&mut self, datagram: &Datagram<'_>) -> bool {
        let is_data = matches!(datagram.body, Body::Data(_));
        is_data && self.end.take_if(|end| datagram.header.sequence >= *end).is_some()
    }

    /// It is heard again: those who let go of it at its end hear of its channels anew.
    pub(super) fn come_back<S: Sink + ?Sized>(&mut self, sink: &mut S) {
        let ended = self.life == Life::Ended;
        self.life = Life::Live;
        self.tell(News::Back, sink);
        if let (Some(stream), true) = (&self.stream, ended) {
            self.channels().iter().for_each(|channel| sink.channel(stream, channel));
        }
    }

    /// What is known of its channels, in the order of their numbers.
    fn channels(&self) -> Vec<Arc<Channel>> {
        let mut known: Vec<_> = self.tracks.values().filter_map(|track| track.known.clone()).collect();
        known.sort_unstable_by_key(|channel| channel.id);
        known
    }

    /// Hands out what can be, gives up what has been missing for too long.
    pub(super) fn settle<S: Sink + ?Sized>(&mut self, moment: Moment, around: &mut Around<'_, S>) {
        loop {
            while let Some(Held { bytes, moment: then }) = self.order.take() {
                around.tally.waiting -= 1;
                // It was read before it was kept.
                if let Ok(Datagram { body: Body::Data(blocks), .. }) = Datagram::parse(&bytes) {
                    self.hand_out(blocks, then, around);
                }
                self.order.give_back(bytes);
            }
            let reached = self.order.next();
            if let Some((_, positions)) =
                self.announced.take_if(|(number, _)| reached.is_some_and(|next| next >= *number))
            {
                self.reach(&positions, moment, around);
            }
            let most = if around.tally.waiting < MOST_WAITING_OF_ALL { MOST_WAITING } else { FEW };
            let Some(hole) = self.order.give_up(moment.now, around.window, most) else { break };
            self.miss(hole, moment, around);
        }
        let ended = self.end.is_some_and(|end| self.order.next().is_some_and(|next| next >= end));
        if ended && self.life == Life::Live {
            self.life = Life::Ended;
        }
    }

    fn miss<S: Sink + ?Sized>(&mut self, hole: Hole, moment: Moment, around: &mut Around<'_, S>) {
        if hole.datagrams == 0 {
            return;
        }
        around.tally.lost = around.tally.lost.saturating_add(hole.datagrams);
        self.holes += 1;
        self.cause = match () {
            () if hole.drops > self.drops => Cause::Socket,
            () if around.witness.host_dropped(moment.now) => Cause::Host,
            () => Cause::Network,
        };
        self.drops = hole.drops.max(self.drops);
    }

    /// The sender says where its channels stand in front of a number. `false`: that number is behind what came, or made up.
    fn announce(&mut self, number: u64, positions: Positions<'_>, moment: Moment) -> bool {
        if !self.order.announce(number, moment) {
            return false;
        }
        let (announced, kept) = self.announced.get_or_insert_with(|| (number, Vec::new()));
        if number < *announced {
            return true;
        }
        if number > *announced {
            *announced = number;
            kept.clear();
        }
        let room = MOST_CHANNELS.saturating_sub(kept.len());
        kept.extend(positions.take(room));
        true
    }

    fn reach<S: Sink + ?Sized>(&mut self, positions: &[Position], moment: Moment, around: &mut Around<'_, S>) {
        let Self { tracks, stream, queue, .. } = self;
        for &Position { channel, next } in positions {
            let Ok(track) = track(tracks, channel, self.holes) else { continue };
            let cause = if track.holes == self.holes { Cause::Station } else { self.cause };
            if track.next().is_none() {
                track.moved = moment.now;
            }
            if let Some(gap) = track.reach(channel, next, cause, moment.wall) {
                track.moved = moment.now;
                track.holes = self.holes;
                around.tally.missing.add(cause as usize, gap.samples());
                give(&gap, track, stream.as_ref(), queue, moment, around);
            }
        }
    }

    fn hand_out<'a, S: Sink + ?Sized>(
        &mut self,
        blocks: impl Iterator<Item = Block<'a>>,
        moment: Moment,
        around: &mut Around<'_, S>,
    ) {
        around.tally.in_order += 1;
        self.taken += 1;
        self.drops = moment.drops.max(self.drops);
        let Self { tracks, stream, queue, .. } = self;
        for block in blocks {
            let Ok(track) = track(tracks, block.channel, self.holes) else {
                around.tally.beyond += 1;
                continue;
            };
            // Where nothing was lost on the way since the last one, the sender has left it out.
            let cause = if track.holes == self.holes { Cause::Station } else { self.cause };
            track.holes = self.holes;
            let (gap, new) = track.accept(block, cause, &mut around.tally.repeated);
            if new.is_some() {
                track.moved = moment.now;
            }
            if let Some(gap) = &gap {
                around.tally.missing.add(cause as usize, gap.samples());
            }
            match new.map(|new| (new.values, new.samples())) {
                Some((Values::Gap(_), samples)) if track.is_derived() => {
                    around.tally.inherited = around.tally.inherited.saturating_add(samples);
                }
                Some((Values::Gap(gap), samples)) => around.tally.miss_told(gap.cause, samples),
                Some((_, samples)) => around.tally.samples += samples,
                None => {}
            }
            for block in gap.iter().chain(&new) {
                give(block, track, stream.as_ref(), queue, moment, around);
            }
        }
    }

    /// Bytes of blocks that wait for a name.
    pub(super) fn queued(&self) -> usize {
        self.queue.bytes
    }

    fn learn<S: Sink + ?Sized>(&mut self, metadata: Metadata, around: &mut Around<'_, S>) -> Result<(), Refused> {
        let Metadata { station, stream, channels, .. } = metadata;
        if self.claim.as_ref().is_none_or(|(known, of)| *known != station || *of != stream) {
            // Under another name it is another stream to everybody.
            self.claim = Some((station, stream));
            self.stream = None;
        }
        let holes = self.holes;
        for channel in channels {
            let id = channel.id;
            let taken = |other: (&u16, &Track)| {
                let same = |known: &Arc<Channel>| known.name == channel.name && known.origin == channel.origin;
                *other.0 != id && other.1.known.as_ref().is_some_and(same)
            };
            let same =
                self.tracks.get(&id).and_then(|track| track.known.as_ref()).is_some_and(|known| **known == channel);
            if same {
                continue;
            }
            // Two channels of one name, and of one station where others send them on, are told apart by their numbers.
            let name = match () {
                () if channel.name.is_empty() => id.to_string(),
                () if self.tracks.iter().any(taken) => format!("{}#{id}", channel.name),
                () => channel.name.clone(),
            };
            let channel = Arc::new(Channel { name, ..channel });
            let track = track(&mut self.tracks, id, holes)?;
            if track.known.as_ref() == Some(&channel) {
                continue;
            }
            track.known = Some(channel.clone());
            if let Some(stream) = &self.stream {
                around.sink.channel(stream, &channel);
            }
        }
        self.release(around);
        Ok(())
    }

    /// It is shown under a name from now on.
    pub(super) fn show<S: Sink + ?Sized>(
        &mut self,
        (station, name): (String, String),
        news: News,
        around: &mut Around<'_, S>,
    ) {
        let stream = Stream { session: self.id, station, name, source: self.source, clock: self.clock };
        let stream = Arc::new(stream);
        around.sink.stream(&stream, news);
        self.channels().iter().for_each(|channel| around.sink.channel(&stream, channel));
        self.stream = Some(stream);
        self.release(around);
    }

    /// Something has become of it.
    pub(super) fn tell<S: Sink + ?Sized>(&self, news: News, sink: &mut S) {
        if let Some(stream) = &self.stream {
            sink.stream(stream, news);
        }
    }

    /// Its name is another's now.
    pub(super) fn replace(&mut self) {
        self.life = Life::Replaced;
        self.stream = None;
    }

    /// Channels that have waited for long enough are called by their numbers.
    pub(super) fn name_by_number<S: Sink + ?Sized>(&mut self, around: &mut Around<'_, S>) {
        for (&id, track) in &mut self.tracks {
            if let (None, Some(kept)) = (&track.known, track.waiting.first()) {
                let channel = Arc::new(kept.guess(id));
                around.tally.unnamed += 1;
                track.known = Some(channel.clone());
                if let Some(stream) = &self.stream {
                    around.sink.channel(stream, &channel);
                }
            }
        }
        self.release(around);
    }

    /// Hands out what waits no longer.
    fn release<S: Sink + ?Sized>(&mut self, around: &mut Around<'_, S>) {
        let (Some(stream), true) = (&self.stream, self.queue.since.is_some()) else { return };
        let mut left = 0;
        for (&id, track) in &mut self.tracks {
            if track.known.is_some() {
                for kept in track.waiting.drain(..) {
                    around.sink.block(stream, &kept.block(id));
                }
            }
            left += track.waiting.iter().map(Kept::bytes).sum::<usize>();
        }
        *around.queued -= self.queue.bytes - left;
        self.queue.bytes = left;
        if left == 0 {
            self.queue.since = None;
        }
    }
}

/// To the sink, or to those that wait for a name.
fn give<S: Sink + ?Sized>(
    block: &Block<'_>,
    track: &mut Track,
    stream: Option<&Arc<Stream>>,
    queue: &mut Queue,
    moment: Moment,
    around: &mut Around<'_, S>,
) {
    if let (Some(stream), Some(_), true) = (stream, &track.known, track.waiting.is_empty()) {
        around.sink.block(stream, block);
        return;
    }
    let kept = Kept::new(block);
    queue.bytes += kept.bytes();
    *around.queued += kept.bytes();
    queue.since.get_or_insert(moment.now);
    track.waiting.push(kept);
}

/// A channel, made where there is room.
fn track(
    tracks: &mut HashMap<u16, Track, foldhash::fast::FixedState>,
    channel: u16,
    holes: u64,
) -> Result<&mut Track, Refused> {
    if tracks.len() >= MOST_CHANNELS && !tracks.contains_key(&channel) {
        return Err(Refused::Channels);
    }
    Ok(tracks.entry(channel).or_insert_with(|| Track::new(holes)))
}

/// No sender gets so far: a million datagrams a second take a hundred thousand years.
const MOST_NUMBER: u64 = 1 << 62;

/// Datagrams of a session that wait for what is before them.
const MOST_WAITING: usize = 4096;

/// Those of all sessions together; beyond it each has a few.
const MOST_WAITING_OF_ALL: u64 = 65_536;
const FEW: usize = 16;

/// Addresses that a session's data comes from: two networks, and those of before.
const MOST_SOURCES: usize = 8;

/// Channels of a session.
const MOST_CHANNELS: usize = 4096;
