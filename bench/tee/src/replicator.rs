//! Who is compared: `weir tee`, loops in C, and what Debian has.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bench_measure::{build_weir, machine, peer, say};
use nix::sys::signal::Signal;
use tempfile::TempDir;
use weir_kernel::namespaces::process::{Program, Running};

use crate::network::{LISTENER, Network};

/// A replicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// recv, then send to each.
    Plain,
    /// recv, then sendto to each on one socket with its default buffer, as samplicator does.
    OneSocket,
    /// recvmmsg, sendmmsg.
    Batch,
    /// recvmmsg, then equal-size runs joined (UDP_SEGMENT).
    Gso,
    /// UDP_GRO in, UDP_SEGMENT out.
    GroGso,
    /// `weir tee`.
    Weir,
    /// pmacct's tee plugin, set up for heavy load.
    Pmacct,
    /// pmacct's tee plugin with its default sizes.
    PmacctDefaults,
    /// socat, to one destination.
    Socat,
    /// samplicator.
    Samplicate,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Plain => "C plain",
            Kind::OneSocket => "C plain, one socket",
            Kind::Batch => "C batch",
            Kind::Gso => "C GSO",
            Kind::GroGso => "C GRO, GSO",
            Kind::Weir => "weir tee",
            Kind::Pmacct => "pmacct tee",
            Kind::PmacctDefaults => "pmacct tee, defaults",
            Kind::Socat => "socat",
            Kind::Samplicate => "samplicate",
        }
    }
}

/// Where the programs are.
pub(crate) struct Programs {
    directory: TempDir,
    weir: PathBuf,
}

impl bench_measure::Programs for Programs {
    fn build() -> Result<Programs> {
        let directory = tempfile::tempdir()?;
        fs::write(directory.path().join("tee.h"), include_str!("../peers/tee.h"))?;
        for (name, source) in LOOPS {
            let file = directory.path().join(format!("{name}.c"));
            fs::write(&file, source)?;
            let output = Command::new("cc").args(["-O2", "-o"]).arg(directory.path().join(name)).arg(&file).output();
            let output = output.context("run cc (apt install gcc)")?;
            ensure!(output.status.success(), "compile {name}.c: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(Programs { directory, weir: build_weir()? })
    }

    fn versions(&self) -> Vec<String> {
        let missing = |name: &str, package: &str| format!("{name} is missing (apt install {package})");
        vec![
            say(&self.weir, "--version", "weir").unwrap_or_else(|| "weir does not tell its version".into()),
            say(Path::new("cc"), "--version", "").map_or_else(|| missing("cc", "gcc"), |cc| cc + ", -O2"),
            say(&self.path(Kind::Pmacct), "-V", "nfacctd").unwrap_or_else(|| missing("nfacctd", "pmacct")),
            say(&self.path(Kind::Socat), "-V", "version").unwrap_or_else(|| missing("socat", "socat")),
            say(&self.path(Kind::Samplicate), "-h", "Usage: ").map_or_else(
                || "samplicate is missing, which Debian does not have (build it, put it in target/peers/bin)".into(),
                |_| "samplicate, built from its source by cc -O2".into(),
            ),
        ]
    }
}

impl Programs {
    /// The program of a kind.
    fn path(&self, kind: Kind) -> PathBuf {
        match kind {
            Kind::Plain => self.directory.path().join("plain"),
            Kind::OneSocket => self.directory.path().join("one_socket"),
            Kind::Batch => self.directory.path().join("batch"),
            Kind::Gso => self.directory.path().join("gso"),
            Kind::GroGso => self.directory.path().join("gro_gso"),
            Kind::Weir => self.weir.clone(),
            Kind::Pmacct | Kind::PmacctDefaults => peer("nfacctd"),
            Kind::Socat => peer("socat"),
            Kind::Samplicate => peer("samplicate"),
        }
    }

    /// Whether a kind can be started here.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        let asked: &[&str] = match kind {
            Kind::Weir => &["tee", "--help"],
            Kind::Pmacct | Kind::PmacctDefaults | Kind::Socat => &["-V"],
            // Asked for help it fails.
            Kind::Samplicate => return Command::new(self.path(kind)).arg("-h").output().is_ok(),
            _ => return true,
        };
        Command::new(self.path(kind)).args(asked).output().is_ok_and(|output| output.status.success())
    }

    /// Starts a replicator on the tee's host and waits until it listens.
    pub(crate) fn start(&self, kind: Kind, network: &Network, to: &[SocketAddrV4], place: Place) -> Result<Replicator> {
        let arguments = self.arguments(kind, to)?;
        self.start_with(kind, network, &arguments, &[], place)
    }

    /// As [`Programs::start`], with other arguments and environment.
    pub(crate) fn start_with(
        &self,
        kind: Kind,
        network: &Network,
        arguments: &[String],
        environment: &[(&str, &str)],
        place: Place,
    ) -> Result<Replicator> {
        let log = self.directory.path().join("log");
        let output = fs::File::create(&log)?;
        let mut program = Program::new(&network.tee, "tee", self.path(kind)).args(arguments);
        for (key, value) in environment {
            program = program.env(key, value);
        }
        program = program.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let start = || -> Result<Running> { Ok(program.spawn()?) };
        let running = match place {
            Place::Pinned => machine::pinned(machine::REPLICATOR, start)?,
            Place::Anywhere => start()?,
        };
        let mut replicator = Replicator { running, log };
        if let Err(error) = network.await_listener() {
            bail!("{}: {error:#}: {}", kind.name(), replicator.ending());
        }
        Ok(replicator)
    }

    /// The directory in which a replicator's files may be put.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn arguments(&self, kind: Kind, to: &[SocketAddrV4]) -> Result<Vec<String>> {
        Ok(match kind {
            Kind::Plain | Kind::OneSocket | Kind::Batch | Kind::Gso | Kind::GroGso => {
                std::iter::once(LISTENER.port().to_string()).chain(to.iter().map(SocketAddrV4::to_string)).collect()
            }
            Kind::Weir => {
                let mut arguments = vec!["tee".into(), "--listen".into(), LISTENER.to_string()];
                for destination in to {
                    arguments.extend(["--to".into(), destination.to_string()]);
                }
                arguments
            }
            Kind::Pmacct | Kind::PmacctDefaults => {
                let receivers = self.directory.path().join("receivers");
                let list = to.iter().map(SocketAddrV4::to_string).collect::<Vec<_>>().join(",");
                fs::write(&receivers, format!("id=1 ip={list}\n"))?;
                let mut settings = String::new();
                writeln!(settings, "daemonize: false")?;
                writeln!(settings, "nfacctd_ip: {}", LISTENER.ip())?;
                writeln!(settings, "nfacctd_port: {}", LISTENER.port())?;
                writeln!(settings, "plugins: tee[a]\ntee_receivers[a]: {}", receivers.display())?;
                if kind == Kind::Pmacct {
                    settings += PMACCT_SIZES;
                }
                let file = self.directory.path().join("nfacctd.conf");
                fs::write(&file, settings)?;
                vec!["-f".into(), file.display().to_string()]
            }
            Kind::Samplicate => {
                let mut arguments =
                    vec!["-s".into(), LISTENER.ip().to_string(), "-p".into(), LISTENER.port().to_string()];
                arguments.extend(["-b".into(), BUFFER.to_string()]);
                arguments.extend(to.iter().map(|to| format!("{}/{}", to.ip(), to.port())));
                arguments
            }
            Kind::Socat => {
                ensure!(to.len() == 1, "socat has one destination");
                let listen = format!("UDP4-RECV:{},bind={},rcvbuf={BUFFER}", LISTENER.port(), LISTENER.ip());
                vec!["-u".into(), "-b65536".into(), listen, format!("UDP4-SENDTO:{},sndbuf={BUFFER}", to[0])]
            }
        })
    }
}

/// Where a replicator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On a processor of its own; source and sinks are on the other.
    Pinned,
    /// Where the kernel likes.
    Anywhere,
}

/// A replicator at work. Ends with this.
pub(crate) struct Replicator {
    running: Running,
    log: PathBuf,
}

impl Replicator {
    /// CPU time it took so far.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        machine::cpu_time(self.running.init_id())
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(self.running.signal(signal)?)
    }

    /// Asks it to stop and waits for its end; returns its exit status, `None` if it had to be killed.
    pub(crate) fn stop(mut self) -> Result<Option<i32>> {
        self.signal(Signal::SIGTERM)?;
        Ok(self.running.wait_timeout(Duration::from_secs(10))?)
    }

    /// What it wrote on its standard output and error.
    pub(crate) fn ending(&mut self) -> String {
        let status = self.running.wait_timeout(Duration::ZERO);
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<&str> = text.lines().rev().take(3).collect();
        format!("exit status {status:?}, last words: {}", last.into_iter().rev().collect::<Vec<_>>().join(" | "))
    }
}

const LOOPS: [(&str, &str); 5] = [
    ("plain", include_str!("../peers/plain.c")),
    ("one_socket", include_str!("../peers/one_socket.c")),
    ("batch", include_str!("../peers/batch.c")),
    ("gso", include_str!("../peers/gso.c")),
    ("gro_gso", include_str!("../peers/gro_gso.c")),
];

/// Socket buffers of all peers, bytes, weir's default; the loops force it, the others get at most net.core.[rw]mem_max.
const BUFFER: usize = 8 << 20;

/// As CONFIG-KEYS and FAQS advise for heavy load: large sockets, a queue between the processes that is filled in
/// chunks of a thousandth of it.
const PMACCT_SIZES: &str = "nfacctd_pipe_size: 8388608
tee_pipe_size: 8388608
plugin_pipe_size: 104857600
";
