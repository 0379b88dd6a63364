//! One cell: its network, traffic through it, and what the counters said.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags};
use weir_emulator::datapath::{self, Emulator};
use weir_kernel::counters::{self, Snmp};
use weir_kernel::scheduling;

use super::heartbeat::{Heartbeat, Window};
use super::network::{LinkReading, Network};
use super::scenario::{Datapath, Scenario};
use super::sweep::Cell;
use super::topology::Topology;
use crate::service::stop::Stop;
use crate::traffic::{
    Exchange, QuicSettings, ReceiveReport, Receiver, ReceiverSettings, SendReport, Sender, SenderSettings, TcpSettings,
    Transport, Until, clock,
};

/// What all cells of a run share.
pub struct Bench {
    /// Carries every cell's links.
    pub emulator: Emulator,
    /// How its ports are opened.
    pub settings: datapath::Settings,
    /// Tells when the machine stood still.
    pub heartbeat: Heartbeat,
    /// Ends the run early.
    pub stop: Stop,
    /// Whether emulator, heartbeat and traffic run as real-time threads.
    pub realtime: bool,
}

/// A cell that is about to run.
pub struct Prepared<'a> {
    bench: &'a Bench,
    network: Network<'a>,
    topology: Topology,
    sender: Sender,
    receiver: Receiver,
    exchange: Exchange,
}

/// Everything a cell has measured.
pub struct Measured<'a> {
    /// Up as long as this lives.
    pub network: Network<'a>,
    /// The network as configured.
    pub topology: Topology,
    /// The sender's view.
    pub sent: SendReport,
    /// The receiver's view.
    pub received: ReceiveReport,
    /// The links' counters, by link.
    pub links: Vec<LinkReading>,
    /// The receiving host's protocol counters.
    pub receiver_host: Snmp,
    /// The machine's own disturbance meanwhile.
    pub heartbeat: Arc<Window>,
}

impl Bench {
    /// Starts what the cells of a scenario share.
    pub fn start(scenario: &Scenario, stop: Stop) -> Result<Bench> {
        let settings = datapath::Settings {
            path: match scenario.run.datapath {
                Datapath::Segments => datapath::Path::Segments,
                Datapath::Packets => datapath::Path::Packets,
            },
            spin: scenario.run.spin,
            ..datapath::Settings::default()
        };
        // Threads inherit how they are scheduled; the one that asks for it ends here.
        std::thread::scope(|scope| {
            joined(scope.spawn(|| {
                let realtime = scenario.run.realtime && scheduling::become_real_time().is_ok();
                let emulator = Emulator::spawn(settings.clone())?;
                Ok(Bench { emulator, settings, heartbeat: Heartbeat::start(), stop, realtime })
            }))
        })
    }
}

impl<'a> Prepared<'a> {
    /// Builds the network and opens the sockets. `session` tells the messages of cells apart.
    pub fn new(bench: &'a Bench, cell: &Cell, seed: u64, session: u16) -> Result<Self> {
        let scenario = &cell.scenario;
        let topology = Topology::new(scenario)?;
        let network = Network::build(&topology, &bench.emulator, &bench.settings, seed)?;
        let exchange = Exchange::new(scenario.run.drain.duration()).context("open an event descriptor")?;

        let listen = (topology.destination, scenario.traffic.port).into();
        let receiver_settings = ReceiverSettings {
            transport: scenario.traffic.transport,
            session: Some(session),
            until: Until {
                // Copies come behind the message that would end the cell.
                settle: if topology.duplicates(&topology.paths[0].there) {
                    patience(&topology)
                } else {
                    Duration::ZERO
                },
                ..Until::default()
            },
            ..ReceiverSettings::new(listen)
        };
        let receiver = network.namespace(topology.receivers[0]).run(|| Receiver::bind(&receiver_settings))??;
        let sender_settings = sender_settings(scenario, listen, session);
        let sender = network.namespace(topology.sender).run(|| Sender::open(&sender_settings))??;
        Ok(Prepared { bench, network, topology, sender, receiver, exchange })
    }

    /// Sends for the window, drains, and reads the counters. Traffic starts after `delay`, so that cells that run side
    /// by side do not send in step.
    pub fn run(self, delay: Duration) -> Result<Measured<'a>> {
        let Bench { stop, realtime, .. } = self.bench;
        let begin = clock::now() + clock::nanos(LEAD_IN + delay);
        let heartbeat = self.bench.heartbeat.observe();
        let (sender, receiver, exchange) = (self.sender, self.receiver, &self.exchange);
        let (sent, received) = std::thread::scope(|scope| {
            let receiving = scope.spawn(move || scheduled(*realtime, || receiver.run(exchange, stop)));
            let sending = scope.spawn(move || {
                scheduled(*realtime, || {
                    clock::wait(&mut [PollFd::new(stop.as_fd(), PollFlags::POLLIN)], Some(begin));
                    sender.run(exchange, stop)
                })
            });
            (joined(sending), joined(receiving))
        });
        let links = self.network.settled(patience(&self.topology))?;
        let receiver_host = counters::snmp(self.network.namespace(self.topology.receivers[0]))?;
        Ok(Measured { network: self.network, topology: self.topology, sent, received, links, receiver_host, heartbeat })
    }
}

/// Runs `f` on this thread, a real-time one if so wanted.
fn scheduled<T>(realtime: bool, f: impl FnOnce() -> T) -> T {
    if realtime {
        // What the emulator got, the others get as well; one that does not is late, and says so.
        let _ = scheduling::become_real_time();
    }
    f()
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// From the start of a cell's threads to its first message: starting dozens of them disturbs those that send already.
const LEAD_IN: Duration = Duration::from_millis(300);

/// How long what is under way when the traffic has ended may still take: the path's delay, variation included, and
/// what a busy machine needs.
fn patience(topology: &Topology) -> Duration {
    Duration::from_secs(1) + Duration::from_secs_f64(4.0 * topology.latency_ms(&topology.paths[0].there) / 1e3)
}

fn sender_settings(scenario: &Scenario, to: std::net::SocketAddr, session: u16) -> SenderSettings {
    let (traffic, tcp) = (&scenario.traffic, &scenario.tcp);
    SenderSettings {
        transport: traffic.transport,
        payload_bytes: traffic.payload.bytes as usize,
        interval: traffic.interval.duration(),
        pacing: traffic.pacing,
        duration: scenario.run.duration.duration(),
        drain: scenario.run.drain.duration(),
        session,
        tcp: TcpSettings { congestion: Some(tcp.congestion.clone()), nodelay: tcp.nodelay },
        quic: QuicSettings { congestion: scenario.quic.congestion.clone() },
        connect_timeout: tcp.connect_timeout.duration(),
        keep_send_times: traffic.transport == Transport::Tcp,
        ..SenderSettings::new(to)
    }
}
