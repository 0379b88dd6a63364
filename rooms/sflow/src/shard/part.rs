//! One part of the analysis: its agents, and what each of their datagrams does.

use std::net::SocketAddr;

use weir_wire::sflow::{CounterSample, Datagram, DiscardedPacket, FlowSample, Sample};

use super::allowed::Allowed;
use super::offenders::Offenders;
use super::{Now, Statistics, Table, Tally};
use crate::agents::{self, Agents, Identity, Placed, Step, Verdict};
use crate::fate::Fate;
use crate::sampling::Sampler;
use crate::settings::{Limits, Settings};

/// What one worker knows.
#[derive(Debug)]
pub struct Shard {
    limits: agents::Limits,
    allowed: Allowed,
    agents: Agents<Source>,
    offenders: Offenders,
    tally: Tally,
    /// Datagrams that did not come, less those that came late.
    missing: i64,
}

/// What is known of a data source.
#[derive(Debug, Default)]
struct Source {
    sampler: Sampler,
}

impl Shard {
    /// Nobody is known yet.
    pub(super) fn new(settings: &Settings, limits: Limits) -> Self {
        let limits = agents::Limits { agents: limits.agents, sources: limits.sources, ..Default::default() };
        Self {
            limits,
            allowed: Allowed::new(&settings.allow),
            agents: Agents::new(limits),
            offenders: Offenders::default(),
            tally: Tally::default(),
            missing: 0,
        }
    }

    /// Takes a datagram into account; tells what became of it.
    #[inline]
    pub fn datagram(&mut self, bytes: &[u8], peer: SocketAddr, now: Now) -> Fate {
        let datagram = match Datagram::parse(bytes) {
            Ok(datagram) => datagram,
            Err(malformed) => {
                self.offenders.count(peer.ip());
                return malformed.into();
            }
        };
        if !self.allowed.is_heard(datagram.agent) {
            return Fate::NotAllowed;
        }
        let who = Identity { address: datagram.agent, sub_agent: datagram.sub_agent };
        let verdict = self.agents.datagram(now.nanos, who, datagram.sequence, datagram.uptime);
        let Verdict::Placed(placed) = verdict else { return Fate::from(&verdict) };
        match placed.step {
            Step::Lost(lost) => self.missing += i64::from(lost),
            Step::Late => self.missing -= 1,
            _ => {}
        }
        for sample in datagram.samples() {
            match sample {
                Ok(Sample::Flow(sample)) => self.flow(&placed, &sample),
                Ok(Sample::Counters(sample)) => self.counters(&placed, &sample),
                Ok(Sample::Discarded(sample)) => self.discarded(&placed, &sample),
                Ok(Sample::Unknown { .. }) => self.tally.unknown += 1,
                Err(_) => {
                    self.tally.malformed += 1;
                    self.offenders.count(datagram.agent);
                }
            }
        }
        Fate::Analysed
    }

    /// Goes over to other settings; what is known stays.
    pub(super) fn adopt(&mut self, settings: &Settings) {
        self.allowed = Allowed::new(&settings.allow);
    }

    fn flow(&mut self, placed: &Placed, sample: &FlowSample<'_>) {
        let Some(source) = self.agents.source(placed, sample.source) else {
            self.tally.refused += 1;
            return;
        };
        let FlowSample { sequence, sampling_rate, sample_pool, drops, .. } = *sample;
        match source.sampler.sample(placed.moment.epoch, sequence, sampling_rate, sample_pool, drops) {
            Some(_weight) => self.tally.flow += 1,
            None => self.tally.repeated += 1,
        }
    }

    fn counters(&mut self, _placed: &Placed, _sample: &CounterSample<'_>) {
        self.tally.counter += 1;
    }

    fn discarded(&mut self, _placed: &Placed, _sample: &DiscardedPacket<'_>) {
        self.tally.discarded += 1;
    }

    /// Forgets who has been silent for long, a slice at a time.
    pub fn expire(&mut self, now: Now, agents: usize) {
        self.agents.sweep(now.nanos, agents);
    }

    /// How many agents are to be looked at in a second so that each is once a minute.
    pub(super) fn due(&self) -> usize {
        self.agents.len() / 60 + 1
    }

    /// What is in the tables.
    pub(super) fn statistics(&self) -> Statistics {
        let totals = self.agents.totals();
        let table = |name, entries: usize, limit: usize, evicted| Table {
            name,
            entries: entries as u64,
            limit: limit as u64,
            evicted,
        };
        let newcomers = self.agents.newcomers();
        let tables = vec![
            table("agents", self.agents.len(), self.limits.agents, totals.refused_agents),
            table("newcomers", newcomers.len(), self.limits.newcomers, newcomers.evicted),
            table("sources", self.agents.source_count(), self.limits.sources, totals.refused_sources),
        ];
        Statistics { tally: self.tally, missing: u64::try_from(self.missing).unwrap_or_default(), tables }
    }

    /// Who sends what is malformed.
    pub fn offenders(&self) -> &Offenders {
        &self.offenders
    }
}

/// Agents that are looked at in one turn.
pub(super) const SLICE: usize = 128;
