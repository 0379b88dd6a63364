//! Data sources of a shard, and how much all of their samples are worth.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use weir_wire::sflow::DataSource;

use super::decay::{Instant, Stream};
use crate::names::AgentId;
use crate::sys::prefetch;

/// Where flows have a data source, as whoever brings its packets remembers it: the next one is not looked up.
#[derive(Clone, Copy, Debug)]
pub struct Seat(u32);

impl Default for Seat {
    fn default() -> Self {
        Self(u32::MAX)
    }
}

#[derive(Debug, Default)]
pub(super) struct Sources {
    states: Vec<State>,
    /// One a clock for samples, one a clock for drops, of each data source.
    streams: Vec<Stream>,
    clocks: usize,
    index: HashTable<u32>,
    free: Vec<u32>,
    hasher: RandomState,
    hand: usize,
}

#[derive(Clone, Copy, Debug)]
struct State {
    agent: AgentId,
    source: DataSource,
    /// When the last packet came, in seconds; infinity: this place is free.
    last: f64,
}

impl Sources {
    /// The place of a data source; a new one has a place if there are fewer than `limit`. `seat` has it, where it was found before.
    #[inline]
    pub(super) fn find(
        &mut self,
        seat: &mut Seat,
        agent: AgentId,
        source: DataSource,
        now: f64,
        limit: usize,
    ) -> Option<u32> {
        if let Some(state) = self.states.get_mut(seat.0 as usize)
            && state.source == source
            && state.agent == agent
            && state.last.is_finite()
        {
            state.last = now;
            return Some(seat.0);
        }
        let found = self.look_up(agent, source, now, limit);
        *seat = found.map_or(Seat::default(), Seat);
        found
    }

    /// Asks for what is known of a data source.
    #[inline]
    pub(super) fn foresee(&self, seat: Seat) {
        self.states.get(seat.0 as usize).into_iter().for_each(prefetch);
        self.streams.get(seat.0 as usize * 2 * self.clocks).into_iter().for_each(prefetch);
    }

    fn look_up(&mut self, agent: AgentId, source: DataSource, now: f64, limit: usize) -> Option<u32> {
        let hash = hash(&self.hasher, agent, source);
        let found = self.index.find(hash, |&at| {
            let state = &self.states[at as usize];
            state.source == source && state.agent == agent
        });
        match found {
            Some(&at) => {
                self.states[at as usize].last = now;
                Some(at)
            }
            None => self.insert(hash, State { agent, source, last: now }, limit),
        }
    }

    fn insert(&mut self, hash: u64, state: State, limit: usize) -> Option<u32> {
        if self.index.len() >= limit {
            return None;
        }
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.states.push(state);
                (self.states.len() - 1) as u32
            }
        };
        self.states[at as usize] = state;
        let stride = 2 * self.clocks;
        self.streams.resize(self.states.len() * stride, Stream::default());
        self.streams[at as usize * stride..][..stride].fill(Stream::default());
        let (states, hasher) = (&self.states, &self.hasher);
        self.index.insert_unique(hash, at, |&at| hash_of(hasher, &states[at as usize]));
        Some(at)
    }

    /// Counts a sample by all clocks.
    #[inline]
    pub(super) fn count(&mut self, source: u32, dropped: bool, instants: &[Instant]) {
        let first = source as usize * 2 * self.clocks + if dropped { self.clocks } else { 0 };
        for (stream, instant) in self.streams[first..][..self.clocks].iter_mut().zip(instants) {
            stream.count(*instant);
        }
    }

    /// What a clock has seen of a data source.
    pub(super) fn stream(&self, source: u32, clock: usize, dropped: bool) -> Stream {
        let at = source as usize * 2 * self.clocks + if dropped { self.clocks } else { 0 } + clock;
        self.streams.get(at).copied().unwrap_or_default()
    }

    /// When its last packet came, in seconds; infinity: it is gone.
    pub(super) fn last(&self, source: u32) -> f64 {
        self.states.get(source as usize).map_or(f64::INFINITY, |state| state.last)
    }

    /// Who and where; `None`: it is gone.
    pub(super) fn get(&self, source: u32) -> Option<(AgentId, DataSource)> {
        let state = self.states.get(source as usize).filter(|state| state.last.is_finite())?;
        Some((state.agent, state.source))
    }

    /// Makes room for a further clock, which has not counted yet.
    pub(super) fn set_clocks(&mut self, clocks: usize) {
        let mut streams = vec![Stream::default(); self.states.len() * 2 * clocks];
        if self.clocks > 0 {
            for (new, old) in streams.chunks_exact_mut(clocks).zip(self.streams.chunks_exact(self.clocks)) {
                new[..self.clocks].copy_from_slice(old);
            }
        }
        (self.streams, self.clocks) = (streams, clocks);
    }

    /// Lets a clock begin anew.
    pub(super) fn reset_clock(&mut self, clock: usize) {
        self.streams.iter_mut().skip(clock).step_by(self.clocks).for_each(|stream| *stream = Stream::default());
    }

    /// Forgets data sources that have been silent since `oldest`, a few at a time.
    pub(super) fn expire(&mut self, oldest: f64, mut gone: impl FnMut(u32)) {
        for _ in 0..PLACES.min(self.states.len()) {
            let at = if self.hand < self.states.len() { self.hand } else { 0 };
            self.hand = at + 1;
            if self.states[at].last < oldest {
                gone(at as u32);
                self.free_place(at);
                // One is enough: its flows were looked for among all.
                break;
            }
        }
    }

    /// Forgets the data sources of agents, and tells which places they had.
    pub(super) fn remove(&mut self, agents: &[AgentId]) -> Vec<u32> {
        let gone = |state: &State| state.last.is_finite() && agents.contains(&state.agent);
        let places: Vec<u32> =
            (0..self.states.len()).filter(|&at| gone(&self.states[at])).map(|at| at as u32).collect();
        places.iter().for_each(|&at| self.free_place(at as usize));
        places
    }

    fn free_place(&mut self, at: usize) {
        let hash = hash_of(&self.hasher, &self.states[at]);
        if let Ok(place) = self.index.find_entry(hash, |&other| other as usize == at) {
            place.remove();
        }
        self.states[at].last = f64::INFINITY;
        self.free.push(at as u32);
    }
}

fn hash_of(hasher: &RandomState, state: &State) -> u64 {
    hash(hasher, state.agent, state.source)
}

fn hash(hasher: &RandomState, agent: AgentId, source: DataSource) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write_u64(u64::from(agent.0) << 32 | u64::from(source.index));
    hasher.write_u32(source.class);
    hasher.finish()
}

/// Places that are looked at for silent ones at once.
const PLACES: usize = 1000;
