//! The source of load: agents whose datagrams are written once, and sent again and again with the numbers gone on.
//!
//! A datagram has 4.1 samples on average, as those of real captures: packets with the first 128 bytes of their frame, some
//! with `extended_switch`, `extended_router` or `extended_gateway`, one sample in twenty of counters, one in a hundred of a
//! discarded packet. Sequence numbers, uptime, pools and octets go on, so that the analyser corrects and computes as it does
//! for real agents.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use weir_wire::sflow::encode::{self, Counters, Discarded, Flow, Put, Records, Samples};
use weir_wire::sflow::{DataFormat, DataSource, HeaderProtocol, Interface, Space, Structure};

use crate::frames::{Conversations, Frame};

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Agents, from 10.200.0.1.
    pub(crate) agents: u32,
    /// Interfaces of each, with `ifIndex` from 1.
    pub(crate) interfaces: u32,
    /// Datagrams that are written; of each agent as many.
    pub(crate) datagrams: u32,
    /// Conversations, each of which passes three agents, at one interface of each.
    pub(crate) conversations: u32,
    /// Samples of counters among all, per cent.
    pub(crate) counters: u32,
    /// Whether samples are of the next interface in each pass, until each has been heard of.
    pub(crate) rotate: bool,
    /// Whether hosts are others in each pass, so that flows come and go.
    pub(crate) churn: bool,
}

impl Plan {
    /// Some switches of a data centre.
    pub(crate) const USUAL: Plan = Plan {
        agents: 100,
        interfaces: 48,
        datagrams: 20_000,
        conversations: 100_000,
        counters: 5,
        rotate: false,
        churn: false,
    };
}

/// Datagrams without end.
pub(crate) struct Load {
    plan: Plan,
    bytes: Vec<u8>,
    datagrams: Vec<Template>,
    places: Vec<Place>,
    /// Datagrams that each agent has sent.
    sequences: Vec<u32>,
    sources: Vec<Source>,
    next: usize,
    passes: u32,
    random: fastrand::Rng,
}

/// A datagram, and what changes in it.
struct Template {
    start: u32,
    length: u16,
    samples: u16,
    agent: u32,
    /// Its first place; the last is before the next one's first.
    places: u32,
}

/// A sample in a datagram.
struct Place {
    /// Where its body begins, from the start of the datagram.
    at: u16,
    kind: Kind,
    /// Of which interface it was written, from 0.
    interface: u16,
    /// Where the source's address ends, from the start of the datagram; 0: it has none that changes.
    host: u16,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Flow,
    Counters,
    Discarded,
}

/// What an interface has counted.
#[derive(Clone, Copy, Default)]
struct Source {
    flows: u32,
    pool: u32,
    polls: u32,
    octets: u64,
    discarded: u32,
}

impl Load {
    pub(crate) fn new(plan: Plan) -> Result<Load> {
        let mut load = Load {
            plan,
            bytes: Vec::new(),
            datagrams: Vec::new(),
            places: Vec::new(),
            sequences: vec![0; plan.agents as usize],
            sources: vec![Source::default(); (plan.agents * plan.interfaces) as usize],
            next: 0,
            passes: 0,
            random: fastrand::Rng::with_seed(SEED),
        };
        for number in 0..plan.datagrams {
            load.write(number % plan.agents)?;
        }
        Ok(load)
    }

    /// Samples of a datagram, on average.
    pub(crate) fn samples_each(&self) -> f64 {
        self.datagrams.iter().map(|datagram| f64::from(datagram.samples)).sum::<f64>() / self.datagrams.len() as f64
    }

    /// Bytes of a datagram, on average.
    pub(crate) fn bytes_each(&self) -> f64 {
        self.bytes.len() as f64 / self.datagrams.len() as f64
    }

    /// The next datagram, and how many samples are in it; `uptime`: that of all agents, ms.
    pub(crate) fn next(&mut self, uptime: u32) -> (&[u8], u32) {
        let (from, to, samples) = self.advance(uptime);
        (&self.bytes[from..to], samples)
    }

    /// The next `count` datagrams, to be sent at once; fewer where a pass ends.
    pub(crate) fn batch(&mut self, count: usize, uptime: u32) -> impl Iterator<Item = &[u8]> {
        let first = self.next;
        let count = count.min(self.datagrams.len() - first);
        for _ in 0..count {
            self.advance(uptime);
        }
        self.datagrams[first..first + count]
            .iter()
            .map(|datagram| &self.bytes[datagram.start as usize..][..usize::from(datagram.length)])
    }

    /// Brings the next datagram up to date.
    fn advance(&mut self, uptime: u32) -> (usize, usize, u32) {
        let Template { start, length, samples, agent, places } = self.datagrams[self.next];
        let end = self.datagrams.get(self.next + 1).map_or(self.places.len(), |next| next.places as usize);
        let (from, to) = (start as usize, start as usize + usize::from(length));
        let bytes = &mut self.bytes[from..to];
        let sequence = &mut self.sequences[agent as usize];
        *sequence += 1;
        put(bytes, 16, *sequence);
        put(bytes, 20, uptime);
        let interfaces = self.plan.interfaces;
        for place in &self.places[places as usize..end] {
            let turned = if self.plan.rotate || place.kind == Kind::Counters { self.passes } else { 0 };
            let interface = (u32::from(place.interface) + turned) % interfaces;
            let source = &mut self.sources[(agent * interfaces + interface) as usize];
            let at = usize::from(place.at);
            match place.kind {
                Kind::Flow => {
                    source.flows += 1;
                    source.pool = source.pool.wrapping_add(1 + self.random.u32(0..2 * RATE - 1));
                    put(bytes, at, source.flows);
                    put(bytes, at + 4, interface + 1);
                    put(bytes, at + 12, source.pool);
                    put(bytes, at + 20, interface + 1);
                }
                Kind::Counters => {
                    source.polls += 1;
                    source.octets += 10_000_000;
                    put(bytes, at, source.polls);
                    put(bytes, at + 4, interface + 1);
                    put(bytes, at + 20, interface + 1);
                    bytes[at + 44..at + 52].copy_from_slice(&source.octets.to_be_bytes());
                }
                Kind::Discarded => {
                    source.discarded += 1;
                    put(bytes, at, source.discarded);
                    put(bytes, at + 8, interface + 1);
                    put(bytes, at + 16, interface + 1);
                }
            }
            if self.plan.churn && place.host > 0 {
                let host = usize::from(place.host);
                bytes[host..host + 2].copy_from_slice(&(self.passes as u16).wrapping_mul(0x9e37).to_be_bytes());
            }
        }
        self.next += 1;
        if self.next == self.datagrams.len() {
            (self.next, self.passes) = (0, self.passes + 1);
        }
        (from, to, u32::from(samples))
    }

    /// Writes a datagram of an agent.
    fn write(&mut self, agent: u32) -> Result<()> {
        let (start, places) = (self.bytes.len(), self.places.len());
        let random = &mut self.random;
        let wanted = 1 + (0..6).filter(|_| random.f64() < 0.53).count();
        let header = encode::Header { agent: address(agent).into(), sub_agent: 0, sequence: 0, uptime: 0 };
        let mut samples = encode::datagram(&mut self.bytes, &header);
        let conversations = Conversations::of(agent, self.plan.agents, self.plan.conversations);
        for _ in 0..wanted {
            let at = samples.size() + 8;
            let frame = conversations.frame(random);
            let interface = frame.conversation.wrapping_mul(0x9e37_79b1) % self.plan.interfaces;
            let host = frame.host;
            let kind = match random.u32(0..100) {
                0 => discarded(&mut samples, interface, &frame, random)?,
                number if number <= self.plan.counters => counters(&mut samples, interface)?,
                _ => flow(&mut samples, interface, self.plan.interfaces, &frame, random)?,
            };
            if samples.size() > LONGEST {
                samples.take_back();
                break;
            }
            let host = host.filter(|_| kind != Kind::Counters).map_or(0, |host| (at + HEADER + host) as u16);
            self.places.push(Place { at: at as u16, kind, interface: interface as u16, host });
        }
        let (length, samples) = (samples.size() as u16, (self.places.len() - places) as u16);
        self.datagrams.push(Template { start: start as u32, length, samples, agent, places: places as u32 });
        Ok(())
    }
}

/// An agent's address.
pub(crate) fn address(agent: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 200, 0, 1)) + agent)
}

/// Writes a sampled packet.
fn flow(
    samples: &mut Samples<'_>,
    interface: u32,
    interfaces: u32,
    frame: &Frame,
    random: &mut fastrand::Rng,
) -> Result<Kind> {
    let sample = Flow {
        sequence: 0,
        source: of(interface),
        sampling_rate: RATE,
        sample_pool: 0,
        drops: 0,
        input: Interface::Index(interface + 1),
        output: Interface::Index(frame.conversation % interfaces + 1),
        expanded: false,
    };
    let mut records = samples.flow(&sample);
    header(&mut records, frame)?;
    let kind = random.u32(0..100);
    if kind < 60 {
        let vlan = Put::U32(frame.conversation % 200);
        record(&mut records, Space::Flow, 1001, &[vlan, Put::U32(0), vlan, Put::U32(0)])?;
    }
    if kind < 25 {
        let next = Put::Address(Some(Ipv4Addr::new(192, 0, 2, random.u8(1..9)).into()));
        record(&mut records, Space::Flow, 1002, &[next, Put::U32(24), Put::U32(24)])?;
        if kind < 5 {
            let path = [65_001, 65_010, random.u32(1..60_000)].map(Put::U32);
            let segment = [Put::U32(2), Put::List(&path)];
            let (own, none) = (Put::U32(65_000), Put::List(&[]));
            let path = Put::List(&[Put::Structure(&segment)]);
            record(&mut records, Space::Flow, 1003, &[next, own, own, own, path, none, Put::U32(100)])?;
        }
    }
    Ok(Kind::Flow)
}

/// Writes a packet that was dropped.
fn discarded(samples: &mut Samples<'_>, interface: u32, frame: &Frame, random: &mut fastrand::Rng) -> Result<Kind> {
    let sample = Discarded {
        sequence: 0,
        source: of(interface),
        drops: 0,
        input: Interface::Index(interface + 1),
        output: Interface::Unknown,
        // ttl_exceeded, acl, no_buffer_space ...
        reason: [256, 257, 258, 264, 271][random.usize(0..5)],
    };
    header(&mut samples.discarded(&sample), frame)?;
    Ok(Kind::Discarded)
}

/// Writes counters of an interface.
fn counters(samples: &mut Samples<'_>, interface: u32) -> Result<Kind> {
    let mut records = samples.counters(&Counters { sequence: 0, source: of(interface), expanded: false });
    // ifIndex, ifType (ethernetCsmacd), ifSpeed, ifDirection (full duplex), ifStatus (up, and wanted so).
    let mut values = vec![Put::U32(interface + 1), Put::U32(6), Put::U64(100_000_000_000), Put::U32(1), Put::U32(3)];
    // In: octets, and six more; out: octets, and five more; ifPromiscuousMode.
    values.push(Put::U64(0));
    values.extend([Put::U32(0); 6]);
    values.push(Put::U64(0));
    values.extend([Put::U32(0); 6]);
    record(&mut records, Space::Counter, 1, &values)?;
    record(&mut records, Space::Counter, 2, &[Put::U32(0); 13])?;
    Ok(Kind::Counters)
}

fn header(records: &mut Records<'_>, frame: &Frame) -> Result<()> {
    let bytes = Put::Opaque(&frame.bytes[..frame.length]);
    let values = [Put::U32(HeaderProtocol::ETHERNET.0), Put::U32(frame.frame_length), Put::U32(4), bytes];
    record(records, Space::Flow, 1, &values)
}

fn record(records: &mut Records<'_>, space: Space, format: u32, values: &[Put<'_>]) -> Result<()> {
    let format = DataFormat { enterprise: 0, format };
    let structure = Structure::find(space, format).context("the codec knows no such structure")?;
    Ok(records.put(structure, values)?)
}

fn of(interface: u32) -> DataSource {
    DataSource { class: DataSource::IF_INDEX, index: interface + 1 }
}

fn put(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
}

/// One packet of so many is sampled, by skips that are even from 1 to twice as many less 1.
pub(crate) const RATE: u32 = 1000;

/// Bytes of a datagram, at most.
const LONGEST: usize = 1400;

/// From the body of a sample, of a packet that was sampled or discarded, to the bytes of its header: 32 bytes of its own, 8
/// and 16 of the record.
const HEADER: usize = 32 + 8 + 16;

/// All of it follows from this.
const SEED: u64 = 0x5f10;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use weir_wire::sflow::{Datagram, Sample, Value, View};

    use super::*;

    #[test]
    fn what_is_sent_goes_on_pass_after_pass() {
        let plan = Plan {
            agents: 7,
            interfaces: 5,
            datagrams: 700,
            conversations: 1000,
            counters: 5,
            rotate: true,
            churn: true,
        };
        let mut load = Load::new(plan).unwrap();
        assert!((load.samples_each() - 4.1).abs() < 0.3, "{}", load.samples_each());
        let (mut sequences, mut pools) = (HashMap::new(), HashMap::new());
        let (mut octets, mut hosts) = (HashMap::new(), std::collections::HashSet::new());
        for number in 0..2100 {
            let (bytes, samples) = load.next(number);
            let datagram = Datagram::parse(bytes).unwrap();
            assert_eq!((datagram.sample_count(), datagram.uptime), (samples, number));
            let sequence = sequences.entry(datagram.agent).or_insert(0);
            *sequence += 1;
            assert_eq!(datagram.sequence, *sequence);
            for sample in datagram.samples() {
                let sample = sample.unwrap();
                let views = sample.records().map(|record| record.unwrap().view().unwrap()).collect::<Vec<_>>();
                match sample {
                    Sample::Flow(flow) => {
                        assert_eq!(flow.input, Interface::Index(flow.source.index));
                        let pool = pools.entry((datagram.agent, flow.source)).or_insert((0, 0));
                        assert_eq!(flow.sequence, pool.0 + 1);
                        assert!((1..2 * RATE).contains(&(flow.sample_pool - pool.1)));
                        *pool = (flow.sequence, flow.sample_pool);
                        let View::Header(header) = views[0] else { panic!("{views:?}") };
                        if header.header[12..14] == [8, 0] {
                            hosts.insert(header.header[28..30].to_vec());
                        }
                    }
                    Sample::Counters(counters) => {
                        let record = sample.records().next().unwrap().unwrap();
                        let counter = |name: &str| {
                            let found = record.values().flatten().find(|(field, _)| field.name == name).unwrap();
                            match found.1 {
                                Value::U32(value) => value.into(),
                                Value::U64(value) => value,
                                other => panic!("{name}: {other:?}"),
                            }
                        };
                        assert_eq!(counter("ifIndex"), u64::from(counters.source.index));
                        let before = octets.entry((datagram.agent, counters.source)).or_insert(0);
                        assert_eq!(counter("ifInOctets"), *before + 10_000_000);
                        *before = counter("ifInOctets");
                    }
                    Sample::Discarded(dropped) => assert_eq!(dropped.input, Interface::Index(dropped.source.index)),
                    Sample::Unknown { .. } => panic!("{sample:?}"),
                }
            }
        }
        assert_eq!(hosts.len(), 3, "another host in each pass");
        assert_eq!(octets.len(), 7 * 5);
    }
}
