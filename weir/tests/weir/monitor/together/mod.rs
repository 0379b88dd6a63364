//! Stations, servers, recorders and viewers of one network, each a program on a host of its own. What is right is known by the stations'
//! accounts, by a reader of the test's own, by nft, and by arithmetic.

mod clients;
mod disk;
mod hostile;
mod losses;
mod restarts;
mod sealed;
mod socket;

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_kernel::namespaces::NetNs;
use weir_testbed::{Ended, PATIENCE, Started, await_that, http, program};

use crate::{WEIR, weir};

/// Starts `weir monitor` on a host.
#[track_caller]
fn start(host: &NetNs, arguments: &[&str]) -> Started {
    host.run(|| Started::ready(weir(&[&["monitor"], arguments].concat()))).unwrap()
}

/// Starts `weir monitor station --name NAME`, through `eth0`.
#[track_caller]
fn start_station(host: &NetNs, name: &str, arguments: &[&str]) -> Started {
    start(host, &[&["station", "--json", "--interface", "eth0", "--name", name], arguments].concat())
}

/// Starts `weir monitor serve` of a group, on `eth0`; its page is at [`PAGE`].
#[track_caller]
fn start_server(host: &NetNs, group: &str) -> Started {
    start(host, &["serve", "--json", "--listen", group, "--interface", "eth0"])
}

/// Whether a station has sent so many samples on its display stream.
fn has_sent(samples: u64) -> impl Fn(&Value) -> bool {
    move |ledger| ledger["streams"][0]["samples"]["sent"].as_u64() > Some(samples)
}

/// Bytes of memory that a program has.
pub(super) fn resident(program: &Started) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", program.pid())).unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
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
    host.run(|| http::get(PAGE, path)).unwrap().json()
}

/// Waits for an event of a kind; it names the station.
#[track_caller]
fn await_event(host: &NetNs, kind: &str, station: &str) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let told = get(host, "/events");
        let all = told.as_array().or_else(|| told["events"].as_array()).unwrap();
        if let Some(event) = all.iter().find(|event| event["kind"] == kind && event["station"] == station) {
            return event.clone();
        }
        assert!(Instant::now() < until, "no {kind} of {station}: {told:#}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Runs nft in a host; what it prints. Without it the test is skipped.
#[track_caller]
fn nft(host: &NetNs, commands: &str) -> Option<String> {
    let nft = program("nft")?;
    let ended = host.run(|| Ended::of(Command::new(nft).arg(commands))).unwrap();
    assert_eq!(ended.status, Some(0), "{commands}: {}", ended.stderr);
    Some(ended.stdout)
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
