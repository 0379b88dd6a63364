//! The analyser's own code, as `weir sflow` runs it, and what it found window by window.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weir_service::clock::{Nanos, now};
use weir_sflow::agents::{Agents, Identity, Limits, Verdict};
use weir_sflow::model::CLASSES;
use weir_sflow::sampling::{Interval, Sampler, Tally};
use weir_wire::sflow::{CounterSample, Datagram, FlowSample, Sample, View};

/// Tables of agents and their data sources.
pub(super) struct Analyser {
    agents: Agents<Source>,
    windows: Vec<Window>,
    /// The sums at the end of the last window, and what was on its way.
    before: HashMap<Port, (Sums, f64)>,
}

/// What the analyser found.
pub(super) struct Findings {
    /// In order, one behind the other.
    pub(super) windows: Vec<Window>,
    /// Rates from counters.
    pub(super) rates: Vec<Rate>,
    /// Datagrams that it takes for lost.
    pub(super) lost: u64,
}

/// An interface: the agent's address and `ifIndex`.
pub(super) type Port = (Ipv4Addr, u32);

/// What was estimated of a stretch of time.
pub(super) struct Window {
    /// Its end.
    pub(super) end: Nanos,
    /// By interface; those of which nothing came may be missing.
    pub(super) ports: HashMap<Port, Estimated>,
}

/// What was estimated of an interface in a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimated {
    /// Samples behind it.
    pub(super) samples: u64,
    /// Frames of each class, and their interval.
    pub(super) frames: [(f64, Interval); CLASSES.len()],
    /// Bytes of all.
    pub(super) bytes: (f64, Interval),
    /// Frames of all, by the configured sampling rate.
    pub(super) nominal: f64,
}

/// A rate from counters: from one reading of an interface's counters to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// Of which interface.
    pub(super) port: Port,
    /// `sequence_number` of both counter samples.
    pub(super) readings: (u32, u32),
    /// Octets a second.
    pub(super) octets: f64,
    /// Unicast packets a second.
    pub(super) packets: f64,
}

/// What is kept of a data source.
#[derive(Debug, Default)]
struct Source {
    sampler: Sampler,
    sums: Sums,
}

/// Samples added up since the start.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    samples: u64,
    nominal: f64,
    packets: Tally,
    frames: [Tally; CLASSES.len()],
    bytes: Tally,
}

impl Analyser {
    pub(super) fn new() -> Self {
        Self { agents: Agents::new(Limits::default()), windows: Vec::new(), before: HashMap::new() }
    }

    /// Takes a datagram. Returns whose it is, and its number; `None`: it is no sFlow, or of an address of IPv6.
    pub(super) fn take(&mut self, datagram: &[u8], _peer: SocketAddr, at: Nanos) -> Option<(Ipv4Addr, u32)> {
        let datagram = Datagram::parse(datagram).ok()?;
        let IpAddr::V4(address) = datagram.agent else { return None };
        let who = Identity { address: datagram.agent, sub_agent: datagram.sub_agent };
        let verdict = self.agents.datagram(at, who, datagram.sequence, datagram.uptime);
        if let Verdict::Placed(placed) = verdict {
            for sample in datagram.samples().flatten() {
                match sample {
                    Sample::Flow(sample) => {
                        if let Some(source) = self.agents.source(&placed, sample.source) {
                            source.flow(placed.moment.epoch, &sample);
                        }
                    }
                    Sample::Counters(sample) => {
                        if let Some(source) = self.agents.source(&placed, sample.source) {
                            source.counters(&sample);
                        }
                    }
                    _ => {}
                }
            }
        }
        Some((address, datagram.sequence))
    }

    /// Ends a window: estimates what passed each interface in it.
    pub(super) fn estimate(&mut self) {
        let mut ports = HashMap::new();
        for agent in self.agents.iter() {
            let IpAddr::V4(address) = agent.identity.address else { continue };
            for source in self.agents.sources_of(agent) {
                let port = (address, source.id.source.index);
                let Source { sampler, sums } = &source.state;
                let edge = sampler.edge_variance();
                let (earlier, earlier_edge) = self.before.insert(port, (*sums, edge)).unwrap_or_default();
                ports.insert(port, sums.since(&earlier).estimate(sampler.counts_packets(), earlier_edge + edge));
            }
        }
        self.windows.push(Window { end: now(), ports });
    }

    pub(super) fn finish(self) -> Findings {
        let lost = self.agents.iter().map(|agent| agent.ledger().sequence.lost).sum();
        Findings { windows: self.windows, rates: Vec::new(), lost }
    }
}

impl Source {
    fn flow(&mut self, epoch: u16, sample: &FlowSample<'_>) {
        let FlowSample { sequence, sampling_rate, sample_pool, drops, .. } = *sample;
        let Some(weight) = self.sampler.sample(epoch, sequence, sampling_rate, sample_pool, drops) else { return };
        let sums = &mut self.sums;
        sums.samples += 1;
        sums.nominal += f64::from(sampling_rate);
        sums.packets.add(weight.frames, 1.0);
        for record in sample.records().flatten() {
            if let Ok(View::Header(packet)) = record.view() {
                sums.bytes.add(weight.frames, packet.frame_length.into());
                if let Some(class) = class_of(packet.header) {
                    sums.frames[class].add(weight.frames, 1.0);
                }
            }
        }
    }

    fn counters(&mut self, _sample: &CounterSample<'_>) {}
}

impl Sums {
    /// What was added since `earlier`.
    fn since(&self, earlier: &Sums) -> Sums {
        let tally = |now: Tally, then: Tally| Tally { sum: now.sum - then.sum, squares: now.squares - then.squares };
        Sums {
            samples: self.samples - earlier.samples,
            nominal: self.nominal - earlier.nominal,
            packets: tally(self.packets, earlier.packets),
            frames: std::array::from_fn(|class| tally(self.frames[class], earlier.frames[class])),
            bytes: tally(self.bytes, earlier.bytes),
        }
    }

    fn estimate(&self, exact: bool, edges: f64) -> Estimated {
        let estimate = |tally: &Tally| (tally.sum, tally.interval(&self.packets, exact, edges));
        Estimated {
            samples: self.samples,
            frames: self.frames.each_ref().map(estimate),
            bytes: estimate(&self.bytes),
            nominal: self.nominal,
        }
    }
}

/// The class of a sampled packet, by the UDP port that it goes to: Ethernet, IPv4 without options, UDP.
fn class_of(header: &[u8]) -> Option<usize> {
    let port = u16::from_be_bytes(*header.get(36..38)?.first_chunk()?);
    CLASSES.iter().position(|class| class.port == port)
}
