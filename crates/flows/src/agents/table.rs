//! All agents of a worker, and what is kept of each of their data sources.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use foldhash::quality::RandomState;
use serde::{Deserialize, Serialize};
use weir_wire::sflow::DataSource;

use super::agent::{Agent, Place};
use super::sequence::Step;
use super::slots::Slots;
use super::standing::Judged;
use super::stream::{Moment, Stream, StreamId, Told};
use super::{Nanos, SECOND};
use crate::fate::Fate;

/// Whom a datagram names as its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// `agent_address`.
    pub address: IpAddr,
    /// `sub_agent_id`.
    pub sub_agent: u32,
}

/// A data source of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId {
    /// Whose.
    pub stream: StreamId,
    /// Which of its.
    pub source: DataSource,
}

/// Agents among which the one that has been silent for longest goes.
const FEW: usize = 8;

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Agents.
    pub agents: usize,
    /// Streams of one agent. Of all, as many again as agents.
    pub streams: usize,
    /// Data sources of all agents.
    pub sources: usize,
    /// Data sources of one agent.
    pub sources_of_agent: usize,
    /// Data sources of an agent that has not proven itself.
    pub sources_of_unproven: usize,
    /// After what silence an agent, a stream, a data source is forgotten.
    pub silence: Nanos,
    /// After what silence an agent is forgotten that has not proven itself.
    pub unproven_silence: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            agents: 65_536,
            streams: 64,
            sources: 2_097_152,
            sources_of_agent: 8_192,
            sources_of_unproven: 64,
            silence: 900 * SECOND,
            unproven_silence: 180 * SECOND,
        }
    }
}

/// All agents of a worker; of each data source it keeps a `T`.
#[derive(Debug, Default)]
pub struct Agents<T> {
    limits: Limits,
    agents: Slots<Agent>,
    sources: Slots<Source<T>>,
    by_identity: HashMap<Identity, u32, RandomState>,
    /// Where the next look for an agent that may go begins.
    hand: usize,
    next_stream: u32,
    /// Streams of all agents.
    streams: usize,
    swept: (usize, usize),
    gone: Gone,
    totals: Totals,
}

/// A data source.
#[derive(Debug)]
pub struct Source<T> {
    /// Which.
    pub id: SourceId,
    /// When a sample of it last came.
    pub heard: Nanos,
    /// What is kept of it.
    pub state: T,
    agent: u32,
}

/// Who was forgotten, and where they were: others may get their slots.
#[derive(Debug, Default)]
pub struct Gone {
    /// Agents, by their slots.
    pub agents: Vec<(u32, Identity)>,
    /// Slots of data sources.
    pub sources: Vec<u32>,
}

/// What the tables refused or gave up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Newcomers for whom there was no room, or that went for others.
    pub refused_agents: u64,
    /// Samples of new data sources for which there was no room.
    pub refused_sources: u64,
}

/// Where a datagram belongs, or why it is not taken into account.
pub type Verdict = Result<Placed, Fate>;

/// Where a datagram belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its stream.
    pub stream: StreamId,
    /// What its sequence number says. [`Step::Jump`]: the agent restarted or counts on elsewhere.
    pub step: Step,
    /// When it was sent and came.
    pub moment: Moment,
    agent: u32,
    /// Where the stream is among the agent's.
    index: usize,
}

impl Placed {
    /// Where its agent is: [`Agents::slot`].
    pub fn agent(&self) -> u32 {
        self.agent
    }
}

impl<T> Agents<T> {
    /// Nobody yet.
    pub fn new(limits: Limits) -> Self
    where
        T: Default,
    {
        Self { limits, ..Self::default() }
    }

    /// Finds out what a datagram is.
    #[inline]
    pub fn datagram(&mut self, now: Nanos, who: Identity, peer: SocketAddr, told: &Told) -> Verdict {
        let slot = match self.by_identity.get(&who) {
            Some(&slot) => slot,
            None => match self.newcomer(now, who) {
                Some(slot) => slot,
                None => return Err(Fate::NoRoom),
            },
        };
        let Some(agent) = self.agents.get_mut(slot) else { return Err(Fate::NoRoom) };
        // All others' further streams together take as much room as the agents.
        let has_room = self.streams < self.by_identity.len() + self.limits.agents;
        let most = if has_room { self.limits.streams } else { agent.streams().len().max(1) };
        let before = agent.streams().len();
        let Some(Place { index, step, gone }) = agent.place(now, peer, told, most, &mut self.next_stream) else {
            return Err(Fate::Crowded);
        };
        self.streams += agent.streams().len() - before;
        let stream = &agent.streams()[index];
        let (stream, moment) = (stream.id, stream.moment(now, told.uptime, step));
        gone.into_iter().for_each(|gone| self.forget_stream(gone));
        match step {
            Step::Duplicate => Err(Fate::Duplicate),
            Step::Stale => Err(Fate::Stale),
            _ => Ok(Placed { stream, step, moment, agent: slot, index }),
        }
    }

    /// Begins an agent that nobody has heard of: in a full table one goes for it that has sent a few datagrams alone.
    #[cold]
    fn newcomer(&mut self, now: Nanos, who: Identity) -> Option<u32> {
        if self.agents.len() >= self.limits.agents {
            self.totals.refused_agents += 1;
            if !self.make_room(|agent| !agent.is_proven()) {
                return None;
            }
        }
        let slot = self.agents.insert(Agent::new(who, now));
        self.by_identity.insert(who, slot);
        Some(slot)
    }

    /// Forgets an agent that may go, of a few at which a hand looks the one that has been silent for longest; whether there was one.
    #[cold]
    pub(crate) fn make_room(&mut self, may_go: impl Fn(&Agent) -> bool) -> bool {
        let few = self.agents.turn(&mut self.hand, FEW).filter_map(|slot| Some((slot, self.agents.get(slot)?)));
        let oldest = few.filter(|(_, agent)| may_go(agent)).min_by_key(|(_, agent)| agent.heard);
        let slot = oldest.map(|(slot, _)| slot);
        slot.into_iter().for_each(|slot| self.forget_agent(slot));
        slot.is_some()
    }

    /// What there is to tell of a datagram whose stream is listed, and for how long before it its samples may have been taken.
    pub(crate) fn judge(&mut self, placed: &Placed, settle: Nanos) -> Option<(Judged, Option<Nanos>)> {
        let (agent, now) = (self.agents.get_mut(placed.agent)?, placed.moment.now);
        let judged = agent.judge(placed.index, now, settle);
        Some((judged, agent.streams[placed.index].exposure.enter(now)))
    }

    /// What is kept of a data source of a datagram's stream, begun if it is new. `None`: there is no room for it, and it is counted.
    #[inline]
    pub fn source(&mut self, placed: &Placed, source: DataSource) -> Option<&mut T>
    where
        T: Default,
    {
        let slot = self.source_slot(placed, source)?;
        self.source_in(slot, placed)
    }

    /// Where that is, for as long as the datagram is at hand.
    #[inline]
    pub fn source_slot(&mut self, placed: &Placed, source: DataSource) -> Option<u32>
    where
        T: Default,
    {
        match self.known(placed, source) {
            Some(slot) => Some(slot),
            None => self.new_source(placed.agent, placed.index, (source, placed.moment.now, T::default())),
        }
    }

    /// What is kept of the data source there, of which a sample came with the datagram.
    #[inline]
    pub fn source_in(&mut self, slot: u32, placed: &Placed) -> Option<&mut T> {
        let source = self.sources.get_mut(slot)?;
        source.heard = placed.moment.now;
        Some(&mut source.state)
    }

    /// What is kept of the data source there.
    pub(crate) fn source_at(&mut self, slot: u32) -> Option<&mut T> {
        Some(&mut self.sources.get_mut(slot)?.state)
    }

    /// Where a data source of a datagram's stream is, if it is known.
    pub(crate) fn known(&self, placed: &Placed, source: DataSource) -> Option<u32> {
        self.agents.get(placed.agent)?.streams().get(placed.index)?.sources.get(&source).copied()
    }

    /// The same, to look at.
    #[inline]
    pub fn peek(&self, slot: u32) -> Option<&T> {
        Some(&self.sources.get(slot)?.state)
    }

    /// Asks for what is kept there.
    #[inline]
    pub fn foresee(&self, slot: u32) {
        self.sources.foresee(slot);
    }

    /// Begins to keep something of a data source of an agent's stream, which was heard then.
    #[cold]
    fn new_source(&mut self, slot: u32, stream: usize, (source, heard, state): (DataSource, Nanos, T)) -> Option<u32> {
        let agent = self.agents.get_mut(slot)?;
        let limit = if agent.is_proven() { self.limits.sources_of_agent } else { self.limits.sources_of_unproven };
        if agent.sources() >= limit || self.sources.len() >= self.limits.sources {
            self.totals.refused_sources += 1;
            return None;
        }
        let stream = agent.streams.get_mut(stream)?;
        let id = SourceId { stream: stream.id, source };
        let place = self.sources.insert(Source { id, heard, state, agent: slot });
        stream.sources.insert(source, place);
        Some(place)
    }

    /// Takes over an agent of another table, with the data sources that it had there; where it is now. `None`: there is no room
    /// for it, and it is counted, or it is here already.
    pub fn take_over(
        &mut self,
        mut agent: Agent,
        sources: impl IntoIterator<Item = (SourceId, Nanos, T)>,
    ) -> Option<u32> {
        if self.by_identity.contains_key(&agent.identity) {
            return None;
        }
        if self.agents.len() >= self.limits.agents {
            self.totals.refused_agents += 1;
            return None;
        }
        let (identity, before): (_, Vec<_>) =
            (agent.identity, agent.streams().iter().map(|stream| stream.id).collect());
        for stream in &mut agent.streams {
            stream.id = StreamId(self.next_stream);
            self.next_stream += 1;
        }
        self.streams += before.len();
        let slot = self.agents.insert(agent);
        self.by_identity.insert(identity, slot);
        for (SourceId { stream, source }, heard, state) in sources {
            if let Some(stream) = before.iter().position(|id| *id == stream) {
                self.new_source(slot, stream, (source, heard, state));
            }
        }
        Some(slot)
    }

    /// Everybody from a slot on, with their slots.
    pub fn starting_at(&self, slot: u32) -> impl Iterator<Item = (u32, &Agent)> {
        self.agents.starting_at(slot)
    }

    /// Forgets who has been silent for long: looks at so many agents and ten times as many data sources, and goes on there next time.
    pub fn sweep(&mut self, now: Nanos, agents: usize) {
        for slot in self.agents.turn(&mut self.swept.0, agents) {
            let Some(agent) = self.agents.get_mut(slot) else { continue };
            let silence = if agent.is_proven() { self.limits.silence } else { self.limits.unproven_silence };
            if now.saturating_sub(agent.heard) > silence {
                self.forget_agent(slot);
            } else if let Some(gone) = agent.forget(now, silence) {
                self.streams -= 1;
                self.forget_stream(gone);
            }
        }
        for slot in self.sources.turn(&mut self.swept.1, 10 * agents) {
            if self.sources.get(slot).is_some_and(|source| now.saturating_sub(source.heard) > self.limits.silence) {
                self.forget_source(slot);
            }
        }
    }

    fn forget_agent(&mut self, slot: u32) {
        let Some(agent) = self.agents.remove(slot) else { return };
        self.streams -= agent.streams().len();
        self.by_identity.remove(&agent.identity);
        self.gone.agents.push((slot, agent.identity));
        agent.streams.into_iter().for_each(|stream| self.forget_stream(stream));
    }

    /// Forgets the data sources of a stream that is gone.
    fn forget_stream(&mut self, gone: Stream) {
        for slot in gone.sources.into_values() {
            self.sources.remove(slot);
            self.gone.sources.push(slot);
        }
    }

    fn forget_source(&mut self, slot: u32) {
        let Some(Source { id, agent, .. }) = self.sources.remove(slot) else { return };
        self.gone.sources.push(slot);
        let streams = self.agents.get_mut(agent).into_iter().flat_map(|agent| &mut agent.streams);
        for stream in streams.filter(|stream| stream.id == id.stream) {
            stream.sources.remove(&id.source);
        }
    }

    /// Who was forgotten since the last time.
    pub fn take_gone(&mut self) -> Gone {
        std::mem::take(&mut self.gone)
    }

    /// Where an agent is: a small number that no other one has while it is known.
    pub fn slot(&self, who: &Identity) -> Option<u32> {
        self.by_identity.get(who).copied()
    }

    /// One agent.
    pub fn agent(&self, who: &Identity) -> Option<&Agent> {
        self.agents.get(*self.by_identity.get(who)?)
    }

    /// An agent's data sources, of all its streams, in no order.
    pub fn sources_of<'a>(&'a self, agent: &'a Agent) -> impl Iterator<Item = &'a Source<T>> {
        let slots = agent.streams().iter().flat_map(|stream| stream.sources.values());
        slots.filter_map(|&slot| self.sources.get(slot))
    }

    /// What is kept of a data source, of each stream of an agent.
    pub fn states<'a>(&'a self, agent: &'a Agent, source: DataSource) -> impl Iterator<Item = &'a T> {
        let slots = agent.streams().iter().filter_map(move |stream| stream.sources.get(&source));
        slots.filter_map(|&slot| self.peek(slot))
    }

    /// The agent in a slot.
    pub fn at(&self, slot: u32) -> Option<&Agent> {
        self.agents.get(slot)
    }

    /// How many data sources are known.
    pub fn source_count(&self) -> usize {
        self.sources.len()
    }

    /// How many agents are known.
    pub(crate) fn len(&self) -> usize {
        self.agents.len()
    }

    /// What was refused or given up.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}
