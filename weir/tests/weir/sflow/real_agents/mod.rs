//! `weir sflow serve` beside real agents, and a real Prometheus beside it: what they say is compared with what the kernel counted
//! over the same time.

mod meter;
mod open_vswitch;
mod own;
mod pmacct;
mod prometheus;
mod super_packets;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_kernel::namespaces::NetNs;
use weir_kernel::offloads::{Offload, Offloads};
use weir_testbed::network::Host;
use weir_testbed::{Started, await_that, http};

use crate::weir;
use meter::{Count, Meter};

mod alone {
    use super::*;

    #[test]
    #[ignore = "long: 80 s"]
    fn rates_of_agents_at_leisure_are_true() {
        weir_testbed::together(&[
            ("open vswitch", || open_vswitch::compare(true)),
            ("our own agent", || own::compare(true)),
            ("pmacct", || pmacct::compare(true)),
        ]);
    }
}

/// A `weir sflow serve` on port 6343 of a network, with its API on port 8008; it ends when dropped.
struct Analyser<'a> {
    _running: Started,
    ns: &'a NetNs,
}

impl<'a> Analyser<'a> {
    #[track_caller]
    fn start(ns: &'a NetNs) -> Self {
        let flags = ["sflow", "serve", "--listen", "127.0.0.1:6343", "--http", API, "--admin", ADMIN];
        Self { _running: ns.run(|| Started::ready(weir(&flags))).unwrap(), ns }
    }

    /// Waits until flows of these senders are told.
    #[track_caller]
    fn await_senders(&self, senders: &[&str]) {
        await_that("flows of all senders", || {
            let flows = self.get("/activeflows/ALL/senders/json");
            let keys: Vec<_> = flows.as_array().unwrap().iter().map(|flow| &flow["key"]).collect();
            senders.iter().all(|sender| keys.iter().any(|key| *key == sender))
        });
    }

    /// The body of an answer.
    #[track_caller]
    fn text(&self, path: &str) -> String {
        request(self.ns, API, "GET", path, "")
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        let text = self.text(path);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }

    /// The same, and when it was true; `None`: it took so long that nobody knows, since the machine stood still or is busy.
    #[track_caller]
    fn dated(&self, path: &str) -> Option<(Value, Instant)> {
        let asked = Instant::now();
        let (answer, answered) = (self.get(path), Instant::now());
        (answered - asked < AT_ONCE).then_some((answer, answered))
    }

    /// Frames a second by the address of their sender.
    #[track_caller]
    fn define_senders(&self, t: f64) {
        self.define("senders", "ipsource", "frames", t);
    }

    #[track_caller]
    fn define(&self, name: &str, keys: &str, value: &str, t: f64) {
        let definition = format!(r#"{{"keys":"{keys}","value":"{value}","t":{t}}}"#);
        request(self.ns, API, "PUT", &format!("/flow/{name}/json"), &definition);
    }
}

/// Estimates of what a host sends: how often the truth was within the interval.
#[derive(Debug)]
struct Hits {
    /// Of which definition.
    of_flow: &'static str,
    /// Whose, and what counts it.
    sender: &'static str,
    count: Count,
    within: u32,
    of: u32,
    /// Sums of estimates and of truths.
    sums: [f64; 2],
    misses: Vec<String>,
}

impl Hits {
    fn new(sender: &'static str, count: Count) -> Self {
        Self::of("senders", sender, count)
    }

    /// Of a definition's flow with this key.
    fn of(of_flow: &'static str, sender: &'static str, count: Count) -> Self {
        Self { of_flow, sender, count, within: 0, of: 0, sums: [0.0; 2], misses: Vec::new() }
    }

    /// Compares the definition's value with what was counted, smoothed alike.
    #[track_caller]
    fn check(&mut self, analyser: &Analyser<'_>, meter: &Meter, t: f64) {
        let (flows, now) = (analyser.get(&format!("/activeflows/ALL/{}/json", self.of_flow)), Instant::now());
        let truth = meter.smoothed(&self.count, now, t);
        let flow = flows.as_array().unwrap().iter().find(|flow| flow["key"] == self.sender);
        let flow = flow.unwrap_or_else(|| panic!("nothing of {}: {flows}", self.sender));
        let [low, value, high] = ["low", "value", "high"].map(|end| flow[end].as_f64().unwrap());
        self.of += 1;
        self.sums = [self.sums[0] + value, self.sums[1] + truth];
        if (low..=high).contains(&truth) {
            self.within += 1;
        } else {
            self.misses.push(format!("{low:.0} <= {value:.0} <= {high:.0}, counted {truth:.0}"));
        }
    }

    /// Of 48, 45 are to be expected; what an agent keeps until its datagram is full costs a little, and so does each standstill of the
    /// machine. Less than 29 has a probability of one in ten million. Where what is chance is taken for certain, half of them are within,
    /// or none.
    #[track_caller]
    fn are_enough(&self) {
        let Self { of_flow, sender, within, of, sums: [told, counted], .. } = self;
        let ratio = told / counted;
        eprintln!("{of_flow} {sender}: the truth was within {within} of {of} intervals, the mean is {ratio:.4} of it");
        assert!(self.of >= LOOKS && self.within * 48 >= self.of * 29, "{self:#?}");
    }
}

/// What counters told of one interface, against what the kernel counted between the same two instants.
#[derive(Debug, Default)]
struct Octets {
    told: f64,
    counted: f64,
    rates: u32,
    newest: Option<Instant>,
}

impl Octets {
    /// Takes a rate that is newer than the last, from an answer of `/dump` that was true at that instant.
    fn take(&mut self, (measure, at): (&Value, Instant), meter: &Meter, count: &Count) {
        let milliseconds = |key: &str| Duration::from_millis(measure[key].as_u64().unwrap());
        let end = at - milliseconds("lastUpdate");
        // Another answer about the same rate is off by what the answers took.
        if self.newest.is_some_and(|newest| end < newest + milliseconds("interval") / 2) {
            return;
        }
        self.newest = Some(end);
        let interval = milliseconds("interval");
        self.told += measure["metricValue"].as_f64().unwrap() * interval.as_secs_f64();
        self.counted += meter.at(count, end) - meter.at(count, end - interval);
        self.rates += 1;
    }

    /// A datagram that waited for a processor that stood still is as much later than what it tells.
    #[track_caller]
    fn are_told(&self) {
        let ratio = self.told / self.counted;
        eprintln!("{} rates: {ratio:.4} of what was counted", self.rates);
        assert!((0.96..1.04).contains(&ratio), "{self:?}");
    }
}

/// iperf3 from one host to another over UDP, at a rate, until dropped: server and client.
#[track_caller]
fn traffic(iperf3: &Path, from: &Host, to: &Host, rate: &str, payload: &str) -> [Started; 2] {
    load(iperf3, from, to, &["--udp", "--bitrate", rate, "--length", payload])
}

#[track_caller]
fn load(iperf3: &Path, from: &Host, to: &Host, flags: &[&str]) -> [Started; 2] {
    let (mut server, mut client) = (Command::new(iperf3), Command::new(iperf3));
    server.args(["--server", "--one-off", "--forceflush"]);
    let server = printing("Server listening", &to.ns, server);
    client.args(["--client", &to.v4.to_string(), "--time", "300", "--forceflush"]).args(flags);
    [server, printing("connected to", &from.ns, client)]
}

/// Switches off on a host what leaves checksums and segments to the interface: what reads frames from a packet socket and sends
/// them on would send them without.
fn whole_frames(host: &Host) {
    let mut offloads = Offloads::open(&host.ns).unwrap();
    for offload in [Offload::TcpSegmentation, Offload::GenericSegmentation, Offload::SendChecksum] {
        offloads.set("eth0", offload, false).unwrap();
    }
}

/// Starts a program that prints `words` on standard output once it is up.
#[track_caller]
fn printing(words: &str, ns: &NetNs, mut command: Command) -> Started {
    command.stdin(Stdio::null());
    let mut started = ns.run(|| Started::spawn(command)).unwrap();
    while !started.next_line().is_some_and(|line| line.contains(words)) {}
    started
}

/// The body of an answer that is a success, from a server in a network.
#[track_caller]
fn request(ns: &NetNs, server: &str, method: &str, path: &str, body: &str) -> String {
    let answer = ns.run(|| http::ask(server, method, path, "", body).answer()).unwrap();
    assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
    answer.body
}

/// Looks at an estimate.
const LOOKS: u32 = 48;

/// What an answer takes where nothing stands still.
const AT_ONCE: Duration = Duration::from_millis(50);

/// In which all looks are over.
const ALL_LOOKS: Duration = Duration::from_secs(150);

const API: &str = "127.0.0.1:8008";
const ADMIN: &str = "127.0.0.1:9516";
