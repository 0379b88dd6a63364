//! An identity, and the streams behind it.

use std::cmp::Reverse;
use std::net::IpAddr;

use serde::{Deserialize, Serialize, Serializer};

use super::sequence::{Ledger, Step};
use super::stream::{Fit, SILENCE, Stream, StreamId, millis, plausible, since};
use super::{Identity, Nanos, SourceId};

/// Streams that are followed at once.
const STREAMS: usize = 8;
/// Addresses that are remembered of whoever sends.
const PEERS: usize = 4;
/// Datagrams that continue no stream and are remembered.
const STRANGERS: usize = 4;
/// Data sources that are looked through one by one.
const FEW: usize = 8;
/// How far ahead of a stranger the next datagram may be to continue it.
const NEAR: i64 = 64;

/// Who sends: an agent address and a sub-agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Agent {
    /// Who.
    pub identity: Identity,
    /// When it was first heard.
    pub since: Nanos,
    /// When it was last heard.
    pub heard: Nanos,
    /// Whether datagrams that continue one another have come over some time: forged ones hardly do.
    pub proven: bool,
    /// Those of others are not kept over a restart: then nobody would know any more whose they are.
    #[serde(serialize_with = "of_its_own")]
    streams: Vec<Stream>,
    #[serde(skip)]
    strangers: Vec<Stranger>,
    /// Addresses that its datagrams came from of late.
    #[serde(skip)]
    peers: Vec<IpAddr>,
    /// Its data sources, and their slots.
    #[serde(skip)]
    pub(super) sources: Vec<(SourceId, u32)>,
    /// Of streams that are gone.
    past: AgentLedger,
}

/// What came from an agent. `datagrams == sequence.received + sequence.duplicates + sequence.stale + strangers`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentLedger {
    /// All that came.
    pub datagrams: u64,
    /// What came of the streams.
    pub sequence: Ledger,
    /// Datagrams that continued no stream, then or later. Of the first of a run the samples are not taken, but its number is.
    pub strangers: u64,
    /// Restarts of the agent.
    pub restarts: u64,
    /// Sequences that went on elsewhere without a restart.
    pub discontinuities: u64,
    /// Uptimes that jumped while the sequence went on.
    pub uptime_jumps: u64,
    /// Streams that there have been.
    pub streams: u64,
    /// Streams given up for others, since there were too many.
    pub evicted_streams: u64,
    /// Data sources refused, since there were too many.
    pub refused_sources: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Stranger {
    number: u32,
    uptime: u32,
    heard: Nanos,
    /// When the first one of its run came.
    since: Nanos,
    is_foreign: bool,
}

/// Number and uptime of a datagram, and whether it comes from where its agent is not.
type Told = (u32, u32, bool);

/// Where a datagram belongs.
pub(super) enum Place {
    /// To the stream at this index.
    Stream(usize, Step),
    /// To one that began again.
    Again(usize, bool),
    /// To a new one; another may have had to go.
    New(usize, Option<StreamId>),
    /// To none, so far.
    Nowhere,
}

impl Agent {
    pub(super) fn new(identity: Identity, now: Nanos) -> Self {
        Self {
            identity,
            since: now,
            heard: now,
            proven: false,
            streams: Vec::with_capacity(1),
            strangers: Vec::new(),
            peers: Vec::new(),
            sources: Vec::new(),
            past: AgentLedger::default(),
        }
    }

    /// The streams that are followed now.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// The stream that leapt, if this datagram, which fits in none, goes on where it was before: the leap may have been somebody else's.
    pub fn left(&self, now: Nanos, (number, uptime): (u32, u32), is_foreign: bool) -> Option<StreamId> {
        let has_left = |stream: &&Stream| stream.is_foreign == is_foreign && stream.has_left(now, number, uptime);
        self.streams.iter().find(has_left).map(|stream| stream.id)
    }

    /// Addresses from which its datagrams came of late, the newest first, few of them: its own, or relays'.
    pub fn peers(&self) -> &[IpAddr] {
        &self.peers
    }

    /// A datagram that was placed came from here.
    #[inline]
    pub(super) fn came_from(&mut self, peer: IpAddr) {
        if self.peers.first() != Some(&peer) {
            self.peers.retain(|known| *known != peer);
            self.peers.truncate(PEERS - 1);
            self.peers.insert(0, peer);
        }
    }

    /// What came, of streams past and present.
    pub fn ledger(&self) -> AgentLedger {
        let mut ledger = self.past;
        for stream in &self.streams {
            ledger.take(stream);
        }
        ledger
    }

    /// Gives its streams numbers of another table, in place of those that they had in theirs: which, in their order.
    pub(super) fn renumber(&mut self, next: &mut u32) -> Vec<(StreamId, StreamId)> {
        self.streams.truncate(STREAMS);
        // Who was there first has the least number there, too.
        self.streams.sort_by_key(|stream| stream.id);
        let renumber = |stream: &mut Stream| {
            let before = std::mem::replace(&mut stream.id, StreamId(*next));
            *next += 1;
            (before, stream.id)
        };
        self.streams.iter_mut().map(renumber).collect()
    }

    pub(super) fn stream_mut(&mut self, index: usize) -> &mut Stream {
        &mut self.streams[index]
    }

    /// The slot of a data source, if there are so few that looking at each is soon done: all are at one place in memory.
    #[inline]
    pub(super) fn find(&self, id: &SourceId) -> Option<u32> {
        if self.sources.len() > FEW {
            return None;
        }
        self.sources.iter().find(|(known, _)| known == id).map(|&(_, slot)| slot)
    }

    pub(super) fn refuse_source(&mut self) {
        self.past.refused_sources += 1;
    }

    #[inline]
    pub(super) fn place(&mut self, now: Nanos, told: Told, next: &mut u32) -> Place {
        self.heard = now;
        self.past.datagrams += 1;
        let (number, uptime, is_foreign) = told;
        match self.fittest(now, told) {
            Some((index, fit)) if fit != Fit::None => {
                if self.streams.len() > 1 {
                    self.meet(index, now, told);
                }
                Place::Stream(index, self.streams[index].advance(now, number, uptime))
            }
            Some(_) => self.strange(now, told, next),
            // One datagram from elsewhere is not enough where somebody is heard.
            None if is_foreign && !self.streams.is_empty() => self.strange(now, told, next),
            None => self.open(now, told, next),
        }
    }

    /// The stream that a datagram continues best, and how well.
    #[inline]
    fn fittest(&self, now: Nanos, (number, uptime, is_foreign): Told) -> Option<(usize, Fit)> {
        let streams = self.streams.iter().enumerate().filter(|(_, stream)| stream.is_foreign == is_foreign);
        let fits = streams.map(|(index, stream)| (index, stream.fit(now, number, uptime), stream.heard()));
        // Of streams that run into one another each goes on by itself: what is next in both is of the one that sends more.
        let rank = |&(index, fit, heard): &(usize, Fit, Nanos)| {
            (fit, if fit == Fit::Next { heard } else { 0 }, Reverse(index))
        };
        fits.max_by_key(rank).map(|(index, fit, _)| (index, fit))
    }

    /// The stream that has a datagram which was not taken, since it, or what came behind it, was here before.
    pub fn holder(&self, now: Nanos, (number, uptime): (u32, u32), is_foreign: bool) -> Option<StreamId> {
        let (index, fit) = self.fittest(now, (number, uptime, is_foreign))?;
        (fit != Fit::None).then(|| self.streams[index].id)
    }

    /// Streams that run into one another: who comes from behind may be about to take the other one's numbers, and nobody knows any more which
    /// of them is the agent.
    #[cold]
    fn meet(&mut self, index: usize, now: Nanos, (number, uptime, is_foreign): Told) {
        let mut has_met = false;
        for (other, stream) in self.streams.iter_mut().enumerate() {
            if other != index && stream.is_foreign == is_foreign && stream.is_near(now, number, uptime) {
                stream.has_met = true;
                has_met = true;
            }
        }
        self.streams[index].has_met |= has_met;
    }

    /// Two speak in a stream.
    pub(super) fn dispute(&mut self, id: StreamId, now: Nanos) {
        self.streams.iter_mut().filter(|stream| stream.id == id).for_each(|stream| stream.dispute(now));
    }

    /// Two strangers that continue one another are a stream, or what has become of one: of one that is silent for longer than it is otherwise.
    #[cold]
    fn strange(&mut self, now: Nanos, told: Told, next: &mut u32) -> Place {
        let (number, uptime, is_foreign) = told;
        let of_its_kind = |stream: &Stream| stream.is_foreign == is_foreign;
        for stream in self.streams.iter_mut().filter(|stream| of_its_kind(stream)) {
            if stream.has_left(now, number, uptime) {
                stream.dispute(now);
            }
        }
        let resumes = |stream: &Stream| of_its_kind(stream) && stream.resumes(now, number, uptime);
        if let Some(index) = self.streams.iter().position(resumes) {
            return self.resume(index, now, number, uptime, next);
        }
        let continued = |one: &Stranger| one.is_foreign == is_foreign && one.continued(now, number, uptime);
        let known = self.strangers.iter().position(continued);
        let Some(known) = known else {
            if self.strangers.len() == STRANGERS {
                // Others' go first.
                let foreign = self.strangers.iter().position(|one| one.is_foreign);
                self.strangers.remove(foreign.unwrap_or(0));
            }
            self.strangers.push(Stranger { is_foreign, ..Stranger::new(now, number, uptime) });
            self.past.strangers += 1;
            return Place::Nowhere;
        };
        let last = self.strangers[known];
        // Who has been heard since is somebody else.
        let again = |stream: &Stream| {
            let restart = stream.may_restart(last.heard, last.uptime);
            stream.may_be_over(last.since) && (restart || stream.may_jump(last.heard, last.number, last.uptime))
        };
        let may_be = |index: &usize| of_its_kind(&self.streams[*index]) && again(&self.streams[*index]);
        let candidates = (0..self.streams.len()).filter(may_be);
        let candidate = candidates.min_by_key(|&index| self.streams[index].heard());
        if candidate.is_some_and(|index| self.streams[index].may_go_on(now, last.uptime)) {
            self.strangers[known] = Stranger { number, uptime, heard: now, ..last };
            self.past.strangers += 1;
            return Place::Nowhere;
        }
        self.strangers.remove(known);
        let place = match candidate {
            Some(index) => Place::Again(index, self.streams[index].restart(last.heard, last.number, last.uptime)),
            None => self.open(last.heard, (last.number, last.uptime, is_foreign), next),
        };
        self.past.strangers -= 1;
        if let Place::Again(index, _) | Place::New(index, _) = place {
            self.streams[index].advance(now, number, uptime);
            self.adopt(index, now);
        }
        place
    }

    /// A stream goes on that was taken for begun again: that was somebody else, who is a stream of his own from now on.
    fn resume(&mut self, index: usize, now: Nanos, number: u32, uptime: u32, next: &mut u32) -> Place {
        if let Some(other) = self.streams[index].resume(StreamId(*next)) {
            *next += 1;
            if self.streams.len() < STREAMS {
                self.streams.push(other);
            } else {
                self.past.take(&other);
            }
        }
        Place::Stream(index, self.streams[index].advance(now, number, uptime))
    }

    /// Strangers of a run that is known by now are strangers no more, and must not continue into the next one.
    fn adopt(&mut self, index: usize, now: Nanos) {
        let (stream, past) = (&mut self.streams[index], &mut self.past);
        self.strangers.retain(|one| {
            let is_alike = one.is_foreign == stream.is_foreign;
            let fits = is_alike && stream.fit(now, one.number, one.uptime) >= Fit::Both;
            if fits {
                stream.advance(now, one.number, one.uptime);
                past.strangers -= 1;
            }
            !fits
        });
    }

    fn open(&mut self, now: Nanos, (number, uptime, is_foreign): Told, next: &mut u32) -> Place {
        let mut stream = Stream::new(StreamId(*next), now, number, uptime);
        stream.is_foreign = is_foreign;
        *next += 1;
        if self.streams.len() < STREAMS {
            self.streams.push(stream);
            return Place::New(self.streams.len() - 1, None);
        }
        // Nobody pushes out the one that was there first, as long as it goes on.
        let place = |index: usize| (self.streams[index].is_foreign, self.streams[index].id);
        let oldest = (0..STREAMS).min_by_key(|&index| place(index)).unwrap_or(0);
        let goes_on = now.saturating_sub(self.streams[oldest].heard()) <= SILENCE;
        let may_go = (0..STREAMS).filter(|&index| index != oldest || !goes_on);
        // Others' streams go first.
        let turn = |index: usize| (!self.streams[index].is_foreign, self.streams[index].heard());
        let quietest = may_go.min_by_key(|&index| turn(index)).unwrap_or(0);
        let gone = std::mem::replace(&mut self.streams[quietest], stream);
        self.past.take(&gone);
        self.past.evicted_streams += 1;
        Place::New(quietest, Some(gone.id))
    }

    /// Gives up streams that have been silent for so long, all but one; tells which.
    pub(super) fn forget(&mut self, now: Nanos, silence: Nanos) -> Option<StreamId> {
        let old = |stream: &Stream| now.saturating_sub(stream.heard()) > silence;
        let index = (self.streams.len() > 1).then(|| self.streams.iter().position(old))??;
        let gone = self.streams.remove(index);
        self.past.take(&gone);
        Some(gone.id)
    }
}

impl AgentLedger {
    fn take(&mut self, stream: &Stream) {
        self.sequence.add(stream.ledger());
        self.restarts += stream.restarts;
        self.discontinuities += stream.discontinuities;
        self.uptime_jumps += stream.uptime_jumps;
        self.streams += 1;
    }
}

/// Those of an agent's streams that come from where it is, or may.
fn of_its_own<S: Serializer>(streams: &[Stream], to: S) -> Result<S::Ok, S::Error> {
    streams.iter().filter(|stream| !stream.is_foreign).collect::<Vec<_>>().serialize(to)
}

impl Stranger {
    pub(super) fn new(now: Nanos, number: u32, uptime: u32) -> Self {
        Self { number, uptime, heard: now, since: now, is_foreign: false }
    }

    /// Whether a datagram goes on where this one ended: further on in both.
    pub(super) fn continued(&self, now: Nanos, number: u32, uptime: u32) -> bool {
        let ahead = i64::from(number.wrapping_sub(self.number) as i32);
        let clock = plausible(self.uptime, uptime, millis(now, self.heard)) && since(self.uptime, uptime) >= 0;
        (1..=NEAR).contains(&ahead) && clock
    }
}
