use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use weir_trace::{Detail, Drop, InterfaceCount, Sends, SocketTrace};

use super::*;
use crate::account::book::Ledger;
use crate::account::evidence::{Evidence, NamespaceEvidence, SocketSeen};
use crate::account::receivers::ledgers;

const PORT: u16 = 5000;
const SENDER: u32 = 1;
const RECEIVER: u32 = 2;
const TO: u64 = 20;

fn passed(namespace: u32, port: u16, cookie: u64, datagrams: u64) -> InterfaceCount {
    InterfaceCount {
        namespace,
        interface: 2,
        port,
        cookie,
        datagrams,
        bytes: datagrams * 100,
        ..InterfaceCount::default()
    }
}

/// A socket that took so many and gave so many.
fn read(enqueued: u64, reads: u64) -> SocketTrace {
    SocketTrace {
        cookie: TO,
        namespace: RECEIVER,
        port: PORT,
        enqueued,
        reads,
        read_datagrams: Some(reads),
        read_bytes: reads * 100,
        queued_before: Some(0),
        ..SocketTrace::default()
    }
}

fn close(trace: Trace, drops: u64, everybody: &[SocketSeen]) -> Ledger {
    let namespace = |inode| NamespaceEvidence { inode, ..NamespaceEvidence::default() };
    let namespaces = vec![namespace(SENDER), namespace(RECEIVER)];
    let local = Some("10.0.0.2:5000".parse().unwrap());
    let sockets = vec![SocketSeen { local, drops, gone: false, ..SocketSeen::traced(TO, RECEIVER) }];
    let detail = Some(Detail::Everything);
    let evidence = Evidence { port: PORT, sockets, detail, trace, namespaces, ..Evidence::default() };
    ledgers(&evidence, everybody).remove(0)
}

/// The processor's time of this thread: however long others keep it waiting.
fn used() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

/// Of each, of four, one is refused by a firewall, one comes with a wrong checksum, and two are read. Where each sender looks at the
/// rows of all others, this takes minutes.
#[test]
fn tens_of_thousands_of_senders_to_a_port_are_accounted_for_in_seconds() {
    const SENDERS: u64 = 40_000;
    let cookie = |number: u64| 100 + number;
    let mut trace = Trace {
        arrivals: vec![passed(RECEIVER, PORT, 0, 3 * SENDERS)],
        sockets: vec![read(3 * SENDERS, 2 * SENDERS)],
        ..Trace::default()
    };
    for number in 0..SENDERS {
        let (cookie, from_port) = (cookie(number), 1000 + number as u16);
        let sent = Sends { cookie, namespace: SENDER, from_port, port: PORT, errno: 0, calls: 3, datagrams: 3 };
        trace.sends.push(sent);
        trace.sends.push(Sends { errno: Errno::EPERM as i32, calls: 1, datagrams: 1, ..sent });
        trace.departures.push(passed(SENDER, PORT, cookie, 3));
        trace.drops.push(Drop {
            reason: "NETFILTER_DROP".into(),
            function: "nf_hook_slow".into(),
            namespace: SENDER,
            cookie,
            outgoing: true,
            port: PORT,
            datagrams: 1,
            buffers: 1,
            ..Drop::default()
        });
    }
    trace.drops.push(Drop {
        reason: "UDP_CSUM".into(),
        function: "udp_recvmsg".into(),
        port: PORT,
        datagrams: SENDERS,
        buffers: SENDERS,
        ..Drop::default()
    });
    let process = |number: u64| Some((number as u32, format!("sender {number}")));
    let seen = |number| SocketSeen { process: process(number), ..SocketSeen::traced(cookie(number), SENDER) };
    let everybody: Vec<SocketSeen> = (0..SENDERS).map(seen).collect();
    let before = used();
    let ledger = close(trace, SENDERS, &everybody);
    let took = used() - before;
    assert_eq!(
        (ledger.sent, ledger.arrived, ledger.received),
        (Some(4 * SENDERS), Some(3 * SENDERS), Some(2 * SENDERS))
    );
    let places: Vec<(Place, u64)> = ledger.places.iter().map(|entry| (entry.place, entry.datagrams)).collect();
    assert_eq!(places, [(Place::FirewallOut, SENDERS), (Place::UdpChecksum, SENDERS)]);
    assert_eq!((ledger.pending, ledger.unexplained), (Some(0), Some(0)));
    assert_eq!(ledger.senders.len() as u64, SENDERS);
    for (number, sender) in (0..).zip(&ledger.senders) {
        assert_eq!(
            (sender.cookie, sender.sent, sender.pid.zip(sender.process.clone())),
            (cookie(number), 4, process(number))
        );
    }
    assert!(took < Duration::from_secs(30), "{took:?}");
}
