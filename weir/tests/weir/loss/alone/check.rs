//! `weir loss check` where it changes this machine.

use std::fs;
use std::net::UdpSocket;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{getsockopt, sockopt};
use serde_json::Value;
use tempfile::TempDir;
use weir_kernel::links::{BridgeSettings, MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;
use weir_kernel::sysctl;
use weir_testbed::{Ended, Started, await_that, skip};

use super::super::check::{check, held, json, names};

/// The machine's settings are as they were behind it, however a test ends.
struct Machine {
    before: Vec<(&'static str, String)>,
    /// For the file of changes.
    dir: TempDir,
}

impl Machine {
    /// `None` where we are not root of the machine: the test is skipped.
    fn take() -> Option<Machine> {
        let whole = fs::read_to_string("/proc/self/uid_map").unwrap().split_whitespace().eq(["0", "0", "4294967295"]);
        if !whole || !nix::unistd::geteuid().is_root() {
            skip("only root of the machine may change its settings");
            return None;
        }
        let before = SETTINGS.map(|name| (name, read(name))).into();
        let machine = Machine { before, dir: TempDir::new().unwrap() };
        // As a kernel begins.
        fs::write(path("net/core/rmem_default"), "212992").unwrap();
        fs::write(path("net/core/rmem_max"), "4194304").unwrap();
        fs::write(path("net/core/netdev_max_backlog"), "1000").unwrap();
        Some(machine)
    }

    fn changes(&self) -> String {
        self.dir.path().join("changes.json").display().to_string()
    }

    /// `weir loss check LOAD --apply FLAGS`: status and report.
    #[track_caller]
    fn apply(&self, load: &str, flags: &[&str]) -> (Option<i32>, Value) {
        let changes = self.changes();
        json(check(load, &[&["--apply", "--json", "--changes", &changes], flags].concat()))
    }

    /// `weir loss check --undo`: status and words.
    fn undo(&self) -> (Option<i32>, String) {
        let Ended { status, stdout, stderr } = self.asked_to_undo();
        assert_eq!(stderr, "");
        (status, stdout)
    }

    fn asked_to_undo(&self) -> Ended {
        Ended::of(&mut check("", &["--undo", "--changes", &self.changes()]))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for (name, value) in &self.before {
            let _ = fs::write(path(name), value);
        }
    }
}

/// What tests change, and with what it is bound up.
const SETTINGS: [&str; 4] =
    ["net/core/rmem_default", "net/core/rmem_max", "net/core/netdev_max_backlog", "net/ipv4/udp_mem"];

fn path(name: &str) -> String {
    format!("/proc/sys/{name}")
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap().trim().to_owned()
}

fn settings() -> Vec<String> {
    SETTINGS.iter().map(|name| read(name)).collect()
}

/// Whether the change that a finding asked for was made.
fn changed(report: &Value, finding: &str) -> bool {
    let mut applied = report["applied"].as_array().unwrap().iter();
    applied.any(|change| change["finding"] == finding && change["verdict"] == "changed")
}

/// A line of 100 Mbit/s that is full of 64 B payloads; the loopback interface has no card that could be in the way.
const STUDY: &str = "--rate 96154/s --payload 64B --stall 40ms --interface lo";

#[test]
fn what_the_studys_load_needs_is_set_and_put_back() {
    let Some(machine) = Machine::take() else { return };
    let before = settings();
    let (_, report) = machine.apply(STUDY, &[]);
    assert!(names(&report["findings"]).contains(&"rmem_default"), "{report}");
    let need = report["need"]["buffer"].as_u64().unwrap();
    assert_eq!(read("net/core/rmem_default"), need.to_string());
    assert!(changed(&report, "rmem_default"), "{report}");
    assert!(!names(&report["remaining"]).contains(&"rmem_default"), "{report}");

    let (status, words) = machine.undo();
    assert!(words.contains(&format!("net.core.rmem_default: {need} -> 212992\n")), "{words}");
    assert_eq!((status, settings()), (Some(0), before));
    assert_eq!(machine.undo(), (Some(0), format!("nothing to undo in {}\n", machine.changes())));
}

/// Needs more of everything: three settings change.
const HEAVY: &str = "--rate 400k/s --payload 64B --stall 40ms --interface lo";

#[test]
fn killed_at_any_moment_everything_is_put_back() {
    let Some(machine) = Machine::take() else { return };
    let before = settings();
    for changes in [1, 2, 3] {
        let file = machine.changes();
        let mut applying = Started::spawn(check(HEAVY, &["--apply", "--changes", &file]));
        let recorded = || fs::read_to_string(&file).is_ok_and(|text| text.matches("\"setting\"").count() >= changes);
        await_that("a change, or the end", || recorded() || !applying.runs());
        let _ = kill(applying.pid(), Signal::SIGKILL);
        // It may have been quicker than we looked.
        applying.wait();
        let (status, words) = machine.undo();
        assert_eq!((status, settings()), (Some(0), before.clone()), "killed at change {changes}: {words}");
    }
}

#[test]
fn what_somebody_else_has_set_meanwhile_stays() {
    let Some(machine) = Machine::take() else { return };
    let (_, report) = machine.apply(STUDY, &[]);
    assert!(changed(&report, "rmem_default"), "{report}");
    fs::write(path("net/core/rmem_default"), "300000").unwrap();
    let (status, words) = machine.undo();
    assert_eq!(status, Some(3), "{words}");
    assert!(words.contains("net.core.rmem_default: left at 300000: somebody has changed it since we set "), "{words}");
    assert_eq!(read("net/core/rmem_default"), "300000");
    assert!(machine.undo().1.starts_with("nothing to undo"));
}

#[test]
fn two_at_once_do_not_mix() {
    let Some(machine) = Machine::take() else { return };
    let before = settings();
    let file = fs::File::open(machine.dir.path()).unwrap();
    let _held = Flock::lock(file, FlockArg::LockExclusive).unwrap();
    for flags in [&["--apply"][..], &["--undo"]] {
        let load = if flags == ["--undo"] { "" } else { STUDY };
        let Ended { status, stdout, stderr } =
            Ended::of(&mut check(load, &[flags, &["--changes", &machine.changes()]].concat()));
        assert_eq!((status, &*stdout), (Some(1), ""));
        assert!(stderr.contains("another `weir loss check` is at work with it"), "{stderr}");
    }
    assert_eq!(settings(), before);
}

#[test]
fn a_running_receiver_gets_a_larger_buffer_without_a_restart() {
    let Some(machine) = Machine::take() else { return };
    let ns = NetNs::create().unwrap();
    Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
    let socket = ns.run(|| UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port().to_string();
    let buffer = || getsockopt(&socket, sockopt::RcvBuf).unwrap() as u64;
    assert_eq!(buffer(), 212_992);
    let held = held(&ns);
    let flags = ["--netns", &held, "--port", &port];
    let (_, report) = machine.apply(STUDY, &flags);
    assert_eq!(names(&report["findings"]), ["receive_buffer"], "{report}");
    assert_eq!(report["facts"]["receivers"][0]["pid"], std::process::id());
    assert_eq!(report["applied"][0]["verdict"], "changed", "{report}");
    assert_eq!(Some(buffer()), report["need"]["buffer"].as_u64());
    assert_eq!(read("net/core/rmem_default"), "212992");
    let (status, words) = machine.undo();
    assert_eq!((status, buffer()), (Some(0), 212_992), "{words}");

    machine.apply("--receive-buffer 1MiB", &flags);
    assert_eq!(buffer(), 2 << 20);
    drop(socket);
    let (status, words) = machine.undo();
    assert_eq!(status, Some(0));
    assert!(words.contains("is no more"), "{words}");
}

#[test]
fn a_namespaces_own_settings_are_changed_there() {
    let Some(machine) = Machine::take() else { return };
    let (ns, other) = (NetNs::create().unwrap(), NetNs::create().unwrap());
    let end = |ns, number| VethEnd { ns, name: "eth0", mac: MacAddress::local(number), mtu: 1500, queue_length: 0 };
    let mut netlink = Netlink::open(&ns).unwrap();
    netlink.add_veth(&end(&ns, 1), &end(&other, 2)).unwrap();
    sysctl::set(&ns, &[("ipv4/conf/eth0/rp_filter", "1")]).unwrap();
    let settings =
        BridgeSettings { mac: MacAddress::local(3), multicast_snooping: true, ageing: Duration::from_secs(300) };
    let bridge = netlink.add_bridge("br0", &settings).unwrap();
    netlink.set_up(bridge).unwrap();

    let load = "--rate 10/s --payload 64B --stall 1ms --group 239.1.1.1 --interface eth0";
    let (status, report) = machine.apply(load, &["--netns", &held(&ns)]);
    let found = names(&report["findings"]);
    assert!(found.contains(&"rp_filter") && found.contains(&"querier"), "{report}");
    assert_eq!((status, sysctl::get(&ns, "ipv4/conf/eth0/rp_filter").unwrap()), (Some(3), "2".into()));
    let remaining = names(&report["remaining"]);
    assert!(!remaining.contains(&"rp_filter") && remaining.contains(&"querier"), "{report}");
    assert_eq!(machine.undo().0, Some(0));
    assert_eq!(sysctl::get(&ns, "ipv4/conf/eth0/rp_filter").unwrap(), "1");

    netlink.enable_querier(bridge, Duration::from_millis(20)).unwrap();
    let (_, report) = json(check(load, &["--json", "--netns", &held(&ns)]));
    assert!(!names(&report["findings"]).contains(&"querier"), "{report}");

    // It is undone from anywhere, as long as somebody holds it; what cannot be found stays in the list.
    machine.apply(load, &["--netns", &held(&ns)]);
    let elsewhere = sysctl::get(&other, "ipv4/conf/eth0/rp_filter").unwrap();
    assert_eq!(other.run(|| machine.undo()).unwrap().0, Some(0));
    assert_eq!(sysctl::get(&ns, "ipv4/conf/eth0/rp_filter").unwrap(), "1");
    assert_eq!(sysctl::get(&other, "ipv4/conf/eth0/rp_filter").unwrap(), elsewhere);

    machine.apply(load, &["--netns", &held(&ns)]);
    drop((ns, netlink));
    let changes = fs::read(machine.changes()).unwrap();
    for _ in 0..2 {
        let Ended { status, stdout: words, stderr } = machine.asked_to_undo();
        assert_eq!(status, Some(1), "{words}");
        assert!(words.contains("is not to be found from here") && stderr.contains("could not be put back"), "{words}");
        assert_eq!(fs::read(machine.changes()).unwrap(), changes);
    }
}

/// Elsewhere on the machine nothing may be lost meanwhile.
#[test]
fn a_load_that_is_not_seen_must_be_stated() {
    let silent = NetNs::create().unwrap();
    let Ended { status, stderr, .. } = Ended::of(&mut check("", &["--netns", &held(&silent)]));
    assert_eq!(status, Some(1), "{stderr}");
    assert_eq!(stderr, "weir: no datagram came while it was looked: state the load (--rate, --payload, --stall)\n");
}
