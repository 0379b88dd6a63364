//! More sockets and ports than the kernel's maps hold: what comes behind them is counted all the same.

use std::collections::HashSet;
use std::net::{Ipv4Addr, UdpSocket};

use weir_trace::{Detail, Extras, Prefixes, Tracer};

use super::host::{Host, LOCALHOST, cookie, drain, of, permitted, port};

/// A socket that lives for one datagram.
fn short_lived(sender: &UdpSocket) {
    let receiver = UdpSocket::bind((LOCALHOST, 0)).unwrap();
    sender.send_to(b"question", receiver.local_addr().unwrap()).unwrap();
    receiver.recv(&mut [0; 16]).unwrap();
}

#[test]
#[ignore = "long: 8 s, of what is to go"]
fn sockets_that_came_and_went_leave_room_for_the_next() {
    if !permitted() {
        return;
    }
    let host = Host::new();
    let sender = host.socket();
    let mut tracer = host.trace(&[]);
    for room in [false, true] {
        // More than there is room for, at once or with room made in between.
        host.ns
            .run(|| {
                for number in 0..SOCKETS {
                    short_lived(&sender);
                    if room && number % 10_000 == 0 {
                        tracer.read().unwrap();
                        tracer.remove_closed(|_| false).unwrap();
                    }
                }
            })
            .unwrap();
        let receiver = host.socket();
        for _ in 0..500 {
            sender.send_to(b"a", receiver.local_addr().unwrap()).unwrap();
            assert_eq!(drain(&receiver), 1);
        }
        let trace = tracer.read().unwrap();
        let own = of(&trace, cookie(&receiver));
        assert_eq!((own.reads, own.enqueued, own.port), (500, 500, port(&receiver)));
        assert_eq!(trace.missed.queues, 0);
        // What was lost is told, and nothing more where there was room.
        let missed = if room { 0 } else { SOCKETS - MOST };
        let before = trace.missed.sockets;
        assert!(room || before >= missed, "{before} of at least {missed}");
        let open = HashSet::from([cookie(&receiver)]);
        for _ in 0..2 {
            tracer.remove_closed(|cookie| open.contains(&cookie)).unwrap();
            let trace = tracer.read().unwrap();
            assert_eq!(of(&trace, cookie(&receiver)).reads, 500);
            assert_eq!(trace.missed.sockets, before);
        }
        assert_eq!(tracer.read().unwrap().sockets.len(), 1);
    }
}

#[test]
fn a_scan_of_all_ports_hides_no_loss_behind_it() {
    if !permitted() {
        return;
    }
    let host = Host::new();
    let (scanner, sender, receiver) = (host.socket(), host.socket(), host.socket());
    let mut tracer = host.trace(&[]);
    let open = [&scanner, &sender, &receiver].map(port);
    let mut scanned = 0;
    for port in (1..=u16::MAX).filter(|port| !open.contains(port)) {
        scanner.send_to(b"?", (LOCALHOST, port)).unwrap();
        scanned += 1;
    }
    for _ in 0..256 + 997 {
        sender.send_to(&[7; 100], receiver.local_addr().unwrap()).unwrap();
    }
    let told = |trace: &weir_trace::Trace| {
        let full: Vec<_> = trace.drops.iter().filter(|drop| drop.reason == "SOCKET_RCVBUFF").collect();
        let [full] = full[..] else { panic!("{full:?}") };
        assert_eq!((full.datagrams, full.port, full.cookie), (997, port(&receiver), cookie(&receiver)));
        let closed = || trace.drops.iter().filter(|drop| drop.reason == "NO_SOCKET");
        assert_eq!((closed().map(|drop| drop.datagrams).sum::<u64>(), trace.missed.drops), (scanned, 0));
        let gave_way: u64 = trace.drops.iter().filter(|drop| drop.port == 0).map(|drop| drop.datagrams).sum();
        assert_eq!(trace.missed.ports, gave_way);
        assert!(gave_way > scanned / 2, "{gave_way} of {scanned}");
    };
    told(&tracer.read().unwrap());
    for _ in 0..7 {
        sender.send_to(b"!", (LOCALHOST, 7)).unwrap();
    }
    let trace = tracer.read().unwrap();
    let closed: Vec<u64> = trace.drops.iter().filter(|drop| drop.port == 7).map(|drop| drop.datagrams).collect();
    assert!(matches!(closed[..], [7 | 8]), "{closed:?}");
}

const SOCKETS: u64 = 40_000;

/// Sockets that there is room for: those of the hash map, and the slots.
const MOST: u64 = 32_768 + 256;

#[test]
fn sources_beyond_the_table_are_told_to_have_given_way() {
    if !permitted() {
        return;
    }
    let host = Host::new();
    let receiver = host.socket();
    let followed = [port(&receiver)];
    let start = |by_source| {
        let extras = Extras { by_source: Some(by_source), ..Extras::default() };
        Tracer::start_with(Detail::Everything, &host.filter(&followed), &extras).unwrap()
    };
    let (mut addresses, mut networks) = (start(Prefixes::ADDRESSES), start(Prefixes { v4: 24, v6: 64 }));
    let to = receiver.local_addr().unwrap();
    host.ns
        .run(|| {
            for number in 0..SOURCES {
                let [_, _, high, low] = number.to_be_bytes();
                UdpSocket::bind((Ipv4Addr::new(127, 1, high, low), 0)).unwrap().send_to(b"a", to).unwrap();
            }
        })
        .unwrap();
    let queued = drain(&receiver);
    let lost = u64::from(SOURCES) - queued;
    assert!(lost > u64::from(SOURCES) / 2);
    let sums = |trace: &weir_trace::Trace| {
        let by_source = &trace.by_source;
        let arrived: u64 = by_source.arrivals.iter().map(|own| own.datagrams).sum();
        let dropped: u64 = by_source.drops.iter().map(|(_, drop)| drop.datagrams).sum();
        (arrived, dropped, by_source.evicted)
    };
    // All that is missing has given way, and is told.
    let trace = addresses.read().unwrap();
    let (arrived, dropped, evicted) = sums(&trace);
    assert!(evicted > 0 && arrived + dropped + evicted == u64::from(SOURCES) + lost, "{arrived} {dropped} {evicted}");
    assert_eq!(trace.drops.iter().map(|drop| drop.datagrams).sum::<u64>(), lost, "the other counts have all of it");
    assert_eq!(trace.missed.drops, 0);
    // Their networks have room.
    let trace = networks.read().unwrap();
    assert_eq!(sums(&trace), (u64::from(SOURCES), lost, 0));
    assert_eq!(trace.by_source.arrivals.len(), SOURCES as usize / 256);
    let host = trace.by_source.arrivals.iter().find(|own| own.source == Ipv4Addr::new(127, 1, 7, 0)).unwrap();
    assert_eq!((host.datagrams, host.port), (256, followed[0]));
}

/// More than there is room for, with two keys each.
const SOURCES: u32 = 20 * 1024;
