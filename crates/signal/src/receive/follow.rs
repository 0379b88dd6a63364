//! What several servers send on: one of them is followed, and another where that one is silent or ends.
//!
//! A feed is what servers send on of one stream of a station, under stream names of their own that are equal. The server with the lowest
//! priority is followed; the others wait with their last second. Where another one is followed, its samples are joined to those that were
//! shown by their times, so that none is shown twice, and samples that neither had are a gap. While the station itself is heard, its own
//! stream is shown and not the feed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_wire::signal::{Block, Cause, Channel, OwnedBlock};

use super::channel::Track;
use super::{News, Sink, Stream};

/// Hands on what it is told; of channels that several servers send on, those of one server.
#[derive(Debug)]
pub struct Follow<S> {
    inner: S,
    feeds: HashMap<Arc<FeedName>, Feed>,
    /// Where the channels of each server's session belong: a feed, and the channel's number in it.
    places: HashMap<u64, HashMap<u16, (Arc<FeedName>, u16)>>,
    /// Streams that are heard themselves, by session.
    heard: HashMap<u64, Arc<Stream>>,
    hash: RandomState,
    changes: Arc<Changes>,
}

/// What a follower has counted.
#[derive(Debug, Default)]
pub struct Changes {
    /// How often another server was followed than before.
    pub followed: AtomicU64,
    /// Channels not taken: all feeds that there is room for have a server, or the feed has as many channels or servers as it can.
    pub refused: AtomicU64,
    /// Samples that no server of a feed had, after the last of one and before the first of the next: gaps of cause `server`, which
    /// no session of a sender lacks.
    pub missing: AtomicU64,
    /// Bytes of values that wait of servers that are not followed.
    waiting: AtomicU64,
}

/// The servers' name for it, the station, and its stream.
type FeedName = [String; 3];

#[derive(Debug)]
struct Feed {
    stream: Arc<Stream>,
    servers: Vec<Server>,
    /// The session of the server that is followed.
    chosen: Option<u64>,
    lines: Vec<Line>,
    /// Not while the station itself is heard.
    is_shown: bool,
}

#[derive(Debug)]
struct Server {
    session: u64,
    station: String,
    priority: u8,
    is_live: bool,
    /// Time of its first sample since it is live, ns.
    since: Option<i64>,
    /// Its last second, while it is not followed: by the channel's number in the feed.
    recent: VecDeque<OwnedBlock>,
}

/// A channel of a feed.
#[derive(Debug)]
struct Line {
    channel: Arc<Channel>,
    track: Track,
    /// What is added to the indices of the server that is followed; `None`: to be found out by its next block.
    offset: Option<i64>,
}

impl<S: Sink> Follow<S> {
    /// Hands on to `inner`.
    pub fn new(inner: S) -> Self {
        let (feeds, places, heard) = Default::default();
        Self { inner, feeds, places, heard, hash: RandomState::new(), changes: Arc::default() }
    }

    /// How often another server was followed than before.
    pub fn changes(&self) -> u64 {
        self.changes.followed.load(Ordering::Relaxed)
    }

    /// Counts them where others see it.
    pub fn counting(self, changes: Arc<Changes>) -> Self {
        Self { changes, ..self }
    }

    /// What it hands on to.
    pub fn inner(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The name of the feed that a channel belongs to, made where there is room: where there is none, one that no server sends on gives way.
    fn feed(&mut self, stream: &Arc<Stream>, channel: &Channel) -> Option<Arc<FeedName>> {
        let name = Arc::new([stream.name.clone(), channel.origin.clone(), channel.origin_stream.clone()]);
        if !self.feeds.contains_key(&name) {
            if self.feeds.len() >= MOST_FEEDS {
                let gone = self.feeds.iter().find(|(_, feed)| !feed.is_live()).map(|(name, _)| name.clone())?;
                let feed = self.feeds.remove(&gone);
                feed.into_iter().flat_map(|feed| feed.servers).for_each(|mut server| drop(server.leave(&self.changes)));
                self.places.values_mut().for_each(|places| places.retain(|_, (feed, _)| *feed != gone));
            }
            let [servers, station, of] = &*name;
            let of = if of.is_empty() { servers } else { of };
            let (session, station, of) = (self.hash.hash_one(&name), station.clone(), of.clone());
            let stream = Arc::new(Stream { session, station, name: of, ..(**stream).clone() });
            let is_direct = self.heard.values().any(|heard| heard.is_called_as(&stream));
            let mut feed = Feed { stream, servers: Vec::new(), chosen: None, lines: Vec::new(), is_shown: false };
            feed.show(!is_direct, &mut self.inner);
            self.feeds.insert(name.clone(), feed);
        }
        Some(name)
    }

    /// A channel of a server; `None`: there is no room for it.
    fn place(&mut self, stream: &Arc<Stream>, channel: &Channel) -> Option<()> {
        if let Some(places) = self.places.get_mut(&stream.session) {
            places.remove(&channel.id);
        } else {
            let servers = self.feeds.values().flat_map(|feed| &feed.servers);
            let known: HashSet<u64> = servers.map(|server| server.session).collect();
            self.places.retain(|session, _| known.contains(session));
        }
        let name = self.feed(stream, channel)?;
        let feed = self.feeds.get_mut(&name)?;
        let was_live = feed.is_live();
        feed.server(stream, channel.priority, &self.changes)?.is_live = true;
        let known = feed.lines.iter().position(|line| line.channel.name == channel.name);
        let number = u16::try_from(known.unwrap_or(feed.lines.len())).ok().filter(|number| *number < MOST_LINES)?;
        let (origin, origin_stream) = Default::default();
        let shown = Arc::new(Channel { id: number, origin, origin_stream, priority: 0, ..channel.clone() });
        feed.choose(&self.changes, &mut self.inner);
        feed.tell(was_live, &mut self.inner);
        match feed.lines.get_mut(usize::from(number)) {
            None => feed.lines.push(Line { channel: shown.clone(), track: Track::new(0), offset: None }),
            Some(line) if line.channel != shown && feed.chosen == Some(stream.session) => line.channel = shown.clone(),
            Some(_) => {}
        }
        if feed.is_shown {
            self.inner.channel(&feed.stream, &shown);
        }
        self.places.entry(stream.session).or_default().insert(channel.id, (name, number));
        Some(())
    }
}

impl<S: Sink> Sink for Follow<S> {
    fn channel(&mut self, stream: &Arc<Stream>, channel: &Arc<Channel>) {
        if channel.origin.is_empty() {
            self.inner.channel(stream, channel);
        } else if self.place(stream, channel).is_none() {
            self.changes.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn block(&mut self, stream: &Arc<Stream>, block: &Block<'_>) {
        let place = self.places.get(&stream.session).and_then(|places| places.get(&block.channel));
        let Some((name, number)) = place else { return self.inner.block(stream, block) };
        let Some(feed) = self.feeds.get_mut(name) else { return };
        let block = Block { channel: *number, ..*block };
        if feed.chosen == Some(stream.session) {
            feed.give(&block, &self.changes, &mut self.inner);
            return;
        }
        let Some(server) = feed.servers.iter_mut().find(|server| server.session == stream.session) else { return };
        let end = block.time_of(block.end());
        let since = *server.since.get_or_insert(block.time);
        let is_full = self.changes.waiting.fetch_add(size(&block), Ordering::Relaxed) > MOST_WAITING;
        server.recent.push_back(OwnedBlock::new(&block));
        let is_old = |kept: &mut OwnedBlock| is_full || kept.block().time < end.saturating_sub(SECOND);
        while let Some(kept) = server.recent.pop_front_if(is_old) {
            self.changes.waiting.fetch_sub(size(&kept.block()), Ordering::Relaxed);
        }
        let priority = server.priority;
        let followed = feed.servers.iter().find(|server| Some(server.session) == feed.chosen);
        if end.saturating_sub(since) > SECOND && followed.is_none_or(|followed| priority < followed.priority) {
            feed.change(stream.session, &self.changes, &mut self.inner);
        }
    }

    fn stream(&mut self, stream: &Arc<Stream>, news: News) {
        self.inner.stream(stream, news);
        let is_gone = matches!(news, News::Silent | News::Ended);
        let _ = if is_gone {
            self.heard.remove(&stream.session)
        } else {
            self.heard.insert(stream.session, stream.clone())
        };
        for feed in self.feeds.values_mut() {
            if feed.stream.is_called_as(stream) {
                feed.show(is_gone, &mut self.inner);
            }
            let was_live = feed.is_live();
            for server in &mut feed.servers {
                let is_it = server.session == stream.session;
                match news {
                    News::Back if is_it => server.is_live = true,
                    News::Silent | News::Ended if is_it => (server.is_live, server.since) = (false, None),
                    // One that was killed and started again says nothing of its earlier session.
                    News::Restarted if !is_it && server.station == stream.station => server.is_live = false,
                    _ => {}
                }
            }
            feed.choose(&self.changes, &mut self.inner);
            feed.tell(was_live, &mut self.inner);
        }
        if news == News::Ended {
            self.places.remove(&stream.session);
        }
    }

    fn flush(&mut self) {
        self.inner.flush();
    }
}

impl Feed {
    fn is_live(&self) -> bool {
        self.servers.iter().any(|server| server.is_live)
    }

    /// The server of a session; where there are too many, one that is not live gives way.
    fn server(&mut self, stream: &Stream, priority: u8, changes: &Changes) -> Option<&mut Server> {
        let known = self.servers.iter().position(|server| server.session == stream.session);
        let at = known.unwrap_or(self.servers.len());
        if at == MOST_SERVERS {
            let gone = self.servers.iter().position(|server| !server.is_live)?;
            drop(self.servers.remove(gone).leave(changes));
        }
        if known.is_none() {
            let (session, station) = (stream.session, stream.station.clone());
            let (is_live, since, recent) = (true, None, VecDeque::new());
            self.servers.push(Server { session, station, priority, is_live, since, recent });
        }
        let server = self.servers.iter_mut().find(|server| server.session == stream.session)?;
        server.priority = priority;
        Some(server)
    }

    /// Its station is heard itself, or not any more.
    fn show<S: Sink>(&mut self, is_shown: bool, sink: &mut S) {
        if is_shown && !self.is_shown {
            sink.stream(&self.stream, News::Begun);
            for line in &mut self.lines {
                (line.track, line.offset) = (Track::new(0), None);
                sink.channel(&self.stream, &line.channel);
            }
        }
        self.is_shown = is_shown;
    }

    /// Follows another server where the one that is followed is not live.
    fn choose<S: Sink>(&mut self, changes: &Changes, sink: &mut S) {
        let live = || self.servers.iter().filter(|server| server.is_live);
        if live().any(|server| Some(server.session) == self.chosen) {
            return;
        }
        if let Some(best) = live().min_by_key(|server| (server.priority, server.session)) {
            self.change(best.session, changes, sink);
        }
    }

    /// Follows another server: its last second comes at once.
    fn change<S: Sink>(&mut self, to: u64, changes: &Changes, sink: &mut S) {
        let is_first = self.chosen.replace(to).is_none();
        changes.followed.fetch_add(u64::from(!is_first), Ordering::Relaxed);
        self.lines.iter_mut().for_each(|line| line.offset = None);
        let server = self.servers.iter_mut().find(|server| server.session == to);
        let recent = server.map(|server| server.leave(changes)).unwrap_or_default();
        recent.iter().for_each(|kept| self.give(&kept.block(), changes, sink));
    }

    /// A block of the server that is followed.
    fn give<S: Sink>(&mut self, block: &Block<'_>, changes: &Changes, sink: &mut S) {
        let Some(line) = self.lines.get_mut(usize::from(block.channel)).filter(|_| self.is_shown) else { return };
        let offset = *line.offset.get_or_insert_with(|| line.track.shift(block));
        let moved = Block { first: block.first.wrapping_add_signed(offset), ..*block };
        if moved.first.checked_add(moved.samples()).is_none() {
            return;
        }
        let (gap, new) = line.track.accept(&moved, Cause::Server, &mut 0);
        if let Some(gap) = &gap {
            changes.missing.fetch_add(gap.samples(), Ordering::Relaxed);
        }
        gap.iter().chain(&new).for_each(|block| sink.block(&self.stream, block));
    }

    /// Says that no server is heard any more, or one again.
    fn tell<S: Sink>(&self, was_live: bool, sink: &mut S) {
        match (was_live, self.is_live()) {
            _ if !self.is_shown => {}
            (true, false) => sink.stream(&self.stream, News::Silent),
            (false, true) if self.servers.len() > 1 || !self.lines.is_empty() => sink.stream(&self.stream, News::Back),
            _ => {}
        }
    }
}

impl Server {
    /// What waited of it.
    fn leave(&mut self, changes: &Changes) -> VecDeque<OwnedBlock> {
        let recent = std::mem::take(&mut self.recent);
        let waited = recent.iter().map(|kept| size(&kept.block())).sum();
        changes.waiting.fetch_sub(waited, Ordering::Relaxed);
        recent
    }
}

/// Bytes that a block takes while it waits.
fn size(block: &Block<'_>) -> u64 {
    (size_of::<OwnedBlock>() + block.values.bytes().len()) as u64
}

/// How long a better server has to be heard before it is followed, and what is kept of those that are not followed, ns of their samples'
/// time: twice as long as it takes until a server counts as silent.
const SECOND: i64 = 1_000_000_000;

/// Bytes that wait of all servers that are not followed: a second of 512 Mbit/s.
const MOST_WAITING: u64 = 64 << 20;

const MOST_FEEDS: usize = 4096;

/// Channels of a feed, all that it ever had.
const MOST_LINES: u16 = 4096;

/// Servers of a feed.
const MOST_SERVERS: usize = 4;
