//! What several servers send on: one of them is followed, and another at once where that one stops.
//!
//! Servers of one feed send the same channels of the same origins, under stream names that are equal and priorities that are not. Of each
//! origin the server with the least priority is followed; the others wait with their last second. Where one of those gets a quarter of a
//! second ahead, by the times of the samples themselves, it takes over: its samples are joined to those that were shown by their times,
//! so that none is shown twice, and what neither had is a gap.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_wire::signal::{Block, Cause, Channel};

use super::channel::{Kept, Track};
use super::{News, Sink, Stream};

/// Hands on what it is told; of channels that several servers send on, those of one server.
#[derive(Debug)]
pub struct Follow<S> {
    inner: S,
    feeds: HashMap<(String, String), Feed>,
    /// Channels that are sent on: where each session's belong.
    members: HashMap<u64, HashMap<u16, Place>>,
    hash: RandomState,
    changes: Arc<Changes>,
    /// A server has begun anew: of what only its earlier session sent on nobody is heard, unless it is told of at once.
    has_restarted: bool,
}

/// What a follower has counted.
#[derive(Debug, Default)]
pub struct Changes {
    /// How often another server was followed than before.
    pub followed: AtomicU64,
    /// Feeds, and channels of feeds, forgotten to make room: no server of them was heard, or has them any more.
    pub evicted: AtomicU64,
    /// Channels not taken: all feeds that there is room for are heard, or all channels of one.
    pub refused: AtomicU64,
    /// Samples that no server of a feed had, behind the last of one and in front of the first of the next: gaps of cause `server`, which
    /// no session of a sender lacks.
    pub missing: AtomicU64,
}

/// A feed, by stream name and origin, and the channel's number in it.
type Place = (Arc<(String, String)>, u16);

/// What servers send on of one origin, under one stream name.
#[derive(Debug)]
struct Feed {
    stream: Arc<Stream>,
    servers: Vec<Server>,
    /// Which of them is followed.
    chosen: u64,
    lines: Vec<Line>,
    /// Its last server has ended, and that was said.
    has_ended: bool,
    /// None of its servers is heard, and that was said.
    is_silent: bool,
}

#[derive(Debug)]
struct Server {
    session: u64,
    /// What it is called.
    name: String,
    /// It has ended, is silent, or has begun anew as another session.
    is_gone: bool,
    priority: u8,
    /// Time of the first sample since it was heard, or heard again, and behind the last one, ns.
    since: Option<i64>,
    last: i64,
    /// Whether samples of it came: what only speaks of itself has places apart.
    proven: bool,
}

/// A channel of a feed.
#[derive(Debug)]
struct Line {
    channel: Arc<Channel>,
    track: Track,
    /// What is added to the indices of the server that is followed; `None`: to be found out by its next block.
    offset: Option<i64>,
    /// What those that are not followed have sent lately.
    waiting: HashMap<u64, VecDeque<Kept>>,
}

impl<S: Sink> Follow<S> {
    /// Hands on to `inner`.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            feeds: HashMap::new(),
            members: HashMap::new(),
            hash: RandomState::new(),
            changes: Arc::default(),
            has_restarted: false,
        }
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

    /// Has another server followed: what it has of what has not been shown comes at once.
    fn change(&mut self, name: &(String, String), to: u64) {
        let Some(feed) = self.feeds.get_mut(name) else { return };
        feed.chosen = to;
        self.changes.followed.fetch_add(1, Ordering::Relaxed);
        for (id, line) in (0..).zip(&mut feed.lines) {
            line.offset = None;
            for kept in line.waiting.remove(&to).unwrap_or_default() {
                line.give(&kept.block(id), &feed.stream, &self.changes, &mut self.inner);
            }
        }
    }

    /// Of feeds none of whose servers is heard any more it is said, once.
    fn tell_silent(&mut self) {
        for feed in self.feeds.values_mut().filter(|feed| !feed.has_ended && !feed.is_silent) {
            if feed.servers.iter().all(|server| server.is_gone) {
                feed.is_silent = true;
                self.inner.stream(&feed.stream, News::Silent);
            }
        }
    }

    /// Forgets a feed of which nobody is heard, one of which nothing ever came before others; whether there was one.
    fn make_room(&mut self) -> bool {
        let silent = self.feeds.iter().filter(|(_, feed)| feed.servers.iter().all(|server| server.since.is_none()));
        let Some((name, _)) = silent.min_by_key(|(_, feed)| feed.latest()) else {
            self.changes.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        let name = name.clone();
        if let Some(feed) = self.feeds.remove(&name) {
            feed.servers.iter().for_each(|server| leave(&mut self.members, server.session, &name));
            self.inner.stream(&feed.stream, News::Ended);
        }
        self.changes.evicted.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// A session's channels are of a feed no longer.
fn leave(members: &mut HashMap<u64, HashMap<u16, Place>>, session: u64, feed: &(String, String)) {
    let Some(channels) = members.get_mut(&session) else { return };
    channels.retain(|_, (name, _)| **name != *feed);
    if channels.is_empty() {
        members.remove(&session);
    }
}

impl<S: Sink> Sink for Follow<S> {
    fn channel(&mut self, stream: &Arc<Stream>, channel: &Arc<Channel>) {
        if channel.origin.is_empty() {
            self.inner.channel(stream, channel);
            return;
        }
        let name = (stream.name.clone(), channel.origin.clone());
        let room = self.feeds.contains_key(&name) || self.feeds.len() < MOST_FEEDS || self.make_room();
        let Some(feed) = (match self.feeds.get_mut(&name) {
            None if !room => None,
            None => {
                let session = self.hash.hash_one(&name);
                let (station, of) = (channel.origin.clone(), stream.name.clone());
                let stream = Arc::new(Stream { session, station, name: of, ..(**stream).clone() });
                self.inner.stream(&stream, News::Begun);
                let (servers, lines) = (Vec::new(), Vec::new());
                let feed = Feed { stream, servers, chosen: 0, lines, has_ended: false, is_silent: false };
                Some(self.feeds.entry(name.clone()).or_insert(feed))
            }
            known => known,
        }) else {
            return;
        };
        if !feed.servers.iter().any(|server| server.session == stream.session) {
            if let Some(session) = feed.forget_newcomer() {
                leave(&mut self.members, session, &name);
            }
            let (session, name, priority) = (stream.session, stream.station.clone(), channel.priority);
            feed.servers.push(Server { session, name, is_gone: false, priority, since: None, last: 0, proven: false });
        }
        if let Some(server) = feed.servers.iter_mut().find(|server| server.session == stream.session) {
            server.is_gone = false;
            server.name.clone_from(&stream.station);
        }
        feed.come_back(&mut self.inner);
        if feed.servers.len() == 1 {
            feed.chosen = stream.session;
        }
        let known = feed.lines.iter().position(|line| line.channel.name == channel.name);
        // What this number of the server stood for, it stands for no longer.
        self.members.get_mut(&stream.session).map(|channels| channels.remove(&channel.id));
        let Some(number) = known.or_else(|| feed.place(&self.members, &name)).and_then(|id| u16::try_from(id).ok())
        else {
            self.changes.refused.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let told = Arc::new(Channel { id: number, origin: String::new(), priority: 0, ..(**channel).clone() });
        match known {
            None => {
                let (track, waiting) = (Track::new(0), HashMap::new());
                let line = Line { channel: told.clone(), track, offset: None, waiting };
                match feed.lines.get_mut(usize::from(number)) {
                    Some(forgotten) => {
                        *forgotten = line;
                        self.changes.evicted.fetch_add(1, Ordering::Relaxed);
                    }
                    None => feed.lines.push(line),
                }
                self.inner.channel(&feed.stream, &told);
            }
            Some(at) if feed.lines[at].channel != told && feed.chosen == stream.session => {
                feed.lines[at].channel = told.clone();
                self.inner.channel(&feed.stream, &told);
            }
            Some(_) => {}
        }
        self.members.entry(stream.session).or_default().insert(channel.id, (Arc::new(name), number));
    }

    fn block(&mut self, stream: &Arc<Stream>, block: &Block<'_>) {
        let Some((name, id)) = self.members.get(&stream.session).and_then(|channels| channels.get(&block.channel))
        else {
            self.inner.block(stream, block);
            return;
        };
        let (name, id) = (name.clone(), *id);
        let Some(feed) = self.feeds.get_mut(&*name) else { return };
        let Feed { servers, chosen, .. } = &*feed;
        let end = i64::try_from(i128::from(block.time) + block.rate.nanos(block.samples())).unwrap_or(i64::MAX);
        let followed =
            servers.iter().find(|server| server.session == *chosen).map(|server| (server.priority, server.last));
        let is_new = |server: &Server| server.session == stream.session && !server.proven;
        if servers.iter().any(is_new) && servers.iter().filter(|server| server.proven).count() >= MOST_SERVERS {
            // Those that were killed never said that they end.
            let Some(session) = feed.forget_oldest() else { return };
            leave(&mut self.members, session, &name);
        }
        let Feed { stream: shown, servers, chosen, lines, .. } = feed;
        let Some(server) = servers.iter_mut().find(|server| server.session == stream.session) else { return };
        server.proven = true;
        let since = *server.since.get_or_insert(block.time);
        server.last = server.last.max(end);
        let Some(line) = lines.get_mut(usize::from(id)) else { return };
        let moved = Block { channel: id, ..*block };
        if stream.session == *chosen {
            line.give(&moved, shown, &self.changes, &mut self.inner);
            return;
        }
        let waiting = line.waiting.entry(stream.session).or_default();
        waiting.push_back(Kept::new(&moved));
        while waiting.len() > 1
            && waiting.front().is_some_and(|kept| kept.time() < end - WAITS || waiting.len() > MOST_KEPT)
        {
            waiting.pop_front();
        }
        let Some((priority, last)) = followed else { return self.change(&name, stream.session) };
        let is_ahead = server.last > last.saturating_add(AHEAD);
        let is_better = server.priority < priority && end.saturating_sub(since) > STEADY && server.last >= last - AHEAD;
        if is_ahead || is_better {
            self.change(&name, stream.session);
        }
    }

    fn stream(&mut self, stream: &Arc<Stream>, news: News) {
        if matches!(news, News::Silent | News::Ended) {
            for feed in self.feeds.values_mut() {
                for server in feed.servers.iter_mut().filter(|server| server.session == stream.session) {
                    server.since = None;
                    server.is_gone = true;
                }
                if news == News::Ended && feed.chosen != stream.session {
                    feed.servers.retain(|server| server.session != stream.session);
                    feed.lines.iter_mut().for_each(|line| drop(line.waiting.remove(&stream.session)));
                }
            }
        }
        // One that was killed, and begins anew before it is silent, says nothing of the session that it had.
        if news == News::Restarted {
            let feeds = self.feeds.iter_mut().filter(|((name, _), _)| *name == stream.name);
            for server in feeds.flat_map(|(_, feed)| &mut feed.servers) {
                if server.name == stream.station && server.session != stream.session {
                    server.since = None;
                    server.is_gone = true;
                    self.has_restarted = true;
                }
            }
        }
        // Who has ended is not waited for.
        if news == News::Ended {
            let others = |feed: &Feed| {
                let others = feed.servers.iter().filter(|server| server.session != stream.session);
                others.min_by_key(|server| (server.since.is_none(), server.priority)).map(|server| server.session)
            };
            let left = self.feeds.iter().filter(|(_, feed)| feed.chosen == stream.session);
            let left: Vec<_> = left.filter_map(|(name, feed)| Some((name.clone(), others(feed)?))).collect();
            for (name, to) in left {
                self.change(&name, to);
                if let Some(feed) = self.feeds.get_mut(&name) {
                    feed.servers.retain(|server| server.session != stream.session);
                }
            }
        }
        if news == News::Ended {
            self.members.remove(&stream.session);
        }
        self.inner.stream(stream, news);
        for feed in self.feeds.values_mut() {
            let Some(server) = feed.servers.iter_mut().find(|server| server.session == stream.session) else {
                continue;
            };
            if news == News::Back {
                server.is_gone = false;
                feed.come_back(&mut self.inner);
            }
        }
        // What nobody sends on any more is told as that, too.
        for feed in self.feeds.values_mut().filter(|_| news == News::Ended) {
            if !feed.has_ended && feed.servers.iter().all(|server| server.is_gone) {
                feed.has_ended = true;
                self.inner.stream(&feed.stream, News::Unserved);
            }
        }
        if news == News::Silent {
            self.tell_silent();
        }
    }

    fn flush(&mut self) {
        if std::mem::take(&mut self.has_restarted) {
            self.tell_silent();
        }
        self.inner.flush();
    }
}

impl Feed {
    /// A server sends it on again: those who let go of its channels at the end hear of them anew.
    fn come_back<S: Sink>(&mut self, sink: &mut S) {
        let (had_ended, was_silent) = (std::mem::take(&mut self.has_ended), std::mem::take(&mut self.is_silent));
        if had_ended || was_silent {
            sink.stream(&self.stream, News::Back);
        }
        if had_ended {
            self.lines.iter().for_each(|line| sink.channel(&self.stream, &line.channel));
        }
    }

    /// The place of a channel more: behind the others, or once there are too many that of one that no server has any more.
    fn place(&self, members: &HashMap<u64, HashMap<u16, Place>>, name: &(String, String)) -> Option<usize> {
        if self.lines.len() < MOST_LINES {
            return Some(self.lines.len());
        }
        let mut is_had = vec![false; self.lines.len()];
        for (_, number) in members.values().flat_map(HashMap::values).filter(|(feed, _)| **feed == *name) {
            is_had[usize::from(*number)] = true;
        }
        is_had.iter().position(|is_had| !is_had)
    }

    /// Forgets the server that has been heard least lately, of those that are silent or far behind the one that is followed.
    fn forget_oldest(&mut self) -> Option<u64> {
        let followed = self.servers.iter().find(|server| server.session == self.chosen)?.last;
        let others = self.servers.iter().filter(|server| server.proven && server.session != self.chosen);
        let is_gone = |server: &&Server| server.since.is_none() || server.last < followed - STEADY;
        let oldest = others.filter(is_gone).min_by_key(|server| server.last)?.session;
        self.forget(oldest);
        Some(oldest)
    }

    /// Forgets the first of those that have sent nothing yet, if there are too many: none that was heard gives way to them.
    fn forget_newcomer(&mut self) -> Option<u64> {
        let mut newcomers = self.servers.iter().filter(|server| !server.proven && server.session != self.chosen);
        let first = newcomers.next()?.session;
        if 1 + newcomers.count() < MOST_NEWCOMERS {
            return None;
        }
        self.forget(first);
        Some(first)
    }

    fn forget(&mut self, session: u64) {
        self.servers.retain(|server| server.session != session);
        self.lines.iter_mut().for_each(|line| drop(line.waiting.remove(&session)));
    }

    /// Time behind its last sample; of one that never had any 0.
    fn latest(&self) -> i64 {
        self.servers.iter().map(|server| server.last).max().unwrap_or_default()
    }
}

impl Line {
    /// A block of the server that is followed.
    fn give<S: Sink>(&mut self, block: &Block<'_>, stream: &Arc<Stream>, changes: &Changes, sink: &mut S) {
        let offset = *self.offset.get_or_insert_with(|| self.track.shift(block));
        let moved = Block { first: block.first.wrapping_add_signed(offset), ..*block };
        if moved.first.checked_add(moved.samples()).is_none() {
            return;
        }
        let (gap, new) = self.track.accept(moved, Cause::Server, &mut 0);
        if let Some(gap) = &gap {
            changes.missing.fetch_add(gap.samples(), Ordering::Relaxed);
        }
        for block in gap.iter().chain(&new) {
            sink.block(stream, block);
        }
    }
}

/// By how much another server has to be ahead, ns of samples' time: heartbeats of what stands still take 50 ms, and one of less than
/// that is only a little faster.
const AHEAD: i64 = 250_000_000;

/// How long a better one has to be heard, ns.
const STEADY: i64 = 1_000_000_000;

/// What waits of those that are not followed, ns, and blocks.
const WAITS: i64 = 1_000_000_000;
const MOST_KEPT: usize = 1024;

const MOST_FEEDS: usize = 4096;

/// Channels of a feed: as many as a server has at a time.
const MOST_LINES: usize = 4096;

/// Servers of a feed that have sent samples, and those that have sent none yet.
const MOST_SERVERS: usize = 8;
const MOST_NEWCOMERS: usize = 8;
