//! Stations and servers: this very program, on hosts of the network.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use serde::Deserialize;
use weir_kernel::namespaces::NetNs;
use weir_kernel::namespaces::process::{Program, Running};
use weir_monitor::receive::Listen;
use weir_units::{Frequency, Span};

use crate::scenario::{Monitor, Traffic};

/// A station that is to be started.
pub(super) struct Station {
    ns: NetNs,
    name: String,
    config: String,
}

/// A station that runs.
pub(super) struct Started {
    name: String,
    running: Running,
}

/// What a station told at its end.
pub(super) struct Told {
    /// Its name.
    pub(super) name: String,
    /// Samples that its channels had.
    pub(super) due: u64,
    /// Of those, such as it could not send.
    pub(super) unsent: u64,
    /// Datagrams of data.
    pub(super) datagrams: u64,
    /// What it could not account for.
    pub(super) unexplained: i64,
}

/// The part of a station's ledger that is of interest here.
#[derive(Deserialize)]
struct Ledger {
    unexplained: i64,
    streams: Vec<Stream>,
}

#[derive(Deserialize)]
struct Stream {
    data: u64,
    samples: Samples,
}

#[derive(Deserialize)]
struct Samples {
    due: u64,
    sent: u64,
}

impl Station {
    /// `number`: of the station, from 0; its sines differ from those of others by it.
    pub(super) fn new(
        ns: &NetNs,
        name: &str,
        number: u32,
        groups: Vec<(SocketAddr, String)>,
        monitor: &Monitor,
        traffic: &Traffic,
    ) -> Result<Self> {
        let Monitor { channels, rate, frequency, display, delay, .. } = monitor;
        let (to, interfaces): (Vec<String>, Vec<String>) =
            groups.into_iter().map(|(to, interface)| (to.to_string(), interface)).unzip();
        let to: Vec<String> = to.into_iter().map(|to| format!("{to:?}")).collect();
        let phase = 30.0 * f64::from(number);
        let config = format!(
            "name = {name:?}\nto = [{}]\ninterface = {interfaces:?}\nmost_bytes = \"{}\"\ndelay = \"{delay}\"\ndisplay = \"{display}\"\n\
             [[source]]\nkind = \"sine\"\nname = \"sine\"\nrate = \"{rate}\"\nfrequency = \"{frequency}\"\nphase = {phase:?}\n\
             copies = {channels}\n",
            to.join(", "),
            traffic.payload,
        );
        Ok(Self { ns: ns.try_clone()?, name: name.to_owned(), config })
    }

    pub(super) fn start(self) -> Result<Started> {
        let Station { ns, name, config } = self;
        let words = ["monitor", "station", "--json", "--config", STDIN];
        let running = start(&ns, &name, &words, &config, Stdio::piped()).with_context(|| format!("station {name}"))?;
        Ok(Started { name, running })
    }
}

impl Started {
    pub(super) fn ask_to_end(&self) -> Result<()> {
        Ok(self.running.signal(Signal::SIGTERM)?)
    }

    pub(super) fn ended(self) -> Result<Told> {
        let Started { name, running } = self;
        let (status, stdout, stderr) = running.output()?;
        let stderr = String::from_utf8_lossy(&stderr);
        let ledger: Result<Ledger, _> = serde_json::from_slice(&stdout);
        let Ok(Ledger { unexplained, streams }) = ledger else {
            bail!("station {name}: ended with status {status}: {}", last_line(&stderr));
        };
        let sum = |of: fn(&Stream) -> u64| streams.iter().map(of).sum();
        Ok(Told {
            name,
            due: sum(|stream| stream.samples.due),
            unsent: sum(|stream| stream.samples.due - stream.samples.sent),
            datagrams: sum(|stream| stream.data),
            unexplained,
        })
    }
}

/// What a server is to do.
pub(super) struct Serve<'a> {
    pub(super) name: &'a str,
    pub(super) listen: Vec<Listen>,
    /// The group of viewers; `None`: it sends nothing on.
    pub(super) publish: Option<SocketAddr>,
    pub(super) interface: Option<String>,
    pub(super) priority: u8,
    pub(super) display: Frequency,
    pub(super) delay: Span,
}

/// A server that runs.
pub(super) struct Server {
    name: String,
    running: Running,
    /// Reads what it says, so that it never waits for a reader.
    said: Option<JoinHandle<String>>,
    killed: bool,
}

impl Server {
    pub(super) fn start(ns: &NetNs, serve: &Serve<'_>) -> Result<Self> {
        let name = serve.name.to_owned();
        let words = ["monitor", "serve", "--config", STDIN];
        let mut running =
            start(ns, &name, &words, &serve.config(), Stdio::null()).with_context(|| format!("server {name}"))?;
        let stderr = running.take_stderr();
        let said = thread::spawn(|| {
            let mut said = String::new();
            let Some(mut stderr) = stderr else { return said };
            let _ = stderr.by_ref().take(MOST_SAID).read_to_string(&mut said);
            let _ = io::copy(&mut stderr, &mut io::sink());
            said
        });
        Ok(Self { name, running, said: Some(said), killed: false })
    }

    /// As a machine that loses power: nothing is said, nothing is flushed.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.killed = true;
        Ok(self.running.kill()?)
    }

    /// Why it has ended by itself; `None`: it runs, or was killed.
    pub(super) fn fault(&mut self) -> Option<String> {
        if self.killed {
            return None;
        }
        let status = self.running.wait_timeout(Duration::ZERO).ok().flatten()?;
        let said = self.said.take().and_then(|said| said.join().ok()).unwrap_or_default();
        self.killed = true;
        Some(format!("server {}: ended with status {status}: {}", self.name, last_line(&said)))
    }
}

impl Serve<'_> {
    fn config(&self) -> String {
        let mut config = String::from("history = \"10s\"\nmemory = \"16MiB\"\n");
        // Writing to a string does not fail.
        if let Some(to) = self.publish {
            let Serve { name, priority, display, delay, .. } = self;
            let _ = write!(
                config,
                "[publish]\nto = [\"{to}\"]\nname = {name:?}\npriority = {priority}\nrate = \"{display}\"\ndelay = \"{delay}\"\n"
            );
            if let Some(interface) = &self.interface {
                let _ = writeln!(config, "interface = {interface:?}");
            }
        }
        for Listen { address, interface, .. } in &self.listen {
            let _ = writeln!(config, "[[listen]]\naddress = \"{address}\"");
            if let Some(interface) = interface {
                let _ = writeln!(config, "interface = {interface:?}");
            }
        }
        config
    }
}

/// This program once more, with a configuration on its standard input.
fn start(ns: &NetNs, host: &str, words: &[&str], config: &str, stdout: Stdio) -> Result<Running> {
    let (reader, mut writer) = io::pipe().context("make a pipe")?;
    // It is shorter than what a pipe holds.
    writer.write_all(config.as_bytes()).context("write its configuration")?;
    drop(writer);
    let program = Program::below(Path::new(OWN), ns, host, OWN).args(words);
    Ok(program.stdin(reader).stdout(stdout).stderr(Stdio::piped()).spawn()?)
}

fn last_line(text: &str) -> &str {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("without a word")
}

const OWN: &str = "/proc/self/exe";

const STDIN: &str = "/dev/stdin";

/// Of what a server says.
const MOST_SAID: u64 = 1 << 16;
