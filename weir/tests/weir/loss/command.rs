//! A command that is run and followed, from its first datagram to its end.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use weir_testbed::program;

use super::account::{Account, path};
use super::{Reader, Scene, WEIR};

/// Each datagram by a socket of its own, which lives for no longer than that, by a shell and by its children; beside them a
/// stranger sends elsewhere.
#[test]
fn sockets_that_live_for_one_datagram_are_all_followed() {
    let (Some(nsenter), Some(bash)) = (program("nsenter"), program("bash")) else { return };
    let Some(scene) = Scene::set() else { return };
    let reader = Reader::start(scene.listen());
    let stranger = scene.source();
    let elsewhere = scene.receiver.at(scene.port + 1);
    let to = |port: u16| format!("> /dev/udp/{}/{port}", scene.receiver.v4);
    let script = format!(
        "for i in {{1..{}}}; do echo {}; done; for i in 1 2 3; do (echo {}); done; exit 7",
        scene.kept,
        to(scene.port),
        to(scene.port),
    );
    let sent = scene.kept + 3;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("account.json");
    let mut command = Command::new(nsenter);
    command.arg(format!("--net={}", path(&scene.sender.ns))).args([&WEIR, "loss", "account", "--json"]);
    for ns in [&scene.sender.ns, &scene.receiver.ns] {
        command.args(["--netns", &path(ns)]);
    }
    command.arg("--output").arg(&file).arg("--").arg(&bash).args(["-c", &format!("echo said; {script}")]);
    let ended = AtomicBool::new(false);
    let output = thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::SeqCst) {
                stranger.send_to(b"!", elsewhere).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let output = command.output();
        ended.store(true, Ordering::SeqCst);
        output.unwrap()
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(7), &b"said\n"[..]), "{said}");
    let account: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let account = Account(account).traced();
    assert_eq!(account.ledgers().len(), 1, "{:#}", account.0);
    reader.await_count(sent);
    let ledger = account.of(scene.port);
    ledger.closes(sent, sent, &[]);
    let senders = ledger.0["senders"].as_array().unwrap();
    assert_eq!(senders.len() as u64, sent, "{:#}", ledger.0);
    assert!(senders.iter().all(|sender| sender["process"] == "bash"), "{:#}", ledger.0);
}

/// In a PID namespace, where processes have other numbers than those that the trace sees; it says so on standard error.
#[test]
fn a_command_is_told_by_its_descent() {
    let Some(bash) = program("bash") else { return };
    let Some(scene) = Scene::set() else { return };
    let script =
        format!("for i in {{1..{}}}; do echo > /dev/udp/{}/{}; done", scene.kept, scene.receiver.v4, scene.port);
    let run = |flags: &[&str], command: &[&str]| {
        let arguments = [&["loss", "account"], flags, &["--"], command].concat();
        let program = scene.sender.program(&*WEIR).args(arguments);
        let program = program.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let (status, stdout, stderr) = program.spawn().unwrap().output().unwrap();
        assert!(stdout.is_empty(), "{}", String::from_utf8_lossy(&stdout));
        (status, String::from_utf8(stderr).unwrap())
    };
    let (status, said) = run(&["--json"], &[bash.to_str().unwrap(), "-c", &script]);
    let account = Account(
        serde_json::from_str(said.lines().last().unwrap_or_default()).unwrap_or_else(|e| panic!("{e}: {said}")),
    );
    assert_eq!((status, account.ledgers().len()), (0, 1), "{said}");
    let ledger = &account.ledgers()[0];
    assert_eq!(
        (ledger["port"].as_u64(), ledger["sent"].as_u64()),
        (Some(scene.port.into()), Some(scene.kept)),
        "{said}"
    );

    let (status, said) = run(&[], &[bash.to_str().unwrap(), "-c", "kill -TERM $$"]);
    assert!(status == 128 + 15 && said.contains("the command was not seen to send or receive UDP"), "{status} {said}");
    let (status, said) = run(&[], &["there-is-no-such-program"]);
    assert!(
        status == 127 && said.ends_with("weir: run there-is-no-such-program: no such program\n"),
        "{status} {said}"
    );
    // It is there, and may not be run: whatever whoever asks may do else.
    let file = tempfile::NamedTempFile::new().unwrap();
    for path in [file.path(), std::path::Path::new("/")] {
        let path = path.to_str().unwrap();
        let (status, said) = run(&[], &[path]);
        assert!(status == 126 && said.contains(&format!("weir: run {path}: not executable")), "{status} {said}");
    }
}
