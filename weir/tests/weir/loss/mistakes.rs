//! What is not there, and what goes away.

use std::fs;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;
use weir_testbed::{Ended, Started};

use super::{Following, Reader, Scene, WEIR, weir};

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
fn it_ends_by_itself() {
    let Some(scene) = Scene::set() else { return };
    let port = scene.port.to_string();
    let account = Ended::of(&mut weir(&["loss", "account", "--json", "--duration", "200ms", "--port", &port])).json();
    assert!(account["took_s"].as_f64() >= Some(0.2), "{account:#}");
}

#[test]
fn a_process_that_is_killed() {
    let Some(scene) = Scene::set() else { return };
    let at = scene.to().to_string();
    let program = scene.receiver.program(&*WEIR).args(["recv", "--listen", &at, "--json"]);
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
    let (id, port, inode) = (program.init_id().to_string(), scene.port.to_string(), gone.ns.inode().unwrap());
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
        let Ended { status: ended, stdout, stderr } = Ended::of(weir(&command).args(flags));
        assert_eq!((ended, &*stdout), (Some(status), ""), "{flags:?}: {stderr}");
        assert!(stderr.lines().count() == 1 || status == 2 && stderr.starts_with("error: "), "{flags:?}: {stderr}");
    }
}

/// It may come: said once, and waited for.
#[test]
fn a_watch_of_a_process_that_is_not_there_says_so() {
    for process in ["no-such-process", "4194303"] {
        for flags in [&["--json"][..], &[]] {
            let command = ["loss", "watch", "--trace", "off", "--duration", "300ms", "--process", process];
            let Ended { status, stderr, .. } = Ended::of(weir(&command).args(flags));
            assert_eq!(status, Some(0), "{stderr}");
            let said = format!("weir: process {process}: there is no such process (yet): it is waited for");
            assert_eq!(stderr.lines().filter(|line| *line == said).count(), 1, "{stderr}");
        }
    }
    let own = std::process::id().to_string();
    let command = ["loss", "watch", "--trace", "off", "--duration", "300ms", "--process", &own];
    let ended = Ended::of(&mut weir(&command));
    assert!(!ended.stderr.contains("no such process"), "{ended:?}");
}

#[test]
fn a_process_that_has_no_socket() {
    let mut idle = Command::new("sleep");
    idle.arg("600");
    let idle = Started::spawn(idle);
    let process = idle.pid().to_string();
    let ended = Ended::of(&mut weir(&["loss", "account", "--json", "--duration", "100ms", "--process", &process]));
    // It may open one yet: said, and followed.
    let (account, stderr) = (ended.json(), ended.stderr);
    assert!(stderr.lines().any(|line| line.contains(&process) && line.contains("no UDP socket")), "{stderr}");
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
