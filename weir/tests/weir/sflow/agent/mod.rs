//! `weir sflow agent` in networks of the tests' own. What it sends is read by a reader of the tests' own; the truth is what
//! /proc, nft and the drop tracing of `weir loss` say.

mod counters;
mod drops;
mod life;
mod reader;
mod samples;
mod super_packets;

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use serde_json::Value;
use weir_kernel::namespaces::NetNs;
use weir_testbed::network::Host;
use weir_testbed::program;

use crate::service::{PATIENCE, WEIR, weir};
use reader::{Datagram, Sample};

/// A `weir sflow agent` on a host; killed when dropped.
pub(crate) struct Agent {
    child: Child,
    stdout: BufReader<ChildStdout>,
    log: Receiver<String>,
    /// Everything that it has said so far.
    said: Vec<String>,
}

/// What an agent may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Privileges {
    /// All that this test may.
    All,
    /// What root may in a container that nobody gave more: raw sockets, but no eBPF.
    Container,
}

impl Privileges {
    /// By what it samples.
    fn means(self) -> &'static str {
        match self {
            Self::All => "ebpf",
            Self::Container => "classic",
        }
    }
}

/// Where it sends to: a socket on port 6343 of a host's loopback interface, which is not sampled.
struct Collector {
    socket: UdpSocket,
    samples: Vec<Sample>,
    datagrams: u32,
}

impl Agent {
    /// With these flags, telling a collector of the same host.
    #[track_caller]
    fn start(host: &Host, flags: &[&str]) -> Self {
        Self::spawn(
            host,
            weir(&[&["sflow", "agent", "--json", "--agent", "10.0.0.1", "--to", "127.0.0.1"], flags].concat()),
        )
    }

    /// As [`Agent::start`]; `None`, with a word about it, without the tools.
    #[track_caller]
    fn start_with(privileges: Privileges, host: &Host, flags: &[&str]) -> Option<Self> {
        if privileges == Privileges::All {
            return Some(Self::start(host, flags));
        }
        let mut command = Command::new(program("setpriv")?);
        command.args(["--bounding-set", CONTAINER, "--inh-caps", "-all", WEIR, "sflow", "agent", "--json"]);
        command.args(["--agent", "10.0.0.1", "--to", "127.0.0.1"]).args(flags);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Some(Self::spawn(host, command))
    }

    #[track_caller]
    fn spawn(host: &Host, command: Command) -> Self {
        Self::spawn_in(&host.ns, command)
    }

    #[track_caller]
    pub(crate) fn spawn_in(ns: &NetNs, mut command: Command) -> Self {
        let mut child = ns.run(|| command.spawn().unwrap()).unwrap();
        let (said, log) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut agent = Self { child, stdout, log, said: Vec::new() };
        agent.await_line("ready");
        agent
    }

    /// Waits until it says a line with `words` in it, and returns the line.
    #[track_caller]
    fn await_line(&mut self, words: &str) -> String {
        if let Some(line) = self.said.iter().find(|line| line.contains(words)) {
            return line.clone();
        }
        loop {
            let Ok(line) = self.log.recv_timeout(PATIENCE) else {
                panic!("it never said {words:?}, but {:#?}", self.said);
            };
            self.said.push(line.clone());
            if line.contains(words) {
                return line;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Waits until the ledger is as it should be. It closes at every moment.
    #[track_caller]
    pub(crate) fn await_ledger(&mut self, is_reached: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            self.signal(Signal::SIGUSR1);
            let mut line = String::new();
            self.stdout.read_line(&mut line).unwrap();
            let ledger: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
            assert_eq!(ledger["closed"], true, "{ledger:#}");
            if is_reached(&ledger) {
                return ledger;
            }
            assert!(begin.elapsed() < PATIENCE, "{ledger:#}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends it as a service manager does; the final ledger, of which nothing is left over.
    #[track_caller]
    pub(crate) fn stop(mut self) -> Value {
        self.signal(Signal::SIGTERM);
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        self.said.extend(self.log.iter());
        assert!(status.success(), "{status}: {:#?}", self.said);
        let ledger: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
        assert_eq!((&ledger["closed"], &ledger["unexplained"]), (&true.into(), &0.into()), "{ledger:#}");
        ledger
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Collector {
    #[track_caller]
    fn bind(host: &Host) -> Self {
        let socket = host.run(|| UdpSocket::bind("127.0.0.1:6343").unwrap());
        // The bound is not on what is sent, but on what this test takes at once, whatever the machine gives others.
        setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20)).unwrap();
        Self { socket, samples: Vec::new(), datagrams: 0 }
    }

    /// Takes the next datagram; `None`: none came for so long.
    fn next(&mut self, patience: Duration) -> Option<()> {
        self.socket.set_read_timeout(Some(patience)).unwrap();
        let mut bytes = [0; 2000];
        let length = self.socket.recv(&mut bytes).ok()?;
        assert!(length <= 1400, "{length} bytes");
        let Datagram { agent, sequence, samples } = Datagram::read(&bytes[..length]);
        assert_eq!((agent, sequence), ([10, 0, 0, 1].into(), self.datagrams + 1));
        self.datagrams += 1;
        self.samples.extend(samples);
        Some(())
    }

    /// Takes datagrams until a sample is there.
    #[track_caller]
    fn await_sample(&mut self, is_it: impl Fn(&Sample) -> bool) -> Sample {
        let begin = Instant::now();
        loop {
            if let Some(sample) = self.samples.iter().rev().find(|sample| is_it(sample)) {
                return sample.clone();
            }
            assert!(begin.elapsed() < PATIENCE, "not among {} samples", self.samples.len());
            let _ = self.next(PATIENCE);
        }
    }

    /// Takes all that was sent by an agent that has ended. The kernel of a processor that stands still hands it over later.
    fn take_rest(&mut self) {
        while self.next(Duration::from_millis(500)).is_some() {}
    }
}

/// What Docker leaves to root, of capabilities (moby: oci/caps/defaults.go).
const CONTAINER: &str = "-all,+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap,\
                         +net_bind_service,+sys_chroot,+kill,+audit_write";

/// No packets but the test's: no router is solicited, no group reported.
fn be_still(host: &Host) {
    weir_kernel::sysctl::set(&host.ns, &[("ipv6/conf/all/disable_ipv6", "1")]).unwrap();
}

/// Runs nft in a host; what it prints.
#[track_caller]
fn nft(host: &Host, commands: &str) -> Option<String> {
    let nft = program("nft")?;
    let output = host.run(|| Command::new(nft).args(["-j", commands]).output().unwrap());
    assert!(output.status.success(), "{commands}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Packets of all counters of a table, by comment.
#[track_caller]
fn nft_packets(host: &Host, comment: &str) -> u64 {
    let listing: Value = serde_json::from_str(&nft(host, "list ruleset").unwrap()).unwrap();
    let rules = listing["nftables"].as_array().unwrap().iter().filter_map(|item| item.get("rule"));
    let counters = rules.filter(|rule| rule["comment"] == comment).flat_map(|rule| rule["expr"].as_array().unwrap());
    counters.filter_map(|expression| expression["counter"]["packets"].as_u64()).sum()
}
