//! All sessions that are heard: which datagram belongs to which, by which name each is shown, which of them live. Pure: bytes and a
//! moment in, calls of a [`Sink`] out.

use std::net::SocketAddr;
use std::time::Duration;

use hashbrown::HashMap;
use weir_wire::signal::{Body, Datagram, Header, Kind};

use super::counts::{Counts, Refused};
use super::session::{Around, DESCRIBED_WITHIN, Life, Session};
use super::{Moment, News, Sink, Witness};

/// All sessions that are heard.
#[derive(Debug)]
pub struct Sessions {
    sessions: HashMap<u64, Session, foldhash::fast::RandomState>,
    /// Which session is shown by a name: station (with `#2`) and stream.
    names: HashMap<Name, u64>,
    tally: Counts,
    bounds: Bounds,
    /// Time alone will change a session soon.
    pending: bool,
    looked: Duration,
}

/// Station and stream.
pub(super) type Name = (String, String);

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
            tally: Counts::default(),
            bounds,
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
        if kind == Kind::Reserved {
            return Ok(kind);
        }
        if !self.sessions.contains_key(&id) {
            if self.sessions.len() >= self.bounds.sessions {
                return Err(Refused::Sessions);
            }
            self.sessions.insert(id, Session::new(id, source, clock, moment));
        }
        let Some(session) = self.sessions.get_mut(&id) else { return Err(Refused::Sessions) };
        // What was sent before, and is sent again, is no sign of life.
        let lives = is_fresh && session.is_sign_of_life(&datagram);
        let goes_on = session.goes_on(&datagram);
        if lives {
            session.last_heard = moment.now;
            if session.life == Life::Silent || session.life == Life::Ended && goes_on {
                session.come_back(sink);
            }
        }
        if let (Body::Data(mut blocks), true) = (datagram.body, lives && session.stream.is_none()) {
            session.data_since.get_or_insert(moment.now);
            session.time = session.time.or_else(|| Some(blocks.next()?.time));
            self.name(id, moment.now, sink);
        }
        let mut around = Around { tally: &mut self.tally, witness, sink, reorder: self.bounds.reorder };
        let Some(session) = self.sessions.get_mut(&id) else { return Err(Refused::Sessions) };
        session.take(&datagram, bytes, moment, &mut around)?;
        self.pending |= session.is_pending();
        if kind == Kind::Metadata && is_fresh {
            self.name(id, moment.now, sink);
        }
        Ok(kind)
    }

    /// What time alone brings: holes, silence. To be called every few milliseconds while [`Self::is_pending`], else a few times a second.
    pub fn look<S: Sink + ?Sized>(&mut self, moment: Moment, witness: &mut dyn Witness, sink: &mut S) {
        if !self.pending && moment.now < self.looked + LOOKS_APART {
            return;
        }
        self.looked = moment.now;
        self.pending = false;
        let is_crowded = self.sessions.len() >= self.bounds.sessions / 4 * 3;
        let mut gone = Vec::new();
        for session in self.sessions.values_mut() {
            if session.is_pending() {
                let mut around =
                    Around { tally: &mut self.tally, witness: &mut *witness, sink, reorder: self.bounds.reorder };
                session.settle(moment, 0, &mut around);
                self.pending |= session.is_pending();
            }
            if session.life == Life::Live && moment.now >= session.last_heard + SILENCE {
                session.life = Life::Silent;
                session.tell(News::Silent, sink);
            }
            let is_old = moment.now >= session.last_heard + OLD;
            if session.life != Life::Live && (is_old || is_crowded) {
                self.tally.evicted += u64::from(!is_old);
                gone.push(session.id);
            }
        }
        gone.into_iter().for_each(|id| self.forget(id));
    }

    /// Whether something will change within milliseconds, by time alone.
    pub fn is_pending(&self) -> bool {
        self.pending
    }

    /// Everything counted so far.
    pub fn counts(&self, socket_drops: u64) -> Counts {
        Counts { sessions: self.sessions.len(), socket_drops, ..self.tally.clone() }
    }

    /// Gives a session the name that it claims, or that with a number, once it can be decided.
    fn name<S: Sink + ?Sized>(&mut self, id: u64, now: Duration, sink: &mut S) {
        let Some(session) = self.sessions.get(&id) else { return };
        let nobody = || session.data_since.is_some_and(|since| now >= since + DESCRIBED_WITHIN).then(Name::default);
        let Some((station, stream)) = session.claim.clone().or_else(nobody) else { return };
        let station = if station.is_empty() { format!("{id:016x}") } else { station };
        let name = (station, stream);
        let holder = self.names.get(&name).filter(|holder| **holder != id);
        let (name, news) = match (holder.and_then(|holder| self.sessions.get(holder)), &session.stream) {
            (_, Some(shown)) if shown.station == name.0 && shown.name == name.1 => return,
            (None, _) => (name, News::Begun),
            // It has a number.
            (Some(holder), Some(_)) if holder.life == Life::Live => return,
            (Some(holder), Some(_)) if holder.life == Life::Silent && now < holder.last_heard + STAYS => return,
            (Some(holder), _) if holder.life != Life::Live => (name, News::Restarted),
            (Some(holder), _) => match session.displaced {
                // Datagrams of an earlier run may still be on their way.
                Some(then) if now < then + RUNS_OUT => return,
                None if session.time.is_none() => return,
                None if session.time >= holder.time => (name, News::Restarted),
                _ => (self.twin(&name), News::Twin),
            },
        };
        if let Some(other) = self.names.insert(name.clone(), id).and_then(|other| self.sessions.get_mut(&other)) {
            other.leave_name(Some(now));
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            let before = session.name.replace(name.clone()).filter(|before| *before != name);
            session.show(name, news, sink);
            self.release(id, before);
        }
    }

    /// A name is free, unless another session has it by now.
    fn release(&mut self, id: u64, name: Option<Name>) {
        let Some(name) = name else { return };
        if self.names.get(&name) == Some(&id) {
            self.names.remove(&name);
        }
    }

    /// The first name with a number that no living session has.
    fn twin(&self, (station, stream): &Name) -> Name {
        let names = (2..).map(|number: u32| (format!("{station}#{number}"), stream.clone()));
        let is_free = |name: &Name| {
            let holder = self.names.get(name).and_then(|holder| self.sessions.get(holder));
            holder.is_none_or(|holder| holder.life != Life::Live)
        };
        names.into_iter().find(is_free).unwrap_or_default()
    }

    fn forget(&mut self, id: u64) {
        let Some(session) = self.sessions.remove(&id) else { return };
        // Only one from far away can still wait for its successor.
        self.tally.jumps += session.waiting();
        self.tally.waiting -= session.waiting();
        self.release(id, session.name);
    }
}

/// A session that has sent nothing for so long is forgotten.
const OLD: Duration = Duration::from_secs(600);

/// From one look at all sessions to the next, when nothing is pending.
const LOOKS_APART: Duration = Duration::from_millis(20);

/// A session that sends nothing for so long is silent: ten heartbeats.
const SILENCE: Duration = Duration::from_millis(500);

/// A session with a number keeps it for so long after the one that has the name was last heard, so that a short silence changes no name.
const STAYS: Duration = Duration::from_secs(10);

/// Datagrams of a session whose name another took may come for so long without showing that both live.
const RUNS_OUT: Duration = Duration::from_millis(100);
