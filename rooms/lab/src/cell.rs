//! One cell: its network, its traffic, and its counters.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use weir_emulator::datapath::{Emulator, EmulatorSettings};
use weir_kernel::counters::{self, Snmp};
use weir_kernel::processors::Processors;
use weir_kernel::scheduling;
use weir_program::clock::{self, Nanos};
use weir_program::stop::Stop;
use weir_report::store;
use weir_trace::{Detail, Filter, Trace, Tracer};
use weir_traffic::Transport;

use crate::capture::{Capture, CaptureReport};
use crate::columns;
use crate::endpoints::{self, Endpoints, Facts, Terms, joined};
use crate::machine::{Machine, Observed};
use crate::network::{LinkReading, Network};
use crate::programs::{self, AllFacts, Programs};
use crate::scenario::{Mode, Scenario, Traffic};
use crate::sweep::Cell;
use crate::topology::{Flow, Kind, Node, Topology};
use crate::watch::{self, Watched};

/// Shared by all cells of a run.
pub struct Testbed {
    /// Carry the cells' links.
    emulators: Vec<Emulator>,
    /// Ends the run early.
    pub stop: Stop,
    /// Whether emulators and messages run as real-time threads.
    pub realtime: bool,
}

/// A cell that is about to run.
pub struct Prepared<'a> {
    testbed: &'a Testbed,
    scenario: Scenario,
    network: Network<'a>,
    topology: Topology,
    traffic: Endpoints,
    load: Option<(Endpoints, Duration)>,
    programs: Programs,
    captures: Vec<Capture>,
    /// Traces the datagrams in the kernel, if requested and permitted.
    tracer: Option<Tracer>,
    /// Why it is not tracing.
    untraced: Option<String>,
}

/// All measurements of a cell.
pub struct Measured<'a> {
    /// Up as long as this exists.
    pub network: Network<'a>,
    /// The network as configured.
    pub topology: Topology,
    /// Results of the traffic.
    pub traffic: Facts,
    /// Results of the load next to it.
    pub load: Option<Facts>,
    /// Reports of the programs.
    pub programs: AllFacts,
    /// The links' counters, by link.
    pub links: Vec<LinkReading>,
    /// The protocol counters of every node; `None`: a switch.
    pub kernels: Vec<Option<Snmp>>,
    /// The machine during the cell.
    pub machine: Observed,
    /// The start of sending, ns of CLOCK_MONOTONIC.
    pub begin: Nanos,
    /// The same, s since 1970 UTC.
    pub begin_unix_s: f64,
    /// Share of the CPUs that other programs used.
    pub foreign: f64,
    /// Share of the CPUs that was idle.
    pub idle: f64,
    /// Readings of buffers and CPUs. `None`: not watched.
    pub watched: Option<Watched>,
    /// The trace of the datagrams in the kernel. `None`: not traced.
    pub trace: Option<Trace>,
    /// Why the trace is less than requested.
    pub untraced: Option<String>,
    /// The captures.
    pub captures: Vec<CaptureReport>,
}

impl Testbed {
    /// Starts the shared parts of a scenario's cells, with this many emulator threads.
    pub fn start(scenario: &Scenario, stop: Stop, emulators: usize) -> Result<Testbed> {
        // Threads inherit their scheduling; the one that requests it ends here.
        std::thread::scope(|scope| {
            joined(scope.spawn(|| {
                let realtime = scenario.run.realtime && scheduling::become_real_time().is_ok();
                let emulators = (0..emulators.max(1)).map(|_| Emulator::spawn(EmulatorSettings::default()));
                let emulators = emulators.collect::<Result<_, _>>()?;
                Ok(Testbed { emulators, stop, realtime })
            }))
        })
    }

    /// The emulator of the worker of this number.
    pub fn emulator(&self, worker: usize) -> &Emulator {
        &self.emulators[worker % self.emulators.len()]
    }
}

impl<'a> Prepared<'a> {
    /// Builds the network and opens the sockets. `session` distinguishes the messages of cells, `worker` selects the
    /// emulator.
    pub fn new(testbed: &'a Testbed, cell: &Cell, seed: u64, session: u16, worker: usize) -> Result<Self> {
        let scenario = &cell.scenario;
        let topology = Topology::new(scenario)?;
        let network = Network::build(&topology, testbed.emulator(worker), seed)?;
        let (tracer, untraced) =
            match scenario.run.trace.detail().map(|detail| trace(&network, &topology, scenario, detail)) {
                None => (None, None),
                Some(Ok(tracer)) => {
                    let refused = tracer.refused().join("; ");
                    (Some(tracer), (!refused.is_empty()).then_some(refused))
                }
                Some(Err(error)) => (None, Some(error.to_string())),
            };
        // Copies may arrive after the message that would end the cell.
        let duplicates = topology.traffic.paths.iter().any(|path| topology.duplicates(&path.forward));
        let patience = patience(&topology);
        let settle = if duplicates { patience } else { Duration::ZERO };
        let processors = topology.nodes.iter().map(|node| node.processor).collect();
        let terms = Terms { processors, session, settle, patience, seed };
        let open = |traffic, flow: &Flow| Endpoints::prepare(&network, scenario, traffic, flow, &terms);
        let load = topology.load.as_ref().zip(load(scenario)).map(|(flow, load)| {
            let endpoints = open(load, flow).context("load")?;
            anyhow::Ok((endpoints, load.warmup.duration()))
        });
        let load = load.transpose()?;
        let traffic = open(&scenario.traffic, &topology.traffic)?;
        let programs = Programs::start(&network, scenario, &topology, &testbed.stop)?;
        if scenario.traffic.mode == Mode::Programs && topology.traffic.destination.is_multicast() {
            network.wait_for_members(topology.traffic.destination, &topology.traffic.receivers)?;
        }
        let captures = Vec::new();
        let scenario = scenario.clone();
        Ok(Prepared { testbed, scenario, network, topology, traffic, load, programs, captures, tracer, untraced })
    }

    /// Captures packets at the interfaces of sender and receivers to `dir`, one file per host: `NAME-HOST.pcapng`.
    pub fn capture(&mut self, dir: &Path, name: &str, snap: u32) -> Result<()> {
        store::folder(dir)?;
        let mut ends: Vec<(usize, usize)> = Vec::new();
        for (path, &receiver) in self.topology.traffic.paths.iter().zip(&self.topology.traffic.receivers) {
            ends.extend(path.forward.first().map(|&(link, _)| (self.topology.traffic.sender, link)));
            ends.extend(path.forward.last().map(|&(link, _)| (receiver, link)));
        }
        ends.sort_unstable();
        ends.dedup();
        for (node, link) in ends {
            let host = &self.topology.nodes[node].name;
            let file = dir.join(format!("{}-{}.pcapng", store::file_stem(name), store::file_stem(host)));
            let interface = self.network.interface(node, link);
            self.captures.push(Capture::start(self.network.namespace(node), interface, &file, snap)?);
        }
        Ok(())
    }

    /// Sends for the window, drains, and reads the counters. Traffic starts after `delay`, so that parallel cells do
    /// not send in step.
    pub fn run(mut self, delay: Duration, machine: &Machine) -> Result<Measured<'a>> {
        let (stop, run) = (&self.testbed.stop, &self.scenario.run);
        // The threads of messages may have priority over ordinary ones; those of bulk traffic would starve them.
        let realtime = self.testbed.realtime && self.scenario.traffic.mode == Mode::Messages;
        let head_start = self.load.as_ref().map_or(Duration::ZERO, |&(_, head_start)| head_start);
        let load_begin = clock::now() + clock::nanos(LEAD_IN + delay);
        let begin = load_begin + clock::nanos(head_start);
        self.network.start_clocks(begin)?;
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let begin_unix_s = wall + begin.saturating_sub(clock::now()) as f64 / 1e9;
        let mark = machine.mark();
        let before = Processors::read()?;
        let gauges = self.traffic.gauges();
        let window = self.topology.window;
        let over = AtomicBool::new(false);
        let programs = self.programs;
        let (traffic, load, watched, programs) = std::thread::scope(|scope| {
            let watch = (!run.watch.duration().is_zero()).then(|| {
                let every = run.watch.duration();
                endpoints::spawn(scope, true, None, move || watch::watch(&gauges, every, begin, window, stop))
            });
            let load = self.load.map(|(load, _)| scope.spawn(move || load.run(load_begin, false, stop)));
            let conducted = scope.spawn(|| programs.run(begin, window, &over, stop));
            let traffic = self.traffic.run(begin, realtime, stop);
            over.store(true, Ordering::Relaxed);
            (traffic, load.map(joined), watch.map(joined), joined(conducted))
        });
        let (traffic, load, watched) = (traffic?, load.transpose()?, watched.transpose()?);
        let after = Processors::read()?;
        let (foreign, idle) = (after.foreign_share(&before), after.idle_share(&before));
        let patience = patience(&self.topology);
        let links = self.network.settled(patience, patience + run.drain.duration())?;
        let kernel = |(index, node): (usize, &Node)| match node.kind {
            Kind::Switch => Ok(None),
            Kind::Host | Kind::Router => counters::snmp(self.network.namespace(index)).map(Some),
        };
        let kernels: Vec<_> = self.topology.nodes.iter().enumerate().map(kernel).collect::<Result<_, _>>()?;
        let trace = self.tracer.as_mut().map(Tracer::read).transpose()?;
        let untraced = self.untraced;
        let captures = self.captures.into_iter().map(Capture::stop).collect::<Result<_>>()?;
        let (network, topology) = (self.network, self.topology);
        let machine = machine.since(&mark);
        Ok(Measured {
            network,
            topology,
            traffic,
            load,
            programs,
            links,
            kernels,
            machine,
            begin,
            begin_unix_s,
            foreign,
            idle,
            watched,
            trace,
            untraced,
            captures,
        })
    }
}

/// Starts to trace the traffic's datagrams in the kernel on all nodes.
fn trace(
    network: &Network<'_>,
    topology: &Topology,
    scenario: &Scenario,
    detail: Detail,
) -> Result<Tracer, weir_kernel::Error> {
    let nodes = 0..topology.nodes.len();
    let namespaces = nodes.map(|node| network.namespace(node).inode()).collect::<Result<_, _>>()?;
    Tracer::start(detail, &Filter { ports: vec![scenario.traffic.port], namespaces })
}

/// Refuses a cell that cannot run.
pub fn check(cell: &Cell) -> Result<Topology> {
    let topology = cell.topology()?;
    let scenario = &cell.scenario;
    ensure!(!scenario.run.duration.duration().is_zero(), "run.duration: must be above 0");
    // It is used as a file name, and shown unchanged.
    let plain = |c: char| !c.is_control() && c != '/';
    ensure!(
        !scenario.name.is_empty() && !scenario.name.starts_with('.') && scenario.name.chars().all(plain),
        "name: {:?}: must not be empty, begin with a dot, or have slashes or control characters",
        scenario.name
    );
    endpoints::check("traffic", scenario, &scenario.traffic, &topology, &topology.traffic)?;
    programs::check(scenario, &topology)?;
    columns::check(scenario)?;
    if let Some((load, flow)) = scenario.load.as_ref().zip(topology.load.as_ref()) {
        endpoints::check(endpoints::LOAD, scenario, load, &topology, flow)?;
        let datagrams = |transport| transport != Transport::Tcp;
        let same = flow.destination == topology.traffic.destination && load.port == scenario.traffic.port;
        let both = datagrams(load.transport) == datagrams(scenario.traffic.transport);
        ensure!(!same || !both, "load.port: {} is the port of the measured traffic", load.port);
        ensure!(load.mode == Mode::Bulk, "load.mode: a load is sent in bulk. Set load.mode = \"bulk\".");
        ensure!(load.to.names().len() == 1, "load.to: a load has one receiver");
        ensure!(
            load.control.is_none(),
            "load.control: only the measured traffic has a link for its control connection"
        );
    }
    Ok(topology)
}

/// The load next to the traffic; a load without streams is none.
pub(super) fn load(scenario: &Scenario) -> Option<&Traffic> {
    scenario.load.as_ref().filter(|load| load.streams > 0)
}

/// From the start of a cell's threads to its first message: starting dozens of threads disturbs those that already
/// send.
const LEAD_IN: Duration = Duration::from_millis(300);

/// Time for packets in flight at the end of the traffic: the path's delay, variation included, and what a busy machine
/// needs.
fn patience(topology: &Topology) -> Duration {
    let slowest = topology.traffic.paths.iter().map(|path| topology.latency_ms(&path.forward)).fold(0.0, f64::max);
    Duration::from_secs(1) + Duration::from_secs_f64(4.0 * slowest / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Sweep;

    /// What is wrong with the first cell of the payload scenario with some keys set; empty: nothing.
    fn wrong(overrides: &[(&str, &str)]) -> String {
        let (_, text) = Scenario::find("payload").unwrap();
        let overrides: Vec<_> = overrides.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let sweep = Sweep::new("payload.toml", &text, &overrides);
        let checked = sweep.and_then(|sweep| check(&sweep.cells[0]).map(|_| ()));
        checked.err().map(|error| format!("{error:#}")).unwrap_or_default()
    }

    #[test]
    fn what_burdens_a_receiver_is_read_and_checked() {
        assert_eq!(wrong(&[]), "");
        let (_, text) = Scenario::find("payload").unwrap();
        let sweep = Sweep::new("payload.toml", &text, &[]).unwrap();
        assert_eq!(sweep.cells.len(), 4 * 2 * 2 * 4 + 7);
        let find = |name: &str| &sweep.cells.iter().find(|cell| cell.name == name).unwrap().scenario;
        let tuned = find("16B/16MiB/2/0s");
        assert_eq!(tuned.receive.buffer.0.map(|size| size.bytes), Some(16 << 20));
        assert_eq!(
            (tuned.parameters["burners"].as_integer(), tuned.traffic.batch.map(|n| n.get())),
            (Some(2), Some(64))
        );
        assert_eq!(find("20 % of 100 Mbit/s, default").receive.stall.unwrap().length.duration().as_millis(), 40);
        let topology = find("1 Gbit/s into 100 Mbit/s");
        let topology = Topology::new(topology).unwrap();
        let direct: Vec<bool> = topology.links.iter().map(|link| link.direct).collect();
        assert_eq!(direct, [false, true, false, false], "the leg to the third receiver is not of this cell");

        let mistakes = [
            wrong(&[("links.up.rate", "1gbit")]),
            wrong(&[("traffic.batch", "0")]),
            wrong(&[("traffic.transport", "tcp")]),
            wrong(&[("receive.buffer", "large")]),
            wrong(&[("receive.stall", "{ every = \"40ms\", length = \"40ms\" }")]),
            wrong(&[("run.trace", "all")]),
            wrong(&[("name", "../esc")]),
            wrong(&[("name", "\"\\u001b[31m\"")]),
        ];
        let expected = [
            "links.up: a direct link does nothing to packets",
            "--set traffic.batch=0: ",
            "traffic.batch: only for messages over udp",
            "--set receive.buffer=large: ",
            "receive.stall: 40ms every 40ms leaves no time to read",
            "--set run.trace=all: ",
            "name: \"../esc\": must not be empty",
            "name: \"\\u{1b}[31m\": must not be empty",
        ];
        for (mistake, expected) in mistakes.iter().zip(expected) {
            assert!(mistake.contains(expected) && !mistake.contains('\n'), "{mistake:?} lacks {expected:?}");
        }
    }
}
