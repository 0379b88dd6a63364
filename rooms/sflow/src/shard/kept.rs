//! Agents as they are kept over a restart: what the next rate and the next loss are reckoned from.

use std::io;

use serde::{Deserialize, Serialize};
use weir_wire::sflow::DataSource;

use super::part::{Source, learn};
use super::{Shard, Shards};
use crate::agents::{Agent, Nanos, SourceId, StreamId};
use crate::counters::Counters;
use crate::sampling::Sampler;

/// An agent, and its data sources.
#[derive(Debug, Deserialize)]
pub(crate) struct Kept {
    agent: Agent,
    sources: Vec<KeptSource<Counters, Sampler>>,
}

/// The same, borrowed.
#[derive(Serialize)]
struct Keeping<'a> {
    agent: &'a Agent,
    sources: Vec<KeptSource<&'a Counters, &'a Sampler>>,
}

/// A data source. `None`: it sends no such samples.
#[derive(Debug, Serialize, Deserialize)]
struct KeptSource<C, S> {
    stream: StreamId,
    class: u32,
    index: u32,
    heard: Nanos,
    counted: u64,
    counters: Option<C>,
    sampler: Option<S>,
    drops: Option<S>,
}

impl Shards {
    /// Hands over every agent that is known as bytes: a list of `Option<Kept>` whose end is not written.
    ///
    /// # Errors
    /// Those of `write`, which end it.
    pub(crate) fn keep(&self, mut write: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut bytes = Vec::new();
        for shard in &self.shards {
            let mut from = Some(0);
            while let Some(slot) = from {
                bytes.clear();
                from = shard.read(|shard| shard.keep(slot, &mut bytes)).map_err(io::Error::other)?;
                write(&bytes)?;
            }
        }
        Ok(())
    }

    /// Knows an agent again; whether it is heard by now and there is room for it.
    pub(crate) fn take_over(&self, kept: Kept) -> bool {
        self.of(kept.agent.identity.address, |shard| shard.take_over(kept))
    }
}

impl Shard {
    /// Appends the agents from this slot on, some tens of kilobytes of them; the slot to go on at, if there are more.
    fn keep(&self, from: u32, bytes: &mut Vec<u8>) -> postcard::Result<Option<u32>> {
        for (slot, agent) in self.agents.starting_at(from) {
            let sources = self.agents.sources_of(agent).map(|source| {
                let Source { sampler, counters, drops, counted } = &source.state;
                let used = |sampler: &&Sampler| sampler.ledger().received > 0;
                KeptSource {
                    stream: source.id.stream,
                    class: source.id.source.class,
                    index: source.id.source.index,
                    heard: source.heard,
                    counted: *counted,
                    counters: (*counted > 0).then_some(counters),
                    sampler: Some(sampler).filter(used),
                    drops: Some(drops).filter(used),
                }
            });
            let kept = Some(Keeping { agent, sources: sources.collect() });
            *bytes = postcard::to_extend(&kept, std::mem::take(bytes))?;
            if bytes.len() >= SLICE {
                return Ok(Some(slot + 1));
            }
        }
        Ok(None)
    }

    fn take_over(&mut self, kept: Kept) -> bool {
        let who = kept.agent.identity;
        let sources = kept.sources.into_iter().map(|kept| {
            let KeptSource { stream, class, index, heard, counted, counters, sampler, drops } = kept;
            let (counters, sampler, drops) =
                (counters.unwrap_or_default(), sampler.unwrap_or_default(), drops.unwrap_or_default());
            (SourceId { stream, source: DataSource { class, index } }, heard, Source { sampler, counters, drops, counted })
        });
        if !self.allowed.is_heard(who.address) {
            return false;
        }
        let Some(slot) = self.agents.take_over(kept.agent, sources) else { return false };
        self.welcome(who);
        self.names.know(slot, who.address);
        let Self { agents, names, seen, .. } = self;
        for source in agents.agent(&who).into_iter().flat_map(|agent| agents.sources_of(agent)) {
            for block in source.state.counters.blocks() {
                learn(seen, names, slot, source.id.source, &source.state.counters, block.structure, block.moment.now);
            }
        }
        true
    }
}

/// Bytes of one turn.
const SLICE: usize = 64 << 10;
