//! `weir monitor check` between hosts: a way that is well, and one fault each.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use socket2::SockRef;
use weir_kernel::namespaces::NetNs;
use weir_kernel::sysctl;
use weir_testbed::network::{Host, Switch, cable};
use weir_testbed::{Ended, Started, program};

use crate::weir;

fn sending(host: &Host) -> Started {
    host.run(|| Started::spawn(weir(&["monitor", "check", "--send", "--interface", "eth0"])))
}

/// Sends no signals to the group, until dropped.
struct Garbage {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Garbage {
    fn send(host: &Host) -> Self {
        let socket = host.run(|| {
            let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
            SockRef::from(&socket).set_multicast_if_v4(&Ipv4Addr::new(10, 0, 0, 1)).unwrap();
            socket
        });
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let send = move || {
            while !stopped.load(Ordering::Relaxed) {
                socket.send_to(b"app.requests:1|c", "239.192.77.1:5110").unwrap();
                thread::sleep(Duration::from_millis(20));
            }
        };
        Self { stop, thread: Some(thread::spawn(send)) }
    }
}

impl Drop for Garbage {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The names of what is found, and the report.
fn check(host: &Host) -> (Vec<String>, Value) {
    check_in(&host.ns, "eth0")
}

fn check_in(ns: &NetNs, interface: &str) -> (Vec<String>, Value) {
    let arguments = ["monitor", "check", "--json", "--interface", interface, "--duration", "2s"];
    let ended = ns.run(|| Ended::of(&mut weir(&arguments))).unwrap();
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let names: Vec<String> =
        report["findings"].as_array().unwrap().iter().map(|finding| finding["name"].as_str().unwrap().into()).collect();
    assert_eq!(ended.status, Some(if names.is_empty() { 0 } else { 3 }), "{report:#}");
    (names, report)
}

#[test]
fn a_way_that_is_well_has_no_findings() {
    let Some([a, b]) = cable(1500) else { return };
    let _sending = sending(&a);
    let (names, report) = check(&b);
    assert_eq!(names, [""; 0], "{report:#}");
    let source = &report["facts"]["sources"]["10.0.0.1"];
    assert_eq!(source["ttl"], 1, "{report:#}");
    assert!(source["at_socket"].as_u64() > Some(5), "{report:#}");
}

#[test]
fn who_sends_what_is_no_signal_is_told_among_others() {
    let Some([a, b]) = cable(1500) else { return };
    let _sending = sending(&a);
    let _garbage = Garbage::send(&a);
    let (names, report) = check(&b);
    assert_eq!(names, ["refused"], "{report:#}");
    let refused = report["facts"]["refused"]["10.0.0.1"].as_object().unwrap();
    assert!(refused["foreign"].as_u64() > Some(5) && refused.len() == 1, "{report:#}");
    let what = report["findings"][0]["what"].as_str().unwrap();
    assert!(what.contains("10.0.0.1 (foreign "), "{what}");
}

#[test]
fn silence_is_told() {
    let Some([_a, b]) = cable(1500) else { return };
    assert_eq!(check(&b).0, ["silence"]);
}

#[test]
fn a_firewall_is_told_from_silence() {
    let Some(nft) = program("nft") else { return };
    let Some([a, b]) = cable(1500) else { return };
    let rules = "add table inet t; add chain inet t in { type filter hook input priority 0; }; \
                 add rule inet t in udp dport 5110 drop";
    let status = b.run(|| Command::new(nft).arg(rules).status().unwrap());
    assert!(status.success());
    let _sending = sending(&a);
    assert_eq!(check(&b).0, ["firewall"]);
}

#[test]
fn a_source_that_is_reached_another_way_is_told() {
    let Some([a, b]) = cable(1500) else { return };
    // Strict, and the way back to the sender leads nowhere.
    sysctl::set(&b.ns, &[("ipv4/conf/all/rp_filter", "1"), ("ipv4/conf/eth0/rp_filter", "1")]).unwrap();
    let Some(ip) = program("ip") else { return };
    let status = b.run(|| Command::new(ip).args(["route", "add", "10.0.0.1/32", "dev", "lo"]).status().unwrap());
    assert!(status.success());
    let _sending = sending(&a);
    assert_eq!(check(&b).0, ["rp-filter"]);
}

#[test]
fn a_small_mtu_is_told() {
    let Some([_a, b]) = cable(1400) else { return };
    let (names, report) = check(&b);
    assert_eq!(names, ["mtu"], "{report:#}");
}

#[test]
fn a_bridge_that_snoops_where_nobody_asks_is_told() {
    let Some(switch) = Switch::create() else { return };
    let _host = switch.plug(1, "p1");
    let (names, report) = check_in(&switch.ns, "br0");
    assert_eq!(names, ["no-querier"], "{report:#}");
}

#[test]
fn what_the_way_loses_is_told_by_numbers() {
    let Some(nft) = program("nft") else { return };
    let Some(switch) = Switch::create() else { return };
    let [a, b] = [(1, "p1"), (2, "p2")].map(|(number, port)| switch.plug(number, port));
    let rules = "add table bridge t; add chain bridge t f { type filter hook forward priority 0; }; \
                 add rule bridge t f udp dport 5110 numgen inc mod 10 == 0 drop";
    let status = switch.ns.run(|| Command::new(nft).arg(rules).status().unwrap()).unwrap();
    assert!(status.success());
    let flags =
        ["monitor", "station", "--interface", "eth0", "--source", "counter,name=c,rate=1k/s", "--display", "0/s"];
    let _station = a.run(|| Started::spawn(weir(&flags)));
    let (names, report) = check(&b);
    assert_eq!(names, ["lost"], "{report:#}");
    let source = report["facts"]["sources"].as_object().unwrap().values().next().unwrap();
    let [numbered, missing] = ["numbered", "missing"].map(|key| source[key].as_f64().unwrap());
    assert!((0.05..0.15).contains(&(missing / numbered)), "{report:#}");
}
