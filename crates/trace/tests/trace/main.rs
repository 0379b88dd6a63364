//! What is traced of UDP datagrams, each in namespaces of its own, counted against what was done to them.

#![allow(clippy::unwrap_used)]

mod crowds;
mod fragments;
mod host;
mod packets;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{self, sockopt};
use weir_kernel::links::{BridgeSettings, MacAddress, Netlink};
use weir_trace::{Detail, Drop, Filter, Tracer};

use weir_testbed::await_that;

use host::{Host, LOCALHOST, cable, cookie, drain, of, only, permitted, port};

#[test]
fn a_full_receive_buffer() {
    if !permitted() {
        return;
    }
    let host = Host::new();
    let (sender, receiver) = (host.socket(), host.socket());
    let mut tracer = host.trace(&[port(&receiver)]);
    for _ in 0..1000 {
        sender.send_to(&[7; 100], receiver.local_addr().unwrap()).unwrap();
    }
    let trace = tracer.read().unwrap();
    let own = *of(&trace, cookie(&receiver));
    assert_eq!(
        only(&trace),
        &Drop {
            reason: "SOCKET_RCVBUFF".into(),
            function: trace.drops[0].function.clone(),
            namespace: host.inode,
            interface: 1,
            cookie: cookie(&receiver),
            port: port(&receiver),
            outgoing: false,
            datagrams: 1000 - own.enqueued,
            buffers: 1000 - own.enqueued,
        }
    );
    assert!(["", "udp_queue_rcv_one_skb"].contains(&trace.drops[0].function.as_str()), "{}", trace.drops[0].function);
    assert_eq!((own.namespace, own.port, own.reads), (host.inode, port(&receiver), 0));
    assert_eq!(
        (own.level, own.level_max),
        (own.receive_buffer, own.receive_buffer),
        "256 of 832 bytes fill it exactly"
    );

    assert_eq!(drain(&receiver), own.enqueued);
    let trace = tracer.read().unwrap();
    let own = of(&trace, cookie(&receiver));
    assert_eq!((own.reads, own.read_datagrams), (own.enqueued, Some(own.enqueued)));
    assert_eq!((own.read_bytes, own.level), (own.enqueued * 100, 0));
    // The trace has the numbers of the first PID namespace (PROC_PID_INIT_INO of include/linux/proc_ns.h).
    if fs::read_link("/proc/self/ns/pid").unwrap().as_os_str() == "pid:[4026531836]" {
        assert_eq!(own.reader, nix::unistd::gettid().as_raw() as u32);
    } else {
        weir_testbed::skip("knows no reader's number in another PID namespace");
    }

    // What passed on the way there.
    let passed = |interface_counts: &[weir_trace::InterfaceCount], cookie: u64| {
        assert_eq!(interface_counts.len(), 1, "{interface_counts:?}");
        let count = interface_counts[0];
        assert_eq!((count.namespace, count.interface, count.cookie), (host.inode, 1, cookie));
        assert_eq!((count.port, count.datagrams, count.bytes), (port(&receiver), 1000, 100_000));
    };
    passed(&trace.arrivals, 0);
    passed(&trace.departures, cookie(&sender));
    assert_eq!(trace.reassembling, 0);
}

#[test]
fn joined_buffers_count_as_their_datagrams() {
    if !permitted() {
        return;
    }
    let host = Host::new();
    let (sender, receiver) = (host.socket(), host.socket());
    socket::setsockopt(&sender, sockopt::UdpGsoSegment, &100).unwrap();
    socket::setsockopt(&receiver, sockopt::UdpGroSegment, &true).unwrap();
    let mut tracer = host.trace(&[port(&receiver)]);
    for _ in 0..100 {
        sender.send_to(&[7; 6390], receiver.local_addr().unwrap()).unwrap();
    }
    let trace = tracer.read().unwrap();
    let own = *of(&trace, cookie(&receiver));
    let lost = only(&trace);
    assert!(own.enqueued > 0 && lost.buffers > 0, "{own:?} {lost:?}");
    assert_eq!((lost.buffers, lost.datagrams), (100 - own.enqueued, (100 - own.enqueued) * 64));
    assert_eq!((trace.arrivals[0].datagrams, trace.arrivals[0].bytes), (6400, 639_000));
    assert_eq!((trace.departures[0].datagrams, trace.departures[0].bytes), (6400, 639_000));
    assert_eq!((trace.sends[0].calls, trace.sends[0].datagrams), (100, 6400));
    assert_eq!(drain(&receiver), own.enqueued);
    let own = *of(&tracer.read().unwrap(), cookie(&receiver));
    assert_eq!((own.reads, own.read_datagrams), (own.enqueued, Some(own.enqueued * 64)));

    // Of datagrams of other sizes nobody knows how many a read returned.
    socket::setsockopt(&sender, sockopt::UdpGsoSegment, &50).unwrap();
    sender.send_to(&[7; 200], receiver.local_addr().unwrap()).unwrap();
    assert_eq!(drain(&receiver), 1);
    assert_eq!(of(&tracer.read().unwrap(), cookie(&receiver)).read_datagrams, None);

    // A socket that joins nothing gets the same datagrams one by one.
    let plain = host.socket();
    tracer.follow(&host.filter(&[port(&plain)])).unwrap();
    socket::setsockopt(&sender, sockopt::UdpGsoSegment, &100).unwrap();
    for _ in 0..10 {
        sender.send_to(&[7; 6400], plain.local_addr().unwrap()).unwrap();
    }
    let trace = tracer.read().unwrap();
    let own = *of(&trace, cookie(&plain));
    let lost: u64 = trace.drops.iter().filter(|lost| lost.cookie == cookie(&plain)).map(|lost| lost.datagrams).sum();
    assert_eq!(own.enqueued + lost, 640);
    assert_eq!(drain(&plain), own.enqueued);
    assert_eq!(of(&tracer.read().unwrap(), cookie(&plain)).read_datagrams, Some(own.enqueued));
    assert_eq!(tracer.read().unwrap().missed.total(), 0);
}

#[test]
fn a_closed_port_and_ports_that_are_not_followed() {
    if !permitted() {
        return;
    }
    let host = Host::new();
    let sender = host.socket();
    let (followed, other) = (port(&host.socket()), port(&host.socket()));
    let mut tracer = host.trace(&[followed]);
    for _ in 0..7 {
        sender.send_to(b"a", (LOCALHOST, followed)).unwrap();
        sender.send_to(b"b", (LOCALHOST, other)).unwrap();
    }
    let trace = tracer.read().unwrap();
    let lost = only(&trace);
    assert_eq!((lost.reason.as_str(), lost.port, lost.datagrams), ("NO_SOCKET", followed, 7));
    assert_eq!((lost.cookie, lost.outgoing, lost.namespace), (0, false, host.inode));

    // From now on the other is followed, and another host, too: what was counted stays.
    let neighbour = Host::new();
    let ports = vec![other];
    tracer.follow(&Filter { ports, namespaces: vec![neighbour.inode, host.inode] }).unwrap();
    let stranger = neighbour.socket();
    for _ in 0..5 {
        sender.send_to(b"a", (LOCALHOST, followed)).unwrap();
        sender.send_to(b"b", (LOCALHOST, other)).unwrap();
        stranger.send_to(b"b", (LOCALHOST, other)).unwrap();
    }
    let trace = tracer.read().unwrap();
    let mut counts: Vec<_> = trace.drops.iter().map(|lost| (lost.namespace, lost.port, lost.datagrams)).collect();
    counts.sort();
    let mut expected = [(host.inode, followed, 7), (host.inode, other, 5), (neighbour.inode, other, 5)];
    expected.sort();
    assert_eq!(counts, expected);
    // A connected socket that is not followed does not appear; one that is not connected might send anywhere.
    assert_eq!(trace.missed.total(), 0);
}

#[test]
fn closed_with_data_unread() {
    if !permitted() {
        return;
    }
    let host = Host::new();
    let (sender, receiver) = (host.socket(), host.socket());
    let to = port(&receiver);
    let mut tracer = host.trace(&[to]);
    for _ in 0..10 {
        sender.send_to(&[7; 100], (LOCALHOST, to)).unwrap();
    }
    receiver.recv(&mut [0; 100]).unwrap();
    drop(receiver);
    await_that("the kernel to have done so", || !tracer.read().unwrap().drops.is_empty());
    await_that("the kernel to have done so", || {
        tracer.read().unwrap().drops.iter().map(|lost| lost.datagrams).sum::<u64>() == 9
    });
    let trace = tracer.read().unwrap();
    let lost = only(&trace);
    // Its queue no longer tells whose it was.
    assert_eq!((lost.cookie, lost.namespace, lost.port), (0, 0, to), "{lost:?}");
    assert!(lost.function.is_empty() || lost.function.starts_with("udp_destruct_"), "{lost:?}");
}

#[test]
fn a_firewall_at_the_output_and_at_the_input() {
    if !permitted() {
        return;
    }
    let host = Host::new();
    let (sender, receiver) = (host.socket(), host.socket());
    let to = port(&receiver);
    let unreachable = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), to));
    if !host.rules(&format!(
        "table ip t {{
            chain out {{ type filter hook output priority 0; udp dport {to} udp length 20 drop; }}
            chain in {{ type filter hook input priority 0; udp dport {to} udp length 21 drop; }}
        }}"
    )) {
        return;
    }
    let mut tracer = host.trace(&[to]);
    for _ in 0..3 {
        sender.send_to(&[0; 12], (LOCALHOST, to)).unwrap_err();
    }
    for _ in 0..4 {
        sender.send_to(&[0; 13], (LOCALHOST, to)).unwrap();
    }
    for _ in 0..5 {
        sender.send_to(&[0; 14], (LOCALHOST, to)).unwrap();
    }
    for _ in 0..6 {
        // Bound to loopback it cannot be sent elsewhere.
        sender.send_to(&[0; 14], unreachable).unwrap_err();
    }
    let trace = tracer.read().unwrap();
    assert_eq!(trace.missed.total(), 0);
    let mut drops: Vec<_> =
        trace.drops.iter().map(|lost| (lost.reason.as_str(), lost.outgoing, lost.cookie, lost.datagrams)).collect();
    drops.sort();
    assert_eq!(drops, [("NETFILTER_DROP", false, 0, 4), ("NETFILTER_DROP", true, cookie(&sender), 3)]);
    assert_eq!(drain(&receiver), 5);
    let mut sends: Vec<_> = trace.sends.iter().map(|sends| (sends.errno, sends.calls)).collect();
    sends.sort();
    assert_eq!(sends.iter().map(|(_, calls)| calls).sum::<u64>(), 18);
    assert!(sends.contains(&(0, 9)) && sends.contains(&(libc::EPERM, 3)), "{sends:?}");
    assert!(trace.sends.iter().all(|sends| sends.cookie == cookie(&sender) && sends.from_port == port(&sender)));
}

#[test]
fn a_reader_that_stalls_and_one_that_only_looks() {
    if !permitted() {
        return;
    }
    let host = Host::new();
    let (sender, receiver) = (host.socket(), host.socket());
    receiver.set_nonblocking(false).unwrap();
    let own = cookie(&receiver);
    let mut tracer = host.trace(&[port(&receiver)]);
    // It stalls from the first on.
    let begin = Instant::now();
    for _ in 0..20 {
        sender.send_to(&[7; 100], receiver.local_addr().unwrap()).unwrap();
    }
    await_that("the kernel to have done so", || of(&tracer.read().unwrap(), own).longest_stall_ns > 30_000_000);
    assert!(begin.elapsed() >= Duration::from_millis(29), "it is told while it goes on, and not before");
    receiver.peek(&mut [0; 100]).unwrap();
    assert_eq!(of(&tracer.read().unwrap(), own).reads, 0);
    receiver.set_nonblocking(true).unwrap();
    assert_eq!(drain(&receiver), 20);
    let after = *of(&tracer.read().unwrap(), own);
    assert_eq!(after.reads, 20);
    assert!(after.longest_stall_ns >= 30_000_000 && after.stalled_ns >= after.longest_stall_ns, "{after:?}");
    thread::sleep(Duration::from_millis(20));
    let later = *of(&tracer.read().unwrap(), own);
    assert_eq!(later.longest_stall_ns, after.longest_stall_ns, "an empty queue does not stall");
    assert_eq!(later.stalled_ns, after.stalled_ns);
}

#[test]
fn what_comes_through_a_bridge_arrives_once() {
    if !permitted() {
        return;
    }
    let [(sending, _), (receiving, _)] = cable();
    let mut netlink = Netlink::open(&receiving.ns).unwrap();
    let settings =
        BridgeSettings { mac: MacAddress::local(100), multicast_snooping: false, ageing: Duration::from_secs(300) };
    let bridge = netlink.add_bridge("br0", &settings).unwrap();
    let port_index = netlink.link("eth0").unwrap().index;
    netlink.set_bridge(port_index, bridge).unwrap();
    let to = Ipv4Addr::new(10, 0, 1, 2);
    netlink.add_address(bridge, format!("{to}/24").parse().unwrap()).unwrap();
    netlink.set_up(bridge).unwrap();
    let mut netlink = Netlink::open(&sending.ns).unwrap();
    let index = netlink.link("eth0").unwrap().index;
    netlink.add_address(index, "10.0.1.1/24".parse().unwrap()).unwrap();
    let (sender, receiver) = (sending.socket_at(Ipv4Addr::UNSPECIFIED), receiving.socket_at(to));
    let mut tracer = receiving.trace(&[port(&receiver)]);
    for _ in 0..9 {
        sender.send_to(&[7; 100], (to, port(&receiver))).unwrap();
    }
    let mut read = 0;
    await_that("the kernel to have done so", || {
        read += drain(&receiver);
        read == 9
    });
    let trace = tracer.read().unwrap();
    let arrivals: Vec<_> = trace.arrivals.iter().map(|own| (own.interface, own.datagrams)).collect();
    assert_eq!(arrivals, [(bridge, 9)]);
}

/// Capabilities belong to threads: this one gives them up.
#[test]
fn without_privilege_the_reason_is_one_line() {
    let refused = thread::spawn(|| {
        caps::clear(None, caps::CapSet::Effective).unwrap();
        Tracer::start(Detail::Everything, &Filter::default()).err().unwrap().to_string()
    });
    let refused = refused.join().unwrap();
    assert!(refused.contains("needs CAP_BPF and CAP_PERFMON") && !refused.contains('\n'), "{refused}");
}

#[test]
fn a_kernel_without_a_tracepoint_is_traced_in_less_detail() {
    if !permitted() {
        return;
    }
    let mut types = fs::read("/sys/kernel/btf/vmlinux").unwrap();
    let name = b"\0btf_trace_sk_data_ready\0";
    let at = types.windows(name.len()).position(|window| window == name).unwrap();
    types[at + name.len() - 2] = b'_';
    let file = std::env::temp_dir().join(format!("weir-types-{}", std::process::id()));
    fs::write(&file, types).unwrap();
    let tracer = Tracer::start_with_types(&file, Detail::Everything, &Filter::default());
    fs::remove_file(&file).unwrap();
    let tracer = tracer.unwrap();
    assert_eq!(tracer.detail(), Detail::Drops);
    assert_eq!(tracer.refused(), ["trace sk_data_ready: this kernel has no such tracepoint"]);
}
