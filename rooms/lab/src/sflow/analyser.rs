//! The analyser of `weir sflow`, in its own shard, and what it answers from time to time.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use weir_program::clock::Nanos;
use weir_sflow::config::Config;
use weir_sflow::counters::{Metric, Number};
use weir_sflow::flows::{Definition, Estimate};
use weir_sflow::model::{CLASSES, Plan};
use weir_sflow::shard::{Life, Names, Now, Shard, Shards};
use weir_wire::sflow::{CounterSample, Datagram, Sample};

use super::Analysis;

/// What `weir sflow` keeps, with a definition of flows for what is judged; and what is asked of it.
pub struct Analyser {
    plan: Plan,
    shards: Shards,
    windows: Vec<Window>,
    rates: Vec<Rate>,
    /// Octets and unicast packets a second that came in.
    metrics: [&'static Metric; 2],
    /// What another collector would have.
    counted: HashMap<Port, Counted>,
    /// `sequence_number` of the last counter sample.
    readings: HashMap<Port, u32>,
}

/// What the analyser found.
pub(super) struct Findings {
    /// In order.
    pub(super) windows: Vec<Window>,
    /// Rates from counters.
    pub(super) rates: Vec<Rate>,
    /// Datagrams that it takes for lost.
    pub(super) lost: u64,
}

/// An interface: the agent's address and `ifIndex`.
pub(super) type Port = (Ipv4Addr, u32);

/// What was estimated at an instant.
#[derive(Default)]
pub(super) struct Window {
    /// When.
    pub(super) end: Nanos,
    /// By interface; those of which nothing came are missing.
    pub(super) ports: HashMap<Port, Estimated>,
}

/// What was estimated of an interface: rates a second, smoothed. `None`: nothing of it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Estimated {
    /// What had come up to then.
    pub(super) counted: Counted,
    /// Frames of each class.
    pub(super) frames: [Option<Estimate>; CLASSES.len()],
    /// Bytes of all.
    pub(super) bytes: Option<Estimate>,
}

/// Samples, counted since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    /// How many.
    pub(super) samples: u64,
    /// Frames that they stand for by the configured sampling rate.
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

impl Analyser {
    /// As `weir sflow` starts without a configuration, but for one worker; flows have this time constant.
    pub(super) fn new(plan: &Plan, time_constant: Duration) -> Result<Self> {
        let mut settings = Config::read("no configuration", "")?.settings;
        settings.carrier.workers = 1;
        let shards = Shards::new(&settings, Names::read(&settings)?);
        let t = time_constant.as_secs_f64();
        for (name, keys, value) in [(FRAMES, "udpdestinationport", "frames"), (BYTES, "", "bytes")] {
            let definition = Definition { keys: keys.into(), value: value.into(), t, ..Definition::default() };
            shards.define_flow(name, definition, usize::MAX, Life::Kept)?;
        }
        let metric = |name: &str| Metric::find(name).with_context(|| format!("metric {name}"));
        let metrics = [metric("ifinoctets")?, metric("ifinucastpkts")?];
        let (counted, readings) = Default::default();
        Ok(Self { plan: plan.clone(), shards, windows: Vec::new(), rates: Vec::new(), metrics, counted, readings })
    }

    pub(super) fn finish(self) -> Findings {
        let lost = self.shards.statistics().missing;
        Findings { windows: self.windows, rates: self.rates, lost }
    }
}

impl Analysis for Analyser {
    fn take(&mut self, bytes: &[u8], peer: SocketAddr, at: Nanos) -> Option<(u32, u32)> {
        let datagram = Datagram::parse(bytes).ok()?;
        let IpAddr::V4(address) = datagram.agent else { return None };
        let Self { shards, counted, rates, readings, metrics, .. } = self;
        let mut shard = shards.work(0);
        shard.datagram(bytes, peer, Now { nanos: at, unix_ms: 0 });
        for sample in datagram.samples().flatten() {
            match sample {
                Sample::Flow(sample) => {
                    let counted = counted.entry((address, sample.source.index)).or_default();
                    counted.samples += 1;
                    counted.nominal += f64::from(sample.sampling_rate);
                }
                Sample::Counters(sample) => {
                    let port = (address, sample.source.index);
                    let before = readings.insert(port, sample.sequence);
                    rates.extend(before.and_then(|before| rate(&shard, port, before, &sample, *metrics, at)));
                }
                _ => {}
            }
        }
        Some((self.plan.agent_of(address)?, datagram.sequence))
    }

    /// Asks what passes each interface.
    fn look(&mut self, end: Nanos) {
        let started =
            |(port, counted): (&Port, &Counted)| (*port, Estimated { counted: *counted, ..Estimated::default() });
        let mut ports: HashMap<Port, Estimated> = self.counted.iter().map(started).collect();
        self.shards.at(0, |shard| {
            for name in [FRAMES, BYTES] {
                let Some(scan) = shard.scan(name, Now { nanos: end, unix_ms: 0 }) else { continue };
                scan.slice(0, usize::MAX, |flow| {
                    let (agent, source) = flow.seen_by();
                    let Some(IpAddr::V4(address)) = shard.directory().address(agent) else { return };
                    let Some(port) = ports.get_mut(&(address, source.index)) else { return };
                    let key = flow.show();
                    match CLASSES.iter().position(|class| class.port.to_string() == key) {
                        Some(class) => port.frames[class] = flow.estimate(),
                        None => port.bytes = flow.estimate(),
                    }
                });
            }
        });
        self.windows.push(Window { end, ports });
    }
}

/// The rates since the counter sample before, where there are any.
fn rate(
    shard: &Shard,
    port: Port,
    before: u32,
    sample: &CounterSample<'_>,
    metrics: [&Metric; 2],
    at: Nanos,
) -> Option<Rate> {
    // The model has one stream an agent, over a path that keeps its order.
    let counters = shard.counters_of(port.0.into(), sample.source).next()?;
    let read = |metric| match counters.read(metric, at)?.ok()?.value {
        Number::Number(value) => Some(value),
        _ => None,
    };
    let [octets, packets] = metrics;
    Some(Rate { port, readings: (before, sample.sequence), octets: read(octets)?, packets: read(packets)? })
}

/// The definition of frames by class.
const FRAMES: &str = "frames";

/// The definition of the bytes of an interface.
const BYTES: &str = "bytes";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_sflow::model::{Fleet, Truth};
    use weir_testbed::random::Source as Random;

    use super::*;
    use crate::scenario::Sflow;

    #[test]
    fn what_is_lost_is_made_up_for() {
        let mut random = Random::drawn();
        let settings = Sflow { agents: 4, packets_per_second: 100_000, ..Sflow::default() };
        let plan = settings.plan(1400, random.bits());
        let (mut fleet, mut analyser) = (Fleet::new(&plan), Analyser::new(&plan, Duration::from_secs(1)).unwrap());
        let (mut lost, mut end) = (0, 1);
        let start = weir_program::clock::now();
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 6343));
        while end <= 40 {
            let (due, datagram) = fleet.next_datagram().unwrap();
            if due.at >= end as f64 {
                analyser.look(start + end * 1_000_000_000);
                end += 1;
            }
            if random.uniform() < 0.3 {
                lost += 1;
                continue;
            }
            let known = analyser.take(datagram, peer, start + (due.at * 1e9) as Nanos);
            assert_eq!(known.map(|(_, sequence)| sequence), Some(due.sequence));
        }
        let found = analyser.finish();
        assert!(found.lost <= lost && found.lost + 40 > lost, "{} of {lost}", found.lost);

        let port = (Plan::address(2), 3);
        let mut truth = Truth::new(&plan, 2, 3);
        let (first, last) = (truth.up_to_time(8.0), truth.up_to_time(40.0));
        let estimated: Vec<_> = found.windows[7..].iter().map(|window| window.ports[&port]).collect();
        let frames = estimated[1..].iter().flat_map(|estimated| estimated.frames.map(|frames| frames.unwrap().value));
        let (frames, truth) = (frames.sum::<f64>(), last.since(&first).packets() as f64);
        let nominal = estimated[32].counted.nominal - estimated[0].counted.nominal;
        // Of 2,200 samples; estimates at 32 instants see the load of each second, and of those before a little.
        assert!((frames / truth - 1.0).abs() < 0.15, "{frames} of {truth}");
        assert!((nominal / truth - 0.7).abs() < 0.15, "{nominal} of {truth}");
        // 40 readings, of which 30 % are lost, of each of 16 interfaces.
        assert!((300..=640).contains(&found.rates.len()), "{}", found.rates.len());
    }
}
