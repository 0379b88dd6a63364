//! Both ends over real sockets on the loopback interface.

mod endings;
mod receiving;
mod sending;

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use weir_program::clock::now;
use weir_program::stop::Stop;
use weir_wire::probe::{Extension, Kind, Probe};

use crate::*;

const ANY: &str = "127.0.0.1:0";

/// 50 messages: they fit into a socket buffer, so that a receiver that gets no processor loses none.
fn sender(transport: Transport, to: SocketAddr) -> SenderSettings {
    SenderSettings {
        transport,
        interval: Duration::from_millis(4),
        duration: Duration::from_millis(200),
        overtime: Duration::from_secs(10),
        session: 7,
        ..SenderSettings::new(to)
    }
}

fn receiver(transport: Transport) -> ReceiverSettings {
    ReceiverSettings { transport, ..ReceiverSettings::new(ANY.parse().unwrap()) }
}

/// Runs both ends to their end.
fn run(mut sending: SenderSettings, receiving: &ReceiverSettings) -> (SendReport, ReceiveReport) {
    let (exchange, stop) = (Exchange::new(Duration::from_secs(10)).unwrap(), Stop::new().unwrap());
    let receiver = Receiver::bind(receiving).unwrap();
    sending.to = receiver.local_addr();
    let sender = Sender::open(&sending).unwrap();
    let reports = thread::scope(|scope| {
        let received = scope.spawn(|| receiver.run(&exchange, &stop));
        (sender.run(&exchange, &stop), received.join().unwrap())
    });
    assert_eq!(exchange.closed(), Some(reports.0.sent));
    assert_eq!(
        (exchange.sent(), exchange.delivered()),
        (reports.0.sent, reports.1.main_session().map_or(0, |s| s.delivered))
    );
    reports
}

fn assert_all_arrived(sent: &SendReport, received: &ReceiveReport, bytes: u64) {
    assert_eq!((&sent.errors, &received.errors), (&vec![], &vec![]));
    let session = received.main_session().unwrap();
    assert!(sent.sent > 0);
    assert_eq!(received.ended, Ended::Complete);
    assert_eq!((received.sessions.len(), received.foreign), (1, 0));
    assert_eq!((session.delivered, session.delivered_bytes), (sent.sent, sent.sent * bytes));
    assert_eq!((session.duplicates, session.reordered, session.stale), (0, 0, 0));
    assert_eq!(session.numbers.missing(sent.sent), Some(vec![]));
    assert_eq!(session.delays.n(), sent.sent);
    assert_eq!((session.session, session.peer), (7, sent.local.unwrap()));
}

/// An address at which nobody listens for as long as the socket lives: it takes only what it sends itself.
fn closed_udp() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind(ANY).unwrap();
    let address = socket.local_addr().unwrap();
    socket.connect(address).unwrap();
    (socket, address)
}

/// The same for TCP: it does not listen.
pub(super) fn closed_tcp() -> (socket2::Socket, SocketAddr) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&ANY.parse::<SocketAddr>().unwrap().into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

/// A datagram of session 7.
fn datagram(kind: Kind, sequence: u32, clock: u32) -> [u8; 40] {
    let extension = Some(Extension { intended: now(), clock, incarnation: 1, length: 40 });
    let mut bytes = [0; 40];
    Probe { kind, session: 7, sequence, sent: now(), extension }.write(&mut bytes).unwrap();
    bytes
}
