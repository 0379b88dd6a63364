//! `weir lab shell`: any program on a host of a scenario's network.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use weir_testbed::program;

use super::endings::Family;
use super::{Ended, Lab, ended, weir};

/// A shell whose output is read while it runs. Killed when dropped.
struct Inside {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Inside {
    fn start(family: &Family, arguments: &[&str]) -> Inside {
        let mut command = weir(&[&["lab", "shell"], arguments].concat());
        let mut child = family.mark(&mut command).stderr(Stdio::inherit()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Inside { child, lines }
    }

    #[track_caller]
    fn line(&mut self) -> String {
        self.lines.next().expect("the program ended").unwrap()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn shell(family: &Family, arguments: &[&str]) -> Ended {
    ended(family.mark(&mut weir(&[&["lab", "shell"], arguments].concat())))
}

#[test]
fn a_program_runs_on_its_host() {
    let (lab, family) = (Lab::new(), Family::new());
    let scenario = lab.telemetry("shell-statuses", &[]);
    let on = |host: &str, script: &str| shell(&family, &[&scenario, host, "sh", "-c", script]);
    for (script, status) in [("true", 0), ("exit 7", 7), ("kill -KILL $$", 137)] {
        assert_eq!(on("receiver", script).status, Some(status), "{script}");
    }
    let who = on("sender", "echo $0 $1; uname -n; cd /sys/class/net; echo *");
    assert_eq!((who.status, &*who.stdout, &*who.stderr), (Some(0), "sh\nsender\neth0 lo\n", ""));
    // Flags behind the host are the program's.
    let echoed = shell(&family, &[&scenario, "receiver", "echo", "--set", "a=b"]);
    assert_eq!((echoed.status, &*echoed.stdout), (Some(0), "--set a=b\n"));
    let missing = shell(&family, &[&scenario, "receiver", "/no-such-program"]);
    assert_eq!(
        (missing.status, &*missing.stderr),
        (Some(1), "weir: run /no-such-program: no such file or directory\n")
    );
    let nowhere = shell(&family, &[&scenario, "nobody", "true"]);
    let expected = "weir: there is no host, router or switch `nobody` (there are receiver, sender, s1)\n";
    assert_eq!((nowhere.status, &*nowhere.stderr), (Some(2), expected));
    family.await_end();
}

#[test]
fn a_second_shell_joins_the_first() {
    let (lab, family) = (Lab::new(), Family::new());
    let scenario = lab.telemetry("shell-joined", &[]);
    let program = env!("CARGO_BIN_EXE_weir");
    let script = format!("echo up; exec {program} recv --listen 10.0.0.1:5000 --json --idle-timeout 10s 2>&1");
    let mut receiver = Inside::start(&family, &[&scenario, "receiver", "sh", "-c", &script]);
    assert_eq!(receiver.line(), "up");
    assert_eq!(receiver.line(), "listening on udp 10.0.0.1:5000");
    let keepers = family.processes("keep");
    assert_eq!(keepers.len(), 1, "{keepers:?}");

    let other = shell(&family, &["--set", "path.loss=20%", &scenario, "sender", "true"]);
    let expected = "its network is up with other settings: leave the shells that use it first\n";
    assert_eq!(other.status, Some(1));
    assert!(other.stderr.ends_with(expected) && other.stderr.lines().count() == 1, "{}", other.stderr);

    let flags = ["--to", "10.0.0.1:5000", "--interval", "5ms", "--duration", "500ms", "--json"];
    let sent = shell(&family, &[&[&scenario[..], "sender", program, "send"], &flags[..]].concat());
    assert_eq!((sent.status, &*sent.stderr), (Some(0), ""));
    let sent: serde_json::Value = serde_json::from_str(&sent.stdout).unwrap();
    // The receiver has heard the end, and may have ended the network already.
    let keeping = family.processes("keep");
    assert!(keeping.iter().all(|keeper| keepers.contains(keeper)), "the network that was up is used: {keeping:?}");

    let mut report = String::new();
    receiver.lines.by_ref().for_each(|line| report += &line.unwrap());
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let session = &report["sessions"][0];
    assert!(session["received"].as_u64() > Some(10), "{report}");
    assert_eq!((&session["received"], &session["peer"]), (&sent["sent"], &sent["from"]));
    assert!(receiver.child.wait().unwrap().success());
    family.await_end();
}

#[test]
fn the_articles_scripts_run_unchanged() {
    if program("python3").is_none() {
        return;
    }
    let (lab, family) = (Lab::new(), Family::new());
    let scenario = lab.telemetry("shell-scripts", &[]);
    let script = |name: &str| format!("{}/tests/weir/lab/scripts/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut receiver = Inside::start(&family, &[&scenario, "receiver", "python3", &script("receiver.py")]);
    assert_eq!(receiver.line(), "listening");
    let sender = Inside::start(&family, &[&scenario, "sender", "python3", &script("sender.py")]);
    let mut last = 0.0;
    for _ in 0..50 {
        let line = receiver.line();
        let numbers: Vec<f64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let [received, delay] = numbers.try_into().unwrap();
        assert!(received > last && delay > 0.0 && delay < 5.0, "{line}");
        last = received;
    }
    // The sender's end is the end of the stream, and so the receiver's.
    drop(sender);
    receiver.child.kill().unwrap();
    family.await_end();
}

/// Otherwise reading the output of a shell would end only with the network.
#[test]
fn the_keeper_holds_no_pipe_of_the_caller() {
    let (lab, family) = (Lab::new(), Family::new());
    let scenario = lab.telemetry("shell-pipes", &[]);
    let mut first: Command = weir(&["lab", "shell", &scenario, "receiver", "echo", "done"]);
    let output = family.mark(&mut first).output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout, &*output.stderr), (Some(0), &b"done\n"[..], &b""[..]));
    family.await_end();
}
