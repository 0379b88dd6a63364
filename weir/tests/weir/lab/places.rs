//! Where datagrams end that no link loses: in the kernels of hosts and routers, in bounded queues, at the end of a TTL.

use std::fmt::Write;

use weir_testbed::program;

use super::{Lab, Run};

pub(super) const ROUTED: &str = r#"
name = "places"
title = "One router"
[run]
# A late schedule is made up for so long, which is longer than a machine stands still.
duration = "1s"
drain = "2s"
control = "0s"
[hosts]
a.addresses = ["10.0.1.2/24", "fd00:1::2/64"]
b.addresses = ["10.0.2.2/24", "fd00:2::2/64"]
[routers.r]
addresses = { near = ["10.0.1.1/24", "fd00:1::1/64"], far = ["10.0.2.1/24", "fd00:2::1/64"] }
[links]
near.ends = ["a", "r"]
far.ends = ["r", "b"]
[traffic]
from = "a"
to = "b"
address = "10.0.2.2"
port = 5000
transport = "udp"
payload = "100B"
interval = "10ms"
"#;

pub(super) fn run(lab: &Lab, text: &str, set: &[&str]) -> Run {
    std::fs::write(lab.path("places.toml"), text).unwrap();
    lab.run("places.toml", "out", set).good()
}

/// Rules that drop every fourth datagram of 100, one after the other: 25.
fn every_fourth(hook: &str) -> String {
    format!(
        "[\"nft add table inet t\", \"nft add chain inet t c '{{ type filter hook {hook} priority 0; }}'\", \
         \"nft add rule inet t c udp dport 5000 numgen inc mod 4 0 drop\"]"
    )
}

#[test]
fn the_account_names_the_kernel_that_drops() {
    let Some(_) = program("nft") else { return };
    let lab = Lab::new();
    let ttl = "[\"echo 1 > /proc/sys/net/ipv4/ip_default_ttl\"]".to_owned();
    let no_route = "[\"ip route del 10.0.2.0/24\"]".to_owned();
    let (four, six, firewall) =
        ("10.0.2.2", "fd00:2::2", "firewall or another filter (nftables, iptables, a route that refuses)");
    let cells = [
        ("input", four, "hosts.b.setup", every_fourth("input"), "host b", firewall, 25),
        ("forward", four, "routers.r.setup", every_fourth("forward"), "router r", firewall, 25),
        ("forward 6", six, "routers.r.setup", every_fourth("forward"), "router r", firewall, 25),
        ("ttl", four, "hosts.a.setup", ttl, "router r", "TTL exceeded", 100),
        ("route", four, "routers.r.setup", no_route, "router r", "no route", 100),
    ];
    let mut text = ROUTED.to_owned();
    for (name, address, key, setup, ..) in &cells {
        writeln!(text, "[[cells]]\nname = \"{name}\"\nset.\"{key}\" = {setup}").unwrap();
        writeln!(text, "set.\"traffic.address\" = \"{address}\"").unwrap();
    }
    let run = run(&lab, &text, &[]);
    for (cell, _, _, _, place, name, count) in cells {
        let row = run.row(cell);
        assert_eq!((row.count("sent"), row.count("unexplained")), (100, 0), "{cell}: {row:?}");
        assert_eq!((row.count("kernel_drops"), row.count("delivered")), (count, 100 - count), "{cell}");
        let record = run.record(cell);
        let ledger = record["ledger"].as_array().unwrap();
        let told = ledger.iter().find(|entry| entry["place"] == place && entry["name"] == name);
        assert_eq!(told.map(|entry| entry["count"].as_i64().unwrap()), Some(count), "{cell}: {}", record["remarks"]);
        assert!(
            record["remarks"].to_string().contains(&format!("datagrams were dropped on {}", place.replace(' ', " `"))),
            "{cell}"
        );
    }
    let free = run.row("single");
    assert_eq!((free.count("kernel_drops"), free.count("delivered")), (0, 100), "{free:?}");
}

/// What is sent again has no place: the network's account closes all the same.
#[test]
fn a_firewall_that_drops_packets_of_connections_is_not_unexplained() {
    let Some(_) = program("nft") else { return };
    let lab = Lab::new();
    let setup = |what: &str, nth: u32| {
        format!(
            "[\"nft add table inet t\", \"nft add chain inet t c '{{ type filter hook input priority 0; }}'\", \
             \"nft add rule inet t c {what} dport 5000 numgen inc mod {} {nth} drop\"]",
            nth + 1
        )
    };
    // The first packets make the connection.
    let mut text = ROUTED.to_owned();
    let cells = [("tcp", setup("tcp", 4)), ("quic", setup("udp", 9)), ("quic-datagram", setup("udp", 9))];
    for (transport, setup) in &cells {
        writeln!(text, "[[cells]]\nname = \"{transport}\"\nset.\"traffic.transport\" = \"{transport}\"").unwrap();
        writeln!(text, "set.\"hosts.b.setup\" = {setup}").unwrap();
    }
    let run = run(&lab, &text, &[]);
    for (cell, _) in cells {
        let row = run.row(cell);
        assert_eq!((row.text("kernel_drops"), row.count("unexplained")), ("", 0), "{row:?}");
        assert!(cell == "quic-datagram" || row.count("retransmits") > 0, "{row:?}");
    }
}

/// The last copies may come when the receiver, which has all messages, has ended.
#[test]
fn copies_that_a_host_makes_are_copies() {
    let Some(_) = program("nft") else { return };
    let lab = Lab::new();
    let setup = "[\"nft add table ip t\", \"nft add chain ip t c '{ type filter hook output priority 0; }'\", \
                 \"nft add rule ip t c udp dport 5000 dup to 10.0.1.1\"]";
    let run = run(&lab, &format!("{ROUTED}[[cells]]\nname = \"twice\"\nset.\"hosts.a.setup\" = {setup}\n"), &[]);
    let (row, record) = (run.row("twice"), run.record("twice"));
    assert_eq!((row.count("sent"), row.count("delivered"), row.count("unexplained")), (100, 100, 0), "{row:?}");
    let ledger = record["ledger"].as_array().unwrap();
    let told = ledger.iter().find(|entry| entry["name"] == "copies that no link made");
    assert_eq!(told.map(|entry| entry["count"].as_i64().unwrap()), Some(100), "{}", record["remarks"]);
    assert!(
        record["remarks"].to_string().contains("more arrived than was sent: a host or router made 100 copies"),
        "{}",
        record["remarks"]
    );
}

#[test]
fn copies_that_a_router_makes_are_not_unexplained() {
    let Some(_) = program("nft") else { return };
    let lab = Lab::new();
    let mut text = ROUTED.to_owned();
    for (transport, protocol) in [("tcp", "tcp"), ("quic-datagram", "udp")] {
        let setup = format!(
            "[\"nft add table ip t\", \"nft add chain ip t c '{{ type filter hook forward priority 0; }}'\", \
             \"nft add rule ip t c {protocol} dport 5000 numgen inc mod 10 7 dup to 10.0.2.2\"]"
        );
        writeln!(text, "[[cells]]\nname = \"{transport}\"\nset.\"traffic.transport\" = \"{transport}\"").unwrap();
        writeln!(text, "set.\"routers.r.setup\" = {setup}").unwrap();
    }
    let run = run(&lab, &text, &[]);
    for cell in ["tcp", "quic-datagram"] {
        let (row, record) = (run.row(cell), run.record(cell));
        // A sender that stands still may send fewer.
        let expected = (row.count("sent"), 0);
        assert_eq!((row.count("delivered"), row.count("unexplained")), expected, "{row:?} {}", record["remarks"]);
    }
}
