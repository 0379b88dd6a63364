//! The analyser of `weir sflow` put to the test: agents whose truth is known, behind links that lose.
//!
//! ```text
//! exporter: the model's datagrams, each at its time     collector: the shard of `weir sflow`
//!   | over UDP, or framed over one TCP connection ---->    |
//!   v stamps                                               v arrivals, estimates, rates
//! judgement: the same model again, from the same seed, says what was true
//! ```
//!
//! The analyser is told nothing but the datagrams, and asked for flows as REST asks. What the truth of that instant is, smoothed
//! likewise, the judgement computes afterwards.

mod analyser;
mod collector;
mod exporter;
mod judgement;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Result, ensure};
use nix::poll::{PollFd, PollFlags};
use weir_program::clock::{self, Nanos, nanos};
use weir_program::stop::Stop;
use weir_sflow::model::{Due, Fleet, Plan};
use weir_traffic::{Exchange, ReceiveReport, SendReport, Sender, Transport};

pub use self::analyser::Analyser;
pub(crate) use self::collector::Collected;
pub use self::collector::Collector;
pub(crate) use self::exporter::Exporter;
pub use self::judgement::Judgement;
pub(crate) use self::judgement::session;
use crate::endpoints::{joined, spawn};
use crate::scenario::{Scenario, Sflow};

/// Both ends of an export, ready to start.
pub struct Export {
    /// What the agents do.
    plan: Plan,
    /// How it travels.
    transport: Transport,
    /// The time constant of flows; as often they are asked for.
    window: Duration,
    /// How long datagrams are sent.
    duration: Duration,
    /// How long is waited for what is under way then.
    drain: Duration,
}

/// What agents send: datagram by datagram, each when it is due.
pub(crate) trait Agents: Send {
    /// The next one; `None`: there are no more.
    fn next_datagram(&mut self) -> Option<(Due, &[u8])>;
}

impl Agents for Fleet {
    fn next_datagram(&mut self) -> Option<(Due, &[u8])> {
        Fleet::next_datagram(self)
    }
}

/// What datagrams are handed to.
pub trait Analysis: Send {
    /// Takes a datagram. Returns whose it is, from 0, and its number; `None`: it is of none of the agents.
    fn take(&mut self, bytes: &[u8], peer: SocketAddr, at: Nanos) -> Option<(u32, u32)>;

    /// A window is over.
    fn look(&mut self, at: Nanos);
}

/// A datagram that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// Whose, from 0.
    agent: u32,
    /// Its number, from 1.
    sequence: u32,
    /// When the agent had it ready.
    due: Nanos,
    /// The send call.
    sent: Nanos,
}

/// A datagram that was analysed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Whose, from 0.
    agent: u32,
    /// Its number, from 1.
    sequence: u32,
    /// When the analyser had done with it.
    analysed: Nanos,
}

impl Export {
    /// As a scenario has it. What agents do follows from the seed alone.
    pub fn new(scenario: &Scenario, seed: u64) -> Export {
        let settings = scenario.sflow.clone().unwrap_or_default();
        let longest = usize::try_from(scenario.traffic.payload.bytes).unwrap_or(usize::MAX);
        Export {
            plan: settings.plan(longest, seed),
            transport: scenario.traffic.transport,
            window: settings.window.duration(),
            duration: scenario.run.duration.duration(),
            drain: scenario.run.drain.duration(),
        }
    }

    /// The receiving end, bound in the network namespace of the calling thread, with a receive buffer of so many bytes.
    ///
    /// # Errors
    /// The kernel gives no socket.
    pub fn collector(&self, listen: SocketAddr, buffer: Option<usize>) -> Result<Collector<Analyser>> {
        let analyser = Analyser::new(&self.plan, self.window)?;
        Collector::bind(analyser, self.transport == Transport::Tcp, self.window, listen, buffer)
    }

    /// Starts at `begin` and goes on to the end of the window and the drain.
    pub fn run(
        &self,
        sender: Sender,
        collector: Collector<Analyser>,
        exchange: &Exchange,
        begin: Nanos,
        realtime: bool,
        stop: &Stop,
    ) -> (SendReport, ReceiveReport, Judgement) {
        let stream = self.transport == Transport::Tcp;
        let mut exporter = Exporter::new(Box::new(Fleet::new(&self.plan)), stream);
        let ends = (sender, collector);
        let (sent, collected) = carry(&mut exporter, ends, self.drain, exchange, begin, realtime, stop);
        let exported = exporter.finish(nanos(self.duration));
        let (received, judgement) = judgement::judge(&self.plan, self.window, stream, &sent, &exported, collected);
        (sent, received, judgement)
    }
}

/// Starts at `begin`, and goes on until all that was sent has been analysed, or so long after the last was.
pub(crate) fn carry<A: Analysis>(
    exporter: &mut Exporter,
    (sender, collector): (Sender, Collector<A>),
    drain: Duration,
    exchange: &Exchange,
    begin: Nanos,
    realtime: bool,
    stop: &Stop,
) -> (SendReport, Collected<A>) {
    std::thread::scope(|scope| {
        let collecting = spawn(scope, realtime, None, || collector.run(drain, exchange, stop));
        let sending = spawn(scope, realtime, None, move || {
            clock::wait(&mut [PollFd::new(stop.as_fd(), PollFlags::POLLIN)], Some(begin));
            sender.relay(exporter, exchange, stop)
        });
        (joined(sending), joined(collecting))
    })
}

/// Refuses agents that nobody could model.
pub fn check(scenario: &Scenario) -> Result<()> {
    let Sflow { agents, interfaces, packets_per_second, sampling, polling, window } =
        scenario.sflow.clone().unwrap_or_default();
    ensure!((1..=10_000).contains(&agents), "sflow.agents: {agents}: 1 to 10000");
    ensure!((1..=1000).contains(&interfaces), "sflow.interfaces: {interfaces}: 1 to 1000");
    ensure!(packets_per_second > 0, "sflow.packets_per_second: at least 1");
    ensure!((1..=1 << 24).contains(&sampling), "sflow.sampling: {sampling}: one in 1 to one in {}", 1 << 24);
    ensure!(polling.duration() >= LEAST, "sflow.polling: {polling}: at least 100ms");
    ensure!(window.duration() >= LEAST, "sflow.window: {window}: at least 100ms");
    let duration = scenario.run.duration;
    ensure!(
        duration.duration() > judgement::SETTLED * window.duration(),
        "sflow.window: {window}: run.duration is {duration}, and flows have settled after {} of these: take less",
        judgement::SETTLED
    );
    let transport = scenario.traffic.transport;
    ensure!(
        matches!(transport, Transport::Udp | Transport::Tcp),
        "traffic.transport: sflow is exported over udp or tcp, not {transport}"
    );
    let payload = scenario.traffic.payload;
    ensure!((256..=65_000).contains(&payload.bytes), "traffic.payload: {payload}: a datagram has 256B to 65000B");
    Ok(())
}

/// The shortest time between two polls, and of a window.
const LEAST: Duration = Duration::from_millis(100);
