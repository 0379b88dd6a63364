//! However a run ends, it leaves a result and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_kernel::counters::snmp;
use weir_kernel::namespaces::NetNs;

use super::{Ended, Lab, Run, ended, weir};
use crate::endings::signal_twice;

/// Everything that a marked command starts, however far it gets away: its environment tells.
pub(super) struct Family(String);

impl Family {
    pub(super) fn new() -> Family {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Family(format!("WEIR_TEST_FAMILY={}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    pub(super) fn mark<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let (key, value) = self.0.split_once('=').unwrap();
        command.env(key, value)
    }

    /// Process directories of members with a word in their command line.
    pub(super) fn processes(&self, word: &str) -> Vec<PathBuf> {
        let is_ours = |dir: &PathBuf| {
            let read = |file| fs::read(dir.join(file)).unwrap_or_default();
            let has = |bytes: &[u8], wanted: &str| bytes.split(|&byte| byte == 0).any(|part| part == wanted.as_bytes());
            has(&read("environ"), &self.0) && (word.is_empty() || has(&read("cmdline"), word))
        };
        processes().filter(is_ours).collect()
    }

    /// Network namespaces of members, entered or held, without our own.
    fn networks(&self) -> BTreeSet<String> {
        let own = link(Path::new("/proc/self/ns/net"));
        self.processes("")
            .iter()
            .flat_map(|dir| networks(dir))
            .filter(|network| Some(network) != own.as_ref())
            .collect()
    }

    /// The largest value of a protocol counter in the networks that members hold.
    fn counted(&self, protocol: &str, name: &str) -> u64 {
        let own = link(Path::new("/proc/self/ns/net"));
        let descriptors = |dir: PathBuf| fs::read_dir(dir.join("fd")).into_iter().flatten();
        let held = self.processes("").into_iter().flat_map(descriptors).filter_map(|entry| {
            let path = entry.ok()?.path();
            let target = link(&path).filter(|target| target.starts_with("net:[") && Some(target) != own.as_ref())?;
            Some((target, path))
        });
        let held: BTreeMap<String, PathBuf> = held.collect();
        let value = |path: &PathBuf| {
            let network = NetNs::from_fd(File::open(path).ok()?.into());
            snmp(&network).ok()?.get(protocol, name)?.try_into().ok()
        };
        held.values().filter_map(value).max().unwrap_or(0)
    }

    /// Waits until the last member has ended. There is no event for the end of somebody else's process.
    #[track_caller]
    pub(super) fn await_end(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let left = self.processes("");
            if left.is_empty() {
                return;
            }
            let name = |dir: &PathBuf| fs::read_to_string(dir.join("cmdline")).unwrap_or_default().replace('\0', " ");
            assert!(Instant::now() < deadline, "still there: {:?}", left.iter().map(name).collect::<Vec<_>>());
            sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Family {
    /// A test that failed leaves nothing behind either.
    fn drop(&mut self) {
        for dir in self.processes("") {
            if let Some(number) = dir.file_name().and_then(|name| name.to_str()?.parse().ok()) {
                let _ = kill(Pid::from_raw(number), Signal::SIGKILL);
            }
        }
    }
}

fn processes() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    entries.filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit()))
}

/// Network namespaces that a process is in or holds a descriptor of.
fn networks(process: &Path) -> Vec<String> {
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten();
    let held = descriptors.filter_map(|entry| link(&entry.ok()?.path())).filter(|target| target.starts_with("net:["));
    held.chain(link(&process.join("ns/net"))).collect()
}

fn link(path: &Path) -> Option<String> {
    Some(fs::read_link(path).ok()?.to_str()?.to_owned())
}

/// What a run must not change: our interfaces, our mounts.
fn surroundings() -> (BTreeSet<String>, String) {
    let interfaces = fs::read_to_string("/proc/self/net/dev").unwrap();
    let names = interfaces.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect();
    (names, fs::read_to_string("/proc/self/mountinfo").unwrap())
}

#[test]
fn ctrl_c_leaves_a_valid_partial_result() {
    let (lab, family) = (Lab::new(), Family::new());
    let dir = lab.path("result");
    let set = ["path.loss=0%,10%", "run.duration=60s", "run.jobs=2"];
    let mut command = lab.command("telemetry", &dir, &set);
    let child = family.mark(&mut command).spawn().unwrap();
    // In the middle of the window.
    await_that(|| family.counted("Udp", "InDatagrams") > 100 && family.counted("Tcp", "InSegs") > 100);
    let begin = Instant::now();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let Ended { status, stdout, stderr } = child.wait_with_output().unwrap().into();
    assert!(begin.elapsed() < Duration::from_secs(10), "took {:?} to end", begin.elapsed());
    let run = Run { dir, status, stdout, stderr }.good();
    assert_eq!(run.manifest()["interrupted"], true);
    assert!(
        run.stdout.contains("The run was interrupted: 2 of 4 cells are here, 2 of them stopped in their middle;"),
        "{}",
        run.stdout
    );
    let rows = run.rows();
    assert_eq!(rows.iter().map(|row| row.text("cell")).collect::<Vec<_>>(), ["0%/udp", "0%/tcp"]);
    for row in &rows {
        assert!(row.count("sent") > 20 && row.number("duration_s") < 50.0, "{:?}", row.0);
        // What was under way has come.
        assert_eq!((row.count("delivered"), row.count("unexplained")), (row.count("sent"), 0), "{:?}", row.0);
        if row.number("duration_s") < 6.0 {
            let record = run.record(row.text("cell"));
            let why = record["disturbed"]["throughput"].as_str().unwrap_or_default();
            assert!(why.contains("of 60 s: too short to tell") && row.text("valid") == "false", "{record}");
        }
    }
    assert!(fs::read_to_string(run.dir.join("report.html")).unwrap().contains("interrupted"));
    family.await_end();
}

/// As [`ctrl_c_leaves_a_valid_partial_result`], by whoever asks twice.
#[test]
fn two_signals_in_a_row_leave_a_report() {
    for (signal, by_timeout) in [(Signal::SIGTERM, false), (Signal::SIGHUP, false), (Signal::SIGTERM, true)] {
        let (lab, family) = (Lab::new(), Family::new());
        let dir = lab.path("result");
        let mut command = lab.command("telemetry", &dir, &["path.loss=0%", "run.duration=60s", "run.jobs=2"]);
        if by_timeout {
            let weir = command;
            command = Command::new("timeout");
            command.arg("1h").arg(weir.get_program()).args(weir.get_args()).current_dir(lab.path(""));
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let child = family.mark(&mut command).spawn().unwrap();
        await_that(|| family.counted("Udp", "InDatagrams") > 100 && family.counted("Tcp", "InSegs") > 100);
        // `timeout` does the same as when its time is over, and ends as its child does.
        if by_timeout {
            kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        } else {
            signal_twice(&child, signal);
        }
        let Ended { status, stdout, stderr } = child.wait_with_output().unwrap().into();
        let run = Run { dir, status, stdout, stderr }.good();
        assert_eq!(run.rows().len(), 2);
        assert!(run.stdout.ends_with("report.html\n") && run.dir.join("report.html").exists(), "{}", run.stdout);
        family.await_end();
    }
}

#[test]
fn a_second_signal_says_what_to_do_with_what_is_left() {
    let (lab, family) = (Lab::new(), Family::new());
    let dir = lab.path("result");
    // What is under way is waited for, and so it has not ended when the second signal comes.
    let set = ["path.loss=0%", "traffic.transport=udp", "path.delay=5s", "run.duration=60s"];
    let child = family.mark(&mut lab.command("telemetry", &dir, &set)).spawn().unwrap();
    await_that(|| family.counted("Udp", "OutDatagrams") > 10);
    let id = Pid::from_raw(child.id() as i32);
    kill(id, Signal::SIGINT).unwrap();
    // It counts from when the first was taken, a second and more; the last datagram takes 5 s.
    sleep(Duration::from_millis(2500));
    kill(id, Signal::SIGINT).unwrap();
    let Ended { status, stderr, .. } = child.wait_with_output().unwrap().into();
    let report = format!("weir lab report {}", dir.display());
    assert_eq!(status, Some(130), "{stderr}");
    assert_eq!(stderr, format!("weir: ended without a report: `{report}` renders what was measured\n"));
    let rendered = ended(&mut weir(&["lab", "report", dir.to_str().unwrap()]));
    assert_eq!((rendered.status, &*rendered.stderr), (Some(0), ""));
    family.await_end();
}

#[test]
fn a_full_standard_output_costs_no_report() {
    let lab = Lab::new();
    let dir = lab.path("result");
    let set = ["path.loss=0%", "traffic.transport=udp", "run.duration=200ms", "run.drain=200ms"];
    let full = File::options().write(true).open("/dev/full").unwrap();
    let run = ended(lab.command("telemetry", &dir, &set).stdout(full));
    let said = "weir: write to standard output: No space left on device (os error 28)\n";
    assert_eq!((run.status, &*run.stderr), (Some(1), said));
    assert!(dir.join("report.html").exists());
}

#[test]
fn a_program_in_a_shell_ends_in_order() {
    let (lab, family) = (Lab::new(), Family::new());
    let scenario = lab.telemetry("shell-ended", &[]);
    let program = env!("CARGO_BIN_EXE_weir");
    for by_timeout in [false, true] {
        let shell = [program, "lab", "shell", &scenario, "receiver"];
        let recv = [program, "recv", "--listen", "10.0.0.1:5000", "--json"];
        let words = [if by_timeout { &["timeout", "1h"][..] } else { &[] }, &shell, &recv].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, as a terminal's.
        let mut child = family.mark(command.process_group(0)).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "listening on udp 10.0.0.1:5000\n");
        if by_timeout {
            kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        } else {
            signal_twice(&child, Signal::SIGTERM);
        }
        let Ended { status, stdout, .. } = child.wait_with_output().unwrap().into();
        assert_eq!(status, Some(0));
        let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert!(report["sessions"].is_array());
        family.await_end();
    }
}

#[test]
fn kill_9_of_a_run_leaves_nothing() {
    let (lab, family) = (Lab::new(), Family::new());
    let before = surroundings();
    for round in 0..20 {
        let set = ["path.loss=10%,20%", "run.duration=60s"];
        let mut command = lab.command("telemetry", &lab.path(&format!("result-{round}")), &set);
        let mut child = family.mark(&mut command).spawn().unwrap();
        if round % 2 == 0 {
            await_traffic(&family, 4);
        } else {
            // At points spread over its start.
            sleep(Duration::from_millis(8 * round));
        }
        let networks = family.networks();
        child.kill().unwrap();
        child.wait().unwrap();
        nothing_is_left(&family, &networks, &before, round);
    }
}

#[test]
fn kill_9_of_a_shell_leaves_nothing() {
    let (lab, family) = (Lab::new(), Family::new());
    let scenario = lab.telemetry("killed-shell", &[]);
    let before = surroundings();
    for round in 0..20 {
        let script = "trap '' HUP TERM INT; setsid sleep 1000 & (sleep 1000 &); wait";
        let mut command = weir(&["lab", "shell", &scenario, "sender", "sh", "-c", script]);
        let mut child = family.mark(&mut command).spawn().unwrap();
        if round % 2 == 0 {
            await_that(|| family.processes("1000").len() == 2);
        } else {
            sleep(Duration::from_millis(8 * round));
        }
        let networks = family.networks();
        child.kill().unwrap();
        child.wait().unwrap();
        nothing_is_left(&family, &networks, &before, round);
    }
}

/// A cell has five namespaces or so; its sockets are open when all of them are there.
fn await_traffic(family: &Family, cells: usize) {
    await_that(|| family.networks().len() >= 4 * cells);
}

#[track_caller]
fn await_that(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "it never came up");
        sleep(Duration::from_millis(2));
    }
}

#[track_caller]
fn nothing_is_left(family: &Family, networks: &BTreeSet<String>, before: &(BTreeSet<String>, String), round: u64) {
    family.await_end();
    let holds = |process: &PathBuf| self::networks(process).iter().any(|network| networks.contains(network));
    // Who ends has no environment any more by which to know it, and leaves its network a few steps later (kernel/exit.c,
    // do_exit).
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Some(process) = processes().find(holds) {
        assert!(Instant::now() < deadline, "round {round}: {} holds it", process.display());
        sleep(Duration::from_millis(2));
    }
    assert_eq!(&surroundings(), before, "round {round}");
}
