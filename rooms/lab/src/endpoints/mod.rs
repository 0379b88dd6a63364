//! Both ends of traffic between hosts of a network that is up: opened before it starts, run for its window, reported
//! after.

mod settings;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::poll::{PollFd, PollFlags};
use weir_kernel::scheduling;
use weir_program::clock::{self, Nanos};
use weir_program::stop::Stop;
use weir_traffic::bulk::{self, BulkReport};
use weir_traffic::{
    Exchange, Gauge, ReceiveReport, Receiver, SendReport, Sender, Transport, Until, check_congestion, longest_datagram,
};

pub(crate) use self::settings::interval;
use self::settings::{MAX_FLIGHTS, bulk_settings, iperf3_settings, receiver_settings, sender_settings};
use crate::arrivals::{self, Due, Planned};
use crate::iperf3;
use crate::network::Network;
use crate::programs::INIT;
use crate::scenario::{Engine, Mode, Scenario, Traffic};
use crate::topology::{Flow, Topology};

/// Sockets and programs on the hosts, ready to start.
pub enum Endpoints {
    /// Numbered messages.
    Messages {
        /// Its one sender.
        sender: Box<Sender>,
        /// Its receivers, in the order of the scenario.
        receivers: Vec<Receiver>,
        /// The CPUs that they are pinned to, the sender's first. `None`: any.
        affinity: Vec<Option<usize>>,
        /// Their communication outside the network.
        exchange: Exchange,
        /// Due times and sizes of messages, if they differ, and their session number.
        plan: Option<(Vec<Due>, u16)>,
    },
    /// Weir's own bulk transfer, both ends.
    Bulk(Box<(bulk::Sender, bulk::Receiver)>),
    /// A bulk transfer by iperf3.
    Iperf3(Box<iperf3::Transfer>),
    /// Only `[[programs]]`: nothing to do until the drain is over.
    Programs(Duration),
}

/// Inputs for the ends besides the scenario.
pub struct Terms {
    /// The CPUs of the hosts, by node. `None`: any.
    pub processors: Vec<Option<usize>>,
    /// Distinguishes the messages of cells.
    pub session: u16,
    /// How long copies may arrive after the message that would end a receiver, if there can be any.
    pub settle: Duration,
    /// Max time for packets in flight.
    pub patience: Duration,
    /// Seed for messages that differ.
    pub seed: u64,
}

/// The results, as both ends report them.
#[derive(Debug, Default)]
pub struct Facts {
    /// Messages: the sender's report.
    pub sent: Option<Box<SendReport>>,
    /// Messages: each receiver's report, in the order of the scenario.
    pub received: Vec<ReceiveReport>,
    /// Of a bulk transfer.
    pub bulk: Option<Box<BulkReport>>,
    /// Whether it was stopped early.
    pub stopped: bool,
}

/// Refuses traffic that cannot be sent over its path. `key` names it: `traffic` or `load`.
pub fn check(key: &str, scenario: &Scenario, traffic: &Traffic, topology: &Topology, flow: &Flow) -> Result<()> {
    let bulk = traffic.mode == Mode::Bulk;
    ensure!(traffic.streams > 0 || key == LOAD, "{key}.streams: must be at least 1");
    ensure!(traffic.port > 0, "{key}.port: must be at least 1");
    ensure!(traffic.payload.bytes > 0, "{key}.payload: must be at least 1B");
    ensure!(
        bulk || traffic.engine == Engine::Weir,
        "{key}.engine: iperf3 sends only in bulk. Set {key}.mode = \"bulk\"."
    );
    match (bulk, traffic.transport) {
        (true, Transport::Udp) => ensure!(
            traffic.rate.is_some_and(|rate| rate.bits_per_second > 0),
            "{key}.rate: bulk over udp needs a rate, e.g. \"500mbit\""
        ),
        (true, Transport::QuicDatagram) => bail!("{key}.transport: quic-datagram carries only messages. Use quic."),
        (false, _) if traffic.mode == Mode::Messages => ensure!(
            traffic.rate.is_none_or(|rate| rate.bits_per_second > 0),
            "{key}.rate: must be above 0. Without it a message is sent each {key}.interval."
        ),
        _ => ensure!(traffic.rate.is_none(), "{key}.rate: only messages, and bulk over udp, are paced"),
    }
    ensure!(
        traffic.interval.is_none() || traffic.rate.is_none(),
        "{key}.interval: not together with {key}.rate. Remove one."
    );
    let batched = traffic.batch.is_some();
    ensure!(
        traffic.mode != Mode::Messages || batched || !interval(traffic).is_zero(),
        "{key}.interval: must be above 0, unless {key}.batch is set"
    );
    arrivals::check(key, scenario, traffic)?;
    let plain = traffic.mode == Mode::Messages && traffic.transport == Transport::Udp;
    ensure!(!batched || plain, "{key}.batch: only for messages over udp");
    ensure!(scenario.receive.stall.is_none() || plain, "receive.stall: only for messages over udp");
    if let Some(stall) = scenario.receive.stall {
        let (every, length) = (stall.every.duration(), stall.length.duration());
        ensure!(length < every, "receive.stall: {} every {} leaves no time to read", stall.length, stall.every);
    }
    if let Some(link) = topology.links.iter().find(|link| link.direct) {
        let counted = traffic.transport == Transport::Udp && traffic.engine == Engine::Weir;
        let name = &link.name;
        ensure!(counted, "links.{name}.direct: only for udp by weir. Anything else is counted at an emulator.");
    }
    let to = SocketAddr::from((flow.destination, traffic.port));
    if traffic.transport == Transport::Tcp {
        check_congestion(traffic.transport, &scenario.tcp.congestion)
            .map_err(|error| anyhow!("tcp.congestion: {error}"))?;
    }
    if !bulk || traffic.transport == Transport::Udp && traffic.engine == Engine::Weir {
        sender_settings(scenario, traffic, to, 0, "").validate().with_context(|| format!("{key}.payload"))?;
    }
    if traffic.transport == Transport::QuicDatagram {
        let mtu = flow.paths.iter().map(|path| topology.mtu(&path.forward)).min().unwrap_or(0) as usize;
        let max = longest_datagram(to).saturating_sub(1500_usize.saturating_sub(mtu));
        ensure!(
            traffic.payload.bytes <= max as u64,
            "{key}.payload: {} does not fit in a QUIC datagram on this path, max {max}B",
            traffic.payload
        );
    }
    match (traffic.engine, traffic.transport) {
        (Engine::Iperf3, _) => {
            iperf3_settings(scenario, traffic, to).validate().with_context(|| format!("{key}.engine"))?;
        }
        (Engine::Weir, Transport::Tcp | Transport::Quic) if bulk && traffic.streams > 0 => {
            bulk_settings(scenario, traffic, to).validate().with_context(|| format!("{key}.streams"))?;
        }
        _ => {}
    }
    if matches!(traffic.transport, Transport::Quic | Transport::QuicDatagram) {
        check_congestion(traffic.transport, &scenario.quic.congestion)?;
    }
    let group = traffic.address.is_some_and(|address| address.is_multicast());
    ensure!(!group || traffic.transport == Transport::Udp, "{key}.address: a multicast group needs transport udp");
    ensure!(!group || traffic.engine == Engine::Weir, "{key}.engine: iperf3 cannot send to a multicast group");
    Ok(())
}

impl Endpoints {
    /// Opens its sockets on the hosts.
    pub fn prepare(
        network: &Network<'_>,
        scenario: &Scenario,
        traffic: &Traffic,
        flow: &Flow,
        terms: &Terms,
    ) -> Result<Endpoints> {
        let &Terms { ref processors, session, settle, patience: under_way, seed } = terms;
        let to = SocketAddr::from((flow.destination, traffic.port));
        let sender = network.namespace(flow.sender);
        let receiver = network.namespace(flow.receivers[0]);
        match (traffic.mode, traffic.engine, traffic.transport) {
            (Mode::Bulk, Engine::Iperf3, _) => {
                let settings = iperf3_settings(scenario, traffic, to);
                let transfer = iperf3::Transfer::prepare(INIT.as_ref(), sender, receiver, &settings)?;
                Ok(Endpoints::Iperf3(Box::new(transfer)))
            }
            (Mode::Bulk, Engine::Weir, Transport::Tcp | Transport::Quic) => {
                let settings = bulk_settings(scenario, traffic, to);
                let receiver = receiver.run(|| bulk::Receiver::bind(&settings))??;
                let sender = sender.run(|| bulk::Sender::open(&settings))??;
                Ok(Endpoints::Bulk(Box::new((sender, receiver))))
            }
            (Mode::Programs, ..) => {
                Ok(Endpoints::Programs(scenario.run.duration.duration() + scenario.run.drain.duration()))
            }
            _ => {
                let exchange = Exchange::new(scenario.run.drain.duration()).context("open an event descriptor")?;
                let plan = arrivals::plan(scenario, traffic, seed);
                let receivers = flow.receivers.iter().zip(&flow.paths).map(|(&node, path)| {
                    let (link, _) = path.forward.last().context("a path has a link")?;
                    let interface = network.interface(node, *link);
                    let mut settings = receiver_settings(scenario, traffic, to, session, interface);
                    settings.until = Until { settle, under_way, ..Until::default() };
                    if let Some(plan) = &plan {
                        settings.keep_flights = (plan.len() + 1).min(MAX_FLIGHTS);
                    }
                    Ok(network.namespace(node).run(|| Receiver::bind(&settings))??)
                });
                let receivers = receivers.collect::<Result<Vec<_>>>()?;
                let (link, _) = flow.paths[0].forward.first().context("a path has a link")?;
                let interface = network.interface(flow.sender, *link);
                let mut settings = sender_settings(scenario, traffic, to, session, interface);
                if let (Some(plan), true) = (&plan, scenario.run.messages) {
                    settings.keep_departures = plan.len();
                }
                let sender = Box::new(sender.run(|| Sender::open(&settings))??);
                if to.ip().is_multicast() {
                    network.wait_for_members(to.ip(), &flow.receivers)?;
                }
                let ends = std::iter::once(&flow.sender).chain(&flow.receivers);
                let affinity = ends.map(|&node| processors[node]).collect();
                let plan = plan.map(|plan| (plan, session));
                Ok(Endpoints::Messages { sender, receivers, affinity, exchange, plan })
            }
        }
    }

    /// Gauges of the buffers of message receivers, in order.
    pub fn gauges(&self) -> Vec<Option<Gauge>> {
        match self {
            Endpoints::Messages { receivers, .. } => receivers.iter().map(Receiver::gauge).collect(),
            _ => Vec::new(),
        }
    }

    /// Starts at `begin` and runs to the end of the window and the drain.
    pub fn run(self, begin: Nanos, realtime: bool, stop: &Stop) -> Result<Facts> {
        match self {
            Endpoints::Messages { sender, receivers, affinity, exchange, plan } => {
                let exchange = &exchange;
                let processor = |end: usize| affinity.get(end).copied().flatten();
                std::thread::scope(|scope| {
                    let receiving: Vec<_> = receivers
                        .into_iter()
                        .zip(1..)
                        .map(|(receiver, end)| {
                            spawn(scope, realtime, processor(end), move || receiver.run(exchange, stop))
                        })
                        .collect();
                    let sending = spawn(scope, realtime, processor(0), move || {
                        clock::wait(&mut [PollFd::new(stop.as_fd(), PollFlags::POLLIN)], Some(begin));
                        match plan {
                            Some((plan, session)) => {
                                sender.relay(&mut Planned::new(plan, session, stop), exchange, stop)
                            }
                            None => sender.run(exchange, stop),
                        }
                    });
                    let sent = Box::new(joined(sending));
                    let received = receiving.into_iter().map(joined).collect();
                    Ok(Facts { stopped: sent.stopped, sent: Some(sent), received, bulk: None })
                })
            }
            Endpoints::Bulk(ends) => {
                let (sender, receiver) = *ends;
                Ok(Facts::of(bulk::run(sender, receiver, begin, stop)))
            }
            Endpoints::Iperf3(transfer) => Ok(Facts::of(transfer.run(begin, stop))),
            Endpoints::Programs(time) => {
                let end = begin + clock::nanos(time);
                while clock::now() < end && !stop.is_set() {
                    clock::wait(&mut [PollFd::new(stop.as_fd(), PollFlags::POLLIN)], Some(end));
                }
                Ok(Facts { stopped: stop.is_set(), ..Facts::default() })
            }
        }
    }
}

impl Facts {
    /// Of a bulk transfer.
    fn of(report: BulkReport) -> Facts {
        Facts { stopped: report.stopped, bulk: Some(Box::new(report)), ..Facts::default() }
    }
}

/// Starts a thread, a real-time one if requested, pinned to a CPU or on any.
pub(super) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    realtime: bool,
    processor: Option<usize>,
    f: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    scope.spawn(move || {
        if realtime {
            // These threads get what the emulator got; one that does not is late, which shows.
            let _ = scheduling::become_real_time();
        }
        if let Some(processor) = processor {
            // It was among the permitted CPUs when the network was created.
            let _ = scheduling::run_on(processor);
        }
        f()
    })
}

pub(super) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Only a load may have no streams: there is none then.
pub const LOAD: &str = "load";
