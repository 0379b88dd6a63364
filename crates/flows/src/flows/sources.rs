//! How much all samples of each data source are worth, at the places that whoever brings its packets gives them.

use weir_wire::sflow::DataSource;

use super::decay::{Instant, Stream};
use super::packet::Packet;
use crate::names::AgentId;
use crate::sys::prefetch;

#[derive(Debug, Default)]
pub(super) struct Sources {
    states: Vec<State>,
    /// One a clock for samples, one a clock for drops, of each data source.
    streams: Vec<Stream>,
    clocks: usize,
}

#[derive(Clone, Copy, Debug)]
struct State {
    agent: AgentId,
    source: DataSource,
    /// When the last packet came, in seconds; infinity: nobody is here.
    last: f64,
}

const NOBODY: State =
    State { agent: AgentId(u32::MAX), source: DataSource { class: 0, index: 0 }, last: f64::INFINITY };

impl Sources {
    /// Asks for what is known of a data source.
    #[inline]
    pub(super) fn foresee(&self, place: u32) {
        self.states.get(place as usize).into_iter().for_each(prefetch);
        self.streams.get(place as usize * 2 * self.clocks).into_iter().for_each(prefetch);
    }

    /// Counts a packet by all clocks.
    #[inline]
    pub(super) fn count(&mut self, place: u32, packet: &Packet<'_>, now: f64, instants: &[Instant]) {
        let at = place as usize;
        if at >= self.states.len() {
            self.states.resize(at + 1, NOBODY);
            self.streams.resize((at + 1) * 2 * self.clocks, Stream::default());
        }
        self.states[at] = State { agent: packet.agent, source: packet.source, last: now };
        let first = self.first(place, packet.is_discarded());
        for (stream, instant) in self.streams[first..][..self.clocks].iter_mut().zip(instants) {
            stream.count(*instant);
        }
    }

    /// What a clock has seen of a data source.
    pub(super) fn stream(&self, place: u32, clock: usize, dropped: bool) -> Stream {
        self.streams.get(self.first(place, dropped) + clock).copied().unwrap_or_default()
    }

    fn first(&self, place: u32, dropped: bool) -> usize {
        (place as usize * 2 + usize::from(dropped)) * self.clocks
    }

    /// When its last packet came, in seconds; infinity: it is gone.
    pub(super) fn last(&self, place: u32) -> f64 {
        self.states.get(place as usize).map_or(f64::INFINITY, |state| state.last)
    }

    /// Who and where; of one that is gone until its place is given to another.
    pub(super) fn get(&self, place: u32) -> Option<(AgentId, DataSource)> {
        self.states.get(place as usize).map(|state| (state.agent, state.source))
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

    /// Forgets what is at these places.
    pub(super) fn forget(&mut self, places: &[u32]) {
        let stride = 2 * self.clocks;
        for at in places.iter().map(|&place| place as usize) {
            if let Some(state) = self.states.get_mut(at) {
                state.last = f64::INFINITY;
                self.streams[at * stride..][..stride].fill(Stream::default());
            }
        }
    }
}
