//! One transfer: the server waits, the client runs, both are heard.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::Signal;
use weir_kernel::namespaces::NetNs;
use weir_kernel::namespaces::process::{Program, Running};
use weir_kernel::sysctl;
use weir_kernel::tcp::TcpSockets;
use weir_program::clock::{self, Nanos, nanos, now};
use weir_program::stop::Stop;
use weir_traffic::bulk::BulkReport;
use weir_traffic::{ErrorCount, Transport, Window};

use super::json::Output;
use super::report::report;
use super::{Iperf3Settings, MISSING, PROGRAM};

/// A server that listens, and a client that is ready to start. Both end with this.
#[derive(Debug)]
pub struct Transfer {
    settings: Iperf3Settings,
    client_ns: NetNs,
    connections: TcpSockets,
    server: Running,
    init: PathBuf,
}

impl Transfer {
    /// Starts the server on its host, and returns when it listens.
    ///
    /// # Errors
    /// iperf3 is missing, cannot listen, or could not do what the settings say.
    pub fn prepare(client_ns: &NetNs, server_ns: &NetNs, settings: &Iperf3Settings) -> Result<Self> {
        Self::prepare_below(Path::new("/proc/self/exe"), client_ns, server_ns, settings)
    }

    /// As [`Self::prepare`], for an owner whose `main` does not begin with
    /// [`init_if_asked`](weir_kernel::namespaces::process::init_if_asked): that of the executable `init` does.
    ///
    /// # Errors
    /// As for [`Self::prepare`].
    pub fn prepare_below(init: &Path, client_ns: &NetNs, server_ns: &NetNs, settings: &Iperf3Settings) -> Result<Self> {
        settings.validate()?;
        let (port, sockets) = (settings.server.port(), TcpSockets::open(server_ns)?);
        if sockets.listens(port)? {
            bail!("start iperf3 -s: another program of its host listens on port {port}");
        }
        if let Some(name) = &settings.congestion {
            for ns in [client_ns, server_ns] {
                begin_with(ns, name)?;
            }
        }
        let server = start(init, server_ns, "server", &settings.server_arguments())?;
        Ok(Self {
            server: await_listening(server, &sockets, port)?,
            settings: settings.clone(),
            client_ns: client_ns.try_clone()?,
            connections: TcpSockets::open(client_ns)?,
            init: init.to_owned(),
        })
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
            let streams = self.settings.streams;
            return Ok(BulkReport { engine: engine(PROGRAM), streams, stopped: true, ..BulkReport::default() });
        }
        let mut client = start(&self.init, &self.client_ns, "client", &arguments)?;
        let (ended, at, client, server) = thread::scope(|scope| {
            let client_heard = Heard::listen(scope, &mut client);
            let server_heard = Heard::listen(scope, &mut self.server);
            let ended = self.attend(&client, begin, stop);
            let at = now();
            // The server prints its report when the client has gone.
            let status = end(&mut client, Duration::ZERO);
            let patience = if matches!(ended, Ok(Ended::NeverConnected)) { Duration::ZERO } else { PATIENCE };
            let server_status = end(&mut self.server, patience);
            (ended, at, client_heard.told(status), server_heard.told(server_status))
        });
        let ended = ended?;

        let complete = ended == Ended::Itself && client.output.error.is_none() && client.fault.is_none();
        let mut report = report(&self.settings, &client.output, &server.output, complete);
        report.engine = engine(client.output.start.version.as_deref().unwrap_or(PROGRAM));
        report.stopped = ended == Ended::Stopped;
        report.errors = self.errors(ended, &client, &server);
        if report.connected > 0 {
            let start = at.saturating_sub(nanos(report.used));
            report.window = Some(Window { start, end: start.saturating_add(nanos(self.settings.duration)) });
        }
        Ok(report)
    }

    /// Waits until the client has ended, and ends it if it must not go on.
    fn attend(&self, client: &Running, begin: Nanos, stop: &Stop) -> Result<Ended> {
        let Iperf3Settings { connect_timeout, warmup, duration, .. } = self.settings;
        let mut connected_by =
            (self.settings.transport == Transport::Tcp).then(|| begin.saturating_add(nanos(connect_timeout)));
        let over = begin.saturating_add(nanos(connect_timeout + warmup + duration + GRACE));
        let ended = loop {
            let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
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
                if self.connections.connects(self.settings.server.port())? {
                    break Ended::NeverConnected;
                }
            }
        };
        // Told to end, it prints what it has.
        client.signal(Signal::SIGTERM)?;
        clock::wait(&mut [PollFd::new(client.as_fd(), PollFlags::POLLIN)], Some(now() + nanos(PATIENCE)));
        Ok(ended)
    }

    fn errors(&self, ended: Ended, client: &Told, server: &Told) -> Vec<ErrorCount> {
        let error = |operation, error: &str| ErrorCount { operation, error: error.to_owned(), count: 1 };
        let own = |told: &Told, operation| {
            let words = told.output.error.as_ref().or(told.fault.as_ref());
            words.map(|words| error(operation, words))
        };
        match ended {
            // What they say then is that we ended them.
            Ended::Stopped => Vec::new(),
            Ended::NeverConnected => vec![error("connect", "connection timed out")],
            Ended::Itself => own(client, CLIENT).into_iter().chain(own(server, SERVER)).collect(),
            Ended::Overdue => {
                let late = error(CLIENT, "had not ended in time, and was told to");
                std::iter::once(late).chain(server.fault.as_ref().map(|fault| error(SERVER, fault))).collect()
            }
        }
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

/// What one end has printed, while it goes on.
struct Heard<'scope> {
    stdout: ScopedJoinHandle<'scope, Vec<u8>>,
    stderr: ScopedJoinHandle<'scope, Vec<u8>>,
}

/// What one end has told.
struct Told {
    output: Output,
    /// Why that is nothing.
    fault: Option<String>,
}

impl<'scope> Heard<'scope> {
    /// Reads both pipes, so that neither fills up.
    fn listen(scope: &'scope Scope<'scope, '_>, program: &mut Running) -> Self {
        let (stdout, stderr) = (program.take_stdout(), program.take_stderr());
        Self { stdout: scope.spawn(|| read_all(stdout)), stderr: scope.spawn(|| read_all(stderr)) }
    }

    /// Of a program that has ended, with `status` if it did so by itself.
    fn told(self, status: Option<i32>) -> Told {
        let read = |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_default();
        Told::new(&read(self.stdout), &read(self.stderr), status)
    }
}

impl Told {
    fn new(stdout: &[u8], stderr: &[u8], status: Option<i32>) -> Self {
        match (Output::parse(stdout), status) {
            (Ok(output), _) => Told { output, fault: None },
            (Err(_), None) => Told { output: Output::default(), fault: Some("ended without a report".into()) },
            (Err(error), Some(status)) => {
                // Errors in its arguments it tells in words, before it thinks of JSON.
                let stderr = String::from_utf8_lossy(stderr);
                let words = stderr.lines().map(str::trim).find(|line| !line.is_empty());
                let words = words.map(|words| words.trim_start_matches("iperf3: ").to_owned());
                let fault = words.unwrap_or_else(|| format!("ended with status {status}: {error}"));
                Told { output: Output::default(), fault: Some(fault) }
            }
        }
    }
}

fn start(init: &Path, ns: &NetNs, hostname: &str, arguments: &[String]) -> Result<Running> {
    let program = Program::below(init, ns, hostname, PROGRAM).args(arguments.iter().map(OsStr::new));
    let program = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    program.spawn().map_err(|error| match error.errno() {
        Some(Errno::ENOENT) => anyhow!(MISSING),
        _ => error.into(),
    })
}

/// Lets the connections of a host begin with a congestion control, or with a harmless one.
///
/// iperf3 chooses (`-C`) when it is connected; until then the host's default is at work, and where that is bbr, it
/// leaves its pacing behind: bbr_init (net/ipv4/tcp_bbr.c) switches it on, and no other algorithm off. cubic then sends
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

/// Waits until the server listens.
///
/// With `-J` it says nothing before its end, its PID file is there before it listens, a connection to try would be
/// taken for the one client it serves, and no event of the kernel tells of sockets that begin to listen. So the host's
/// table of sockets is looked at every 2 ms, for some milliseconds on a quiet machine.
fn await_listening(mut server: Running, sockets: &TcpSockets, port: u16) -> Result<Running> {
    let deadline = now() + nanos(PATIENCE);
    loop {
        if sockets.listens(port)? {
            return Ok(server);
        }
        if let Some(status) = server.wait_timeout(LOOK)? {
            let (_, stdout, stderr) = server.output()?;
            let told = Told::new(&stdout, &stderr, Some(status));
            bail!("start iperf3 -s: {}", told.output.error.or(told.fault).unwrap_or_else(|| "it ended at once".into()));
        }
        if now() >= deadline {
            bail!("start iperf3 -s: it does not listen on port {port} after {PATIENCE:?} (is the machine overloaded?)");
        }
    }
}

/// Ends a program that does not end within `patience`; its status if it did.
fn end(program: &mut Running, patience: Duration) -> Option<i32> {
    let status = program.wait_timeout(patience).ok().flatten();
    if status.is_none() {
        // Either it is gone already or nothing more can be done.
        let _ = program.kill();
    }
    status
}

fn read_all(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // What was read before an error counts.
        let _ = pipe.take(MOST_OUTPUT).read_to_end(&mut bytes);
    }
    bytes
}

const DEFAULT_CONGESTION: &str = "ipv4/tcp_congestion_control";

const CLIENT: &str = "iperf3 -c";
const SERVER: &str = "iperf3 -s";

/// How long iperf3 may take for what it does at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the exchange of results may take, at most.
const GRACE: Duration = Duration::from_secs(10);

/// Between two looks at the server's host.
const LOOK: Duration = Duration::from_millis(2);

/// Most that is read of one end: an hour of 128 streams is less.
const MOST_OUTPUT: u64 = 2 << 30;
