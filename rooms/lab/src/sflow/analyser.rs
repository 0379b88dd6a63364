//! The analyser's own code, as `weir sflow` runs it, and what it found window by window.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use weir_service::clock::Nanos;
use weir_sflow::agents::{Agents, Identity, Limits, Moment, Verdict};
use weir_sflow::counters::{Counters, Metric, Number, Reasons};
use weir_sflow::model::CLASSES;
use weir_sflow::sampling::{Interval, Sampler, Tally, edges};
use weir_wire::sflow::{CounterSample, Datagram, FlowSample, Sample, View};

/// Tables of agents and their data sources.
pub(super) struct Analyser {
    agents: Agents<Source>,
    windows: Vec<Window>,
    rates: Vec<Rate>,
    /// Octets and unicast packets a second that came in.
    metrics: Option<[&'static Metric; 2]>,
    /// Why counters gave no rates.
    reasons: Reasons,
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
    counters: Counters,
    /// `sequence_number` of the last counter sample.
    reading: Option<u32>,
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
        Self {
            agents: Agents::new(Limits::default()),
            windows: Vec::new(),
            rates: Vec::new(),
            metrics: Metric::find("ifinoctets").zip(Metric::find("ifinucastpkts")).map(<[_; 2]>::from),
            reasons: Reasons::default(),
            before: HashMap::new(),
        }
    }

    /// Takes a datagram. Returns whose it is, and its number; `None`: it is no sFlow, or of an address of IPv6.
    pub(super) fn take(&mut self, datagram: &[u8], at: Nanos) -> Option<(Ipv4Addr, u32)> {
        let datagram = Datagram::parse(datagram).ok()?;
        let IpAddr::V4(address) = datagram.agent else { return None };
        let who = Identity { address: datagram.agent, sub_agent: datagram.sub_agent };
        let verdict = self.agents.datagram(at, who, datagram.sequence, datagram.uptime);
        if let Verdict::Placed(placed) = verdict {
            for sample in datagram.samples().flatten() {
                match sample {
                    Sample::Flow(sample) => {
                        if let Some(source) = self.agents.source(&placed, sample.source) {
                            source.flow(&placed.moment, &sample);
                        }
                    }
                    Sample::Counters(sample) => {
                        let Some((source, metrics)) = self.agents.source(&placed, sample.source).zip(self.metrics)
                        else {
                            continue;
                        };
                        if let Some((readings, [octets, packets])) =
                            source.counters(placed.moment, &sample, metrics, &mut self.reasons)
                        {
                            let port = (address, sample.source.index);
                            self.rates.push(Rate { port, readings, octets, packets });
                        }
                    }
                    _ => {}
                }
            }
        }
        Some((address, datagram.sequence))
    }

    /// Ends a window: estimates what passed each interface in it.
    pub(super) fn estimate(&mut self, end: Nanos) {
        let mut ports = HashMap::new();
        for agent in self.agents.iter() {
            let IpAddr::V4(address) = agent.identity.address else { continue };
            for source in self.agents.sources_of(agent) {
                let port = (address, source.id.source.index);
                let Source { sampler, sums, .. } = &source.state;
                let edge = sampler.edge_variance();
                let (earlier, earlier_edge) = self.before.insert(port, (*sums, edge)).unwrap_or_default();
                let sums = sums.since(&earlier);
                let edges = edges::between(earlier_edge, edge, sums.samples as f64);
                ports.insert(port, sums.estimate(sampler.counts_packets(), edges));
            }
        }
        self.windows.push(Window { end, ports });
    }

    pub(super) fn finish(self) -> Findings {
        let lost = self.agents.iter().map(|agent| agent.ledger().sequence.lost).sum();
        Findings { windows: self.windows, rates: self.rates, lost }
    }
}

impl Source {
    fn flow(&mut self, moment: &Moment, sample: &FlowSample<'_>) {
        let FlowSample { sequence, sampling_rate, sample_pool, drops, .. } = *sample;
        let Some(weight) = self.sampler.sample(moment, sequence, sampling_rate, sample_pool, drops) else { return };
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

    /// Takes a counter sample. Returns which readings the rates are from, and the rates, where there are any.
    fn counters(
        &mut self,
        moment: Moment,
        sample: &CounterSample<'_>,
        metrics: [&Metric; 2],
        reasons: &mut Reasons,
    ) -> Option<((u32, u32), [f64; 2])> {
        self.counters.sample(moment, sample, reasons);
        if moment.late {
            return None;
        }
        let before = self.reading.replace(sample.sequence)?;
        let rate = |metric| match self.counters.read(metric, moment.now)?.ok()?.value {
            Number::Number(value) => Some(value),
            _ => None,
        };
        Some(((before, sample.sequence), [rate(metrics[0])?, rate(metrics[1])?]))
    }
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

#[cfg(test)]
mod tests {
    use weir_sflow::model::{Fleet, Truth};
    use weir_testbed::random::Source as Random;

    use super::*;
    use crate::scenario::Sflow;

    #[test]
    fn what_is_lost_is_made_up_for() {
        let mut random = Random::drawn();
        let settings = Sflow { agents: 4, packets_per_second: 100_000, ..Sflow::default() };
        let plan = settings.plan(1400, random.bits());
        let (mut fleet, mut analyser) = (Fleet::new(&plan), Analyser::new());
        let (mut lost, mut end) = (0, 1);
        while end <= 40 {
            let (due, datagram) = fleet.next_datagram().unwrap();
            if due.at >= end as f64 {
                analyser.estimate(end * 1_000_000_000);
                end += 1;
            }
            if random.uniform() < 0.3 {
                lost += 1;
                continue;
            }
            let known = analyser.take(datagram, (due.at * 1e9) as Nanos);
            assert_eq!(known.map(|(_, sequence)| sequence), Some(due.sequence));
        }
        let found = analyser.finish();
        assert!(found.lost <= lost && found.lost + 40 > lost, "{} of {lost}", found.lost);

        let port = (weir_sflow::model::Plan::address(2), 3);
        let mut truth = Truth::new(&plan, 2, 3);
        let (first, last) = (truth.up_to_time(1.0), truth.up_to_time(40.0));
        let estimated: Vec<_> = found.windows[1..].iter().map(|window| window.ports[&port]).collect();
        let frames: f64 = estimated.iter().flat_map(|estimated| estimated.frames.map(|(value, _)| value)).sum();
        let nominal: f64 = estimated.iter().map(|estimated| estimated.nominal).sum();
        let truth = last.since(&first).packets() as f64;
        // Of 2,700 samples: what is on its way at both ends is some tens.
        assert!((frames / truth - 1.0).abs() < 0.05, "{frames} of {truth}");
        assert!((nominal / truth - 0.7).abs() < 0.1, "{nominal} of {truth}");
        // 40 readings, of which 30 % are lost, of each of 16 interfaces.
        assert!((350..=640).contains(&found.rates.len()), "{}", found.rates.len());
    }
}
