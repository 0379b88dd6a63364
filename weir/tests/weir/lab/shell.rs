//! `weir lab shell`: any program on a host of a scenario's network.

use weir_testbed::{await_that, program};

use super::family::Family;
use super::{Ended, Lab, WEIR, weir};

#[test]
fn a_program_runs_on_its_host() {
    let (lab, family) = (Lab::new(), Family::new());
    let scenario = lab.telemetry("shell-statuses", &[]);
    let on = |host: &str, script: &str| family.shell(&[&scenario, host, "sh", "-c", script]);
    for (script, status) in [("true", 0), ("exit 7", 7), ("kill -KILL $$", 137)] {
        assert_eq!(on("receiver", script).status, Some(status), "{script}");
    }
    let who = on("sender", "echo $0 $1; uname -n; cd /sys/class/net; echo *");
    assert_eq!((who.status, &*who.stdout, &*who.stderr), (Some(0), "sh\nsender\neth0 lo\n", ""));
    // Flags behind the host are the program's.
    let echoed = family.shell(&[&scenario, "receiver", "echo", "--set", "a=b"]);
    assert_eq!((echoed.status, &*echoed.stdout), (Some(0), "--set a=b\n"));
    let missing = family.shell(&[&scenario, "receiver", "/no-such-program"]);
    assert_eq!(
        (missing.status, &*missing.stderr),
        (Some(1), "weir: run /no-such-program: no such file or directory\n")
    );
    let nowhere = family.shell(&[&scenario, "nobody", "true"]);
    let expected = "weir: no host, router or switch `nobody` (there are receiver, sender, s1)\n";
    assert_eq!((nowhere.status, &*nowhere.stderr), (Some(2), expected));
    family.await_end();
}

#[test]
fn a_second_shell_joins_the_first() {
    let (lab, family) = (Lab::new(), Family::new());
    let scenario = lab.telemetry("shell-joined", &[]);
    let program = WEIR.as_str();
    let script = format!("echo up; exec {program} recv --listen 10.0.0.1:5000 --json --idle-timeout 10s 2>&1");
    let (mut receiver, line) = family.enter(&[&scenario, "receiver", "sh", "-c", &script]);
    assert_eq!(line, "up");
    assert_eq!(receiver.next_line().unwrap(), "listening on udp 10.0.0.1:5000");
    let keepers = family.processes("keep");
    assert_eq!(keepers.len(), 1, "{keepers:?}");

    let other = family.shell(&["--set", "path.loss=20%", &scenario, "sender", "true"]);
    let expected = "(without --set), or leave its shells first.\n";
    assert!(
        other.stderr.contains("its network is up with other settings. Use the same (without --set)"),
        "{}",
        other.stderr
    );
    assert_eq!(other.status, Some(1));
    assert!(other.stderr.ends_with(expected) && other.stderr.lines().count() == 1, "{}", other.stderr);

    let flags = ["--to", "10.0.0.1:5000", "--interval", "5ms", "--duration", "500ms", "--json"];
    let sent = family.shell(&[&[&scenario[..], "sender", program, "send"], &flags[..]].concat());
    assert_eq!((sent.status, &*sent.stderr), (Some(0), ""));
    let sent: serde_json::Value = serde_json::from_str(&sent.stdout).unwrap();
    // The receiver has heard the end, and may have ended the network already.
    let keeping = family.processes("keep");
    assert!(keeping.iter().all(|keeper| keepers.contains(keeper)), "the network that was up is used: {keeping:?}");

    let report = receiver.wait().json();
    let session = &report["sessions"][0];
    assert!(session["received"].as_u64() > Some(10), "{report}");
    assert_eq!((&session["received"], &session["peer"]), (&sent["sent"], &sent["from"]));
    family.await_end();
}

#[test]
fn the_articles_scripts_run_unchanged() {
    let Some(_) = program("python3") else { return };
    let (lab, family) = (Lab::new(), Family::new());
    let scenario = lab.telemetry("shell-scripts", &[]);
    let script = |name: &str| format!("{}/tests/weir/lab/scripts/{name}", env!("CARGO_MANIFEST_DIR"));
    let (mut receiver, line) = family.enter(&[&scenario, "receiver", "python3", &script("receiver.py")]);
    assert_eq!(line, "listening");
    let sender = family.spawn(weir(&["lab", "shell", &scenario, "sender", "python3", &script("sender.py")]));
    let mut last = 0.0;
    for _ in 0..50 {
        let line = receiver.next_line().unwrap();
        let numbers: Vec<f64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let [received, delay] = numbers.try_into().unwrap();
        assert!(received > last && delay > 0.0 && delay < 5.0, "{line}");
        last = received;
    }
    // The sender's end is the end of the stream, and so the receiver's.
    drop((sender, receiver));
    family.await_end();
}

/// Otherwise reading the output of a shell would end only with the network.
#[test]
fn the_keeper_holds_no_pipe_of_the_caller() {
    let (lab, family) = (Lab::new(), Family::new());
    let scenario = lab.telemetry("shell-pipes", &[]);
    let first = family.shell(&[&scenario, "receiver", "echo", "done"]);
    assert_eq!((first.status, &*first.stdout, &*first.stderr), (Some(0), "done\n", ""));
    family.await_end();
}

/// A scenario of one link that loses everything from 700 ms to 1.7 s, and the congestion control of its programs.
const CHANGING: &str = r#"
name = "NAME"
title = "One link"
[hosts]
a.addresses = ["10.0.0.1/24"]
b.addresses = ["10.0.0.2/24"]
[links.wire]
ends = ["a", "b"]
forward.steps = [{ at = "700ms", loss = "100%" }, { at = "1700ms" }]
[traffic]
from = "a"
to = "b"
port = 5000
transport = "udp"
payload = "100B"
[tcp]
congestion = "reno"
"#;

/// Sends a datagram each 10 ms to a socket of its own host's peer, for as long as is asked; tells how many it sent.
const STREAM: &str = r#"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
begin = time.monotonic()
n = 0
while time.monotonic() < begin + float(sys.argv[1]):
    s.sendto(b'x' * 100, ('10.0.0.2', 5000))
    n += 1
    time.sleep(begin + n * 0.01 - time.monotonic() if begin + n * 0.01 > time.monotonic() else 0)
print(n)
"#;

/// Steps begin with the first program, and anew when they are told to; what is set by hand holds from then on, and the
/// ledger has all of it, with its time.
#[test]
fn links_of_a_shell_change_by_plan_and_by_hand() {
    let Some(_) = program("python3") else { return };
    let (lab, family) = (Lab::new(), Family::new());
    let path = lab.path("shell-changes.toml");
    std::fs::write(&path, CHANGING.replace("NAME", "shell-changes")).unwrap();
    let scenario = path.to_str().unwrap();
    let say = |arguments: &[&str]| {
        let said = family.lab(arguments);
        assert_eq!((said.status, &*said.stderr), (Some(0), ""), "{arguments:?}");
        said.stdout
    };
    let ledger =
        || -> serde_json::Value { serde_json::from_str(&say(&["ledger", "shell-changes", "--json"])).unwrap() };
    let lost = || {
        let ledger = ledger();
        let counters = ledger["links"][0]["counters"].as_array().unwrap().clone();
        counters.iter().find(|counter| counter["name"] == "planned loss").unwrap()["count"].as_u64().unwrap()
    };
    let down = family.lab(&["ledger", "shell-changes"]);
    assert!(down.status == Some(1) && down.stderr.contains("no network `shell-changes` is up"), "{down:?}");

    // The first program: the network stays up as long as it does.
    let script = "cat /proc/sys/net/ipv4/tcp_congestion_control; exec sleep 1000";
    let (first, line) = family.enter(&[scenario, "b", "sh", "-c", script]);
    assert_eq!(line, "reno");
    let stream = |seconds: &str| -> u64 {
        let sent = family.shell(&[scenario, "a", "python3", "-c", STREAM, seconds]);
        assert_eq!((sent.status, &*sent.stderr), (Some(0), ""));
        sent.stdout.trim().parse().unwrap()
    };
    // Steps have begun, whenever the sender gets to send.
    assert!(ledger()["steps_from_s"].as_f64().is_some());
    let begun = say(&["steps", "start", scenario]);
    assert!(begun.starts_with("steps and traces start, ") && !begun.contains("no link"), "{begun}");
    stream("3");
    let by_plan = lost();
    // 100 are due while everything is lost. Python's start may take some of the time, and what a machine that stood still
    // sends at once is more.
    assert!((1..=200).contains(&by_plan), "{by_plan}");

    let set = say(&["set", "shell-changes", "links.wire.forward.loss=100%"]);
    assert!(set.starts_with("links.wire.forward.loss = 100%: 1 direction of links changed, "), "{set}");
    let sent = stream("0.2");
    // The last ones may still be under way.
    await_that("the losses", || lost() >= by_plan + sent);
    assert_eq!(lost(), by_plan + sent);
    say(&["set", "shell-changes", "links.wire.forward.loss=0%"]);
    stream("0.1");
    assert_eq!(lost(), by_plan + sent);
    let ledger = ledger();
    assert_eq!(ledger["set"], serde_json::json!([["links.wire.forward.loss", "0%"]]), "what holds now");

    for (set, message) in [
        ("traffic.port=7", "`traffic.port` cannot change while the network is up"),
        ("links.wire.mtu=9000", "`links.wire.mtu` cannot change while the network is up"),
        ("links.wire.mtu=100", "`links.wire.mtu` cannot change while the network is up"),
        ("links.wire.forward.lsos=5%", "unknown key `lsos`, did you mean `loss`?"),
        ("links.wire.forward.loss=105%", "a share is between 0% and 100%"),
        ("links.wire.forward.loss=1%,2%", "Give each key one value"),
    ] {
        // What stands in front of a mistake does not hold either.
        let before = "links.wire.forward.delay=3ms";
        let refused = family.lab(&["set", "shell-changes", before, set]);
        assert_eq!((refused.status, refused.stderr.lines().count()), (Some(2), 1), "{refused:?}");
        assert!(refused.stderr.contains(message), "{set}: {}", refused.stderr);
        assert_eq!(refused.stdout, "");
    }
    let both = say(&["set", "shell-changes", "links.wire.forward.delay=1ms", "links.wire.backward.delay=2ms"]);
    let changed = "links.wire.forward.delay = 1ms, links.wire.backward.delay = 2ms: 2 directions of links changed, ";
    assert!(both.starts_with(changed), "{both}");
    drop(first);
    family.await_end();
}

/// The documents' example: the scenario has `path.loss`, which is spread over its links. A link has its own value, or its share.
#[test]
fn a_link_may_be_set_beside_the_path() {
    let (lab, family) = (Lab::new(), Family::new());
    let scenario = lab.telemetry("shell-path", &[]);
    let (first, _) = family.enter(&[&scenario, "receiver", "sh", "-c", "echo up; exec sleep 1000"]);
    let set = |key: &str| -> String {
        let said = family.lab(&["set", "shell-path", key]);
        assert_eq!((said.status, &*said.stderr), (Some(0), ""), "{key}");
        said.stdout
    };
    // What the sender's link lost as planned, and what came out at the receiver.
    let counted = || -> (u64, u64) {
        let told = family.lab(&["ledger", "shell-path", "--json"]);
        let ledger: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
        let of = |link: &str, counter: &str| {
            let links = ledger["links"].as_array().unwrap();
            let link = links.iter().find(|entry| entry["link"] == link).unwrap_or_else(|| panic!("{link}: {ledger}"));
            let counters = link["counters"].as_array().unwrap();
            counters.iter().find(|entry| entry["name"] == counter).unwrap()["count"].as_u64().unwrap()
        };
        (of("uplink ->", "planned loss"), of("downlink ->", "delivered"))
    };
    // Nobody listens: what comes out is answered by ICMP, which ends the sender.
    let send = || {
        let send = [&WEIR, "send", "--to", "10.0.0.1:5000", "-n", "20", "--interval", "1ms"];
        family.shell(&[&[&scenario[..], "sender"], &send[..]].concat());
    };
    let said = set("links.uplink.forward.loss=100%");
    assert!(said.starts_with("links.uplink.forward.loss = 100%: 1 direction of links changed, "), "{said}");
    send();
    await_that("the losses", || counted().0 >= 20);
    let (lost, delivered) = counted();
    // Whatever else is set, this direction goes on with what it was told.
    let said = set("links.downlink.backward.delay=1ms");
    assert!(said.starts_with("links.downlink.backward.delay = 1ms: 1 direction of links changed, "), "{said}");
    let said = set("path.loss=0%");
    assert!(said.starts_with("path.loss = 0%: 0 directions of links changed, "), "{said}");
    let said = set("links.uplink.forward={}");
    assert!(said.starts_with("links.uplink.forward = {}: 1 direction of links changed, "), "{said}");
    let before = counted().0;
    send();
    await_that("what comes out", || counted().1 > delivered);
    let after = counted();
    assert_eq!(after.0, before, "{lost} and {delivered}, {after:?}");
    drop(first);
    family.await_end();
}

/// The name of the socket is no secret; nobody else can make it, or its folder, first.
#[test]
fn the_meeting_point_is_the_users_own() {
    let (lab, family) = (Lab::new(), Family::new());
    let scenario = lab.telemetry("shell-own", &[]);
    let runtime = lab.path("runtime");
    std::fs::create_dir(&runtime).unwrap();
    let script = "ls -ld \"$XDG_RUNTIME_DIR/weir-lab\" && ls \"$XDG_RUNTIME_DIR/weir-lab\"";
    let mut command = weir(&["lab", "shell", &scenario, "receiver", "sh", "-c", script]);
    let inside = Ended::of(family.mark(command.env("XDG_RUNTIME_DIR", &runtime)));
    assert_eq!((inside.status, &*inside.stderr), (Some(0), ""));
    assert!(inside.stdout.starts_with("drwx------"), "{}", inside.stdout);
    assert!(inside.stdout.ends_with("\nshell-own.socket\nshell-own.socket.lock\n"), "{}", inside.stdout);
    family.await_end();
    assert_eq!(std::fs::read_dir(runtime.join("weir-lab")).unwrap().count(), 0);
}
