//! However a run ends, it leaves a result and nothing else.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_testbed::await_that;

use super::family::Family;
use super::{Ended, Lab, Run, WEIR, weir};
use crate::endings::ask_twice;

#[test]
fn ctrl_c_leaves_a_valid_partial_result() {
    let (lab, family) = (Lab::new(), Family::new());
    let dir = lab.path("result");
    let set = ["path.loss=0%,10%", "run.duration=60s", "run.jobs=2"];
    let mut run = family.spawn(lab.command("telemetry", &dir, &set));
    await_window(&family);
    run.signal(Signal::SIGINT);
    let run = Run { dir, ended: run.wait() }.good();
    assert_eq!(run.manifest()["interrupted"], true);
    let said = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = "The run was interrupted: 2 of 4 cells ran, 2 of them not to their end;";
    assert!(said.contains(line), "{}", run.stdout);
    let rows = run.rows();
    assert_eq!(rows.iter().map(|row| row.text("cell")).collect::<Vec<_>>(), ["0%/udp", "0%/tcp"]);
    for row in &rows {
        assert!(row.count("sent") > 20 && row.number("duration_s") < 50.0, "{:?}", row.0);
        // What was under way has come.
        assert_eq!((row.count("delivered"), row.count("unexplained")), (row.count("sent"), 0), "{:?}", row.0);
        if row.number("duration_s") < 6.0 {
            let record = run.record(row.text("cell"));
            let why = record["disturbed"]["rate"].as_str().unwrap_or_default();
            assert!(why.contains("of 60 s: too short to judge") && row.text("valid") == "false", "{record}");
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
        await_window(&family);
        let process = Pid::from_raw(child.id().cast_signed());
        // `timeout` does the same as when its time is over, and ends as its child does.
        if by_timeout {
            kill(process, signal).unwrap();
        } else {
            ask_twice(process, signal);
        }
        let run = Run { dir, ended: child.wait_with_output().unwrap().into() }.good();
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
    let mut run = family.spawn(lab.command("telemetry", &dir, &set));
    await_that("datagrams", || family.counted("Udp", "OutDatagrams") > 10);
    // What comes within a second of the first is the same request; the last datagram takes 5 s.
    await_that("the end", || {
        run.signal(Signal::SIGINT);
        family.processes("run").is_empty()
    });
    let Ended { status, stderr, .. } = run.wait();
    let report = format!("weir lab report {}", dir.display());
    assert_eq!(status, Some(130), "{stderr}");
    assert_eq!(stderr, format!("weir: ended without a report. `{report}` creates it.\n"));
    let rendered = Ended::of(&mut weir(&["lab", "report", dir.to_str().unwrap()]));
    assert_eq!((rendered.status, &*rendered.stderr), (Some(0), ""));
    family.await_end();
}

#[test]
fn a_full_standard_output_costs_no_report() {
    let lab = Lab::new();
    let dir = lab.path("result");
    let set = ["path.loss=0%", "traffic.transport=udp", "run.duration=200ms", "run.drain=200ms"];
    let full = File::options().write(true).open("/dev/full").unwrap();
    let run = Ended::of(lab.command("telemetry", &dir, &set).stdout(full));
    let said = "weir: write to standard output: No space left on device (os error 28)\n";
    assert_eq!((run.status, &*run.stderr), (Some(1), said));
    assert!(dir.join("report.html").exists());
}

#[test]
fn a_program_in_a_shell_ends_in_order() {
    let (lab, family) = (Lab::new(), Family::new());
    let scenario = lab.telemetry("shell-ended", &[]);
    let program = WEIR.as_str();
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
        let process = Pid::from_raw(child.id().cast_signed());
        if by_timeout {
            kill(process, Signal::SIGTERM).unwrap();
        } else {
            ask_twice(process, Signal::SIGTERM);
        }
        let Ended { status, stdout, .. } = child.wait_with_output().unwrap().into();
        assert_eq!(status, Some(0));
        let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert!(report["sessions"].is_array());
        family.await_end();
    }
}

/// Waits for the middle of the window of cells over UDP and TCP.
#[track_caller]
fn await_window(family: &Family) {
    await_that("traffic", || family.counted("Udp", "InDatagrams") > 100 && family.counted("Tcp", "InSegs") > 100);
}
