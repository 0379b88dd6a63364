//! `weir sflow agent` in networks of the tests' own. What it sends is read by a reader of the tests' own; the truth is what
//! /proc, nft and the drop tracing of `weir loss` say.

mod counters;
mod drops;
mod life;
mod reader;
mod samples;
mod super_packets;

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;
use weir_kernel::namespaces::NetNs;
use weir_testbed::network::Host;
use weir_testbed::{Ended, PATIENCE, Started, program};

use crate::{WEIR, weir};
use reader::{Datagram, Sample};

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

/// A `weir sflow agent` on a host.
pub(crate) enum Agent {}

impl Agent {
    #[track_caller]
    pub(crate) fn spawn_in(ns: &NetNs, command: Command) -> Started {
        ns.run(|| Started::ready(command)).unwrap()
    }
}

/// Starts an agent with these flags, telling a collector of the same host.
#[track_caller]
fn start(host: &Host, flags: &[&str]) -> Started {
    let own = ["sflow", "agent", "--json", "--agent", "10.0.0.1", "--to", "127.0.0.1"];
    Agent::spawn_in(&host.ns, weir(&[&own, flags].concat()))
}

/// As [`start`]; `None`, with a word about it, without the tools.
#[track_caller]
fn start_with(privileges: Privileges, host: &Host, flags: &[&str]) -> Option<Started> {
    if privileges == Privileges::All {
        return Some(start(host, flags));
    }
    let mut command = Command::new(program("setpriv")?);
    command.args(["--bounding-set", CONTAINER, "--inh-caps", "-all", &WEIR, "sflow", "agent", "--json"]);
    command.args(["--agent", "10.0.0.1", "--to", "127.0.0.1"]).args(flags).stdin(Stdio::null());
    Some(Agent::spawn_in(&host.ns, command))
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

    /// Takes all that was sent by an agent that has ended, by its ledger. The kernel of a processor that stands still hands it over later.
    #[track_caller]
    fn take_rest(&mut self, ledger: &Value) {
        while ledger["collectors"][0]["sent"] != self.datagrams {
            assert!(self.next(PATIENCE).is_some(), "{} datagrams: {ledger:#}", self.datagrams);
        }
        self.socket.set_nonblocking(true).unwrap();
        assert!(self.socket.recv(&mut [0; 2000]).is_err(), "more than it knows of: {ledger:#}");
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
    let ended = host.run(|| Ended::of(Command::new(nft).args(["-j", commands])));
    assert_eq!(ended.status, Some(0), "{commands}: {}", ended.stderr);
    Some(ended.stdout)
}

/// Packets of all counters of a table, by comment.
#[track_caller]
fn nft_packets(host: &Host, comment: &str) -> u64 {
    let listing: Value = serde_json::from_str(&nft(host, "list ruleset").unwrap()).unwrap();
    let rules = listing["nftables"].as_array().unwrap().iter().filter_map(|item| item.get("rule"));
    let counters = rules.filter(|rule| rule["comment"] == comment).flat_map(|rule| rule["expr"].as_array().unwrap());
    counters.filter_map(|expression| expression["counter"]["packets"].as_u64()).sum()
}
