//! All agents of a worker, and what is kept of each of their data sources.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::quality::RandomState;
use serde::{Deserialize, Serialize};
use weir_wire::sflow::DataSource;

use super::agent::{Agent, Place};
use super::newcomers::Newcomers;
use super::sequence::Step;
use super::slots::Slots;
use super::stream::{Moment, Stream, StreamId};
use super::{Nanos, SECOND};

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

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Agents.
    pub agents: usize,
    /// Newcomers on probation.
    pub newcomers: usize,
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
            newcomers: 16_384,
            sources: 2_097_152,
            sources_of_agent: 8_192,
            sources_of_unproven: 64,
            silence: 900 * SECOND,
            unproven_silence: 180 * SECOND,
        }
    }
}

/// All agents of a worker; of each data source it keeps a `T`.
#[derive(Debug)]
pub struct Agents<T> {
    limits: Limits,
    agents: Slots<Agent>,
    sources: Slots<Source<T>>,
    by_identity: HashMap<Identity, u32, RandomState>,
    by_source: HashMap<SourceId, u32, RandomState>,
    newcomers: Newcomers,
    next_stream: u32,
    swept: (usize, usize),
    /// Agents that are gone, and where they were.
    gone: Vec<(u32, Identity)>,
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
    /// Where it stands among the agent's.
    position: u32,
}

/// What the tables refused or gave up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Datagrams of newcomers on probation.
    pub probation: u64,
    /// Datagrams of proven newcomers for whom there was no room.
    pub refused_agents: u64,
    /// Samples of new data sources for which there was no room.
    pub refused_sources: u64,
    /// Agents forgotten for their silence.
    pub expired_agents: u64,
    /// Data sources forgotten, for their silence or their agent's.
    pub expired_sources: u64,
    /// Streams given up for others behind the same identity.
    pub evicted_streams: u64,
}

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Of a stream: take its samples.
    Placed(Placed),
    /// Here before: its samples have been taken.
    Duplicate,
    /// Too late to know whether it was here before.
    Stale,
    /// It continues no stream. If the next one continues it, that is a stream.
    Stranger,
    /// Of a newcomer who has not proven itself.
    Probation,
    /// Of an agent for whom there is no room.
    Refused,
}

/// Where a datagram belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its stream.
    pub stream: StreamId,
    /// What its sequence number says. [`Step::Jump`]: the agent restarted or counts on elsewhere.
    pub step: Step,
    /// Whether that is a restart of the agent.
    pub restarted: bool,
    /// When it was sent and came.
    pub moment: Moment,
    agent: u32,
}

impl Placed {
    /// Where its agent is: [`Agents::slot`].
    pub fn agent(&self) -> u32 {
        self.agent
    }
}

impl<T> Agents<T> {
    /// Nobody yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            agents: Slots::default(),
            sources: Slots::default(),
            by_identity: HashMap::default(),
            by_source: HashMap::default(),
            newcomers: Newcomers::new(limits.newcomers),
            next_stream: 0,
            swept: (0, 0),
            gone: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// Finds out what a datagram is that comes from where its agent is.
    pub fn datagram(&mut self, now: Nanos, who: Identity, number: u32, uptime: u32) -> Verdict {
        self.datagram_from(now, who, (number, uptime), false)
    }

    /// Finds out what a datagram is. `is_foreign`: it comes from where its agent is not: it continues none but such streams.
    #[inline]
    pub fn datagram_from(
        &mut self,
        now: Nanos,
        who: Identity,
        (number, uptime): (u32, u32),
        is_foreign: bool,
    ) -> Verdict {
        let slot = match self.by_identity.get(&who) {
            Some(&slot) => slot,
            None => match self.newcomer(now, who, number, uptime) {
                Ok(slot) => slot,
                Err(verdict) => return verdict,
            },
        };
        let Some(agent) = self.agents.get_mut(slot) else { return Verdict::Refused };
        let (index, step, restarted) = match agent.place(now, (number, uptime, is_foreign), &mut self.next_stream) {
            Place::Stream(_, Step::Duplicate) => return Verdict::Duplicate,
            Place::Stream(_, Step::Stale) => return Verdict::Stale,
            Place::Nowhere => return Verdict::Stranger,
            Place::Stream(index, step) => (index, step, false),
            Place::Again(index, restarted) => (index, Step::Jump, restarted),
            Place::New(index, gone) => {
                if let Some(gone) = gone {
                    self.totals.evicted_streams += 1;
                    self.forget_sources(slot, Some(gone));
                }
                (index, Step::First, false)
            }
        };
        let Some(agent) = self.agents.get_mut(slot) else { return Verdict::Refused };
        // Forged datagrams hardly continue one another.
        agent.proven |= matches!(step, Step::Next | Step::Lost(_)) && now.saturating_sub(agent.since) >= SECOND;
        let stream = agent.stream_mut(index);
        let moment = stream.moment(now, uptime, step);
        Verdict::Placed(Placed { stream: stream.id, step, restarted, moment, agent: slot })
    }

    #[cold]
    fn newcomer(&mut self, now: Nanos, who: Identity, number: u32, uptime: u32) -> Result<u32, Verdict> {
        let Some(proven) = self.newcomers.admit(now, who, number, uptime) else {
            self.totals.probation += 1;
            return Err(Verdict::Probation);
        };
        if self.agents.len() >= self.limits.agents {
            self.totals.refused_agents += 1;
            return Err(Verdict::Refused);
        }
        let mut agent = Agent::new(who, now);
        agent.proven = proven;
        let slot = self.agents.insert(agent);
        self.by_identity.insert(who, slot);
        Ok(slot)
    }

    /// A datagram came from here.
    #[inline]
    pub fn came_from(&mut self, placed: &Placed, peer: IpAddr) {
        if let Some(agent) = self.agents.get_mut(placed.agent) {
            agent.came_from(peer);
        }
    }

    /// Two speak in a stream of the agent in a slot.
    #[cold]
    pub fn dispute(&mut self, slot: u32, stream: StreamId, now: Nanos) {
        if let Some(agent) = self.agents.get_mut(slot) {
            agent.dispute(stream, now);
        }
    }

    /// Whoever is in a slot.
    #[inline]
    pub fn at(&self, slot: u32) -> Option<&Agent> {
        self.agents.get(slot)
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
        let id = SourceId { stream: placed.stream, source };
        let few = self.agents.get(placed.agent).and_then(|agent| agent.find(&id));
        match few.or_else(|| self.by_source.get(&id).copied()) {
            Some(slot) => Some(slot),
            None => self.new_source(placed, id),
        }
    }

    /// What is kept of the data source there, of which a sample came with the datagram.
    #[inline]
    pub fn source_in(&mut self, slot: u32, placed: &Placed) -> Option<&mut T> {
        let source = self.sources.get_mut(slot)?;
        source.heard = placed.moment.now;
        Some(&mut source.state)
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

    #[cold]
    fn new_source(&mut self, placed: &Placed, id: SourceId) -> Option<u32>
    where
        T: Default,
    {
        self.insert_source(placed.agent, id, placed.moment.now, T::default())
    }

    fn insert_source(&mut self, of: u32, id: SourceId, heard: Nanos, state: T) -> Option<u32> {
        let agent = self.agents.get_mut(of)?;
        let limit = if agent.proven { self.limits.sources_of_agent } else { self.limits.sources_of_unproven };
        if agent.sources.len() >= limit || self.sources.len() >= self.limits.sources {
            agent.refuse_source();
            self.totals.refused_sources += 1;
            return None;
        }
        let position = agent.sources.len() as u32;
        let slot = self.sources.insert(Source { id, heard, state, agent: of, position });
        agent.sources.push((id, slot));
        self.by_source.insert(id, slot);
        Some(slot)
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
        let (identity, streams) = (agent.identity, agent.renumber(&mut self.next_stream));
        let slot = self.agents.insert(agent);
        self.by_identity.insert(identity, slot);
        for (id, heard, state) in sources {
            if let Some(&(_, stream)) = streams.iter().find(|(before, _)| *before == id.stream) {
                self.insert_source(slot, SourceId { stream, ..id }, heard, state);
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
            let silence = if agent.proven { self.limits.silence } else { self.limits.unproven_silence };
            if now.saturating_sub(agent.heard) > silence {
                let identity = agent.identity;
                self.forget_sources(slot, None);
                self.agents.remove(slot);
                self.by_identity.remove(&identity);
                self.gone.push((slot, identity));
                self.totals.expired_agents += 1;
            } else if let Some(gone) = agent.forget(now, silence) {
                self.forget_sources(slot, Some(gone));
            }
        }
        for slot in self.sources.turn(&mut self.swept.1, 10 * agents) {
            if self.sources.get(slot).is_some_and(|source| now.saturating_sub(source.heard) > self.limits.silence) {
                self.forget_source(slot);
            }
        }
    }

    /// Forgets the data sources of an agent; of one stream of it alone, if told which.
    fn forget_sources(&mut self, agent: u32, stream: Option<StreamId>) {
        let Some(slots) = self.agents.get(agent).map(|agent| agent.sources.clone()) else { return };
        for (_, slot) in slots {
            let of_it = |source: &Source<T>| stream.is_none_or(|stream| source.id.stream == stream);
            if self.sources.get(slot).is_some_and(of_it) {
                self.forget_source(slot);
            }
        }
    }

    fn forget_source(&mut self, slot: u32) {
        let Some(gone) = self.sources.remove(slot) else { return };
        self.by_source.remove(&gone.id);
        self.totals.expired_sources += 1;
        let Some(agent) = self.agents.get_mut(gone.agent) else { return };
        agent.sources.swap_remove(gone.position as usize);
        if let Some(&(_, moved)) = agent.sources.get(gone.position as usize)
            && let Some(moved) = self.sources.get_mut(moved)
        {
            moved.position = gone.position;
        }
    }

    /// Agents that were forgotten since the last time, and their slots: the next newcomers get them.
    pub fn take_gone(&mut self) -> Vec<(u32, Identity)> {
        std::mem::take(&mut self.gone)
    }

    /// Where an agent is: a small number that no other one has while it is known.
    pub fn slot(&self, who: &Identity) -> Option<u32> {
        self.by_identity.get(who).copied()
    }

    /// Everybody who is known, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Agent> {
        self.agents.iter()
    }

    /// One agent.
    pub fn agent(&self, who: &Identity) -> Option<&Agent> {
        self.agents.get(*self.by_identity.get(who)?)
    }

    /// An agent's data sources, of all its streams, in no order.
    pub fn sources_of<'a>(&'a self, agent: &'a Agent) -> impl Iterator<Item = &'a Source<T>> {
        agent.sources.iter().filter_map(|&(_, slot)| self.sources.get(slot))
    }

    /// What is kept of a data source of the agent in a slot, of each of its streams.
    pub fn states(&self, slot: u32, source: DataSource) -> impl Iterator<Item = &T> {
        let streams = self.agents.get(slot).map(Agent::streams).unwrap_or_default();
        let place = move |stream: &Stream| self.by_source.get(&SourceId { stream: stream.id, source });
        streams.iter().filter_map(place).filter_map(|&slot| Some(&self.sources.get(slot)?.state))
    }

    /// How many streams the agent in a slot has.
    pub fn streams(&self, slot: u32) -> usize {
        self.agents.get(slot).map_or(0, |agent| agent.streams().len())
    }

    /// How many data sources are known.
    pub fn source_count(&self) -> usize {
        self.sources.len()
    }

    /// How many agents are known.
    pub fn len(&self) -> usize {
        self.agents.len()
    }

    /// Whether nobody is known.
    pub fn is_empty(&self) -> bool {
        self.agents.len() == 0
    }

    /// Who waits to be known.
    pub fn newcomers(&self) -> &Newcomers {
        &self.newcomers
    }

    /// What was refused or given up.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}
