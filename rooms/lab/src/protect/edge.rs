//! Agents at the edge: a model of sFlow over benign traffic and floods. Only what is sampled is drawn packet by packet.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::Ipv4Addr;

use rand_distr::{Distribution, Exp, Gamma, Pareto};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use weir_sflow::model::Due;
use weir_wire::sflow::encode::{self, Counters, Flow, Header, Put, Samples};
use weir_wire::sflow::{DataFormat, DataSource, HeaderProtocol, Interface, Space, Structure};

use super::schedule::{Flood, Schedule, benign};

/// All agents, datagram by datagram in the order of time.
pub(super) struct Edge {
    agents: Vec<Agent>,
    /// When the next datagram of each is due, ns.
    order: BinaryHeap<Reverse<(u64, usize)>>,
    datagram: Vec<u8>,
}

impl Edge {
    pub(super) fn new(schedule: &Schedule) -> Self {
        let floods = schedule.floods();
        let agents: Vec<Agent> = (0..schedule.agents()).map(|agent| Agent::new(schedule, agent, &floods)).collect();
        let order = agents.iter().enumerate().map(|(index, agent)| Reverse((nanos(agent.due.at), index))).collect();
        Self { agents, order, datagram: Vec::new() }
    }

    /// The next datagram, and when it is due.
    pub(super) fn next_datagram(&mut self) -> Option<(Due, &[u8])> {
        let Reverse((_, index)) = self.order.pop()?;
        let agent = &mut self.agents[index];
        std::mem::swap(&mut agent.datagram, &mut self.datagram);
        let due = agent.due;
        agent.fill();
        self.order.push(Reverse((nanos(agent.due.at), index)));
        Some((due, &self.datagram))
    }
}

/// One agent, with the datagram that it sends next.
struct Agent {
    traffic: Traffic,
    address: Ipv4Addr,
    sampling: u32,
    polling: f64,
    most: usize,
    samples: u32,
    polls: u32,
    datagram: Vec<u8>,
    due: Due,
}

impl Agent {
    fn new(schedule: &Schedule, agent: u32, floods: &[Flood]) -> Self {
        let sequence = schedule.first_sequence(agent);
        let mut agent = Self {
            traffic: Traffic::new(schedule, agent, floods),
            address: schedule.address(agent),
            sampling: schedule.settings.sampling,
            polling: schedule.settings.polling.duration().as_secs_f64(),
            most: (schedule.longest.saturating_sub(DATAGRAM_HEADER) / LONGEST_SAMPLE).clamp(1, MOST_SAMPLES),
            samples: 0,
            polls: 0,
            datagram: Vec::new(),
            due: Due { agent, sequence, ..Due::default() },
        };
        agent.fill();
        agent
    }

    /// Collects samples until the datagram is full or its first one has waited long enough; with counters it leaves at once.
    fn fill(&mut self) {
        let mut due = Due { at: f64::INFINITY, sequence: self.due.sequence + 1, samples: 0, ..self.due };
        let mut written = Vec::with_capacity(self.most);
        let mut latest = f64::INFINITY;
        while written.len() < self.most {
            let polled_at = (f64::from(self.polls) + f64::from(due.agent % 16) / 16.0) * self.polling;
            let polled = polled_at <= self.traffic.next.at;
            let at = polled_at.min(self.traffic.next.at);
            if at >= latest {
                due.at = latest;
                break;
            }
            (due.at, latest) = (at, latest.min(at + PATIENCE));
            if polled {
                self.polls += 1;
                written.push(Sample::Counters { sequence: self.polls, packets: self.traffic.packets_at(at) });
                break;
            }
            self.samples += 1;
            let Sampled { from, to, port, packets, .. } = self.traffic.take();
            written.push(Sample::Flow {
                sequence: self.samples,
                sampling: self.sampling,
                pool: packets as u32,
                from,
                to,
                port,
            });
        }
        due.samples = written.len() as u32;
        let uptime = UPTIME + (due.at * 1e3) as u32;
        let header = Header { agent: self.address.into(), sub_agent: 0, sequence: due.sequence, uptime };
        self.datagram.clear();
        let mut samples = encode::datagram(&mut self.datagram, &header);
        written.iter().for_each(|sample| sample.write(&mut samples));
        self.due = due;
    }
}

/// Packets to one host, as long as they last.
#[derive(Clone, Copy, Debug)]
struct Stream {
    target: Ipv4Addr,
    is_flood: bool,
    /// Packets a second.
    rate: f64,
    end: f64,
    /// Of benign ones: which of the agent's hosts, that it can be told who is busy.
    host: Option<usize>,
}

/// A packet that is sampled.
#[derive(Clone, Copy, Debug)]
struct Sampled {
    at: f64,
    from: Ipv4Addr,
    to: Ipv4Addr,
    /// Of the source.
    port: u16,
    /// All packets up to this one, itself included.
    packets: u64,
}

/// What comes in at an agent: Poisson processes of packets, whose rates change when floods and bursts begin and end.
struct Traffic {
    random: Pcg64,
    sampling: u32,
    streams: Vec<Stream>,
    /// Packets a second, of all.
    rate: f64,
    /// Floods to come, the last one first.
    floods: Vec<Flood>,
    flood_rate: f64,
    hosts: Vec<Ipv4Addr>,
    busy: Vec<bool>,
    /// The highest rate of a benign host.
    least_free: f64,
    burst_at: f64,
    last: (f64, u64),
    next: Sampled,
}

impl Traffic {
    fn new(schedule: &Schedule, agent: u32, floods: &[Flood]) -> Self {
        let of_agent = |flood: &&Flood| flood.agent == agent;
        let mut floods: Vec<Flood> = floods.iter().filter(of_agent).copied().collect();
        floods.reverse();
        let is_forger = agent >= schedule.settings.agents;
        let hosts: Vec<Ipv4Addr> = (0..HOSTS).map(|host| benign(agent * HOSTS + host)).collect();
        // Half of it is always there, evenly; the other half comes in bursts.
        let rate = if is_forger { 1000.0 } else { f64::from(schedule.settings.packets_per_second) / 2.0 };
        let quiet = rate / f64::from(HOSTS);
        let evenly = |(host, target): (usize, &Ipv4Addr)| {
            let rate = quiet;
            Stream { target: *target, is_flood: false, rate, end: f64::INFINITY, host: Some(host) }
        };
        let streams: Vec<Stream> = hosts.iter().enumerate().map(evenly).collect();
        let zero = Ipv4Addr::UNSPECIFIED;
        let mut traffic = Self {
            random: Pcg64::new(u128::from(schedule.seed), u128::from(agent) << 32),
            sampling: schedule.settings.sampling.max(1),
            rate,
            busy: vec![false; hosts.len()],
            hosts,
            streams,
            floods,
            flood_rate: schedule.rate(),
            least_free: (CONFORMING * schedule.threshold() - quiet).max(0.0),
            burst_at: if is_forger { f64::INFINITY } else { 0.0 },
            last: (0.0, 0),
            next: Sampled { at: 0.0, from: zero, to: zero, port: 0, packets: 0 },
        };
        traffic.next = traffic.draw();
        traffic
    }

    fn take(&mut self) -> Sampled {
        let taken = self.next;
        self.last = (taken.at, taken.packets);
        self.next = self.draw();
        taken
    }

    /// Packets up to a time between the last sample and the next.
    fn packets_at(&self, at: f64) -> u64 {
        let (from, packets) = self.last;
        let part = ((at - from) / (self.next.at - from)).clamp(0.0, 1.0);
        packets + ((self.next.packets - packets) as f64 * part) as u64
    }

    fn draw(&mut self) -> Sampled {
        // The skip count is even from 1 to twice the rate less 1 (sFlow version 5, section 3.1).
        let skip = 1.0 + (self.uniform() * (2.0 * f64::from(self.sampling) - 1.0)).floor();
        let work = Gamma::new(skip, 1.0).map_or(skip, |gamma| gamma.sample(&mut self.random));
        let at = self.elapse(self.next.at, work);
        let mut point = self.uniform() * self.rate;
        let passed = |stream: &&Stream| {
            point -= stream.rate;
            point < 0.0
        };
        let stream = self.streams.iter().find(passed).or(self.streams.last()).copied();
        let any = (self.random.next_u64() >> 16) as u32;
        let (to, from, port) = match stream {
            // Reflected by many.
            Some(Stream { target, is_flood: true, .. }) => (target, FLOODERS + any % 100_000, 123),
            Some(Stream { target, .. }) => (target, CLIENTS + any % 16, 49_152 + (any % 1000) as u16),
            None => (Ipv4Addr::UNSPECIFIED, CLIENTS, 0),
        };
        Sampled { at, from: Ipv4Addr::from(from), to, port, packets: self.next.packets + skip as u64 }
    }

    /// When so many packets of a Poisson process of rate 1 have passed, at the rates there are meanwhile.
    fn elapse(&mut self, mut at: f64, mut work: f64) -> f64 {
        loop {
            let ends = self.streams.iter().map(|stream| stream.end).fold(self.burst_at, f64::min);
            let change = self.floods.last().map_or(ends, |flood| flood.start.min(ends));
            let room = (change - at) * self.rate;
            if work <= room {
                return at + work / self.rate;
            }
            work -= room.max(0.0);
            at = change;
            self.change(at);
        }
    }

    fn change(&mut self, at: f64) {
        let busy = &mut self.busy;
        self.streams.retain(|stream| {
            let goes_on = stream.end > at;
            if let (false, Some(host)) = (goes_on, stream.host) {
                busy[host] = false;
            }
            goes_on
        });
        while let Some(flood) = self.floods.pop_if(|flood| flood.start <= at) {
            let (target, rate, end) = (flood.target, self.flood_rate, flood.end);
            self.streams.push(Stream { target, is_flood: true, rate, end, host: None });
        }
        if self.burst_at <= at {
            self.burst(at);
        }
        self.rate = self.streams.iter().map(|stream| stream.rate).sum();
    }

    /// A download, a backup, a speed test: a host gets up to nine tenths of its threshold for a while (Poisson arrivals, Pareto lengths).
    fn burst(&mut self, at: f64) {
        let every = HOSTS_BUSY_S / f64::from(HOSTS);
        self.burst_at = at + Exp::new(1.0 / every).map_or(every, |exp| exp.sample(&mut self.random));
        let length =
            Pareto::new(SHORTEST_S, SHAPE).map_or(1.0, |pareto| pareto.sample(&mut self.random)).min(LONGEST_S);
        let host = (self.uniform() * f64::from(HOSTS)) as usize;
        let rate = (0.05 + 0.95 * self.uniform().powi(4)) * self.least_free;
        // Who is busy stays below his threshold.
        if !std::mem::replace(&mut self.busy[host], true) {
            let target = self.hosts[host];
            self.streams.push(Stream { target, is_flood: false, rate, end: at + length, host: Some(host) });
        }
    }

    /// From 0 to below 1.
    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// What is in a datagram.
enum Sample {
    Flow { sequence: u32, sampling: u32, pool: u32, from: Ipv4Addr, to: Ipv4Addr, port: u16 },
    Counters { sequence: u32, packets: u64 },
}

impl Sample {
    fn write(&self, samples: &mut Samples<'_>) {
        let source = DataSource { class: DataSource::IF_INDEX, index: INTERFACE };
        match *self {
            Sample::Flow { sequence, sampling, pool, from, to, port } => {
                let sample = Flow {
                    sequence,
                    source,
                    sampling_rate: sampling,
                    sample_pool: pool,
                    drops: 0,
                    input: Interface::Index(INTERFACE),
                    output: Interface::Index(INTERFACE + 1),
                    expanded: false,
                };
                let header = header(from, to, port);
                let (protocol, length) = (Put::U32(HeaderProtocol::ETHERNET.0), Put::U32(FRAME));
                let values = [protocol, length, Put::U32(CHECK_SEQUENCE), Put::Opaque(&header)];
                put(&mut samples.flow(&sample), Space::Flow, &values);
            }
            Sample::Counters { sequence, packets } => {
                let zero = || Put::U32(0);
                let mut values = vec![Put::U32(INTERFACE), Put::U32(6), Put::U64(SPEED), Put::U32(1), Put::U32(3)];
                values.extend([Put::U64(packets * u64::from(FRAME)), Put::U32(packets as u32)]);
                values.extend((0..5).map(|_| zero()));
                values.push(Put::U64(0));
                values.extend((0..6).map(|_| zero()));
                put(&mut samples.counters(&Counters { sequence, source, expanded: false }), Space::Counter, &values);
            }
        }
    }
}

/// Writes record 1 of a space: `sampled_header`, `if_counters`.
fn put(records: &mut encode::Records<'_>, space: Space, values: &[Put<'_>]) {
    if let Some(structure) = Structure::find(space, DataFormat { enterprise: 0, format: 1 }) {
        let written = records.put(structure, values);
        debug_assert_eq!(written, Ok(()));
    }
}

/// The first bytes of a packet: Ethernet, IPv4, UDP.
fn header(from: Ipv4Addr, to: Ipv4Addr, port: u16) -> [u8; HEADER] {
    let ip = (FRAME - CHECK_SEQUENCE - 14) as u16;
    let mut bytes = [0; HEADER];
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    bytes[14..16].copy_from_slice(&[0x45, 0]);
    bytes[16..18].copy_from_slice(&ip.to_be_bytes());
    bytes[20..24].copy_from_slice(&[0x40, 0, 64, 17]);
    bytes[26..30].copy_from_slice(&from.octets());
    bytes[30..34].copy_from_slice(&to.octets());
    bytes[34..36].copy_from_slice(&port.to_be_bytes());
    bytes[36..38].copy_from_slice(&443_u16.to_be_bytes());
    bytes[38..40].copy_from_slice(&(ip - 20).to_be_bytes());
    bytes
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// Benign hosts behind each agent.
const HOSTS: u32 = 40;

/// From one burst of a host to its next, about, s.
const HOSTS_BUSY_S: f64 = 40.0;

/// What a benign host gets at most, of its threshold.
const CONFORMING: f64 = 0.9;

/// Lengths of bursts: Pareto with the shape that ns-3 has for traffic of a Hurst parameter of 0.7, s.
const SHAPE: f64 = 1.6;
const SHORTEST_S: f64 = 0.5;
const LONGEST_S: f64 = 30.0;

/// 198.18.0.0/15 (RFC 2544), and 203.0.113.0/24 (RFC 5737).
const FLOODERS: u32 = 0xc612_0000;
const CLIENTS: u32 = 0xcb00_7101;

/// The interface that all comes in at.
const INTERFACE: u32 = 1;

/// Bits a second that it can carry.
const SPEED: u64 = 400_000_000_000;

/// Bytes of every frame, its check sequence included.
const FRAME: u32 = 518;
const CHECK_SEQUENCE: u32 = 4;

/// Bytes of a frame that agents send, and of the longest sample.
const HEADER: usize = 128;
const LONGEST_SAMPLE: usize = 8 + 32 + 24 + HEADER;
const DATAGRAM_HEADER: usize = 28;

/// Samples of a datagram at most: as in the mode `sflow`.
const MOST_SAMPLES: usize = 7;

/// How long a sample waits for others, s (sFlow version 5, section 3.3).
const PATIENCE: f64 = 1.0;

/// How long agents have been up at the start, ms.
const UPTIME: u32 = 3_600_000;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use weir_testbed::random;
    use weir_wire::sflow::{Datagram, View};

    use super::*;
    use crate::scenario::Protect;

    #[test]
    fn what_is_sampled_and_counted_is_what_was_meant() {
        let settings = Protect { size: 5.0, ..Protect::default() };
        let schedule = Schedule { settings, duration: 40.0, longest: 1400, seed: random::seed() };
        let floods = schedule.floods();
        let mut edge = Edge::new(&schedule);
        let (mut found, mut counted, mut before): (HashMap<Ipv4Addr, u32>, [u64; 4], f64) = Default::default();
        let mut samples = 0;
        loop {
            let (due, bytes) = edge.next_datagram().unwrap();
            if due.at > 40.0 {
                break;
            }
            assert!(due.at >= before, "in the order of time");
            before = due.at;
            let datagram = Datagram::parse(bytes).unwrap();
            assert_eq!((datagram.sequence, datagram.sample_count()), (due.sequence, due.samples));
            for sample in datagram.samples() {
                match sample.unwrap() {
                    weir_wire::sflow::Sample::Flow(flow) => {
                        samples += 1;
                        counted[due.agent as usize] = flow.sample_pool.into();
                        let Some(View::Header(sampled)) =
                            flow.records().flatten().next().map(|record| record.view().unwrap())
                        else {
                            panic!("a sampled header");
                        };
                        let to: [u8; 4] = sampled.header[30..34].try_into().unwrap();
                        *found.entry(Ipv4Addr::from(to)).or_default() += 1;
                    }
                    weir_wire::sflow::Sample::Counters(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        let all: u64 = counted.iter().sum();
        assert!((all as f64 / (f64::from(samples) * 1000.0) - 1.0).abs() < 0.05, "{all} of {samples}");
        // 250,000 a second for 2.5 s, one of 1000 sampled.
        let of_floods: u32 = floods.iter().map(|flood| found.get(&flood.target).copied().unwrap_or(0)).sum();
        let each = f64::from(of_floods) / floods.len() as f64;
        assert!((each / 625.0 - 1.0).abs() < 0.05, "{each}");
    }
}
