//! What is kept over a restart, where that is asked for.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use serde_json::json;
use weir_testbed::{Ended, user_namespaces};

use super::agent::Agent;
use super::{File, Serve};
use crate::{WEIR, weir};

/// A configuration with a state, and the path of that.
fn kept(more: &str) -> (File, PathBuf) {
    let file = File::new("");
    let state = file.dir.path().join("state");
    file.write(&format!("user = \"root\"\nstate = {state:?}\n[[listener]]\naddress = \"127.0.0.1:0\"\n{more}"));
    (file, state)
}

/// An analyser that has known an agent by two counter samples, the later of 15,000 octets, and ended in order; with what it sends from.
fn known(file: &File) -> (Agent, UdpSocket) {
    let mut agent = Agent::new([10, 1, 2, 3]);
    let mut serve = Serve::start(&["-c", &file.path(), "--workers", "2"]);
    let (socket, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), serve.address());
    socket.send_to(&agent.counters(5_000), to).unwrap();
    // It is stale after three times that: longer than a restart takes, and than a machine stands still.
    thread::sleep(Duration::from_secs(1));
    socket.send_to(&agent.counters(15_000), to).unwrap();
    serve.await_received(2);
    serve.stop();
    (agent, socket)
}

#[test]
fn definitions_are_kept_over_a_restart() {
    let (file, _) = kept("[flow.own]\nkeys = \"ipsource\"\nvalue = \"bytes\"\n");
    let serve = Serve::start(&["-c", &file.path()]);
    serve.put("/flow/put/json", &json!({"keys": "ipdestination", "value": "frames", "t": 5}));
    serve.put("/threshold/put/json", &json!({"metric": "put", "value": 7}));
    serve.put("/group/sites/json", &json!({"lab": ["10.1.0.0/16"]}));
    // What lasts only as long as somebody asks for it is not kept.
    assert_eq!(serve.ask("GET", "/prometheus/flows/ALL/txt?metric=m&key=ipsource&value=bytes", "").0, 200);
    assert_eq!(serve.get("/flow/json").as_object().unwrap().len(), 3);
    serve.stop();

    let serve = Serve::start(&["-c", &file.path()]);
    let flows = serve.get("/flow/json");
    assert_eq!(flows.as_object().unwrap().keys().collect::<Vec<_>>(), ["own", "put"]);
    assert_eq!((flows["put"]["t"].clone(), flows["own"]["keys"].clone()), (5.0.into(), "ipsource".into()), "{flows:#}");
    assert_eq!(serve.get("/threshold/json")["put"]["value"], 7.0);
    assert_eq!(serve.get("/group/sites/json")["lab"][0], "10.1.0.0/16");
    serve.stop();
}

/// The first sample after a restart, with another number of workers, gives the rate over the gap, and its sequence what was lost.
#[test]
fn a_restart_costs_no_rate_and_hides_no_loss() {
    let (file, state) = kept("");
    let (mut agent, socket) = known(&file);
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o600);
    let before = agent.uptime;
    (0..2).for_each(|_| agent.lose());

    let mut serve = Serve::start(&["-c", &file.path(), "--workers", "3"]);
    let known = serve.get("/agents/json");
    assert_eq!(known["10.1.2.3"]["sFlowDatagramsReceived"], 2, "{known:#}");
    assert!(!serve.get("/metric/10.1.2.3/ifspeed/json")[0]["metricValue"].is_null());
    thread::sleep(Duration::from_millis(200));
    let to = serve.address();
    socket.send_to(&agent.counters(45_000), to).unwrap();
    let ledger = serve.await_received(1);
    assert_eq!((ledger["analysed"].clone(), ledger["lost_before"].clone()), (1.into(), 2.into()), "{ledger:#}");
    let expected = 30_000.0 / (f64::from(agent.uptime - before) / 1000.0);
    let rates = serve.get("/metric/10.1.2.3/ifinoctets/json");
    let rate = rates[0]["metricValue"].as_f64().unwrap_or_else(|| panic!("{rates:#}"));
    assert!((rate / expected - 1.0).abs() < 0.01, "{rate}, not {expected}");
    let told = &serve.get("/agents/json")["10.1.2.3"];
    assert_eq!((told["sFlowDatagramsReceived"].clone(), told["sFlowDatagramsLost"].clone()), (3.into(), 2.into()));
    serve.stop();
}

/// A definition of a scrape lives as long as it is scraped, and not in the next life.
#[test]
fn what_scrapes_began_is_not_kept() {
    let (file, _) = kept("");
    let serve = Serve::start(&["-c", &file.path()]);
    serve.put("/flow/put/json", &json!({"keys": "ipdestination"}));
    assert_eq!(serve.ask("GET", "/prometheus/flows/ALL/txt?metric=m&key=ipsource&value=bytes", "").0, 200);
    assert_eq!(serve.get("/flow/json").as_object().unwrap().len(), 2);
    serve.stop();
    let serve = Serve::start(&["-c", &file.path()]);
    assert_eq!(serve.get("/flow/json").as_object().unwrap().keys().collect::<Vec<_>>(), ["put"]);
    serve.stop();
}

/// Whoever is killed leaves the last whole file, and half of another is no hindrance.
#[test]
fn what_is_killed_leaves_the_last_whole_file() {
    let (file, state) = kept("");
    known(&file);
    let whole = fs::read(&state).unwrap();
    let killed = Serve::start(&["-c", &file.path()]);
    killed.put("/flow/put/json", &json!({"keys": "ipdestination", "value": "frames"}));
    drop(killed);
    assert_eq!(fs::read(&state).unwrap(), whole);
    fs::write(state.with_extension("new"), &whole[..whole.len() / 2]).unwrap();

    let serve = Serve::start(&["-c", &file.path()]);
    assert_eq!(serve.get("/agents/json")["10.1.2.3"]["sFlowDatagramsReceived"], 2);
    serve.stop();
    assert!(!state.with_extension("new").exists());
}

/// One line, nothing of it taken, and the file kept.
#[test]
fn a_file_that_is_damaged_or_none_of_ours_is_moved_aside() {
    let (file, state) = kept("");
    known(&file);
    let whole = fs::read(&state).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let newer = [b"weir sflow state 7\n", &whole[19..]].concat();
    let cases: [(&[u8], &str); 5] = [
        (&flipped, "damaged: its checksum is wrong"),
        (&whole[..whole.len() - 1], "damaged: its checksum is wrong"),
        (&newer, "version 7, written by another weir: this one reads 6"),
        (b"{\"mine\": true}\n", "it is no state of weir sflow"),
        (b"", "it is no state of weir sflow"),
    ];
    for (bytes, why) in cases {
        fs::write(&state, bytes).unwrap();
        let mut serve = Serve::start(&["-c", &file.path()]);
        let aside = state.with_extension("aside");
        let line = format!("{why} (starting without it; it is {} now)", aside.display());
        let said = serve.said().iter().filter(|said| said.contains("state ")).collect::<Vec<_>>();
        assert!(said.len() == 1 && said[0].contains(&line), "{line}: {said:#?}");
        assert_eq!(serve.get("/agents/json"), json!({}));
        serve.stop();
        assert_eq!(fs::read(aside).unwrap(), bytes, "{why}");
    }
}

/// A symbolic link would be replaced rather than followed: neither a check nor a start says that all is well.
#[test]
fn a_symbolic_link_is_refused() {
    let (file, state) = kept("");
    std::os::unix::fs::symlink(file.dir.path().join("elsewhere"), &state).unwrap();
    let expected = format!("state: {}: it is a symbolic link. Name the file", state.display());
    for check in [&["--check"][..], &[]] {
        let Ended { status, stderr: said, .. } =
            Ended::of(&mut weir(&[&["sflow", "serve", "-c", &file.path()], check].concat()));
        assert_eq!((status, said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn a_full_disk_is_a_line_and_leaves_the_file_of_before() {
    if !user_namespaces(None) {
        return;
    }
    let file = File::new("");
    let dir = file.dir.path();
    fs::create_dir(dir.join("small")).unwrap();
    file.write("state = \"small/state\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n");
    let script = format!(
        "mount -t tmpfs -o size=16k none small && printf 'weir sflow state 6\\n' > small/state && \
         exec {} sflow serve --json --http 127.0.0.1:0 -c sflow.toml",
        *WEIR
    );
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-c", &script]).current_dir(dir).stdin(Stdio::null());
    let mut serve = Serve::spawn(command);
    // The mount goes with its last user.
    let small = fs::File::open(format!("/proc/{}/cwd/small", serve.pid())).unwrap();
    let (socket, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), serve.address());
    for host in 0..=255 {
        socket.send_to(&Agent::new([10, 1, 2, host]).datagram(), to).unwrap();
    }
    serve.await_received(256);
    serve.signal(Signal::SIGTERM);
    let line = serve.await_line("small/state: No space left");
    assert!(line.contains("the file of before stays"), "{line}");
    // The ledger is told all the same, and the status that not all went well.
    let ended = serve.wait();
    assert_eq!(ended.status, Some(1));
    let ledger: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&ledger["analysed"], &ledger["closed"]), (&json!(256), &json!(true)), "{ledger:#}");
    let names = fs::read_dir(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&small))).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, ["state.aside"]);
}

/// A disk that fills while it runs: the state of before stays, byte by byte, and the next life knows what is in it.
#[test]
fn a_disk_that_fills_keeps_the_state_of_before() {
    if !user_namespaces(None) {
        return;
    }
    let file = File::new("");
    let dir = file.dir.path();
    fs::create_dir(dir.join("small")).unwrap();
    file.write("state = \"small/state\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n");
    // Two lives in one mount; what is kept of the first is copied out before and after the second has failed to write.
    let serve = format!("{} sflow serve --json --http 127.0.0.1:0 -c sflow.toml", *WEIR);
    let script = format!(
        "mount -t tmpfs -o size=64k none small && {serve} && cp small/state before && \
         (dd if=/dev/zero of=small/fill bs=1k 2>dd || true); {serve}; status=$?; cp small/state after; exit $status"
    );
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-c", &script]).current_dir(dir).stdin(Stdio::null());
    let mut serve = Serve::spawn(command);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&Agent::new([10, 1, 2, 3]).counters(1), serve.address()).unwrap();
    // A signal to the shell is not one to what it runs.
    let life = |shell: nix::unistd::Pid| {
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        nix::unistd::Pid::from_raw(children.split_whitespace().next().unwrap().parse().unwrap())
    };
    let first = life(serve.pid());
    while serve.get("/agents/json").get("10.1.2.3").is_none() {}
    nix::sys::signal::kill(first, Signal::SIGTERM).unwrap();
    serve.await_line("ready");
    serve.line("1 agents are known again");
    let mut serve = Serve::of(serve.started);
    for host in 0..=255 {
        socket.send_to(&Agent::new([10, 1, 3, host]).counters(1), serve.address()).unwrap();
    }
    while serve.get("/agents/json").as_object().unwrap().len() < 257 {}
    nix::sys::signal::kill(life(serve.pid()), Signal::SIGTERM).unwrap();
    let line = serve.await_line("small/state: No space left");
    assert!(line.contains("the file of before stays"), "{line}");
    assert_eq!(serve.wait().status, Some(1));
    let (before, after) = (fs::read(dir.join("before")).unwrap(), fs::read(dir.join("after")).unwrap());
    assert!(!before.is_empty() && before == after, "{} and {} bytes", before.len(), after.len());
}

/// Before the start: what would be a line in the log of a service that has become its user.
#[test]
fn check_says_what_the_user_may_not_open() {
    if !geteuid().is_root() {
        return;
    }
    let (file, state) = kept("");
    let text = fs::read_to_string(file.path()).unwrap();
    for (user, is_told) in [("root", false), ("nobody", true)] {
        file.write(&text.replace("user = \"root\"", &format!("user = \"{user}\"")));
        let said = Ended::of(&mut weir(&["sflow", "serve", "--check", "-c", &file.path()])).stderr;
        let folder = state.parent().unwrap().display().to_string();
        assert_eq!(said.contains(" may not open ") && said.contains(&folder), is_told, "{said}");
    }
}
