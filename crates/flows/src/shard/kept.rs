//! Agents as they are kept over a restart: what the next rate and the next loss are reckoned from.

use serde::{Deserialize, Serialize};
use weir_wire::sflow::DataSource;

use super::Shard;
use super::part::Source;
use crate::agents::{Agent, Nanos, SourceId, StreamId};

/// An agent, and its data sources: the stream of each, its class and index, when it was heard, and what is kept of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Kept<A = Agent, S = Source> {
    /// Who.
    pub agent: A,
    sources: Vec<(StreamId, u32, u32, Nanos, S)>,
}

impl Shard {
    /// Appends the agents from this slot on, some tens of kilobytes of them; the slot to go on at, if there are more.
    ///
    /// # Errors
    /// One of them cannot be written.
    pub fn keep(&self, from: u32, bytes: &mut Vec<u8>) -> postcard::Result<Option<u32>> {
        for (slot, agent) in self.agents.starting_at(from) {
            let sources = self.agents.sources_of(agent).map(|kept| {
                let DataSource { class, index } = kept.id.source;
                (kept.id.stream, class, index, kept.heard, &kept.state)
            });
            let kept = Some(Kept { agent, sources: sources.collect() });
            *bytes = postcard::to_extend(&kept, std::mem::take(bytes))?;
            if bytes.len() >= SLICE {
                return Ok(Some(slot + 1));
            }
        }
        Ok(None)
    }

    /// Knows an agent again; whether it is heard and there is room for it.
    pub fn take_over(&mut self, kept: Kept) -> bool {
        let who = kept.agent.identity;
        let sources = kept.sources.into_iter().map(|(stream, class, index, heard, state)| {
            (SourceId { stream, source: DataSource { class, index } }, heard, state)
        });
        if !self.allowed.is_heard(who.address) {
            return false;
        }
        let Some(slot) = self.agents.take_over(kept.agent, sources) else { return false };
        self.welcome(slot, who);
        let Self { agents, names, .. } = self;
        for source in agents.agent(&who).into_iter().flat_map(|agent| agents.sources_of(agent)) {
            for block in source.state.counters.blocks() {
                names.learn(slot, source.id.source, &source.state.counters, block.structure, block.moment.now);
            }
        }
        true
    }
}

/// Bytes of one turn.
const SLICE: usize = 64 << 10;
