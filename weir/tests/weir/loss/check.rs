//! `weir loss check` on this machine: what it finds, changes and puts back.

use std::fs;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use weir_kernel::links::{BridgeSettings, MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;
use weir_kernel::sysctl;
use weir_testbed::standstills::Standstills;
use weir_testbed::{Turn, skip, turn, user_namespaces};

use super::WEIR;

/// One test at a time, and the machine's settings as they were behind it, however it ends.
pub(super) struct Machine {
    before: Vec<(&'static str, String)>,
    /// For journals.
    dir: TempDir,
    _turn: Turn,
}

impl Machine {
    /// `None` where we are not root of the machine: the test is skipped.
    pub(super) fn take() -> Option<Machine> {
        let turn = turn();
        let whole = fs::read_to_string("/proc/self/uid_map").unwrap().split_whitespace().eq(["0", "0", "4294967295"]);
        if !whole || !nix::unistd::geteuid().is_root() {
            skip("only root of the machine may change its settings");
            return None;
        }
        let before = SETTINGS.map(|name| (name, read(name))).into();
        let machine = Machine { before, dir: TempDir::new().unwrap(), _turn: turn };
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
        json(&mut check(load, &[&["--apply", "--json", "--journal", &journal], flags].concat()))
    }

    /// As [`Machine::apply`], until its trials show this. Where the machine stood still meanwhile, that is what they show:
    /// all is undone and begun anew. Where it ran, they show what they show.
    #[track_caller]
    fn apply_running(&self, load: &str, flags: &[&str], shows: impl Fn(&Value) -> bool) -> Value {
        let standstills = Standstills::watch();
        let mut void = 0;
        loop {
            let begin = Instant::now();
            let (_, report) = self.apply(load, flags);
            let end = Instant::now();
            let stood = end - begin - standstills.running(begin, end);
            if shows(&report) || stood < Duration::from_millis(10) || void == 20 {
                return report;
            }
            void += 1;
            self.undo();
        }
    }

    /// `weir loss check --undo`: status and words.
    fn undo(&self) -> (Option<i32>, String) {
        let (status, stdout, stderr) = run(&mut check("", &["--undo", "--journal", &self.journal()]));
        assert_eq!(stderr, "");
        (status, stdout)
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

pub(super) fn check(load: &str, flags: &[&str]) -> Command {
    let mut command = Command::new(WEIR);
    command.args(["loss", "check"]).args(load.split_whitespace()).args(flags);
    command
}

pub(super) fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[track_caller]
pub(super) fn json(command: &mut Command) -> (Option<i32>, Value) {
    let (status, stdout, stderr) = run(command);
    assert_eq!(stderr, "");
    (status, serde_json::from_str(&stdout).unwrap())
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

pub(super) fn names(findings: &Value) -> Vec<&str> {
    findings.as_array().unwrap().iter().map(|finding| finding["name"].as_str().unwrap()).collect()
}

/// A path to a namespace that this process holds.
pub(super) fn held(ns: &NetNs) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), ns.as_fd().as_raw_fd())
}

/// A line of 100 Mbit/s that is full of 64 B payloads; the loopback interface has no card that could be in the way.
const STUDY: &str = "--rate 96154/s --payload 64B --stall 40ms --interface lo";

/// Findings that follow from what this machine counts meanwhile, which may be anybody's.
pub(super) const OF_THE_MACHINE: [&str; 3] = ["netdev_max_backlog", "netdev_budget", "udp_mem"];

#[test]
fn a_load_that_is_no_matter_needs_nothing() {
    let light = "--rate 10/s --payload 64B --stall 1ms --interface lo";
    // In a network where nobody else loses anything.
    let Some(ns) = weir_testbed::network::namespace() else { return };
    Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
    let (status, report) = ns.run(|| json(&mut check(light, &["--json"]))).unwrap();
    let found = names(&report["findings"]);
    assert!(found.iter().all(|name| OF_THE_MACHINE.contains(name)), "{report}");
    assert_eq!(status, Some(if found.is_empty() { 0 } else { 3 }));
    assert_eq!((&report["need"]["waiting"], &report["applied"]), (&1.into(), &Value::Null));
    assert!(report["truesize"]["bytes"].as_u64() > Some(64 + 28), "{report}");
    assert_eq!(report["facts"]["interfaces"][0]["name"], "lo");
}

#[test]
fn the_studys_loss_goes_and_comes_back_with_undo() {
    let Some(machine) = Machine::take() else { return };
    let before = settings();
    let report = machine.apply_running(STUDY, &["--trial", "100000"], |report| {
        let (lossy, mended) = (&trial(report)["before"], &trial(report)["after"]);
        helped(report, "rmem_default")
            && lossy["places"][0]["place"] == "receive_buffer"
            && lost(mended) < lost(lossy) / 10
            && !names(&report["remaining"]).contains(&"rmem_default")
    });
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
    for lines in 1..=6 {
        let journal = machine.journal();
        let mut applying =
            Kill(check(HEAVY, &["--apply", "--journal", &journal]).stdout(Stdio::null()).spawn().unwrap());
        let written = || fs::read(&journal).is_ok_and(|text| text.split(|byte| *byte == b'\n').count() > lines);
        let ended = await_either(written, || applying.0.try_wait().unwrap().is_some());
        applying.0.kill().unwrap();
        applying.0.wait().unwrap();
        killed += usize::from(!ended);
        let (status, words) = machine.undo();
        assert_eq!((status, settings()), (Some(0), before.clone()), "killed behind line {lines}: {words}");
    }
    // Others may have been quicker than we looked.
    assert!(killed >= 3, "{killed}");
}

/// Killed when dropped.
struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether the second came to be true before the first.
#[track_caller]
fn await_either(first: impl Fn() -> bool, mut second: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !first() {
        if second() {
            return true;
        }
        assert!(Instant::now() < deadline, "neither came to be true");
        thread::sleep(Duration::from_micros(200));
    }
    false
}

#[test]
fn what_somebody_else_has_set_meanwhile_stays() {
    let Some(machine) = Machine::take() else { return };
    machine.apply_running(STUDY, &["--trial", "20000"], |report| helped(report, "rmem_default"));
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
        let (status, stdout, stderr) = run(&mut check(load, &[flags, &["--journal", &machine.journal()]].concat()));
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
    let flags = ["--trial", "20000", "--netns", &held, "--port", &port];
    let is_kept = |report: &Value| helped(report, "receive_buffer");
    let report = machine.apply_running(STUDY, &flags, is_kept);
    assert_eq!(names(&report["findings"]), ["receive_buffer"], "{report}");
    assert_eq!(report["facts"]["receivers"][0]["pid"], std::process::id());
    assert_eq!(report["applied"][0]["verdict"], "helped", "{report}");
    assert_eq!(Some(buffer()), report["need"]["buffer"].as_u64());
    assert_eq!(read("net/core/rmem_default"), "212992");
    let (status, words) = machine.undo();
    assert_eq!((status, buffer()), (Some(0), 212_992), "{words}");

    machine.apply_running(STUDY, &flags, is_kept);
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
    let (_, report) = json(&mut check(load, &["--json", "--netns", &held(&ns)]));
    assert!(!names(&report["findings"]).contains(&"querier"), "{report}");

    // It is undone from anywhere, as long as somebody holds it; what cannot be found stays in the journal.
    machine.apply(load, &["--netns", &held(&ns)]);
    let elsewhere = sysctl::get(&other, "ipv4/conf/eth0/rp_filter").unwrap();
    let (status, words, stderr) =
        other.run(|| run(&mut check("", &["--undo", "--journal", &machine.journal()]))).unwrap();
    assert_eq!((status, &*stderr), (Some(0), ""), "{words}");
    assert_eq!(sysctl::get(&ns, "ipv4/conf/eth0/rp_filter").unwrap(), "1");
    assert_eq!(sysctl::get(&other, "ipv4/conf/eth0/rp_filter").unwrap(), elsewhere);

    machine.apply(load, &["--netns", &held(&ns)]);
    drop((ns, netlink));
    let journal = fs::read(machine.journal()).unwrap();
    for _ in 0..2 {
        let (status, words, stderr) = run(&mut check("", &["--undo", "--journal", &machine.journal()]));
        assert_eq!(status, Some(1), "{words}");
        assert!(words.contains("is not to be found from here") && stderr.contains("could not be put back"), "{words}");
        assert_eq!(fs::read(machine.journal()).unwrap(), journal);
    }
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
        let (status, stdout, stderr) = run(&mut check(load, flags));
        assert_eq!((status, &*stdout), (Some(expected), ""), "{flags:?}: {stderr}");
        assert!(stderr.contains(message), "{flags:?}: {stderr}");
        assert!(expected == 2 || stderr.lines().count() == 1, "{stderr}");
    }
    let silent = NetNs::create().unwrap();
    let (status, _, stderr) = run(&mut check("", &["--netns", &held(&silent)]));
    assert_eq!(status, Some(1), "{stderr}");
    assert_eq!(stderr, "weir: no datagram came while it was looked: state the load (--rate, --payload, --stall)\n");
}

/// What no socket counts: a firewall on the very port, a port that nobody has bound, calls that fail; and a socket's own filter,
/// behind which nothing comes.
#[test]
fn nothing_is_all_right_while_something_is_lost() {
    let (Some(_machine), Some(nft)) = (Machine::take(), weir_testbed::program("nft")) else { return };
    let ns = NetNs::create().unwrap();
    Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
    let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
    let (reader, filtered, closed, source) = ns.run(|| (bind(), bind(), bind(), bind())).unwrap();
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
        let places = |load: &str, flags: &[&str]| -> Vec<(String, String)> {
            let (status, report) = json(&mut check(load, &[flags, &["--json", "--netns", &held(&ns)]].concat()));
            assert_eq!(status, Some(3), "{report}");
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let findings = report["findings"].as_array().unwrap().iter();
            let losing = findings.filter(|finding| finding["name"] == "losing");
            losing.map(|finding| (text(&finding["place"]), text(&finding["what"]))).collect()
        };
        let little = "--rate 10/s --payload 64B --stall 1ms --interface lo";
        let told = places(little, &[]);
        for (place, port) in [("firewall", open), ("port_closed", shut), ("socket_filter", filter)] {
            let is_it = |(told, what): &&(String, String)| told == place && what.contains(&port.to_string());
            assert!(told.iter().any(|told| is_it(&told)), "{place} {port}: {told:?}");
        }
        assert!(told.iter().any(|(place, _)| place == "no_route"), "{told:?}");
        // Behind its filter nothing comes to the socket, of which a load could be taken.
        let told = places("", &["--port", &filter.to_string()]);
        assert!(told.iter().any(|(place, _)| place == "socket_filter"), "{told:?}");
        over.store(true, Ordering::Relaxed);
    });
}

/// What somebody else sends to a port of nobody's is not the loss of the receiver that was asked for; what comes to its own port,
/// at another address, is.
#[test]
fn a_stray_datagram_is_not_the_loss_of_who_was_asked_for() {
    let Some(_machine) = Machine::take() else { return };
    let ns = NetNs::create().unwrap();
    Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
    let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
    let (receiver, closed, source) = ns.run(|| (bind(), bind(), bind())).unwrap();
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
            let (_, report) = json(&mut check(little, &[flags, &["--json", "--netns", &held(&ns)]].concat()));
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

/// The program stands still in the middle of a trial, as with its machine.
#[test]
fn a_trial_that_stood_still_is_tried_again() {
    let Some(_machine) = Machine::take() else { return };
    let load = "--rate 1k/s --payload 64B --stall 1ms --interface lo";
    let mut program = check(load, &["--trial", "2000", "--json"]);
    let mut trying = Kill(program.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
    let id = Pid::from_raw(trying.0.id().cast_signed());
    // Its receiver has waited for some datagrams.
    let waits = |task: &Path| -> Option<u64> {
        let status =
            fs::read_to_string(task.join("status")).ok().filter(|text| text.starts_with("Name:\treceiver\n"))?;
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
    };
    let tasks = || fs::read_dir(format!("/proc/{id}/task")).unwrap().map(|task| task.unwrap().path());
    let is_receiving = || tasks().any(|task| waits(&task) > Some(20));
    assert!(!await_either(is_receiving, || trying.0.try_wait().unwrap().is_some()));
    kill(id, Signal::SIGSTOP).unwrap();
    thread::sleep(Duration::from_millis(300));
    kill(id, Signal::SIGCONT).unwrap();
    let report: Value = serde_json::from_reader(trying.0.stdout.take().unwrap()).unwrap();
    let mut tries = report["trials"].as_array().unwrap().iter().map(|trial| trial["before"]["tries"].as_u64());
    assert!(tries.any(|tries| tries > Some(1)), "{}", report["trials"]);
}

#[test]
fn in_a_user_namespace_nothing_is_changed() {
    if !user_namespaces(None) {
        return;
    }
    let unshared = |flags: &[&str]| {
        let mut command = Command::new("unshare");
        run(command.args(["--user", "--map-root-user", WEIR, "loss", "check"]).args(flags))
    };
    let (status, _, stderr) = unshared(&["--undo"]);
    assert_eq!(status, Some(1));
    assert!(stderr.starts_with("weir: --undo: only root of the machine may change its settings"), "{stderr}");
    let load: Vec<&str> = STUDY.split_whitespace().chain(["--apply"]).collect();
    let (status, stdout, stderr) = unshared(&load);
    assert_eq!((status, &*stdout, stderr.lines().count()), (Some(1), "", 1));
    assert!(stderr.starts_with("weir: --apply: only root of the machine may change its settings"), "{stderr}");
}
