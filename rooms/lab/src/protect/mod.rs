//! The room that protects put to the test: floods whose truth is known, telemetry over links that lose, by UDP and by TCP.
//!
//! ```text
//! schedule: who is flooded, from when to when        defence: the analyser's shard, the room's queue, thread and guard
//!   v                                                   ^                       |
//! edge: agents that sample it -- the ends of `sflow` ---+                       v when it did what
//!                                                        judgement: from the flood's first packet to the route that is wanted
//! ```
//!
//! What a route does at a router is no matter of loss, and measured elsewhere, against real speakers.

mod defence;
mod edge;
mod judgement;
mod schedule;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use weir_program::clock::{Nanos, nanos};
use weir_program::stop::Stop;
use weir_protect::config::values::Rarity;
use weir_sflow::model::Due;
use weir_traffic::{Exchange, ReceiveReport, SendReport, Sender, Transport, Window};

pub use self::defence::Defence;
use self::edge::Edge;
pub use self::judgement::Judgement;
use self::schedule::{LEAD, MOST_AGENTS, Schedule};
use crate::scenario::{Protect, Scenario};
use crate::sflow::{Agents, Collected, Collector, Exporter, carry, session};

/// Both ends, ready to start.
pub struct Export {
    schedule: Schedule,
    transport: Transport,
    drain: Duration,
    realtime: bool,
}

impl Agents for Edge {
    fn next_datagram(&mut self) -> Option<(Due, &[u8])> {
        Edge::next_datagram(self)
    }
}

impl Export {
    /// As a scenario has it. What is sampled when follows from the seed alone.
    pub fn new(scenario: &Scenario, seed: u64) -> Export {
        let schedule = Schedule {
            settings: scenario.protect.clone().unwrap_or_default(),
            duration: scenario.run.duration.duration().as_secs_f64(),
            longest: usize::try_from(scenario.traffic.payload.bytes).unwrap_or(usize::MAX),
            seed,
        };
        let (drain, realtime) = (scenario.run.drain.duration(), scenario.run.realtime);
        Export { schedule, transport: scenario.traffic.transport, drain, realtime }
    }

    /// The receiving end, bound in the network namespace of the calling thread; `from`: where agents' datagrams come from.
    ///
    /// # Errors
    /// The kernel gives no socket or no thread.
    pub fn collector(&self, listen: SocketAddr, from: IpAddr, buffer: Option<usize>) -> Result<Collector<Defence>> {
        let defence = Defence::start(&self.schedule, from, self.realtime)?;
        Collector::bind(defence, self.transport == Transport::Tcp, LOOKS_APART, listen, buffer)
    }

    /// Starts at `begin` and goes on to the end of the window and the drain.
    pub fn run(
        &self,
        sender: Sender,
        collector: Collector<Defence>,
        exchange: &Exchange,
        begin: Nanos,
        realtime: bool,
        stop: &Stop,
    ) -> (SendReport, ReceiveReport, Judgement) {
        let stream = self.transport == Transport::Tcp;
        let mut exporter = Exporter::new(Box::new(Edge::new(&self.schedule)), stream);
        let ends = (sender, collector);
        let (sent, collected) = carry(&mut exporter, ends, self.drain, exchange, begin, realtime, stop);
        let exported = exporter.finish(nanos(Duration::from_secs_f64(self.schedule.duration)));
        let window = sent.window.unwrap_or(Window { start: 0, end: 0 });
        let session = session(&exported.stamps, &collected, &window);
        let Collected { report, analysis, .. } = collected;
        let mut judgement = judgement::judge(&self.schedule, &window, &analysis.finish(), report.finished);
        judgement.unsent = exported.unsent.len() as u64;
        (sent, ReceiveReport { sessions: session.into_iter().collect(), ..report }, judgement)
    }
}

/// Refuses floods that nobody could model.
pub fn check(scenario: &Scenario) -> Result<()> {
    let protect = scenario.protect.clone().unwrap_or_default();
    let Protect { agents, sampling, polling, size, excess, apart, .. } = &protect;
    ensure!((1..=MOST_AGENTS).contains(agents), "protect.agents: {agents}: 1 to {MOST_AGENTS}");
    ensure!((1..=1 << 24).contains(sampling), "protect.sampling: {sampling}: one in 1 to one in {}", 1 << 24);
    ensure!(polling.duration() >= LEAST, "protect.polling: {polling}: at least 100ms");
    ensure!(protect.packets_per_second > 0, "protect.packets_per_second: at least 1");
    ensure!(protect.threshold.micro_hertz > 0, "protect.threshold: more than 0");
    ensure!(*size > 1.0 && *size <= 1000.0, "protect.size: {size}: more than 1, up to 1000 times the threshold");
    ensure!(apart.duration() >= Duration::from_millis(10), "protect.apart: {apart}: at least 10ms");
    let (duration, length) = (scenario.run.duration, protect.length());
    ensure!(
        duration.duration().as_secs_f64() > LEAD + length + apart.duration().as_secs_f64(),
        "protect.excess: {excess}: a flood lasts {length:.1} s, the first begins after {LEAD} s, and run.duration is {duration}"
    );
    if let Err(why) = protect.false_alarms.parse::<Rarity>() {
        bail!("protect.false_alarms: {why}");
    }
    defence::settings_of(&protect, &[], IpAddr::from([127, 0, 0, 1]))?;
    let transport = scenario.traffic.transport;
    ensure!(
        matches!(transport, Transport::Udp | Transport::Tcp),
        "traffic.transport: sflow is exported over udp or tcp, not {transport}"
    );
    let payload = scenario.traffic.payload;
    ensure!((256..=65_000).contains(&payload.bytes), "traffic.payload: {payload}: a datagram has 256B to 65000B");
    Ok(())
}

/// The shortest time between two polls.
const LEAST: Duration = Duration::from_millis(100);

/// The room looks by itself.
const LOOKS_APART: Duration = Duration::from_secs(1);
