//! A session of `weir send` and `weir recv`, whose reports close the ledger.

use std::fs;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use super::scene::set;
use super::{Following, Scene, WEIR};
use crate::network::Host;

#[test]
fn a_session_closes_with_and_without_a_trace() {
    let Some(scene) = Scene::set() else { return };
    let rule = format!(
        "add table ip t; add chain ip t in {{ type filter hook input priority 0; }}; \
         add rule ip t in udp dport {} numgen inc mod 10 == 3 counter drop",
        scene.port,
    );
    scene.nft(&scene.receiver, &rule);
    let dir = TempDir::new().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (sent, received, port) = (file("sent"), file("received"), scene.port.to_string());
    let flags = ["--port", &port, "--sent", &sent, "--received", &received];
    let namespaces = [&scene.sender.ns, &scene.receiver.ns];
    let (traced, untraced) = (
        Following::start(&flags, &namespaces),
        Following::start(&[&flags[..], &["--trace", "off"]].concat(), &namespaces),
    );
    let received = run(&scene, "400/s", &sent, &received);
    let session = &received["sessions"][0];
    // Some of what was lost may have been announcements of the end.
    let dropped = scene.matched(&scene.receiver);
    assert!(session["lost"].as_u64().unwrap() > 0, "{session:#}");
    assert!(session["lost"].as_u64().unwrap() <= dropped, "{session:#}");
    let account = traced.end().traced();
    let ledger = account.of(scene.port);
    let sent = ledger.0["sent"].as_u64().unwrap();
    ledger.closes(sent, sent - dropped, &[("firewall", dropped)]);
    assert!(sent >= session["sent"].as_u64().unwrap());
    // No counter of the kernel tells what rules drop: it is left over, to the datagram.
    let account = untraced.end();
    let ledger = account.of(scene.port);
    ledger.leaves(sent, sent - dropped, dropped);
}

/// What a queue dropped while nothing was traced is at its place: the queue counts it, and so many are missing.
#[test]
fn a_queue_is_found_without_a_trace() {
    let Some(scene) = Scene::set() else { return };
    // Nothing else may be in the queue, for its counter counts everything.
    set(&scene.sender.ns, &[("ipv6/conf/all/disable_ipv6", "1")]);
    scene.tc(&scene.sender, "qdisc add dev eth0 root tbf rate 1mbit burst 2000 limit 3000");
    let dir = TempDir::new().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (sent, received, port) = (file("sent"), file("received"), scene.port.to_string());
    let flags = ["--port", &port, "--sent", &sent, "--received", &received, "--trace", "off"];
    let untraced = Following::start(&flags, &[&scene.sender.ns, &scene.receiver.ns]);
    run(&scene, "4000/s", &sent, &received);
    let queue: Value = serde_json::from_str(&scene.tc(&scene.sender, "-s -j qdisc show dev eth0")).unwrap();
    let dropped = queue[0]["drops"].as_u64().unwrap();
    assert!(dropped > 0, "the queue was never full: {queue:#}");
    let account = untraced.end();
    let ledger = account.of(scene.port);
    let sent = ledger.0["sent"].as_u64().unwrap();
    ledger.closes(sent, sent - dropped, &[("qdisc", dropped)]);
}

/// Sends and receives for half a second, and leaves what both told in these files; returns what the receiver told.
#[track_caller]
fn run(scene: &Scene, rate: &str, sent: &str, received: &str) -> Value {
    let at = scene.to().to_string();
    let program = |host: &Host, flags: &[&str]| {
        host.program(&*WEIR).args(flags).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    };
    // Room for what comes while it stands still; what the kernel does not grant of it is said on standard error.
    let mut receiver = program(&scene.receiver, &["recv", "--listen", &at, "--receive-buffer", "2MiB", "--json"]);
    scene.receiver.await_port(scene.port, &mut receiver);
    let flags = ["send", "--to", &at, "--payload", "64B", "--rate", rate, "--duration", "500ms", "--json"];
    let (status, output, _) = program(&scene.sender, &flags).output().unwrap();
    assert_eq!(status, 0);
    fs::write(sent, &output).unwrap();
    let (status, output, _) = receiver.output().unwrap();
    assert_eq!(status, 0);
    fs::write(received, &output).unwrap();
    serde_json::from_slice(&output).unwrap()
}
