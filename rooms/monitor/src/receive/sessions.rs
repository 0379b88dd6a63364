//! All sessions that are heard: which datagram belongs to which, by which name each is shown, which of them live. Pure: bytes and a
//! moment in, calls of a [`Sink`] out.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use hashbrown::HashMap;
use weir_wire::signal::{Datagram, Header, Kind, Request, encode};

use super::counts::{Counts, Refused};
use super::session::{Around, Life, Session};
use super::{Moment, News, Sink, Witness};

/// All sessions that are heard.
#[derive(Debug)]
pub struct Sessions {
    sessions: HashMap<u64, Session, foldhash::fast::RandomState>,
    /// Which session is shown by a name: station (with `#2`) and stream.
    names: HashMap<(String, String), u64>,
    /// The other way round; of some, another has it by now.
    shown: HashMap<u64, (String, String)>,
    tally: Counts,
    /// Bytes of blocks that wait for a name now, in all sessions.
    queued: usize,
    bounds: Bounds,
    /// Sessions of which no data was taken when they came, the oldest first; of some it was since.
    newcomers: VecDeque<u64>,
    /// Sessions that give way to others, the first of them at the end, as the last look at all has found them.
    leaving: Vec<u64>,
    /// When that was, if it found none.
    full: Option<Duration>,
    /// Sessions that were looked at for it.
    #[cfg(test)]
    pub(super) searched: u64,
    /// Requests that may be sent at once, and when that was looked at.
    asking: (f64, Duration),
    /// One has come that was not asked yet.
    has_newcomer: bool,
    /// Sessions that something will become of by time alone, soon.
    pending: bool,
    looked: Duration,
}

/// How long is waited, and for how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How long a datagram waits for what is before it.
    pub reorder: Duration,
    /// Sessions.
    pub sessions: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { reorder: Duration::from_millis(20), sessions: 4096 }
    }
}

impl Sessions {
    /// None yet.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            sessions: HashMap::default(),
            names: HashMap::new(),
            shown: HashMap::new(),
            tally: Counts::default(),
            queued: 0,
            bounds,
            newcomers: VecDeque::new(),
            leaving: Vec::new(),
            full: None,
            #[cfg(test)]
            searched: 0,
            asking: (REQUESTS_AT_ONCE, Duration::ZERO),
            has_newcomer: false,
            pending: false,
            looked: Duration::ZERO,
        }
    }

    /// Takes a datagram in plain text.
    pub fn take<S: Sink + ?Sized>(
        &mut self,
        bytes: &[u8],
        source: SocketAddr,
        moment: Moment,
        witness: &mut dyn Witness,
        sink: &mut S,
    ) {
        self.take_opened(bytes, (source, true), moment, witness, sink);
    }

    /// Takes a datagram, that is neither signed nor encrypted any more, from a source; `false`: it was sealed, and was sent before others
    /// that came: no sign that its sender lives. Returns why it is not taken, as the ledger calls it; `None`: it is.
    pub fn take_opened<S: Sink + ?Sized>(
        &mut self,
        bytes: &[u8],
        source: (SocketAddr, bool),
        moment: Moment,
        witness: &mut dyn Witness,
        sink: &mut S,
    ) -> Option<&'static str> {
        self.tally.datagrams += 1;
        self.tally.bytes += bytes.len() as u64;
        match self.try_take(bytes, source, moment, witness, sink) {
            Ok(kind) => {
                self.tally.by_kind.add(kind as usize, 1);
                None
            }
            Err(refused) => {
                self.tally.refuse(refused);
                Some(refused.name())
            }
        }
    }

    /// A datagram came that is not even to be read.
    pub(super) fn refuse(&mut self, refused: Refused, bytes: usize) {
        self.tally.datagrams += 1;
        self.tally.bytes += bytes as u64;
        self.tally.refuse(refused);
    }

    fn try_take<S: Sink + ?Sized>(
        &mut self,
        bytes: &[u8],
        (source, is_fresh): (SocketAddr, bool),
        moment: Moment,
        witness: &mut dyn Witness,
        sink: &mut S,
    ) -> Result<Kind, Refused> {
        let datagram = Datagram::parse(bytes).map_err(Refused::Malformed)?;
        let Header { kind, session: id, clock, .. } = datagram.header;
        if kind == Kind::Request {
            // Others ask a sender on this machine, or of this group.
            return Ok(kind);
        }
        if !self.sessions.contains_key(&id) {
            self.make_room(moment.now, kind == Kind::Data, sink)?;
            self.sessions.insert(id, Session::new(id, source, clock, moment));
            self.newcomers.push_back(id);
            self.has_newcomer = true;
            self.pending = true;
        }
        let Some(session) = self.sessions.get_mut(&id) else { return Err(Refused::Sessions) };
        let mut around =
            Around { tally: &mut self.tally, queued: &mut self.queued, witness, sink, window: self.bounds.reorder };
        session.admit(&datagram, bytes, source, moment.now)?;
        // What was sent before, and is sent again, is no sign of life.
        let lives = is_fresh && session.is_news(&datagram);
        if lives {
            session.last_heard = moment.now;
        }
        let goes_on = session.goes_on(&datagram);
        match session.life {
            Life::Silent if lives => session.come_back(around.sink),
            Life::Ended if goes_on && lives => session.come_back(around.sink),
            Life::Silent | Life::Replaced if !lives => {}
            Life::Replaced => {
                session.life = Life::Live;
                session.first_heard = moment.now;
            }
            Life::Live | Life::Ended | Life::Silent => {}
        }
        let life = session.life;
        session.take(&datagram, bytes, moment, &mut around)?;
        if life == Life::Live && session.life == Life::Ended {
            session.tell(News::Ended, around.sink);
            self.full = None;
        }
        // One that was replaced, and does not live, has no name to come back to.
        if kind == Kind::Metadata && session.stream().is_none() && session.life != Life::Replaced {
            self.name(id, moment, witness, sink);
        }
        let crowded = self.queued > MOST_QUEUED;
        self.pending |= crowded || self.sessions.get(&id).is_some_and(Session::is_pending);
        Ok(kind)
    }

    /// What time alone brings: holes, silence, names. To be called every few milliseconds while [`Self::is_pending`], else a few times
    /// a second.
    pub fn look<S: Sink + ?Sized>(&mut self, moment: Moment, witness: &mut dyn Witness, sink: &mut S) {
        if !self.pending && moment.now < self.looked + LOOKS_APART {
            return;
        }
        self.looked = moment.now;
        self.pending = false;
        let crowded = self.queued > MOST_QUEUED;
        let mut nameless = Vec::new();
        let mut gone = Vec::new();
        for session in self.sessions.values_mut() {
            let mut around = Around {
                tally: &mut self.tally,
                queued: &mut self.queued,
                witness: &mut *witness,
                sink: &mut *sink,
                window: self.bounds.reorder,
            };
            if session.is_pending() {
                let life = session.life;
                session.settle(moment, &mut around);
                if life == Life::Live && session.life == Life::Ended {
                    session.tell(News::Ended, around.sink);
                    self.full = None;
                }
                self.pending |= session.is_pending();
            }
            if session.life == Life::Live && moment.now >= session.last_heard + SILENCE {
                session.life = Life::Silent;
                session.tell(News::Silent, around.sink);
                self.full = None;
            }
            if has_waited(session, moment, crowded) {
                session.name_by_number(&mut around);
            }
            if session.life != Life::Live && moment.now >= session.last_heard + OLD {
                gone.push(session.id);
            }
            if session.stream().is_none() && session.life != Life::Replaced {
                nameless.push(session.id);
            }
        }
        for id in nameless {
            self.name(id, moment, witness, sink);
        }
        gone.into_iter().for_each(|id| self.forget(id, sink));
    }

    /// Whether something will change within milliseconds, by time alone.
    pub fn is_pending(&self) -> bool {
        self.pending
    }

    /// Whether one has come since requests were sent: it is asked at once.
    pub(super) fn has_newcomer(&self) -> bool {
        self.has_newcomer
    }

    /// Requests for metadata that are due, as datagrams: of who has not said who it is, or has channels without a name. All together are
    /// so few that nobody can make this machine flood another.
    pub fn requests(&mut self, moment: Moment, mut send: impl FnMut(SocketAddr, Vec<u8>)) {
        self.has_newcomer = false;
        let (left, then) = self.asking;
        let more = moment.now.saturating_sub(then).as_secs_f64() * REQUESTS_A_SECOND;
        self.asking = ((left + more).min(REQUESTS_AT_ONCE), moment.now);
        for session in self.sessions.values_mut() {
            let (asked, last) = session.asked;
            let is_due = asked == 0 || asked < MOST_REQUESTS && moment.now >= last + REQUESTS_APART;
            let is_unknown = session.claim.is_none() || session.waiting_since().is_some();
            if is_unknown && session.life == Life::Live && is_due && self.asking.0 >= 1.0 {
                self.asking.0 -= 1.0;
                session.asked = (asked + 1, moment.now);
                let header = Header {
                    kind: Kind::Request,
                    flags: Default::default(),
                    clock: Default::default(),
                    count: 0,
                    session: session.id,
                    sequence: 0,
                };
                let mut bytes = Vec::new();
                encode::request(header, &Request { metadata: true, wishes: Vec::new() }, &mut bytes);
                self.tally.requests += 1;
                send(session.source, bytes);
            }
        }
    }

    /// Everything counted so far.
    pub fn counts(&self, socket_drops: u64) -> Counts {
        Counts { sessions: self.sessions.len(), socket_drops, ..self.tally.clone() }
    }

    /// By which name a session is shown, if that can be decided yet.
    fn name<S: Sink + ?Sized>(&mut self, id: u64, moment: Moment, witness: &mut dyn Witness, sink: &mut S) {
        let Some(session) = self.sessions.get(&id) else { return };
        let waited = has_waited(session, moment, self.queued > MOST_QUEUED);
        let Some(mut name) = session.claim.clone() else {
            if waited {
                // Nobody has said who it is.
                self.show(id, (format!("{id:016x}"), String::new()), News::Begun, witness, sink);
            }
            return;
        };
        if name.0.is_empty() {
            name.0 = format!("{id:016x}");
        }
        let first_heard = session.first_heard;
        let holder =
            self.names.get(&name).and_then(|holder| self.sessions.get_mut(holder)).filter(|other| other.id != id);
        let news = match holder {
            None => News::Begun,
            Some(other) if matches!(other.life, Life::Ended | Life::Silent) => {
                other.replace();
                News::Restarted
            }
            Some(other) if other.last_heard >= first_heard + TWIN_AFTER => {
                name.0 = self.twin(&name);
                News::Twin
            }
            Some(other) if waited || moment.now >= other.last_heard + RESTART_AFTER => {
                other.replace();
                News::Restarted
            }
            // It will be heard again, or not.
            Some(_) => return,
        };
        self.show(id, name, news, witness, sink);
    }

    fn show<S: Sink + ?Sized>(
        &mut self,
        id: u64,
        name: (String, String),
        news: News,
        witness: &mut dyn Witness,
        sink: &mut S,
    ) {
        // Of what it was called before nothing is left.
        self.release(id);
        self.names.insert(name.clone(), id);
        self.shown.insert(id, name.clone());
        if let Some(session) = self.sessions.get_mut(&id) {
            let mut around =
                Around { tally: &mut self.tally, queued: &mut self.queued, witness, sink, window: self.bounds.reorder };
            session.show(name, news, &mut around);
        }
    }

    /// The first name with a number that no living session has.
    fn twin(&self, (station, stream): &(String, String)) -> String {
        let is_free = |name: &String| {
            let holder = self.names.get(&(name.clone(), stream.clone())).and_then(|holder| self.sessions.get(holder));
            holder.is_none_or(|holder| holder.life != Life::Live)
        };
        (2..).map(|number: u32| format!("{station}#{number}")).find(is_free).unwrap_or_default()
    }

    /// Forgets what has not been heard for long, and where that is not enough the one that has been silent for the longest; living
    /// ones stay.
    fn make_room<S: Sink + ?Sized>(&mut self, now: Duration, has_data: bool, sink: &mut S) -> Result<(), Refused> {
        if self.newcomers.len() >= 2 * self.bounds.sessions {
            let Self { newcomers, sessions, .. } = self;
            newcomers.retain(|id| sessions.get(id).is_some_and(|session| !session.has_data()));
        }
        if self.sessions.len() < self.bounds.sessions {
            return Ok(());
        }
        let id = self.next_to_leave(now);
        let id = if has_data { id.or_else(|| self.first_without_data()) } else { id };
        let id = id.ok_or(Refused::Sessions)?;
        self.forget(id, sink);
        self.tally.evicted += 1;
        Ok(())
    }

    /// Who does not live goes first, the one that has been silent for the longest before others. In a flood of newcomers that say nothing
    /// more, what has never had a name goes before the second is over. One look at all sessions serves many that come.
    fn next_to_leave(&mut self, now: Duration) -> Option<u64> {
        while let Some(id) = self.leaving.pop() {
            if self.sessions.get(&id).is_some_and(|session| gives_way(session, now)) {
                return Some(id);
            }
        }
        if self.full.is_some_and(|then| now < then + SEARCHES_APART) {
            return None;
        }
        #[cfg(test)]
        {
            self.searched += self.sessions.len() as u64;
        }
        let leaving = self.sessions.values().filter(|session| gives_way(session, now));
        let mut leaving: Vec<_> =
            leaving.map(|session| (session.life == Life::Live, session.last_heard, session.id)).collect();
        leaving.sort_unstable();
        self.leaving.extend(leaving.into_iter().rev().map(|(.., id)| id));
        self.full = self.leaving.is_empty().then_some(now);
        self.leaving.pop()
    }

    /// Whoever says no more than its name gives way to who sends data.
    fn first_without_data(&mut self) -> Option<u64> {
        let Self { newcomers, sessions, .. } = self;
        std::iter::from_fn(|| newcomers.pop_front())
            .find(|id| sessions.get(id).is_some_and(|session| !session.has_data()))
    }

    /// Whoever keeps something of one that still lived lets go of it: nothing more is told of it.
    fn forget<S: Sink + ?Sized>(&mut self, id: u64, sink: &mut S) {
        let Some(session) = self.sessions.remove(&id) else { return };
        if session.life == Life::Live {
            session.tell(News::Ended, sink);
        }
        self.tally.forgotten += session.waits();
        self.tally.waiting -= session.waits();
        self.queued -= session.queued();
        self.release(id);
    }

    /// Names that sessions are shown by.
    #[cfg(test)]
    pub(super) fn names(&self) -> usize {
        self.names.len()
    }

    /// The name of a session is free, unless another has it by now.
    fn release(&mut self, id: u64) {
        let Some(name) = self.shown.remove(&id) else { return };
        if self.names.get(&name) == Some(&id) {
            self.names.remove(&name);
        }
    }
}

/// Whether a session gives way to another: it does not live, or it has never had a name, and says nothing more.
fn gives_way(session: &Session, now: Duration) -> bool {
    session.life != Life::Live || session.stream().is_none() && now >= session.last_heard + RESTART_AFTER
}

/// Whether its blocks have waited for a name for long enough.
fn has_waited(session: &Session, moment: Moment, crowded: bool) -> bool {
    session.waiting_since().is_some_and(|since| crowded || moment.now >= since + LONGEST_WAIT)
}

/// Bytes of blocks that wait for a name, in all sessions together.
const MOST_QUEUED: usize = 64 << 20;

/// Who has said nothing for so long is forgotten.
const OLD: Duration = Duration::from_secs(600);

/// From one look at all sessions to the next, when nothing is pending.
const LOOKS_APART: Duration = Duration::from_millis(20);

/// From one look for sessions that give way to the next, where none has been found.
const SEARCHES_APART: Duration = Duration::from_millis(5);

/// Who says nothing for so long is silent: heartbeats are 50 ms apart.
const SILENCE: Duration = Duration::from_millis(500);

/// How long blocks wait for a name.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A session that is heard so long after another of its name began lives beside it.
const TWIN_AFTER: Duration = Duration::from_millis(100);

/// A session that has not been heard for so long makes room for another of its name.
const RESTART_AFTER: Duration = Duration::from_millis(200);

/// Requests for metadata to a session: it sends it every second anyway.
const MOST_REQUESTS: u32 = 4;

/// Requests to all sessions together.
const REQUESTS_A_SECOND: f64 = 100.0;
const REQUESTS_AT_ONCE: f64 = 64.0;
const REQUESTS_APART: Duration = Duration::from_millis(250);
