//! `weir loss check` on this machine: what it finds, changes and puts back.

use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use weir_kernel::namespaces::NetNs;
use weir_testbed::{Ended, Started, user_namespaces};

use super::{WEIR, weir};
use crate::service::Machine;

pub(super) fn check(load: &str, flags: &[&str]) -> Command {
    let mut command = weir(&["loss", "check"]);
    command.args(load.split_whitespace()).args(flags);
    command
}

#[track_caller]
pub(super) fn json(command: Command) -> (Option<i32>, Value) {
    let [told] = at_once([command]);
    told
}

/// Status and report of checks that run at the same time.
#[track_caller]
pub(super) fn at_once<const N: usize>(commands: [Command; N]) -> [(Option<i32>, Value); N] {
    commands.map(Started::spawn).map(|mut check| {
        let Ended { status, stdout, stderr } = check.wait();
        assert_eq!(stderr, "");
        (status, serde_json::from_str(&stdout).unwrap())
    })
}

pub(super) fn names(findings: &Value) -> Vec<&str> {
    findings.as_array().unwrap().iter().map(|finding| finding["name"].as_str().unwrap()).collect()
}

/// A path to a namespace that this process holds.
pub(super) fn held(ns: &NetNs) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), ns.as_fd().as_raw_fd())
}

/// Findings, but those that follow from what this machine counts meanwhile, which may be anybody's.
pub(super) fn here(report: &Value) -> Vec<&str> {
    let is_here = |finding: &&Value| {
        let of_the_machine = ["netdev_max_backlog", "netdev_budget", "udp_mem"].map(Value::from);
        !of_the_machine.contains(&finding["name"])
    };
    let found = report["findings"].as_array().unwrap().iter().filter(is_here);
    found.map(|finding| finding["name"].as_str().unwrap()).collect()
}

#[test]
fn a_load_that_is_no_matter_needs_nothing() {
    let light = "--rate 10/s --payload 64B --stall 1ms --interface lo";
    // In a network where nobody else loses anything.
    let Some(machine) = Machine::new() else { return };
    let (status, report) = machine.run(|| json(check(light, &["--json"])));
    assert!(here(&report).is_empty(), "{report}");
    assert_eq!(status, Some(if names(&report["findings"]).is_empty() { 0 } else { 3 }));
    assert_eq!((&report["need"]["waiting"], &report["applied"]), (&1.into(), &Value::Null));
    assert!(report["truesize"]["bytes"].as_u64() > Some(64 + 28), "{report}");
    assert_eq!(report["facts"]["interfaces"][0]["name"], "lo");
}

#[test]
fn mistakes_are_one_line() {
    let load = "--rate 50k/s --payload 200B --stall 40ms";
    let cases: [(&str, &[&str], i32, &str); 8] = [
        (load, &["--port", "1"], 1, "port 1: no UDP socket of that kind is open"),
        (load, &["--process", "no-such-program"], 1, "process no-such-program: there is no such process"),
        (load, &["--interface", "nowhere"], 1, "interface nowhere: no such interface in this namespace"),
        (load, &["--netns", "no-such-namespace"], 1, "namespace no-such-namespace: no such file in /run/netns"),
        ("--rate 0/s --payload 1B --stall 1ms", &[], 2, "--rate 0: nothing arrives, nothing can be lost"),
        ("--rate 1/s --payload 65508B --stall 1ms", &[], 2, "a datagram holds at most 65507B"),
        (load, &["--group", "10.0.0.1"], 2, "`10.0.0.1`: no multicast address"),
        ("--rate 50000 --payload 1B --stall 1ms", &[], 2, "a frequency needs a unit"),
    ];
    for (load, flags, expected, message) in cases {
        let Ended { status, stdout, stderr } = Ended::of(&mut check(load, flags));
        assert_eq!((status, &*stdout), (Some(expected), ""), "{flags:?}: {stderr}");
        assert!(stderr.contains(message), "{flags:?}: {stderr}");
        assert!(expected == 2 || stderr.lines().count() == 1, "{stderr}");
    }
}

/// What no socket counts: a firewall on the very port, a port that nobody has bound, calls that fail; and a socket's own filter,
/// behind which nothing comes.
#[test]
fn nothing_is_all_right_while_something_is_lost() {
    let (Some(machine), Some(nft)) = (Machine::new(), weir_testbed::program("nft")) else { return };
    let ns = machine.namespace();
    let [reader, filtered, closed, source] = [(); 4].map(|()| machine.udp("127.0.0.1:0"));
    let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
    let (open, filter, shut) = (port(&reader), port(&filtered), port(&closed));
    drop(closed);
    super::sockets::refuse(&filtered, 20);
    reader.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let rules = format!(
        "add table ip t; add chain ip t c {{ type filter hook input priority 0; }}; \
                         add rule ip t c udp dport {open} udp length 50 drop"
    );
    let added = ns.run(|| Command::new(&nft).arg(&rules).status().unwrap()).unwrap();
    assert!(added.success());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = reader.recv(&mut [0; 200]);
            }
        });
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for (port, size) in [(open, 42), (open, 10), (shut, 20), (filter, 20)] {
                    // Told of the closed port by the next call.
                    let _ = source.send_to(&vec![7; size], ("127.0.0.1", port));
                }
                let _ = source.send_to(&[7], "192.0.2.1:9");
                thread::sleep(Duration::from_millis(2));
            }
        });
        let places = |(status, report): (Option<i32>, Value)| -> Vec<(String, String)> {
            assert_eq!(status, Some(3), "{report}");
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let findings = report["findings"].as_array().unwrap().iter();
            let losing = findings.filter(|finding| finding["name"] == "losing");
            losing.map(|finding| (text(&finding["place"]), text(&finding["what"]))).collect()
        };
        let little = "--rate 10/s --payload 64B --stall 1ms --interface lo";
        let netns = held(&ns);
        // Behind its filter nothing comes to the socket, of which a load could be taken.
        let alone = filter.to_string();
        let [all, filtered] = at_once([
            check(little, &["--json", "--netns", &netns]),
            check("", &["--port", &alone, "--json", "--netns", &netns]),
        ]);
        over.store(true, Ordering::Relaxed);
        let told = places(all);
        for (place, port) in [("firewall", open), ("port_closed", shut), ("socket_filter", filter)] {
            let is_it = |(told, what): &&(String, String)| told == place && what.contains(&port.to_string());
            assert!(told.iter().any(|told| is_it(&told)), "{place} {port}: {told:?}");
        }
        assert!(told.iter().any(|(place, _)| place == "no_route"), "{told:?}");
        let told = places(filtered);
        assert!(told.iter().any(|(place, _)| place == "socket_filter"), "{told:?}");
    });
}

/// What somebody else sends to a port of nobody's is not the loss of the receiver that was asked for; what comes to its own port,
/// at another address, is.
#[test]
fn a_stray_datagram_is_not_the_loss_of_who_was_asked_for() {
    let Some(machine) = Machine::new() else { return };
    let ns = machine.namespace();
    let [receiver, closed, source] = [(); 3].map(|()| machine.udp("127.0.0.1:0"));
    let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
    let (open, shut) = (port(&receiver), port(&closed));
    drop(closed);
    let little = "--rate 10/s --payload 64B --stall 1ms --interface lo";
    let checked = |to: (&str, u16), flags: &[&str]| {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // Told of the closed port by the next call.
                    let _ = source.send_to(&[7], to);
                    thread::sleep(Duration::from_millis(5));
                }
            });
            let (_, report) = json(check(little, &[flags, &["--json", "--netns", &held(&ns)]].concat()));
            over.store(true, Ordering::Relaxed);
            assert_eq!(report["facts"]["losses"][0]["place"], "port_closed", "{report}");
            (names(&report["findings"]).contains(&"losing"), report["facts"]["losses"][0]["stray"] == true)
        })
    };
    let asked_for = open.to_string();
    assert_eq!(checked(("127.0.0.1", shut), &["--port", &asked_for]), (false, true));
    assert_eq!(checked(("127.0.0.2", open), &["--port", &asked_for]), (true, false));
    assert_eq!(checked(("127.0.0.1", shut), &[]), (true, false));
}

#[test]
fn in_a_user_namespace_nothing_is_changed() {
    if !user_namespaces(None) {
        return;
    }
    let unshared = |flags: &[&str]| {
        let mut command = Command::new("unshare");
        Ended::of(command.args(["--user", "--map-root-user", &WEIR, "loss", "check"]).args(flags))
    };
    let Ended { status, stderr, .. } = unshared(&["--undo"]);
    assert_eq!(status, Some(1));
    assert!(stderr.starts_with("weir: --undo: only root of the machine may change its settings"), "{stderr}");
    let apply = ["--rate", "10/s", "--payload", "64B", "--stall", "1ms", "--apply"];
    let Ended { status, stdout, stderr } = unshared(&apply);
    assert_eq!((status, &*stdout, stderr.lines().count()), (Some(1), "", 1));
    assert!(stderr.starts_with("weir: --apply: only root of the machine may change its settings"), "{stderr}");
}
