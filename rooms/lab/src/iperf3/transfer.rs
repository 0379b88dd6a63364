//! One transfer: the server waits, the client runs, both are heard.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::Signal;
use serde_json::Value;
use weir_kernel::namespaces::NetNs;
use weir_kernel::namespaces::process::{Program, Running};
use weir_kernel::sysctl;
use weir_kernel::tcp::TcpSockets;
use weir_program::clock::{self, Nanos, nanos, now};
use weir_program::stop::Stop;
use weir_traffic::bulk::{BulkReport, BulkSettings};
use weir_traffic::{ErrorCount, Transport, Window};

use super::report::{parse, report};
use super::{Iperf3Settings, MISSING, PROGRAM};

/// A server that listens, and a client that is ready to start. Both end with this.
pub struct Transfer {
    settings: Iperf3Settings,
    client_ns: NetNs,
    connections: TcpSockets,
    server: End,
    init: PathBuf,
}

/// A running iperf3, which is read all the time, so that neither of its pipes fills up.
struct End {
    running: Running,
    stdout: JoinHandle<Vec<u8>>,
    stderr: JoinHandle<Vec<u8>>,
}

impl Transfer {
    /// Starts the server on its host, and returns when it listens. The `main` of the executable `init` begins with
    /// [`init_if_asked`](weir_kernel::namespaces::process::init_if_asked).
    ///
    /// # Errors
    /// iperf3 is missing, cannot listen, or could not do what the settings say.
    pub fn prepare(init: &Path, client_ns: &NetNs, server_ns: &NetNs, settings: &Iperf3Settings) -> Result<Self> {
        settings.validate()?;
        let (port, sockets) = (settings.bulk.to.port(), TcpSockets::open(server_ns)?);
        if sockets.listens(port)? {
            bail!("start iperf3 -s: another program of its host listens on port {port}");
        }
        if let Some(name) = settings.bulk.congestion.as_ref().filter(|_| settings.bulk.transport == Transport::Tcp) {
            for ns in [client_ns, server_ns] {
                begin_with(ns, name)?;
            }
        }
        let mut server = End::start(init, server_ns, "server", &settings.server_arguments())?;
        // With `-J` it says nothing before its end, its PID file is there before it listens, and a connection to try would be
        // taken for the one client it serves: so the host's table of sockets is looked at.
        let deadline = now() + nanos(PATIENCE);
        while !sockets.listens(port)? {
            if let Some(status) = server.running.wait_timeout(LOOK)? {
                let (told, fault) = server.told(Some(status));
                let said = error_of(&told).or(fault);
                bail!("start iperf3 -s: {}", said.unwrap_or_else(|| "it ended at once".into()));
            }
            if now() >= deadline {
                bail!(
                    "start iperf3 -s: it does not listen on port {port} after {PATIENCE:?} (is the machine overloaded?)"
                );
            }
        }
        let (client_ns, connections) = (client_ns.try_clone()?, TcpSockets::open(client_ns)?);
        Ok(Self { settings: settings.clone(), client_ns, connections, server, init: init.to_owned() })
    }

    /// Starts the client at the time `begin` (CLOCK_MONOTONIC) and returns when the transfer is over: at its planned
    /// end, at a stop, or when a connection was not made in time.
    ///
    /// What goes wrong in the transfer is in the report, in iperf3's words. iperf3 does not tell how long its
    /// connections took ([`BulkReport::connect`] is `None`), nor when exactly its window was: that is reckoned back
    /// from its end.
    ///
    /// # Errors
    /// The client cannot be started, or not be watched.
    pub fn run(mut self, begin: Nanos, stop: &Stop) -> Result<BulkReport> {
        while now() < begin && !stop.is_set() {
            clock::wait(&mut [PollFd::new(stop.as_fd(), PollFlags::POLLIN)], Some(begin));
        }
        let arguments = self.settings.client_arguments();
        let engine = |version: &str| format!("{version}: {PROGRAM} {}", arguments.join(" "));
        if stop.is_set() {
            let streams = self.settings.bulk.streams;
            return Ok(BulkReport { engine: engine(PROGRAM), streams, stopped: true, ..BulkReport::default() });
        }
        let mut client = End::start(&self.init, &self.client_ns, "client", &arguments)?;
        let ended = self.attend(&client.running, begin, stop)?;
        let at = now();
        // The server prints its report when the client has gone.
        let status = client.end(Duration::ZERO);
        let patience = if ended == Ended::NeverConnected { Duration::ZERO } else { PATIENCE };
        let server_status = self.server.end(patience);
        let ((client, client_fault), (server, server_fault)) = (client.told(status), self.server.told(server_status));
        let said = error_of(&client).or(client_fault);

        let complete = ended == Ended::Itself && said.is_none();
        let mut report = report(&self.settings, &client, &server, complete);
        report.engine = engine(client["start"]["version"].as_str().unwrap_or(PROGRAM));
        report.stopped = ended == Ended::Stopped;
        let error = |operation, error: String| ErrorCount { operation, error, count: 1 };
        let by_server = |said: Option<String>| said.map(|said| error("iperf3 -s", said));
        report.errors = match ended {
            // What they say then is that we ended them.
            Ended::Stopped => Vec::new(),
            Ended::NeverConnected => vec![error("connect", "connection timed out".into())],
            Ended::Itself => {
                let client = said.map(|said| error("iperf3 -c", said));
                client.into_iter().chain(by_server(error_of(&server).or(server_fault))).collect()
            }
            Ended::Overdue => {
                let late = error("iperf3 -c", "had not ended in time, and was told to".into());
                std::iter::once(late).chain(by_server(server_fault)).collect()
            }
        };
        if report.connected > 0 {
            let start = at.saturating_sub(nanos(report.used));
            report.window = Some(Window { start, end: start.saturating_add(nanos(self.settings.bulk.duration)) });
        }
        Ok(report)
    }

    /// Waits until the client has ended, and ends it if it must not go on.
    fn attend(&self, client: &Running, begin: Nanos, stop: &Stop) -> Result<Ended> {
        let BulkSettings { connect_timeout, warmup, duration, transport, to, .. } = self.settings.bulk;
        let mut connected_by = (transport == Transport::Tcp).then(|| begin.saturating_add(nanos(connect_timeout)));
        let over = begin.saturating_add(nanos(connect_timeout + warmup + duration + GRACE));
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let ended = loop {
            let mut fds = [readable(client.as_fd()), readable(stop.as_fd())];
            clock::wait(&mut fds, Some(connected_by.map_or(over, |by| by.min(over))));
            if fds[0].any().unwrap_or(false) {
                return Ok(Ended::Itself);
            }
            if stop.is_set() {
                break Ended::Stopped;
            }
            if now() >= over {
                break Ended::Overdue;
            }
            // iperf3 has no limit of its own for data connections: it would wait for the kernel, for minutes.
            if connected_by.is_some_and(|by| now() >= by) {
                connected_by = None;
                if self.connections.connects(to.port())? {
                    break Ended::NeverConnected;
                }
            }
        };
        // Told to end, it prints what it has.
        client.signal(Signal::SIGTERM)?;
        clock::wait(&mut [readable(client.as_fd())], Some(now() + nanos(PATIENCE)));
        Ok(ended)
    }
}

/// Why a client ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Itself,
    Stopped,
    /// A data connection was still being made when there was no more time for it.
    NeverConnected,
    Overdue,
}

impl End {
    fn start(init: &Path, ns: &NetNs, hostname: &str, arguments: &[String]) -> Result<End> {
        let program = Program::below(init, ns, hostname, PROGRAM).args(arguments);
        let program = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = program.spawn().map_err(|error| match error.errno() {
            Some(Errno::ENOENT) => anyhow!(MISSING),
            _ => error.into(),
        })?;
        let (stdout, stderr) = (running.take_stdout(), running.take_stderr());
        Ok(End { running, stdout: thread::spawn(|| read_all(stdout)), stderr: thread::spawn(|| read_all(stderr)) })
    }

    /// Ends it if it does not within `patience`; its status if it did.
    fn end(&mut self, patience: Duration) -> Option<i32> {
        let status = self.running.wait_timeout(patience).ok().flatten();
        if status.is_none() {
            // Either it is gone already or nothing more can be done.
            let _ = self.running.kill();
        }
        status
    }

    /// What it has printed, or why that is nothing; `status`: if it ended by itself.
    fn told(self, status: Option<i32>) -> (Value, Option<String>) {
        let (stdout, stderr) = (self.stdout.join().unwrap_or_default(), self.stderr.join().unwrap_or_default());
        match (parse(&stdout), status) {
            (Ok(told), _) => (told, None),
            (Err(_), None) => (Value::Null, Some("ended without a report".into())),
            (Err(error), Some(status)) => {
                // Errors in its arguments it tells in words, before it thinks of JSON.
                let stderr = String::from_utf8_lossy(&stderr);
                let words = stderr.lines().map(str::trim).find(|line| !line.is_empty());
                let words = words.map(|words| words.trim_start_matches("iperf3: ").to_owned());
                (Value::Null, Some(words.unwrap_or_else(|| format!("ended with status {status}: {error}"))))
            }
        }
    }
}

fn error_of(told: &Value) -> Option<String> {
    told["error"].as_str().map(str::to_owned)
}

/// Lets the connections of a host begin with a congestion control, or with a harmless one.
///
/// iperf3 chooses (`-C`) when it is connected; until then the host's default is at work, and where that is bbr, it
/// leaves its pacing on: bbr_init (net/ipv4/tcp_bbr.c) switches it on, and no other algorithm off. cubic then sends
/// evenly what it would send in bursts. A namespace may only default to what is open to everybody
/// (tcp_set_default_congestion_control); reno always is, and paces nothing.
fn begin_with(ns: &NetNs, name: &str) -> Result<()> {
    match sysctl::set(ns, &[(DEFAULT_CONGESTION, name)]) {
        // There is no such algorithm: iperf3 will say so.
        Err(error) if matches!(error.errno(), Some(Errno::EPERM | Errno::ENOENT)) => {
            Ok(sysctl::set(ns, &[(DEFAULT_CONGESTION, "reno")])?)
        }
        result => Ok(result?),
    }
}

fn read_all(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What was read before an error counts.
    let _ = pipe.map(|pipe| pipe.take(MOST_OUTPUT).read_to_end(&mut bytes));
    bytes
}

const DEFAULT_CONGESTION: &str = "ipv4/tcp_congestion_control";

/// How long iperf3 may take for what it does at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the exchange of results may take, at most.
const GRACE: Duration = Duration::from_secs(10);

/// Between two looks at the server's host.
const LOOK: Duration = Duration::from_millis(2);

/// Most that is read of one end: an hour of 128 streams is less.
const MOST_OUTPUT: u64 = 2 << 30;
