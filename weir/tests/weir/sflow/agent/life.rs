//! Collectors that go and come back, reloads, missing privilege, mistakes.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::Signal;
use tempfile::TempDir;
use weir_testbed::network::{Host, cable, end};
use weir_testbed::{Ended, PATIENCE};

use super::{Agent, Collector, Privileges, start, start_with};
use crate::weir;

#[test]
fn a_collector_that_goes_away_comes_back_and_costs_others_nothing() {
    let Some([one, other]) = cable(1500) else { return };
    let mut collector = Collector::bind(&one);
    let far = other.run(|| UdpSocket::bind((other.v4, 7000)).unwrap());
    let nowhere = "203.0.113.9";
    let to = format!("{}:7000", other.v4);
    let flags = ["--to", &to, "--to", nowhere, "--polling", "1s", "--sampling", "0", "--drops", "0"];
    let mut agent = start(&one, &flags);
    let of = |ledger: &serde_json::Value, index: usize, reason: &str| {
        ledger["collectors"][index]["dropped"][reason].as_u64().unwrap_or(0)
    };
    agent.await_ledger(|ledger| of(ledger, 2, "unreachable") > 0);
    agent.line("collector 203.0.113.9:6343");
    far.recv(&mut [0; 2000]).unwrap();
    drop(far);
    let ledger = agent.await_ledger(|ledger| of(ledger, 1, "refused") > 1);
    let sent = ledger["collectors"][1]["sent"].as_u64().unwrap();
    let far = other.run(|| UdpSocket::bind((other.v4, 7000)).unwrap());
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    far.recv(&mut [0; 2000]).unwrap();
    agent.await_ledger(|ledger| ledger["collectors"][1]["sent"].as_u64().unwrap() > sent);
    let ledger = agent.stop();
    collector.take_rest(&ledger);
    assert_eq!(
        (&ledger["collectors"][0]["sent"], &ledger["datagrams"]),
        (&collector.datagrams.into(), &collector.datagrams.into())
    );
}

/// A router says that the one cannot be reached, nobody answers for the other.
#[test]
fn a_collector_that_cannot_be_reached_any_more_is_said_and_counted() {
    let (Some([one, other]), Some(ip)) = (cable(1500), weir_testbed::program("ip")) else { return };
    let run = |host: &Host, words: &str| {
        assert!(host.run(|| Command::new(&ip).args(words.split(' ')).status().unwrap()).success(), "{words}");
    };
    run(&one, &format!("route add 198.51.100.0/24 via {}", other.v4));
    run(&other, "route add unreachable 198.51.100.0/24");
    weir_kernel::sysctl::set(&other.ns, &[("ipv4/ip_forward", "1")]).unwrap();
    let quick = [("ipv4/neigh/eth0/retrans_time_ms", "20"), ("ipv4/neigh/eth0/mcast_solicit", "2")];
    weir_kernel::sysctl::set(&one.ns, &quick).unwrap();
    let (beyond, silent) = ("198.51.100.7", "10.0.0.77");
    let flags = ["--to", beyond, "--to", silent, "--polling", "1s", "--sampling", "0", "--drops", "0"];
    let mut agent = start(&one, &flags);
    let unreachable = |ledger: &serde_json::Value, index: usize| {
        ledger["collectors"][index]["dropped"]["unreachable"].as_u64().unwrap_or(0)
    };
    agent.await_ledger(|ledger| unreachable(ledger, 1) > 1 && unreachable(ledger, 2) > 1);
    for collector in [beyond, silent] {
        let line = agent.line(&format!("collector {collector}:6343"));
        assert!(line.contains("unreachable (there is no route, or nobody on it who answers"), "{line}");
    }
    // It is there again.
    run(&other, "route del unreachable 198.51.100.0/24");
    run(&other, "address add 198.51.100.7/32 dev lo");
    let far = other.run(|| UdpSocket::bind((beyond, 6343)).unwrap());
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    far.recv(&mut [0; 2000]).unwrap();
    agent.stop();
}

#[test]
fn a_reload_changes_who_is_told_and_a_bad_file_changes_nothing() {
    let Some([one, _other]) = cable(1500) else { return };
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("agent.toml");
    let write = |text: &str| fs::write(&path, text).unwrap();
    let head = "agent = \"10.0.0.1\"\npolling = \"1s\"\nsampling = 0\ndrops = \"0\"\n";
    write(&format!("{head}[[collector]]\nto = \"127.0.0.1\"\n"));
    let mut collector = Collector::bind(&one);
    let later = one.run(|| UdpSocket::bind("127.0.0.1:7001").unwrap());
    let mut agent = Agent::spawn_in(&one.ns, weir(&["sflow", "agent", "--json", "-c", path.to_str().unwrap()]));
    collector.await_sample(|sample| sample.is_of("eth0"));
    write(&format!("{head}[[collector]]\nto = \"nobody:x\"\n"));
    agent.signal(Signal::SIGHUP);
    let line = agent.await_line("reload of");
    assert!(
        line.contains("agent.toml:6: collector.to: `nobody:x`: write HOST or HOST:PORT")
            && line.ends_with("(nothing has changed)"),
        "{line}"
    );
    write(&format!("{head}[[collector]]\nto = \"127.0.0.1:7001\"\n"));
    agent.signal(Signal::SIGHUP);
    agent.await_line("reloaded");
    later.recv(&mut [0; 2000]).unwrap();
    let ledger = agent.stop();
    assert_eq!(ledger["collectors"].as_array().unwrap().len(), 1);
    assert_eq!(ledger["collectors"][0]["name"], "127.0.0.1:7001");
}

#[test]
fn without_privilege_counters_are_sent_and_the_rest_is_said_in_one_line() {
    let Some([one, _other]) = cable(1500) else { return };
    let mut collector = Collector::bind(&one);
    let mut command =
        weir(&["sflow", "agent", "--json", "--agent", "10.0.0.1", "--to", "127.0.0.1", "--polling", "1s"]);
    command.uid(65534).gid(65534);
    let mut agent = Agent::spawn_in(&one.ns, command);
    let line = agent.line("neither packets nor drops are told");
    assert!(line.contains("CAP_BPF") && line.contains("counters of interfaces and of the machine are"), "{line}");
    collector.await_sample(|sample| sample.is_of("eth0"));
    collector.await_sample(|sample| sample.source == (2, 1));
    agent.stop();
}

#[test]
fn in_a_container_packets_are_sampled_and_what_is_not_told_is_said_in_one_line() {
    let Some([one, _other]) = cable(1500) else { return };
    let Some(mut agent) = start_with(Privileges::Container, &one, &[]) else { return };
    let line = agent.line("no drops are told");
    assert!(
        line.contains("CAP_BPF and CAP_PERFMON")
            && line.contains("packets are sampled all the same, by classic filters"),
        "{line}"
    );
    agent.line("packets sampled by classic filters, drops not told");
    agent.stop();
}

#[test]
fn in_a_container_interfaces_that_come_later_are_sampled() {
    come_later(1);
}

#[test]
#[ignore = "long: 8 s"]
fn in_a_container_interfaces_that_come_again_and_again_are_sampled() {
    come_later(3);
}

/// They are sampled by sockets that were opened before.
fn come_later(rounds: u32) {
    let Some([one, _other]) = cable(1500) else { return };
    let Some(mut agent) = start_with(Privileges::Container, &one, &["--sampling", "1"]) else { return };
    let late = |number| {
        one.netlink().add_veth(&end(&one.ns, "late0", number, 1500), &end(&one.ns, "late1", number + 1, 1500)).unwrap();
        for name in ["late0", "late1"] {
            let index = one.netlink().link(name).unwrap().index;
            one.netlink().set_up(index).unwrap();
        }
    };
    let ip = weir_testbed::program("ip");
    let mut pool = 0;
    // The sockets of those that go are there for those that come.
    for round in 0..rounds {
        late(70 + 2 * round);
        // Neighbours are solicited on both, and seen twice.
        let ledger = agent.await_ledger(|ledger| {
            ledger["sampled_interfaces"] == 3 && ledger["sampling"]["pool"].as_u64().unwrap() >= pool + 4
        });
        pool = ledger["sampling"]["pool"].as_u64().unwrap();
        let Some(ip) = &ip else { return };
        assert!(one.run(|| Command::new(ip).args(["link", "del", "late0"]).status().unwrap()).success());
        agent.await_ledger(|ledger| ledger["sampled_interfaces"] == 1);
    }
    agent.stop();
}

#[test]
fn a_privileged_one_keeps_nothing() {
    keeps_nothing(Privileges::All);
}

#[test]
fn one_in_a_container_keeps_nothing() {
    keeps_nothing(Privileges::Container);
}

fn keeps_nothing(privileges: Privileges) {
    let Some([one, _other]) = cable(1500) else { return };
    let mut collector = Collector::bind(&one);
    let Some(agent) = start_with(privileges, &one, &["--user", "65534:65534"]) else { return };
    collector.await_sample(|sample| sample.source == (2, 1));
    let status = fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
    for line in [
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Uid:\t65534\t65534\t65534\t65534",
    ] {
        assert!(status.contains(line), "{line}: {status}");
    }
    agent.stop();
}

#[test]
fn mistakes_are_one_line() {
    for (arguments, line) in [
        (&["--to", "collector:x"][..], "write HOST or HOST:PORT"),
        (&["--to", "192.0.2.7", "--polling", "10ms"], "--polling: 10ms (it must be 1s to 1h)"),
        (&["--to", "192.0.2.7", "--to", "192.0.2.7:6343"], "--to: 192.0.2.7:6343 is there twice (remove one of them)"),
        (
            &["--to", "192.0.2.7", "--interface", "a/b"],
            "--interface: `a/b` is no name of an interface, e.g. eth0 or eth*",
        ),
        (
            &["--to", "192.0.2.7", "--agent", "0.0.0.0"],
            "--agent: write an address of this machine, by which collectors know it",
        ),
        (&["--to", "192.0.2.7", "--user", "no-such-user"], "no such user"),
        (&["-c", "/nowhere/agent.toml"], "read /nowhere/agent.toml: No such file or directory"),
        (&[], "weir: no collector: name one, --to HOST, or -c FILE"),
    ] {
        let Ended { status, stderr, .. } = Ended::of(&mut weir(&[&["sflow", "agent"], arguments].concat()));
        assert_eq!(status, Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(line), "{arguments:?}: {stderr}");
    }
    let text = Ended::of(&mut weir(&["sflow", "agent", "--to", "collector.example", "--check"])).stdout;
    assert!(text.contains("polling = \"20s\"") && text.contains("to = \"collector.example:6343\""), "{text}");
}
