//! Collectors at work, in a network of their own: a loopback that nobody else uses.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench_measure::machine;
use nix::sys::signal::Signal;
use serde_json::Value;
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_kernel::namespaces::process::{Program, Running};
use weir_kernel::sockets::Sockets;

use crate::http::Client;
use crate::programs::Programs;

/// Who collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `weir sflow serve` with one worker and the twenty definitions.
    Weir,
    /// goflow2, each sample as JSON to /dev/null.
    Goflow2Json,
    /// goflow2, each sample as protobuf to /dev/null, as its manual advises for much of it.
    Goflow2Bin,
    /// sfacctd, totals by source and destination in memory.
    Sfacctd,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Weir => "weir sflow serve",
            Kind::Goflow2Json => "goflow2, JSON",
            Kind::Goflow2Bin => "goflow2, protobuf",
            Kind::Sfacctd => "sfacctd, one table",
        }
    }

    fn path(self, programs: &Programs) -> Option<PathBuf> {
        match self {
            Kind::Weir => Some(programs.weir.clone()),
            Kind::Goflow2Json | Kind::Goflow2Bin => programs.goflow2.clone(),
            Kind::Sfacctd => programs.sfacctd.clone(),
        }
    }

    /// Whether it can be started here.
    pub(crate) fn is_there(self, programs: &Programs) -> bool {
        self.path(programs).is_some()
    }
}

/// Where a collector runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On a processor of its own; the source is on the other.
    Pinned,
    /// Where the kernel likes.
    Anywhere,
}

/// A collector. Ends with this.
pub(crate) struct Collector {
    pub(crate) ns: NetNs,
    running: Running,
    output: PathBuf,
    errors: PathBuf,
}

/// Where collectors listen.
pub(crate) const LISTENER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 6343);

/// Where weir answers questions.
pub(crate) const REST: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8008);

/// The configuration of weir: with the twenty definitions, and what else is told.
pub(crate) fn configuration(more: &str) -> String {
    format!(
        "workers = 1\nhttp = \"{REST}\"\n{more}\n[[listener]]\naddress = \"{LISTENER}\"\n{}",
        include_str!("../definitions.toml")
    )
}

impl Collector {
    /// Starts one and waits until it listens.
    pub(crate) fn start(programs: &Programs, kind: Kind, place: Place) -> Result<Collector> {
        let file = programs.directory().join("weir.toml");
        fs::write(&file, configuration(""))?;
        let sfacctd = programs.directory().join("sfacctd.conf");
        let pipe = programs.directory().join("sfacctd.pipe");
        fs::write(&sfacctd, format!("{SFACCTD}imt_path[t]: {}\n", pipe.display()))?;
        let listen = format!("sflow://{LISTENER}?count=1&workers=1&blocking=true&queue_size=1000");
        let goflow2 = |format| ["-listen", &listen, "-format", format, "-transport.file", "/dev/null", "-addr", ""];
        let arguments: Vec<String> = match kind {
            Kind::Weir => return Collector::weir(programs, "", place),
            Kind::Goflow2Json => goflow2("json").map(str::to_owned).into(),
            Kind::Goflow2Bin => goflow2("bin").map(str::to_owned).into(),
            Kind::Sfacctd => vec!["-f".into(), sfacctd.display().to_string()],
        };
        Collector::run(programs, kind, &arguments, place)
    }

    /// Starts weir with more in its configuration.
    pub(crate) fn weir(programs: &Programs, more: &str, place: Place) -> Result<Collector> {
        let file = programs.directory().join("weir.toml");
        fs::write(&file, configuration(more))?;
        let arguments = ["sflow", "serve", "--json", "-c"].map(str::to_owned).into_iter();
        let arguments: Vec<String> = arguments.chain([file.display().to_string()]).collect();
        Collector::run(programs, Kind::Weir, &arguments, place)
    }

    fn run(programs: &Programs, kind: Kind, arguments: &[String], place: Place) -> Result<Collector> {
        let ns = NetNs::create()?;
        Netlink::open(&ns)?.set_loopback_up()?;
        let path = kind.path(programs).with_context(|| format!("{} is missing", kind.name()))?;
        let [output, errors] = ["output", "errors"].map(|name| programs.directory().join(name));
        let program = Program::new(&ns, "collector", path).args(arguments).stdin(Stdio::null());
        let program = program.stdout(File::create(&output)?).stderr(File::create(&errors)?);
        let start = || Ok(program.spawn()?);
        let running = match place {
            Place::Pinned => machine::pinned(machine::REPLICATOR, start)?,
            Place::Anywhere => start()?,
        };
        let mut collector = Collector { ns, running, output, errors };
        let deadline = Instant::now() + PATIENCE;
        while collector.drops()?.is_none() {
            if collector.running.wait_timeout(Duration::ZERO)?.is_some() || Instant::now() > deadline {
                let said = fs::read_to_string(&collector.errors)?;
                bail!("{} does not listen: {}", kind.name(), said.lines().last().unwrap_or_default());
            }
            sleep(Duration::from_millis(5));
        }
        Ok(collector)
    }

    /// Datagrams for which its socket had no room; `None`: it does not listen.
    pub(crate) fn drops(&self) -> Result<Option<u64>> {
        let sockets = Sockets::open(&self.ns)?.read()?;
        let listening = sockets.iter().filter(|socket| socket.local.port() == LISTENER.port() && socket.peer.is_none());
        Ok(listening.map(|socket| u64::from(socket.memory.drops)).reduce(|a, b| a + b))
    }

    /// Waits until nothing is left in its socket; datagrams for which there was no room.
    pub(crate) fn settle(&self) -> Result<u64> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let sockets = Sockets::open(&self.ns)?.read()?;
            let of_it = |socket: &&weir_kernel::sockets::UdpSocket| socket.local.port() == LISTENER.port();
            if sockets.iter().filter(of_it).all(|socket| socket.memory.queued == 0) {
                return self.drops()?.context("it does not listen any more");
            }
            ensure!(Instant::now() < deadline, "the collector does not read its socket");
            sleep(Duration::from_millis(5));
        }
    }

    /// CPU time it took so far.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        machine::cpu_time(self.running.init_id())
    }

    /// A connection to the REST API.
    pub(crate) fn client(&self) -> Result<Client> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Client::connect(&self.ns, REST) {
                Ok(client) => return Ok(client),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Resident memory of all its processes, bytes.
    pub(crate) fn memory(&self) -> Result<u64> {
        machine::resident(self.running.init_id())
    }

    /// Asks weir to end; its ledger.
    pub(crate) fn end(mut self) -> Result<Value> {
        self.running.signal(Signal::SIGTERM)?;
        let status = self.running.wait_timeout(PATIENCE)?;
        let said = fs::read_to_string(&self.errors)?;
        ensure!(status == Some(0), "weir ended with {status:?}: {}", said.lines().last().unwrap_or_default());
        Ok(serde_json::from_str(&fs::read_to_string(&self.output)?)?)
    }
}

/// How long to wait at most for something that should be instantaneous.
const PATIENCE: Duration = Duration::from_secs(20);

/// As QUICKSTART and CONFIG-KEYS have it for one table in memory, with sizes for heavy load.
const SFACCTD: &str = "daemonize: false
sfacctd_ip: 127.0.0.1
sfacctd_port: 6343
sfacctd_pipe_size: 8388608
sfacctd_renormalize: true
plugins: memory[t]
aggregate[t]: src_host, dst_host
plugin_pipe_size: 104857600
plugin_buffer_size: 102400
imt_mem_pools_number: 0
";
