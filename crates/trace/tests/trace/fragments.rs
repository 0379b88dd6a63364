//! Datagrams in pieces.

use std::net::{Ipv4Addr, SocketAddrV4};

use nix::sys::socket;
use weir_kernel::sysctl;
use weir_trace::{Detail, Filter, Tracer};

use weir_testbed::await_that;

use super::host::{cable, drain, only, permitted, port, start};

/// Fragments 2 and 3 of each datagram reach the reassembly, or 1 and 3.
#[test]
fn a_fragmented_datagram_is_lost_once_where_its_first_piece_was() {
    for (which, reason) in
        [("ip frag-off & 0x3fff == 0x2000", "NETFILTER_DROP"), ("ip frag-off & 0x1fff == 185", "FRAG_REASM_TIMEOUT")]
    {
        if permitted() {
            lost_once(which, reason);
        }
    }
}

fn lost_once(which: &str, reason: &str) {
    let [(sending, _), (receiving, to)] = cable();
    let (sender, receiver) = (sending.socket_at(Ipv4Addr::UNSPECIFIED), receiving.socket_at(Ipv4Addr::UNSPECIFIED));
    let ports = [port(&receiver)];
    let namespaces = vec![sending.inode, receiving.inode];
    sysctl::set(&receiving.ns, &[("ipv4/ipfrag_time", "1")]).unwrap();
    // 1,480 bytes a fragment: the second begins at 185 * 8.
    let rule = format!("table ip t {{ chain c {{ type filter hook prerouting priority -450; {which} drop; }}; }}");
    if !receiving.rules(&rule) {
        return;
    }
    let mut tracer = start(&Filter { ports: ports.to_vec(), namespaces });
    for _ in 0..6 {
        sender.send_to(&[7; 4000], (to, ports[0])).unwrap();
    }
    for _ in 0..3 {
        sender.send_to(&[7; 1000], (to, ports[0])).unwrap();
    }
    await_that("the kernel to have done so", || receiving.counter("Ip", "ReasmFails") >= 6);
    let trace = tracer.read().unwrap();
    let lost = only(&trace);
    assert_eq!((lost.reason.as_str(), lost.datagrams, lost.port), (reason, 6, ports[0]));
    assert_eq!((lost.namespace, lost.outgoing), (receiving.inode, false));
    assert_eq!(trace.reassembling, 0);
    assert_eq!(trace.arrivals.iter().map(|count| count.datagrams).sum::<u64>(), 9);
    assert_eq!(trace.departures.iter().map(|count| count.datagrams).sum::<u64>(), 9);
    assert_eq!(trace.departures.iter().map(|count| count.bytes).sum::<u64>(), 27_000);
    assert_eq!(drain(&receiver), 3);

    // Whole ones are no longer waited for.
    assert!(receiving.rules("flush ruleset"));
    for _ in 0..4 {
        sender.send_to(&[7; 4000], (to, ports[0])).unwrap();
    }
    assert_eq!(drain(&receiver), 4);
    let trace = tracer.read().unwrap();
    assert_eq!((trace.reassembling, only(&trace).datagrams), (0, 6));
}

#[test]
fn fragments_that_wait_are_neither_lost_nor_there() {
    if !permitted() {
        return;
    }
    let [(sending, _), (receiving, to)] = cable();
    let receiver = receiving.socket_at(Ipv4Addr::UNSPECIFIED);
    let own = port(&receiver);
    sysctl::set(&receiving.ns, &[("ipv4/ipfrag_time", "2")]).unwrap();
    let raw = sending
        .ns
        .run(|| {
            socket::socket(
                socket::AddressFamily::Inet,
                socket::SockType::Raw,
                socket::SockFlag::empty(),
                socket::SockProtocol::Raw,
            )
        })
        .unwrap()
        .unwrap();
    let mut tracer = receiving.trace(&[own]);
    let piece = |id: u16, offset: u16, more: bool, port: u16| {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        packet[6..8].copy_from_slice(&((offset / 8) | if more { 0x2000 } else { 0 }).to_be_bytes());
        packet.extend([4, 210]);
        packet.extend(port.to_be_bytes());
        packet.extend([0, 40, 0, 0]);
        packet.extend([7; 8]);
        let address = socket::SockaddrIn::from(SocketAddrV4::new(to, 0));
        socket::sendto(std::os::fd::AsRawFd::as_raw_fd(&raw), &packet, &address, socket::MsgFlags::empty()).unwrap();
    };
    piece(1, 0, true, own); // the rest never comes
    piece(2, 16, true, 0); // the first never comes
    piece(3, 0, true, own ^ 1); // nobody follows it
    await_that("the kernel to have done so", || receiving.counter("Ip", "ReasmReqds") == 3);
    let trace = tracer.read().unwrap();
    assert_eq!((trace.reassembling, trace.drops.len()), (1, 0), "{:?}", trace.drops);
    await_that("the kernel to have done so", || receiving.counter("Ip", "ReasmFails") == 3);
    let trace = tracer.read().unwrap();
    let lost = only(&trace);
    assert_eq!((lost.reason.as_str(), lost.port, lost.datagrams), ("FRAG_REASM_TIMEOUT", own, 1));
    assert_eq!(trace.reassembling, 0);
}

/// Its pieces hang on its first: freed with it, they are no loss of their own.
#[test]
fn a_joined_datagram_that_is_dropped_counts_once() {
    if !permitted() {
        return;
    }
    let [(sending, _), (receiving, to)] = cable();
    let sender = sending.socket_at(Ipv4Addr::UNSPECIFIED);
    let (closed, other) = {
        let sockets = [0; 2].map(|_| receiving.socket_at(Ipv4Addr::UNSPECIFIED));
        (port(&sockets[0]), port(&sockets[1]))
    };
    let mut tracer = Tracer::start(Detail::Drops, &receiving.filter(&[closed])).unwrap();
    for _ in 0..5 {
        sender.send_to(&[7; 8000], (to, other)).unwrap();
        sender.send_to(&[7; 8000], (to, closed)).unwrap();
    }
    await_that("the kernel to have done so", || receiving.counter("Udp", "NoPorts") == 10);
    let trace = tracer.read().unwrap();
    let lost = only(&trace);
    assert_eq!((lost.reason.as_str(), lost.port, lost.datagrams), ("NO_SOCKET", closed, 5));
    assert_eq!((trace.arrivals.len(), trace.sends.len(), trace.sockets.len()), (0, 0, 0));
}
