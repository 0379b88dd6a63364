//! What is counted of the whole machine: by its processors, in all its namespaces, or so much that others would notice.

use std::cell::Cell;
use std::fs;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use serde_json::Value;
use weir_testbed::{PATIENCE, Started, await_that, skip};

use super::super::scene::grown;
use super::super::watch::{FULL, Full, LINES, decided, only, watch};
use super::super::{Following, Reader, Scene, weir};
use crate::service::Machine;

#[test]
fn backlog() {
    let Some(scene) = Scene::set() else { return };
    let processors = weir_kernel::counters::softnet().unwrap();
    let [first, second, ..] = processors[..] else {
        return skip("needs two processors");
    };
    // The one sends and the other receives, slowly: thousands of rules look at each.
    let mask = format!("echo {:x} > /sys/class/net/eth0/queues/rx-0/rps_cpus", 1u64 << second.cpu);
    scene.receiver.output("sh", &["-e", "-c", &mask]);
    let rules = "add rule ip t in udp dport 1 drop; ".repeat(3000);
    let rules = format!("add table ip t; add chain ip t in {{ type filter hook input priority 0; }}; {rules}");
    scene.nft(&scene.receiver, &rules);
    let socket = scene.listen();
    setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).unwrap();
    let reader = Reader::start(socket);
    let source = scene.source();
    let payload = scene.payload(false);
    let longest: u64 = fs::read_to_string("/proc/sys/net/core/netdev_max_backlog").unwrap().trim().parse().unwrap();
    let before = scene.receiver.counters();
    let taken = || grown(&scene.receiver, &before, "Ip", "InDelivers");
    let following = scene.follow();
    let to = scene.to();
    let sent = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut only = CpuSet::new();
            only.set(first.cpu as usize).unwrap();
            sched_setaffinity(Pid::from_raw(0), &only).unwrap();
            let mut sent = 0;
            // More on the way than the backlog and the part of it that is worked on can hold.
            while sent < taken() + 2 * longest + scene.lost {
                for _ in 0..500 {
                    source.send_to(&payload, to).unwrap();
                }
                sent += 500;
                assert!(sent < 1_000_000, "the backlog was never full");
            }
            sent
        });
        sending.join().unwrap()
    });
    // The backlog is a queue: behind this one, all are decided.
    let marker = scene.receiver.run(|| UdpSocket::bind(scene.receiver.at(scene.port + 1))).unwrap();
    marker.set_nonblocking(true).unwrap();
    setsockopt(&marker, sockopt::RcvBufForce, &(4 << 20)).unwrap();
    let markers = Cell::new(0);
    let drain = || {
        while marker.recv(&mut [0; 10]).is_ok() {
            markers.set(markers.get() + 1);
        }
    };
    await_that("a marker to come through", || {
        source.send_to(b"marker", scene.receiver.at(scene.port + 1)).unwrap();
        drain();
        markers.get() > 0
    });
    await_that("all that came to be read", || {
        drain();
        reader.count() + markers.get() == taken()
    });
    let lost = sent - reader.count();
    let now = weir_kernel::counters::softnet().unwrap();
    let dropped = now.iter().zip(&processors).map(|(now, before)| u64::from(now.dropped.wrapping_sub(before.dropped)));
    // Those of other namespaces count there, too.
    assert!(0 < lost && lost <= dropped.sum(), "{lost}");
    let account = following.end().traced();
    account.of(scene.port).closes(sent, sent - lost, &[("backlog", lost)]);
}

/// Sender, switch and receiver are followed, and each datagram is counted once.
#[test]
fn all_namespaces() {
    let Some(mut scene) = Scene::set() else { return };
    let rule = scene.dropping("netdev", "ingress device sender");
    scene.nft_on_switch(&rule);
    let reader = Reader::start(scene.listen());
    let socket = scene.source();
    let namespaces = [&scene.sender.ns, scene.sender.switch(), &scene.receiver.ns];
    let port = scene.port.to_string();
    let three = Following::port(scene.port, &namespaces);
    let all = Following::start(&["--port", &port, "--netns", "all"], &[]);
    let to = scene.to();
    scene.send_all(&socket, to);
    reader.await_count(scene.kept);
    for following in [three, all] {
        scene.closes(following, "firewall");
    }
}

/// As a DNS client makes them, and as one who looks for open ports sends: a day of it must not hide what comes later.
#[test]
fn short_lived_sockets_and_a_scan_of_ports_hide_nothing_behind_them() {
    let Some(machine) = Machine::new() else { return };
    let flags = ["loss", "watch", "--json", "--interval", "100ms"];
    let mut service = watch(&machine, weir(&flags));
    assert_eq!(decided(&mut service)["sources"]["trace"], "queues");
    machine.run(|| {
        let source = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..25_000 {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            source.send_to(b"answer", socket.local_addr().unwrap()).unwrap();
            socket.recv(&mut [0; 16]).unwrap();
        }
        for port in 1..=u16::MAX {
            if port != source.local_addr().unwrap().port() {
                source.send_to(b"?", ("127.0.0.1", port)).unwrap();
            }
        }
    });
    let full = Full::fill(&machine);
    // Later than the scan has been put aside.
    for _ in 0..5 {
        service.json();
    }
    let late = machine.udp("127.0.0.1:5519");
    let source = machine.udp("127.0.0.1:0");
    for _ in 0..500 {
        source.send_to(b"late", "127.0.0.1:5519").unwrap();
        late.recv(&mut [0; 16]).unwrap();
    }
    let last = service.stop();
    let socket = |port: u16| only(&last["sockets"], |socket| socket["port"] == port);
    assert_eq!((&socket(5519)["received"]["total"], &socket(5519)["lower_bound"]), (&500.into(), &false.into()));
    let kept = |socket: &Value| socket["received"]["total"].as_u64();
    assert_eq!(kept(socket(5517)), Some(full.read), "{:#}", socket(5517));
    let lost = only(&last["drops"], |row| row["port"] == 5517 && row["reason"] == "SOCKET_RCVBUFF");
    assert_eq!(lost["datagrams"]["total"], full.lost());
    let closed = last["drops"].as_array().unwrap().iter().filter(|row| row["reason"] == "NO_SOCKET");
    let closed: u64 = closed.map(|row| row["datagrams"]["total"].as_u64().unwrap()).sum();
    assert_eq!((closed, &last["sources"]["trace_missed"]), (u64::from(u16::MAX) - 1, &0.into()));
}

/// What comes when capabilities have been given up: another user's program, another namespace, a function that drops.
#[test]
fn with_those_it_keeps_it_names_what_comes_later() {
    let (Some(machine), Some(other)) = (Machine::new(), Machine::new()) else { return };
    for user in ["0", "65534"] {
        let flags = ["--netns", "all", "--user", user];
        let mut service = watch(&machine, weir(&[&LINES[..], &flags].concat()));
        assert_eq!(decided(&mut service)["sources"]["trace"], "queues");
        let mut holder = Command::new("sleep");
        holder.arg("1000").uid(1234).stdin(OwnedFd::from(other.udp(FULL)));
        let holder = other.run(|| Started::spawn(holder));
        Full::overflow(&other);
        let deadline = Instant::now() + PATIENCE;
        let (mut process, mut function) = (Value::Null, Value::Null);
        while process != "sleep" || function.as_str().is_none_or(str::is_empty) {
            let snapshot = service.json();
            assert!(Instant::now() < deadline, "{process} {function} {snapshot:#}");
            process = snapshot["sockets"][0]["process"].clone();
            function = snapshot["drops"][0]["function"].clone();
        }
        drop(holder);
        service.stop();
    }
}
