//! One part of the analysis: its agents, and what each of their datagrams does.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_wire::sflow::{CounterSample, DataSource, Datagram, DiscardedPacket, FlowSample, Interface, Sample};

use super::agrees::Agrees;
use super::allowed::Allowed;
use super::directory::Names;
use super::offenders::Offenders;
use super::protecting::Protecting;
use super::watching::{Drop, Watching, Who};
use super::ways::Ways;
use super::{Limits, Now, Tally};
use crate::agents::{self, Agent, Agents, Gone, Identity, Placed, Step, Told as Head};
use crate::counters::{Counters, Reason, Reasons};
use crate::events::Crossings;
use crate::fate::Fate;
use crate::flows::{Flows, Packet, Record, Seen as SeenKeys};
use crate::names::{Lookups, Named};
use crate::sampling::{Discards, Sampler};
use crate::thresholds::Rules;

/// What one worker knows.
#[derive(Debug)]
pub struct Shard {
    pub(super) limits: Limits,
    pub(super) allowed: Allowed,
    pub(super) agents: Agents<Source>,
    /// Sub-agents by address.
    pub(super) addresses: BTreeMap<IpAddr, Vec<u32>>,
    pub(super) names: Names,
    pub(super) flows: Flows,
    /// Packets of the datagram at hand whose flows have not been settled, and what is known of those that were dropped.
    packets: Vec<Option<Drop>>,
    /// Where the data sources of the samples of the datagram at hand are; `None`: there was no room, or the sample has none.
    slots: Vec<Option<u32>>,
    pub(super) keys: SeenKeys,
    pub(super) watching: Watching,
    pub(super) reasons: Reasons,
    pub(super) offenders: Offenders,
    /// `None`: nobody protects, and nothing of it is done.
    protecting: Option<Box<Protecting>>,
    hasher: foldhash::fast::RandomState,
    pub(super) tally: Tally,
    /// Datagrams that did not come, less those that came late.
    pub(super) missing: i64,
    /// The clock of flows begins here.
    start: u64,
}

/// What is known of a data source.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Source {
    /// Of packets, but for those on their way out that have a sampler of their own.
    pub sampler: Sampler,
    /// Of packets on their way out, where the device counts either way by itself.
    pub egress: Option<Box<Sampler>>,
    #[serde(skip)]
    pub(super) ways: Ways,
    /// Whether the samples agree with these counters.
    #[serde(skip)]
    pub(super) agrees: Agrees,
    /// Whether they, or those of the interfaces that its samples name, tell of more or less than its samples.
    #[serde(skip)]
    pub(super) contradicted: bool,
    /// What it counted.
    pub counters: Counters,
    /// Of discarded packets.
    pub drops: Option<Box<Discards>>,
    /// Counter samples that came.
    pub counted: u64,
}

impl Shard {
    /// Nobody is known yet. `shard`: which one, of how many.
    pub fn new(
        limits: &Limits,
        shard: (usize, usize),
        lookups: Arc<Lookups>,
        events: Arc<dyn Crossings>,
        now: Now,
    ) -> Self {
        let limits = limits.share(shard.1);
        let Limits { agents, streams, sources, .. } = limits;
        Self {
            allowed: Allowed::default(),
            agents: Agents::new(agents::Limits { agents, streams, sources, ..Default::default() }),
            addresses: BTreeMap::new(),
            names: Names::new(shard),
            flows: Flows::new(limits.flows, lookups),
            packets: Vec::new(),
            slots: Vec::new(),
            keys: SeenKeys::default(),
            watching: Watching::new(events, limits.crossings),
            reasons: Reasons::default(),
            offenders: Offenders::new(limits.offenders),
            protecting: None,
            hasher: foldhash::fast::RandomState::default(),
            tally: Tally::default(),
            missing: 0,
            start: now.nanos,
            limits,
        }
    }

    /// Takes a datagram into account; tells what became of it. (Not inlined: what calls it may be optimised for size.)
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
        let content = self.hasher.hash_one(bytes) as u32;
        let head = Head { number: datagram.sequence, uptime: datagram.uptime, content };
        let mut placed = self.agents.datagram(now.nanos, who, peer, &head);
        // Agents that are listed have room before others.
        if placed == Err(Fate::NoRoom)
            && let Some(protecting) = &self.protecting
            && protecting.names(who.address, peer)
            && self.agents.make_room(|agent| {
                !agent.streams().iter().any(|stream| protecting.names(agent.identity.address, stream.peer))
            })
        {
            placed = self.agents.datagram(now.nanos, who, peer, &head);
        }
        let placed = match placed {
            Ok(placed) => placed,
            Err(fate) => return fate,
        };
        match placed.step {
            Step::Lost(lost) => self.missing += i64::from(lost),
            Step::Late => self.missing -= 1,
            Step::First => {
                self.forget_gone();
                self.welcome(placed.agent(), who);
            }
            _ => {}
        }
        if let Some(protecting) = &mut self.protecting {
            protecting.placed(who, peer.ip(), &placed, &mut self.agents);
        }
        self.find_sources(&placed, &datagram);
        for (at, sample) in datagram.samples().enumerate() {
            match (sample, self.slots[at]) {
                (Ok(Sample::Unknown { .. }), _) => self.tally.unknown += 1,
                (Err(_), _) => {
                    self.tally.malformed += 1;
                    self.offenders.count(who.address);
                }
                (Ok(_), None) => self.tally.refused += 1,
                (Ok(Sample::Flow(sample)), Some(slot)) => self.flow(slot, who.address, &placed, &sample, now),
                (Ok(Sample::Counters(sample)), Some(slot)) => self.counters(slot, who.address, &placed, &sample, now),
                (Ok(Sample::Discarded(sample)), Some(slot)) => self.discarded(slot, who.address, &placed, &sample, now),
            }
        }
        self.settle(who.address, &placed, now);
        if let Some(protecting) = &mut self.protecting {
            protecting.outlet().flush();
        }
        Fate::Analysed
    }

    /// A stream is new, and perhaps its agent.
    #[cold]
    pub(super) fn welcome(&mut self, slot: u32, who: Identity) {
        self.names.know(slot, who.address);
        let sub_agents = self.addresses.entry(who.address).or_default();
        if !sub_agents.contains(&who.sub_agent) {
            sub_agents.push(who.sub_agent);
        }
    }

    /// Finds the data sources of all samples before the first one is read, and asks for them: what is in no cache comes at once.
    fn find_sources(&mut self, placed: &Placed, datagram: &Datagram<'_>) {
        self.slots.clear();
        for sample in datagram.samples() {
            let source = match sample {
                Ok(Sample::Flow(sample)) => Some(sample.source),
                Ok(Sample::Counters(sample)) => Some(sample.source),
                Ok(Sample::Discarded(sample)) => Some(sample.source),
                Ok(Sample::Unknown { .. }) | Err(_) => None,
            };
            let slot = source.and_then(|source| self.agents.source_slot(placed, source));
            if let Some(slot) = slot {
                self.agents.foresee(slot);
                self.flows.foresee(slot);
            }
            self.slots.push(slot);
        }
    }

    fn flow(&mut self, slot: u32, address: IpAddr, placed: &Placed, sample: &FlowSample<'_>, now: Now) {
        let seconds = self.seconds(now);
        let Some(source) = self.agents.source_in(slot, placed) else { return };
        let FlowSample { sequence, sampling_rate, sample_pool, drops, .. } = *sample;
        let ingress = ingress(sample);
        if source.egress.is_none() && ingress.is_some_and(|ingress| source.ways.are_apart(ingress, sample_pool)) {
            source.egress = Some(Box::default());
        }
        let sampler = match (ingress, &mut source.egress) {
            (Some(false), Some(egress)) => egress,
            _ => &mut source.sampler,
        };
        let weight = sampler.sample(&placed.moment, sequence, sampling_rate, sample_pool, drops);
        let Some(weight) = weight else {
            self.tally.repeated += 1;
            return;
        };
        self.tally.flow += 1;
        let id = self.names.id(placed.agent());
        let packet = Packet::sampled(id, sample, &self.names);
        self.tally.contradicted += u64::from(packet.contradicted);
        let counted = compare(&mut self.agents, placed, slot, sample, weight.frames, packet.length);
        if let Some(protecting) = &mut self.protecting {
            let counted = counted.and_then(|slot| Some(&mut self.agents.source_at(slot)?.agrees));
            protecting.packet((now.nanos, address), sample, &packet, weight.frames, ingress, counted);
        }
        self.keys.packet(&packet, seconds);
        self.flows.gather(seconds, weight.frames, &packet, slot, self.packets.len());
        self.gathered(None, address, placed, now);
    }

    fn discarded(&mut self, slot: u32, address: IpAddr, placed: &Placed, sample: &DiscardedPacket<'_>, now: Now) {
        let seconds = self.seconds(now);
        let Some(source) = self.agents.source_in(slot, placed) else { return };
        let Some(frames) = source.drops.get_or_insert_default().sample(&placed.moment, sample.sequence, sample.drops)
        else {
            self.tally.repeated += 1;
            return;
        };
        self.tally.discarded += 1;
        let id = self.names.id(placed.agent());
        let packet = Packet::discarded(id, sample, &self.names);
        self.keys.packet(&packet, seconds);
        self.flows.gather(seconds, frames, &packet, slot, self.packets.len());
        let input = match sample.input {
            Interface::Index(index) => Some(index),
            _ => None,
        };
        let drop = Some(Drop { who: packet.ends(), reason: sample.reason, input });
        self.gathered(drop, address, placed, now);
    }

    /// A packet waits for its flows to be settled.
    fn gathered(&mut self, packet: Option<Drop>, address: IpAddr, placed: &Placed, now: Now) {
        self.packets.push(packet);
        if self.flows.is_full() {
            self.settle(address, placed, now);
        }
    }

    /// Settles the flows of the datagram's packets, and looks at the thresholds that are on them.
    #[inline]
    fn settle(&mut self, address: IpAddr, placed: &Placed, now: Now) {
        let Self { flows, packets, agents, names, watching, .. } = self;
        let id = names.id(placed.agent());
        flows.settle(|number, name, flow| {
            let Some(known) = agents.peek(flow.source()) else { return };
            let who = Who { address, id, source: flow.seen_by().1, names: &*names };
            watching.flow(who, &known.counters, name, flow, packets[number], now);
        });
        packets.clear();
    }

    fn counters(&mut self, slot: u32, address: IpAddr, placed: &Placed, sample: &CounterSample<'_>, now: Now) {
        let agent = placed.agent();
        let is_shared = self.agents.at(agent).is_some_and(|agent| self.is_shared(agent, sample.source));
        let Some(source) = self.agents.source_in(slot, placed) else { return };
        self.tally.counter += 1;
        source.counted += 1;
        source.counters.sample(placed.moment, sample, &mut self.reasons);
        if sample.source.class == DataSource::IF_INDEX {
            source.agrees.counters(&source.counters, now.nanos);
        }
        for structure in sample.records().flatten().filter_map(|record| record.structure) {
            self.names.learn(agent, sample.source, &source.counters, structure, now.nanos);
        }
        if is_shared {
            // Whose value would cross?
            self.reasons.count(Reason::Shared);
            return;
        }
        let who = Who { address, id: self.names.id(agent), source: sample.source, names: &self.names };
        self.watching.counters(who, &placed.moment, &source.counters, now);
    }

    /// Whether several streams of an agent report a data source, and go on: nobody knows whose a value would be.
    pub fn is_shared(&self, agent: &Agent, source: DataSource) -> bool {
        let counters = || self.agents.states(agent, source).map(|source| &source.counters);
        agent.streams().len() > 1 && Counters::are_shared(&counters().collect::<Vec<_>>())
    }

    /// Tells a room that protects from now on.
    pub fn protect(&mut self, outlet: weir_detect::queue::Outlet) {
        self.protecting = Some(Box::new(Protecting::new(outlet, self.names.shard())));
    }

    /// Tells it of packets to other networks from now on, and takes agents to speak from elsewhere.
    pub fn protect_others(&mut self, networks: &[ipnet::IpNet], listed: Arc<weir_detect::queue::Listed>) {
        if let Some(protecting) = &mut self.protecting {
            protecting.outlet().protect(networks);
            protecting.outlet().listen(listed);
        }
    }

    /// Goes over to other settings; what is known stays.
    pub fn adopt(&mut self, allow: &[ipnet::IpNet], agents: Arc<BTreeMap<IpAddr, Named>>) {
        self.allowed = Allowed::new(allow);
        self.names.configure(agents);
    }

    /// Goes over to other thresholds.
    pub fn watch(&mut self, rules: Arc<Rules>) {
        self.watching.adopt(rules);
        let watching = &self.watching;
        self.flows.watch(|name| watching.is_on(name));
    }

    /// Changes flow definitions.
    pub fn define<R>(&mut self, now: Now, change: impl FnOnce(&mut Flows, f64) -> R) -> R {
        let seconds = self.seconds(now);
        let outcome = change(&mut self.flows, seconds);
        let watching = &self.watching;
        self.flows.watch(|name| watching.is_on(name));
        outcome
    }

    /// What is due some twenty times a second: flows that are over.
    pub fn tick(&mut self, now: Now) -> Vec<Record> {
        let seconds = self.seconds(now);
        self.flows.tick(seconds);
        self.flows.take_records()
    }

    /// Forgets who has been silent for long: looks at so many agents, and goes on there next time.
    pub fn expire(&mut self, now: Now, agents: usize) {
        self.agents.sweep(now.nanos, agents);
        self.forget_gone();
    }

    /// Forgets what was of agents that are gone.
    fn forget_gone(&mut self) {
        let Gone { agents, sources } = self.agents.take_gone();
        if !sources.is_empty() {
            self.flows.forget(&sources);
        }
        if agents.is_empty() {
            return;
        }
        for (slot, identity) in agents {
            self.names.forget(slot);
            if let Some(sub_agents) = self.addresses.get_mut(&identity.address) {
                sub_agents.retain(|sub_agent| *sub_agent != identity.sub_agent);
                if sub_agents.is_empty() {
                    self.addresses.remove(&identity.address);
                }
            }
        }
        let addresses = &self.addresses;
        self.watching.watch.retain_agents(|address| addresses.contains_key(&address));
    }

    /// How many agents are to be looked at in a second so that each is once a minute.
    pub fn due(&self) -> usize {
        self.agents.len() / 60 + 1
    }

    /// Groups, GeoIP and AS files from now on.
    pub fn set_lookups(&mut self, lookups: Arc<Lookups>) {
        self.flows.set_lookups(lookups);
    }

    pub(super) fn seconds(&self, now: Now) -> f64 {
        now.nanos.saturating_sub(self.start) as f64 / 1e9
    }
}

/// Compares a sample with the counters of its interface: those of the data source, else of the interface where the packet came in, else of
/// the one where it goes out; where those are.
fn compare(
    agents: &mut Agents<Source>,
    placed: &Placed,
    slot: u32,
    sample: &FlowSample<'_>,
    frames: f64,
    length: u32,
) -> Option<u32> {
    let now = placed.moment.now;
    let source = agents.source_at(slot)?;
    if source.agrees.has_counters() {
        let way = ingress(sample).map(|ingress| usize::from(!ingress));
        source.contradicted = source.agrees.sample(way, frames, length, now);
        return Some(slot);
    }
    let mut interfaces = [(sample.input, 0), (sample.output, 1)].into_iter();
    let (other, way) = interfaces.find_map(|(interface, way)| {
        let Interface::Index(index) = interface else { return None };
        let slot = agents.known(placed, DataSource { class: DataSource::IF_INDEX, index })?;
        agents.peek(slot)?.agrees.has_counters().then_some((slot, way))
    })?;
    let contradicted = agents.source_at(other)?.agrees.sample(Some(way), frames, length, now);
    agents.source_at(slot)?.contradicted = contradicted;
    Some(other)
}

/// Whether a packet was sampled on its way into its data source; `None`: the agent does not tell.
fn ingress(sample: &FlowSample<'_>) -> Option<bool> {
    let here = Interface::Index(sample.source.index);
    match () {
        () if sample.source.class != DataSource::IF_INDEX => None,
        () if sample.input == here => Some(true),
        () if sample.output == here => Some(false),
        () => None,
    }
}

/// Agents that are looked at in one turn.
pub const SLICE: usize = 128;
