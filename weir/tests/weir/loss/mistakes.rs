//! What is not there, and what goes away.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use weir_testbed::standstills::Standstills;

use super::million::inode;
use super::{Following, Reader, Scene, WEIR};

#[test]
fn a_port_that_nobody_uses() {
    let Some(scene) = Scene::set() else { return };
    let account = scene.follow().end().traced();
    for ledger in account.ledgers() {
        assert_eq!((&ledger["receiver"], &ledger["places"]), (&Value::Null, &Value::Array(vec![])), "{ledger:#}");
        for field in ["sent", "arrived", "received", "unexplained"] {
            assert!(ledger[field] == Value::Null || ledger[field] == 0, "{ledger:#}");
        }
    }
    let warnings = account.0["warnings"].to_string();
    assert!(warnings.contains(&scene.port.to_string()), "{warnings}");
}

#[test]
fn it_is_quick_and_ends_by_itself() {
    let Some(scene) = Scene::set() else { return };
    let port = scene.port.to_string();
    // The machine may have other things to do now and then, or stand still.
    let standstills = Standstills::watch();
    let quickest = (0..5)
        .map(|_| {
            let mut command = Command::new(WEIR);
            command.args(["loss", "account", "--json", "--duration", "200ms", "--port", &port]);
            let following = Following::spawn(command);
            let [from, to] = following.ready;
            let took = following.wait().0["took_s"].as_f64().unwrap();
            assert!((0.2..8.0).contains(&took), "{took}");
            standstills.running(from, to)
        })
        .min();
    assert!(quickest < Some(Duration::from_secs(1)), "{quickest:?}");
}

#[test]
fn a_process_that_is_killed() {
    let Some(scene) = Scene::set() else { return };
    let at = scene.to().to_string();
    let program = scene.receiver.program(WEIR).args(["recv", "--listen", &at, "--json"]);
    let mut receiver = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    scene.receiver.await_port(scene.port, &mut receiver);
    let init = receiver.init_id();
    let children = fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap();
    let process = children.trim().to_owned();
    let socket = scene.source();
    let namespaces = [&scene.sender.ns, &scene.receiver.ns];
    let following = Following::start(&["--process", &process], &namespaces);
    for _ in 0..scene.kept {
        socket.send_to(&scene.payload(false), scene.to()).unwrap();
    }
    scene.receiver.await_read(scene.port);
    receiver.signal(Signal::SIGKILL).unwrap();
    receiver.wait().unwrap();
    for _ in 0..scene.lost {
        socket.send_to(&scene.payload(true), scene.to()).unwrap();
    }
    let account = following.end().traced();
    let ledger = account.of(scene.port);
    ledger.closes(scene.kept + scene.lost, scene.kept, &[("port_closed", scene.lost)]);
    assert_eq!(ledger.0["receiver"]["pid"].to_string(), process);
    assert_eq!(ledger.0["receiver"]["process"], "weir");
}

#[test]
fn a_namespace_that_goes() {
    let Some((mut scene, [gone])) = Scene::with(["sender", "receiver", "gone"]) else { return };
    let mut program = gone.program("sleep").args(["600"]).spawn().unwrap();
    let reader = Reader::start(scene.listen());
    let socket = scene.source();
    let (id, port, inode) = (program.init_id().to_string(), scene.port.to_string(), inode(&gone.ns));
    let following = Following::start(&["--port", &port, "--netns", &id], &[&scene.sender.ns, &scene.receiver.ns]);
    program.signal(Signal::SIGKILL).unwrap();
    program.wait().unwrap();
    drop((program, gone));
    let to = scene.to();
    scene.send_all(&socket, to);
    reader.await_count(scene.kept + scene.lost);
    let account = following.end().traced();
    account.of(scene.port).closes(scene.kept + scene.lost, scene.kept + scene.lost, &[]);
    let followed = account.0["namespaces"].as_array().unwrap();
    assert!(followed.iter().any(|ns| ns["inode"] == inode), "{followed:?}");
}

#[test]
fn names_of_nothing_are_refused_in_one_line() {
    for (flags, status) in [
        (&["--netns", "no-such-namespace"][..], 1),
        (&["--netns", "/proc/self/status"], 1),
        (&["--netns", "4194303"], 1),
        (&["--process", "no-such-process"], 1),
        (&["--process", "4194303"], 1),
        (&["--port", "0"], 2),
        (&["--port", "65536"], 2),
        (&["--socket", "nowhere"], 2),
        (&["--group", "10.0.0.1"], 2),
        (&["--duration", "soon"], 2),
        (&["--trace", "all"], 2),
        (&["--join", "/nonexistent", "/nonexistent"], 2),
    ] {
        let command = ["loss", "account", "--json", "--duration", "100ms"];
        let output = Command::new(WEIR).args(command).args(flags).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(status), 0), "{flags:?}: {stderr}");
        assert!(stderr.lines().count() == 1 || status == 2 && stderr.starts_with("error: "), "{flags:?}: {stderr}");
    }
}

/// It may come: said once, and waited for.
#[test]
fn a_watch_of_a_process_that_is_not_there_says_so() {
    for process in ["no-such-process", "4194303"] {
        for flags in [&["--json"][..], &[]] {
            let command = ["loss", "watch", "--trace", "off", "--duration", "300ms", "--process", process];
            let output = Command::new(WEIR).args(command).args(flags).output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(0), "{stderr}");
            let said = format!("weir: process {process}: there is no such process (yet): it is waited for");
            assert_eq!(stderr.lines().filter(|line| *line == said).count(), 1, "{stderr}");
        }
    }
    let own = std::process::id().to_string();
    let command = ["loss", "watch", "--trace", "off", "--duration", "300ms", "--process", &own];
    let output = Command::new(WEIR).args(command).output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("no such process"), "{output:?}");
}

#[test]
fn a_process_that_has_no_socket() {
    let mut idle = Command::new("sleep").arg("600").spawn().unwrap();
    let process = idle.id().to_string();
    let command = ["loss", "account", "--json", "--duration", "100ms", "--process", &process];
    let output = Command::new(WEIR).args(command).output().unwrap();
    idle.kill().unwrap();
    idle.wait().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    // It may open one yet: said, and followed.
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.lines().any(|line| line.contains(&process) && line.contains("no UDP socket")), "{stderr}");
    let account: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(account["ledgers"], Value::Array(vec![]), "{account:#}");
}

#[test]
fn a_session_file_that_is_not_there() {
    let Some(mut scene) = Scene::set() else { return };
    let reader = Reader::start(scene.listen());
    let socket = scene.source();
    let port = scene.port.to_string();
    let place = tempfile::tempdir().unwrap();
    let sent = place.path().join("sent");
    let sent = sent.to_str().unwrap();
    let flags = ["--port", &port, "--sent", sent, "--received", "/dev/null"];
    let following = Following::start(&flags, &[&scene.sender.ns, &scene.receiver.ns]);
    let to = scene.to();
    scene.send_all(&socket, to);
    reader.await_count(scene.kept + scene.lost);
    let account = following.end().traced();
    account.of(scene.port).closes(scene.kept + scene.lost, scene.kept + scene.lost, &[]);
    let warnings = account.0["warnings"].to_string();
    assert!(warnings.contains(sent) && warnings.contains("/dev/null"), "{warnings}");
}
