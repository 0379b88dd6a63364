//! What the kernel drops before the tee can take it is counted to the datagram.

use super::Tee;
use super::datagrams::{Sink, source};
use super::network::network;

#[test]
fn what_a_stopped_tee_misses_is_known() {
    let Some([client, host, a]) = network(["client", "tee", "a"]) else { return };
    let sink = Sink::bind(&a, a.at(5000));
    let before = host.counters();
    let tee = Tee::start(&host, &["0.0.0.0:5000"], &["10.0.0.3:5000"]);
    let socket = source(&client, client.at(0));
    // Of a next hop that is not known yet, what comes until it answers waits in a queue that has a limit of its own.
    socket.send_to(b"first", host.at(5000)).unwrap();
    sink.take(1);
    tee.suspend(true);
    for number in 0..SENT {
        socket.send_to(&number.to_be_bytes().repeat(250), host.at(5000)).unwrap();
    }
    tee.suspend(false);
    let account = tee.end();
    let (received, lost) = account.received();
    assert!(received > 0 && lost > 0, "the buffer was never full: {account:?}");
    assert_eq!(received + lost, u64::from(SENT) + 1);
    // The kernel's own count of the host.
    let since = host.counters().since(&before);
    assert_eq!(since.get("Udp", "RcvbufErrors"), Some(lost.cast_signed()));
    assert_eq!((account.sent("10.0.0.3:5000"), account.drops("10.0.0.3:5000")), (received, vec![]));
    assert_eq!(sink.take(usize::try_from(received).unwrap() - 1).len() as u64, received - 1);
}

/// 1000 bytes each: several times what the largest receive buffer holds.
const SENT: u32 = 50_000;
