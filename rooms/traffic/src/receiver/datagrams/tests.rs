//! What comes while a receiver ends.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_kernel::counters;
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_program::clock::now;
use weir_program::stop::Stop;
use weir_wire::probe::{Extension, Kind, Probe};

use crate::{Ended, Exchange, Receiver, ReceiverSettings, Until};

const ANY: &str = "127.0.0.1:0";

fn message(number: u32) -> [u8; 40] {
    let extension = Some(Extension { intended: now(), clock: 1, incarnation: 1, length: 40 });
    let mut bytes = [0; 40];
    Probe { kind: Kind::Message, session: 7, sequence: number, sent: now(), extension }.write(&mut bytes).unwrap();
    bytes
}

/// A receiver that ends after this time, whatever comes.
fn for_so_long(duration: Duration) -> ReceiverSettings {
    let until = Until { duration: Some(duration), ..Until::default() };
    ReceiverSettings { until, ..ReceiverSettings::new(ANY.parse().unwrap()) }
}

/// 200 of 40 bytes fit into the kernel's default buffer, and are more than one look takes.
#[test]
fn what_waits_when_the_time_is_over_is_taken() {
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    let receiver = Receiver::bind(&for_so_long(Duration::ZERO)).unwrap();
    let socket = UdpSocket::bind(ANY).unwrap();
    for number in 0..200 {
        socket.send_to(&message(number), receiver.local_addr()).unwrap();
    }
    let received = receiver.run(&exchange, &stop);
    assert_eq!((received.ended, received.socket_drops, received.late_drops), (Ended::Deadline, Some(0), 0));
    assert_eq!(received.main_session().map(|session| session.delivered), Some(200));
}

/// A flow that goes on when the receiver ends: each datagram is received, or the kernel has counted that it was not.
#[test]
fn nothing_is_left_in_a_socket_that_is_closed_under_a_flow() {
    let ns = NetNs::create().unwrap();
    Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    let bind = || (Receiver::bind(&for_so_long(Duration::from_millis(20))).unwrap(), UdpSocket::bind(ANY).unwrap());
    let (receiver, socket) = ns.run(bind).unwrap();
    let (to, over) = (receiver.local_addr(), AtomicBool::new(false));
    let (sent, received) = thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut sent = 0;
            while !over.load(Ordering::Relaxed) {
                socket.send_to(&message(sent), to).unwrap();
                sent += 1;
            }
            i64::from(sent)
        });
        let received = receiver.run(&exchange, &stop);
        over.store(true, Ordering::Relaxed);
        (sending.join().unwrap(), received)
    });
    let delivered = received.main_session().map_or(0, |session| session.delivered as i64);
    // The kernel's own thread may be about to count the last ones.
    let begin = Instant::now();
    let counted = loop {
        let counters = counters::snmp(&ns).unwrap();
        let lost: i64 = ["InErrors", "NoPorts"].iter().map(|name| counters.get("Udp", name).unwrap()).sum();
        if delivered + lost == sent || begin.elapsed() > Duration::from_secs(20) {
            break delivered + lost;
        }
        thread::yield_now();
    };
    assert_eq!(counted, sent, "{delivered} of them received");
}
