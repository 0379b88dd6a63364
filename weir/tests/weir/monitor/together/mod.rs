//! Stations, servers, recorders and viewers of one network, each a program on a host of its own. What is right is known by the stations'
//! accounts, by a reader of the test's own, by nft, and by arithmetic.

pub(super) mod clients;
mod disk;
mod hostile;
pub(super) mod losses;
mod restarts;
mod sealed;
mod socket;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use weir_kernel::namespaces::NetNs;
use weir_testbed::program;

use crate::service::{PATIENCE, weir};

/// A `weir monitor` of a host; killed when dropped.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    log: Receiver<String>,
    said: Vec<String>,
}

impl Running {
    /// Starts it; returns when it is ready.
    #[track_caller]
    fn start(host: &NetNs, arguments: &[&str]) -> Self {
        Self::spawn(host, weir(&[&["monitor"], arguments].concat()))
    }

    /// `weir monitor station --name NAME`, through `eth0`.
    #[track_caller]
    fn station(host: &NetNs, name: &str, arguments: &[&str]) -> Self {
        Self::start(host, &[&["station", "--json", "--interface", "eth0", "--name", name], arguments].concat())
    }

    /// `weir monitor serve` of a group, on `eth0`; its page is at [`PAGE`].
    #[track_caller]
    fn server(host: &NetNs, group: &str) -> Self {
        Self::start(host, &["serve", "--json", "--listen", group, "--interface", "eth0"])
    }

    #[track_caller]
    fn spawn(host: &NetNs, mut command: Command) -> Self {
        let mut child = host.run(|| command.spawn().unwrap()).unwrap();
        let (said, log) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut running = Self { child, stdout, log, said: Vec::new() };
        running.await_line("ready");
        running
    }

    /// Waits until it says a line with `words` in it.
    #[track_caller]
    fn await_line(&mut self, words: &str) -> String {
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
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    #[track_caller]
    fn ledger(&mut self) -> Value {
        self.signal(Signal::SIGUSR1);
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let ledger: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(ledger["closed"], true, "{ledger:#}");
        ledger
    }

    /// Waits until the ledger is as it should be. It closes at every moment.
    #[track_caller]
    fn await_ledger(&mut self, what: &str, is_reached: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + 2 * PATIENCE;
        loop {
            let ledger = self.ledger();
            if is_reached(&ledger) {
                return ledger;
            }
            assert!(Instant::now() < until, "never {what}: {ledger:#}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it at once.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it as a service manager does: the final ledger, of which nothing is left over.
    #[track_caller]
    fn stop(mut self) -> Value {
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

    /// Bytes of memory that it has.
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Samples that a station has sent on its display stream: all that was due, by its last account.
#[track_caller]
fn sent(ledger: &Value) -> u64 {
    let samples = &ledger["streams"][0]["samples"];
    assert_eq!((&samples["sent"], &samples["waiting"]), (&samples["due"], &0.into()), "{ledger:#}");
    samples["due"].as_u64().unwrap()
}

/// Samples that a server has received, and those that it knows to be missing.
fn received(ledger: &Value) -> (u64, u64) {
    let received = &ledger["received"];
    let missing = received["missing"].as_object().unwrap().values();
    (received["samples"].as_u64().unwrap(), missing.map(|samples| samples.as_u64().unwrap()).sum())
}

/// Whether all streams of a station have ended.
fn has_ended(ledger: &Value, station: &str) -> bool {
    let mut streams = ledger["streams"].as_array().unwrap().iter().filter(|stream| stream["station"] == station);
    streams.next().is_some_and(|stream| stream["state"] == "ended")
}

/// What a server's page answers.
#[track_caller]
fn get(host: &NetNs, path: &str) -> Value {
    let answer = host.run(|| {
        let mut stream = TcpStream::connect(PAGE).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let answer = answer.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{answer}");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// Events of a kind that a server tells of.
#[track_caller]
fn events(host: &NetNs, kind: &str) -> Vec<Value> {
    let told = get(host, "/events");
    let all = told.as_array().or_else(|| told["events"].as_array()).unwrap();
    all.iter().filter(|event| event["kind"] == kind).cloned().collect()
}

/// Waits for an event of a kind; it names the station.
#[track_caller]
fn await_event(host: &NetNs, kind: &str, station: &str) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(event) = events(host, kind).into_iter().find(|event| event["station"] == station) {
            return event;
        }
        assert!(Instant::now() < until, "no {kind} of {station}: {:#}", get(host, "/events"));
        thread::sleep(Duration::from_millis(10));
    }
}

/// Runs nft in a host; what it prints. Without it the test is skipped.
#[track_caller]
fn nft(host: &NetNs, commands: &str) -> Option<String> {
    let nft = program("nft")?;
    let run = || Command::new(nft).arg(commands).stdin(Stdio::null()).output().unwrap();
    let output = host.run(run).unwrap();
    assert!(output.status.success(), "{commands}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Drops what comes in at an interface for port 5110 if a rule fits; the kernel counts it nowhere but in the rule.
#[track_caller]
fn drop_at(host: &NetNs, interface: &str, rule: &str) -> Option<()> {
    let chain = format!("type filter hook ingress device \"{interface}\" priority 0;");
    nft(host, &format!("table netdev {interface} {{ chain c {{ {chain}\nudp dport 5110 {rule} counter drop;\n}}; }}"))?;
    Some(())
}

/// Packets that the rule of an interface has dropped.
#[track_caller]
fn dropped_at(host: &NetNs, interface: &str) -> u64 {
    let listing = nft(host, &format!("list table netdev {interface}")).unwrap();
    let (_, rest) = listing.split_once("counter packets ").unwrap();
    rest.split(' ').next().unwrap().parse().unwrap()
}

/// To which stations send.
const GROUP: &str = "239.192.77.1:5110";
/// To which servers send.
const VIEWERS: &str = "239.192.77.2:5110";
/// Where a server of a host has its page.
const PAGE: &str = "127.0.0.1:5180";
