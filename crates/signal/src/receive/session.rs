//! One session of a sender: its datagrams in order, its channels, what is known of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use weir_wire::signal::{
    Block, Blocks, Body, Cause, Channel, Clock, Datagram, Metadata, OwnedBlock, Position, Positions, Values,
};

use super::channel::Track;
use super::counts::{Counts, Refused};
use super::order::{Hole, Next, Order, Verdict};
use super::sessions::Name;
use super::{Moment, News, Sink, Stream, Witness};

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: u64,
    source: SocketAddr,
    clock: Clock,
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
    /// When the first data came, and the time of the last block, ns.
    pub(super) data_since: Option<Duration>,
    pub(super) time: Option<i64>,
    /// Station and stream, as the sender has them.
    pub(super) claim: Option<Name>,
    /// By which it was shown last.
    pub(super) name: Option<Name>,
    /// How it is shown; `None`: no sink knows it.
    pub(super) stream: Option<Arc<Stream>>,
    /// When another session took its name.
    pub(super) displaced: Option<Duration>,
}

/// Whether a session is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Live,
    Silent,
    Ended,
}

/// What the receiver has, for a session that is being fed.
pub(super) struct Around<'a, S: ?Sized> {
    pub(super) tally: &'a mut Counts,
    pub(super) witness: &'a mut dyn Witness,
    pub(super) sink: &'a mut S,
    pub(super) reorder: Duration,
}

impl Session {
    pub(super) fn new(id: u64, source: SocketAddr, clock: Clock, moment: Moment) -> Self {
        Self {
            id,
            source,
            clock,
            last_heard: moment.now,
            life: Life::Live,
            order: Order::new(),
            announced: None,
            end: None,
            tracks: HashMap::default(),
            holes: 0,
            cause: Cause::Unknown,
            drops: moment.drops,
            data_since: None,
            time: None,
            claim: None,
            name: None,
            stream: None,
            displaced: None,
        }
    }

    /// Datagrams that wait for what is before them, or for their successor.
    pub(super) fn waiting(&self) -> u64 {
        self.order.waiting()
    }

    pub(super) fn is_pending(&self) -> bool {
        self.order.is_pending()
    }

    /// Whether a datagram shows that its sender lives: by its number it is none of those that came, and the sender can have got to it.
    pub(super) fn is_sign_of_life(&self, datagram: &Datagram<'_>) -> bool {
        let number = datagram.header.sequence;
        match datagram.body {
            Body::Data(_) => matches!(self.order.judge(number), Verdict::Due | Verdict::Early | Verdict::Jumped),
            _ => self.order.is_ahead(number),
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
        match datagram.body {
            Body::Data(blocks) => self.take_data(header.sequence, blocks, bytes, moment, around),
            Body::Heartbeat(positions) => self.announce(header.sequence, positions, moment),
            // One that data has gone beyond was none.
            Body::End(positions) if self.order.is_ahead(header.sequence) => {
                self.announce(header.sequence, positions, moment);
                self.end = Some(header.sequence);
            }
            Body::Metadata(fields) => {
                let metadata = Metadata::parse(fields).map_err(Refused::Malformed)?;
                self.learn(metadata, around)?;
            }
            Body::End(_) | Body::Reserved => {}
        }
        self.settle(moment, 0, around);
        Ok(())
    }

    fn take_data<S: Sink + ?Sized>(
        &mut self,
        number: u64,
        blocks: Blocks<'_>,
        bytes: &[u8],
        moment: Moment,
        around: &mut Around<'_, S>,
    ) {
        match self.order.judge(number) {
            Verdict::Early if around.tally.waiting >= MOST_WAITING => self.settle(moment, self.order.end(), around),
            Verdict::Jumped => {
                (self.announced, self.end) = (None, None);
                self.settle(moment, self.order.end(), around);
                if let Some(hole) = self.order.jump() {
                    self.miss(hole, moment, around);
                }
            }
            _ => {}
        }
        match self.order.judge(number) {
            Verdict::Due => {
                let dropped = u64::from(self.order.drop_jump());
                around.tally.jumps += dropped;
                around.tally.waiting -= dropped;
                self.hand_out(blocks, moment, around);
                self.order.pass(true);
            }
            Verdict::Early | Verdict::Jumped => {
                around.tally.waiting += 1;
                self.order.hold(number, bytes, moment, around.reorder);
            }
            Verdict::Copy => around.tally.copies += 1,
            Verdict::Late => {
                around.tally.late += 1;
                self.order.mark(number);
            }
            Verdict::Jump => match self.order.hold_jump(number, bytes, moment) {
                true => around.tally.jumps += 1,
                false => around.tally.waiting += 1,
            },
        }
    }

    /// Whether data comes from beyond what was said to be the end: it was not.
    pub(super) fn goes_on(&mut self, datagram: &Datagram<'_>) -> bool {
        let is_data = matches!(datagram.body, Body::Data(_));
        is_data && self.end.take_if(|end| datagram.header.sequence >= *end).is_some()
    }

    /// It is heard again: sinks that let go of it at its end hear of its channels again.
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

    /// Hands out what can be, gives up what has been missing for too long or is in front of `floor`.
    pub(super) fn settle<S: Sink + ?Sized>(&mut self, moment: Moment, floor: u64, around: &mut Around<'_, S>) {
        loop {
            let next = self.order.pop(moment, around.reorder, floor);
            let is_last = next.is_none();
            match next {
                Some(Next::Datagram(held)) => {
                    around.tally.waiting -= 1;
                    // It was read before it was kept.
                    if let Ok(Datagram { body: Body::Data(blocks), .. }) = Datagram::parse(&held.bytes) {
                        self.hand_out(blocks, held.moment, around);
                    }
                    self.order.give_back(held.bytes);
                }
                Some(Next::Hole(hole)) => self.miss(hole, moment, around),
                None => {}
            }
            let announced = self.announced.take_if(|(number, _)| self.order.has_reached(*number));
            if let Some((_, positions)) = announced {
                self.reach(&positions, moment, around);
            } else if is_last {
                break;
            }
        }
        if self.life != Life::Ended && self.end.is_some_and(|end| self.order.has_reached(end)) {
            self.life = Life::Ended;
            self.tell(News::Ended, around.sink);
        }
    }

    fn miss<S: Sink + ?Sized>(&mut self, hole: Hole, moment: Moment, around: &mut Around<'_, S>) {
        around.tally.lost = around.tally.lost.saturating_add(hole.datagrams);
        self.holes += 1;
        self.cause = match () {
            () if hole.drops > self.drops => Cause::Socket,
            () if around.witness.host_dropped(moment.now) => Cause::Host,
            () => Cause::Network,
        };
        self.drops = hole.drops.max(self.drops);
    }

    /// The sender says where its channels stand in front of a number. One that is behind what came, or far ahead, says nothing.
    fn announce(&mut self, number: u64, positions: Positions<'_>, moment: Moment) {
        if !self.order.is_ahead(number) {
            return;
        }
        self.order.announce(number, moment);
        let (announced, kept) = self.announced.get_or_insert_with(|| (number, Vec::new()));
        if number > *announced {
            *announced = number;
            kept.clear();
        }
        if number == *announced {
            kept.extend(positions.take(MOST_CHANNELS.saturating_sub(kept.len())));
        }
    }

    fn reach<S: Sink + ?Sized>(&mut self, positions: &[Position], moment: Moment, around: &mut Around<'_, S>) {
        for &Position { channel, next } in positions {
            let Some(track) = self.tracks.get_mut(&channel).filter(|track| track.known.is_some()) else { continue };
            // Whatever name it will have, it is missing from here on.
            let Some(stream) = &self.stream else {
                track.begin(next);
                continue;
            };
            let cause = if track.holes == self.holes { Cause::Station } else { self.cause };
            if let Some(gap) = track.reach(channel, next, cause, moment.wall) {
                track.holes = self.holes;
                around.tally.missing.add(cause as usize, gap.samples());
                around.sink.block(stream, &gap);
            }
        }
    }

    fn hand_out<S: Sink + ?Sized>(&mut self, blocks: Blocks<'_>, moment: Moment, around: &mut Around<'_, S>) {
        around.tally.in_order += 1;
        self.drops = moment.drops.max(self.drops);
        for block in blocks {
            self.time = Some(block.time);
            let Ok(track) = track(&mut self.tracks, block.channel, self.holes) else {
                around.tally.beyond += 1;
                continue;
            };
            let since = *track.undescribed.get_or_insert(moment.now);
            if track.known.is_none() && moment.now >= since + DESCRIBED_WITHIN {
                let channel = Arc::new(by_number(&block));
                track.known = Some(channel.clone());
                self.stream.iter().for_each(|stream| around.sink.channel(stream, &channel));
            }
            let (Some(stream), Some(known)) = (&self.stream, &track.known) else {
                // Those of a channel that has begun will be in a gap.
                let samples = if track.has_begun() { 0 } else { block.samples() };
                around.tally.undescribed = around.tally.undescribed.saturating_add(samples);
                continue;
            };
            let is_derived = known.derived;
            // Where nothing was lost on the way since the last one, the sender has left it out.
            let cause = if track.holes == self.holes { Cause::Station } else { self.cause };
            track.holes = self.holes;
            let Ok(kept) = track.admit(&block, &mut around.tally.repeated) else { continue };
            for block in kept.iter().map(OwnedBlock::block).chain([block]) {
                let (gap, new) = track.accept(&block, cause, &mut around.tally.repeated);
                if let Some(gap) = &gap {
                    around.tally.missing.add(cause as usize, gap.samples());
                }
                match new.map(|new| (new.values, new.samples())) {
                    // What its inputs lack counts there.
                    Some((Values::Gap(_), _)) if is_derived => {}
                    Some((Values::Gap(gap), samples)) => around.tally.miss_told(gap.cause, samples),
                    Some((_, samples)) => around.tally.samples += samples,
                    None => {}
                }
                gap.iter().chain(&new).for_each(|block| around.sink.block(stream, block));
            }
        }
    }

    fn learn<S: Sink + ?Sized>(&mut self, metadata: Metadata, around: &mut Around<'_, S>) -> Result<(), Refused> {
        let Metadata { station, stream, channels, .. } = metadata;
        if self.claim.as_ref().is_none_or(|(known, of)| *known != station || *of != stream) {
            // Under another name it is another stream to everybody.
            self.claim = Some((station, stream));
            self.leave_name(None);
        }
        for channel in channels {
            let id = channel.id;
            let taken = |other: (&u16, &Track)| {
                let same = |known: &Arc<Channel>| {
                    known.name == channel.name
                        && known.origin == channel.origin
                        && known.origin_stream == channel.origin_stream
                };
                *other.0 != id && other.1.known.as_ref().is_some_and(same)
            };
            let known = self.tracks.get(&id).and_then(|track| track.known.as_ref());
            if known.is_some_and(|known| **known == channel) {
                continue;
            }
            // Two channels of one name, and of one station where others send them on, are told apart by their numbers.
            let name = match () {
                () if channel.name.is_empty() => id.to_string(),
                () if self.tracks.iter().any(taken) => format!("{}#{id}", channel.name),
                () => channel.name.clone(),
            };
            let channel = Arc::new(Channel { name, ..channel });
            let track = track(&mut self.tracks, id, self.holes)?;
            if track.known.as_ref() == Some(&channel) {
                continue;
            }
            track.known = Some(channel.clone());
            self.stream.iter().for_each(|stream| around.sink.channel(stream, &channel));
        }
        Ok(())
    }

    /// It is shown under a name from now on.
    pub(super) fn show<S: Sink + ?Sized>(&mut self, (station, name): Name, news: News, sink: &mut S) {
        let stream = Stream { session: self.id, station, name, source: self.source, clock: self.clock };
        let stream = Arc::new(stream);
        sink.stream(&stream, news);
        self.channels().iter().for_each(|channel| sink.channel(&stream, channel));
        self.stream = Some(stream);
    }

    /// Something has become of it.
    pub(super) fn tell<S: Sink + ?Sized>(&self, news: News, sink: &mut S) {
        if let Some(stream) = &self.stream {
            sink.stream(stream, news);
        }
    }

    /// It has no name any more: until it has another, its samples are not shown. `displaced`: when another session took it.
    pub(super) fn leave_name(&mut self, displaced: Option<Duration>) {
        (self.stream, self.displaced) = (None, displaced);
        self.holes += 1;
        self.cause = Cause::Unknown;
    }
}

/// A channel that was not described in time.
fn by_number(block: &Block<'_>) -> Channel {
    let (element, bucket) = match block.values {
        Values::Samples(element, _) => (element, 1),
        Values::Buckets(element, bucket, _) => (element, bucket),
        Values::Gap(_) => Default::default(),
    };
    let (id, rate) = (block.channel, block.rate);
    Channel { id, name: id.to_string(), rate, element, bucket, ..Channel::default() }
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

/// A channel that is described later than so long after its first block is called by its number: stations describe each once a second.
pub(super) const DESCRIBED_WITHIN: Duration = Duration::from_secs(1);

/// Datagrams that wait in all sessions together: 16 full windows. Beyond it a session that wants one more gives up
/// its holes.
const MOST_WAITING: u64 = 65_536;

/// Channels of a session.
const MOST_CHANNELS: usize = 4096;
