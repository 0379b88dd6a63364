//! `weir loss check` where it changes this machine, or tries it out.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::thread;
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
    /// For journals.
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

    fn journal(&self) -> String {
        self.dir.path().join("journal").display().to_string()
    }

    /// `weir loss check LOAD --apply FLAGS`: status and report.
    #[track_caller]
    fn apply(&self, load: &str, flags: &[&str]) -> (Option<i32>, Value) {
        let journal = self.journal();
        json(check(load, &[&["--apply", "--json", "--journal", &journal], flags].concat()))
    }

    /// `weir loss check --undo`: status and words.
    fn undo(&self) -> (Option<i32>, String) {
        let Ended { status, stdout, stderr } = self.asked_to_undo();
        assert_eq!(stderr, "");
        (status, stdout)
    }

    fn asked_to_undo(&self) -> Ended {
        Ended::of(&mut check("", &["--undo", "--journal", &self.journal()]))
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

/// What became of the change that a finding asked for.
fn helped(report: &Value, finding: &str) -> bool {
    let mut applied = report["applied"].as_array().unwrap().iter();
    applied.any(|change| change["finding"] == finding && change["verdict"] == "helped")
}

/// Datagrams that a trial lost.
fn lost(outcome: &Value) -> u64 {
    outcome["sent"].as_u64().unwrap() - outcome["received"].as_u64().unwrap()
}

/// The trial of a receiver that asks for no buffer.
fn trial(report: &Value) -> &Value {
    let mut trials = report["trials"].as_array().unwrap().iter();
    trials.find(|trial| trial["receiver"] == "a receiver that asks for no buffer").unwrap()
}

/// A line of 100 Mbit/s that is full of 64 B payloads; the loopback interface has no card that could be in the way.
const STUDY: &str = "--rate 96154/s --payload 64B --stall 40ms --interface lo";

#[test]
#[ignore = "long: 20 s"]
fn the_studys_loss_goes_and_comes_back_with_undo() {
    let Some(machine) = Machine::take() else { return };
    let before = settings();
    let (_, report) = machine.apply(STUDY, &["--trial", "100000"]);
    assert!(names(&report["findings"]).contains(&"rmem_default"), "{report}");
    let need = report["need"]["buffer"].as_u64().unwrap();
    assert_eq!(read("net/core/rmem_default"), need.to_string());

    let trial = trial(&report);
    let (lossy, mended) = (&trial["before"], &trial["after"]);
    assert_eq!((&lossy["sent"], &mended["sent"]), (&100_000.into(), &100_000.into()));
    assert_eq!((&lossy["unexplained"], &mended["unexplained"]), (&0.into(), &0.into()), "{trial}");
    assert!(lost(lossy) > 1000, "more than a percent: {trial}");
    assert_eq!(lossy["places"][0]["place"], "receive_buffer");
    assert_eq!((&lossy["buffer"], mended["buffer"].as_u64()), (&212_992.into(), Some(need)));
    // A busy machine may hold the receiver up for longer than was stated: then it may lose what that costs. Or it holds up
    // the softirq, which costs at the backlog.
    let longest = mended["longest_stall_ms"].as_f64().unwrap();
    assert!(longest >= 40.0, "{trial}");
    let excess = (longest / 40.0 * 3.0 / 4.0 - 1.0).max(0.0);
    let places = mended["places"].as_array().unwrap();
    let full = places.iter().any(|place| place["place"] == "receive_buffer");
    assert!(!full || excess > 0.0, "{trial}");
    assert!(lost(mended) < lost(lossy) / 10, "{trial}");
    assert!(helped(&report, "rmem_default"), "{report}");
    assert!(!names(&report["remaining"]).contains(&"rmem_default"), "{report}");

    let (status, words) = machine.undo();
    assert!(words.contains(&format!("net.core.rmem_default: {need} -> 212992\n")), "{words}");
    assert_eq!((status, settings()), (Some(0), before));
    assert_eq!(machine.undo(), (Some(0), format!("nothing to undo in {}\n", machine.journal())));
}

/// Needs more of everything: three settings change.
const HEAVY: &str = "--rate 400k/s --payload 64B --stall 40ms --interface lo --trial 2000";

#[test]
fn killed_at_any_line_of_its_journal_everything_is_put_back() {
    let Some(machine) = Machine::take() else { return };
    let before = settings();
    let mut killed = 0;
    for lines in [1, 3, 5] {
        let journal = machine.journal();
        let mut applying = Started::spawn(check(HEAVY, &["--apply", "--journal", &journal]));
        let written = || fs::read(&journal).is_ok_and(|text| text.split(|byte| *byte == b'\n').count() > lines);
        await_that("a line of the journal, or the end", || written() || !applying.runs());
        let _ = kill(applying.pid(), Signal::SIGKILL);
        killed += usize::from(applying.wait().status.is_none());
        let (status, words) = machine.undo();
        assert_eq!((status, settings()), (Some(0), before.clone()), "killed behind line {lines}: {words}");
    }
    // Others may have been quicker than we looked.
    assert!(killed >= 2, "{killed}");
}

#[test]
#[ignore = "long: 10 s"]
fn what_somebody_else_has_set_meanwhile_stays() {
    let Some(machine) = Machine::take() else { return };
    let (_, report) = machine.apply(STUDY, &["--trial", "20000"]);
    assert!(helped(&report, "rmem_default"), "{report}");
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
    let file = fs::File::create(machine.journal()).unwrap();
    let _held = Flock::lock(file, FlockArg::LockExclusive).unwrap();
    for flags in [&["--apply"][..], &["--undo"]] {
        let load = if flags == ["--undo"] { "" } else { STUDY };
        let Ended { status, stdout, stderr } =
            Ended::of(&mut check(load, &[flags, &["--journal", &machine.journal()]].concat()));
        assert_eq!((status, &*stdout), (Some(1), ""));
        assert!(stderr.contains("another `weir loss check` is at work with it"), "{stderr}");
    }
    assert_eq!(settings(), before);
}

#[test]
#[ignore = "long: 10 s"]
fn a_running_receiver_gets_a_larger_buffer_without_a_restart() {
    let Some(machine) = Machine::take() else { return };
    let ns = NetNs::create().unwrap();
    Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
    let socket = ns.run(|| UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port().to_string();
    let buffer = || getsockopt(&socket, sockopt::RcvBuf).unwrap() as u64;
    assert_eq!(buffer(), 212_992);
    let held = held(&ns);
    let flags = ["--trial", "20000", "--netns", &held, "--port", &port];
    let (_, report) = machine.apply(STUDY, &flags);
    assert_eq!(names(&report["findings"]), ["receive_buffer"], "{report}");
    assert_eq!(report["facts"]["receivers"][0]["pid"], std::process::id());
    assert_eq!(report["applied"][0]["verdict"], "helped", "{report}");
    assert_eq!(Some(buffer()), report["need"]["buffer"].as_u64());
    assert_eq!(read("net/core/rmem_default"), "212992");
    let (status, words) = machine.undo();
    assert_eq!((status, buffer()), (Some(0), 212_992), "{words}");

    machine.apply(STUDY, &flags);
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

    // It is undone from anywhere, as long as somebody holds it; what cannot be found stays in the journal.
    machine.apply(load, &["--netns", &held(&ns)]);
    let elsewhere = sysctl::get(&other, "ipv4/conf/eth0/rp_filter").unwrap();
    assert_eq!(other.run(|| machine.undo()).unwrap().0, Some(0));
    assert_eq!(sysctl::get(&ns, "ipv4/conf/eth0/rp_filter").unwrap(), "1");
    assert_eq!(sysctl::get(&other, "ipv4/conf/eth0/rp_filter").unwrap(), elsewhere);

    machine.apply(load, &["--netns", &held(&ns)]);
    drop((ns, netlink));
    let journal = fs::read(machine.journal()).unwrap();
    for _ in 0..2 {
        let Ended { status, stdout: words, stderr } = machine.asked_to_undo();
        assert_eq!(status, Some(1), "{words}");
        assert!(words.contains("is not to be found from here") && stderr.contains("could not be put back"), "{words}");
        assert_eq!(fs::read(machine.journal()).unwrap(), journal);
    }
}

/// The program stands still in the middle of a trial, as with its machine.
#[test]
#[ignore = "long: 10 s"]
fn a_trial_that_stood_still_is_tried_again() {
    let Some(_machine) = Machine::take() else { return };
    let load = "--rate 1k/s --payload 64B --stall 1ms --interface lo";
    let mut trying = Started::spawn(check(load, &["--trial", "2000", "--json"]));
    let id = trying.pid();
    // Its receiver has waited for some datagrams.
    let waits = |task: &Path| -> Option<u64> {
        let status =
            fs::read_to_string(task.join("status")).ok().filter(|text| text.starts_with("Name:\treceiver\n"))?;
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
    };
    let tasks = || fs::read_dir(format!("/proc/{id}/task")).unwrap().map(|task| task.unwrap().path());
    let is_receiving = || tasks().any(|task| waits(&task) > Some(20));
    await_that("its receiver", is_receiving);
    trying.signal(Signal::SIGSTOP);
    thread::sleep(Duration::from_millis(300));
    trying.signal(Signal::SIGCONT);
    let report = trying.json();
    let mut tries = report["trials"].as_array().unwrap().iter().map(|trial| trial["before"]["tries"].as_u64());
    assert!(tries.any(|tries| tries > Some(1)), "{}", report["trials"]);
}

/// Elsewhere on the machine nothing may be lost meanwhile.
#[test]
fn a_load_that_is_not_seen_must_be_stated() {
    let silent = NetNs::create().unwrap();
    let Ended { status, stderr, .. } = Ended::of(&mut check("", &["--netns", &held(&silent)]));
    assert_eq!(status, Some(1), "{stderr}");
    assert_eq!(stderr, "weir: no datagram came while it was looked: state the load (--rate, --payload, --stall)\n");
}
