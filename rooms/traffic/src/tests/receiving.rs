//! What a receiver makes of whatever is sent to it.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use weir_program::clock::{id, now};
use weir_program::stop::Stop;
use weir_wire::probe::Kind;

use super::{ANY, datagram, receiver, sender};
use crate::*;

/// Sends the datagrams to a receiver that ends once they are announced.
fn receive(datagrams: &[Vec<u8>], session: Option<u16>) -> ReceiveReport {
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    let until = Until { announced: true, idle: Some(Duration::from_secs(1)), ..Until::default() };
    let receiver = Receiver::bind(&ReceiverSettings { until, session, ..receiver(Transport::Udp) }).unwrap();
    let socket = UdpSocket::bind(ANY).unwrap();
    for datagram in datagrams {
        assert_eq!(socket.send_to(datagram, receiver.local_addr()).unwrap(), datagram.len());
    }
    receiver.run(&exchange, &stop)
}

/// As by address translation that has forgotten a flow: 2,000 messages each from two sockets.
#[test]
fn a_flow_whose_socket_is_replaced_in_the_middle_loses_nothing() {
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    let until = Until { announced: true, ..Until::default() };
    let settings = ReceiverSettings { until, receive_buffer: Some(16 << 20), ..receiver(Transport::Udp) };
    let receiver = Receiver::bind(&settings).unwrap();
    let (to, clock) = (receiver.local_addr(), id().unwrap().get());
    let received = thread::scope(|scope| {
        let received = scope.spawn(|| receiver.run(&exchange, &stop));
        for half in [0..2000, 2000..4000] {
            let socket = UdpSocket::bind(ANY).unwrap();
            for number in half {
                socket.send_to(&datagram(Kind::Message, number, clock), to).unwrap();
            }
            while exchange.delivered() % 2000 != 0 {
                thread::yield_now();
            }
        }
        UdpSocket::bind(ANY).unwrap().send_to(&datagram(Kind::End, 4000, clock), to).unwrap();
        received.join().unwrap()
    });
    let [session] = &received.sessions[..] else { panic!("{received:?}") };
    assert_eq!((received.ended, session.delivered, session.announced), (Ended::Complete, 4000, Some(4000)));
}

#[test]
fn tells_duplicates_reordering_and_foreign_datagrams_apart() {
    let boot = id().unwrap().get();
    let mut datagrams: Vec<Vec<u8>> =
        [0, 1, 3, 2, 3, 5, 1].iter().map(|&n| datagram(Kind::Message, n, boot).to_vec()).collect();
    datagrams.extend([Vec::new(), b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0xa7; 1400]]);
    let mut other = datagram(Kind::Message, 0, boot);
    other[3] = 8;
    datagrams.push(other.to_vec());
    let mut cut = datagram(Kind::Message, 4, boot).to_vec();
    cut.push(0);
    datagrams.push(cut);
    datagrams.push(datagram(Kind::End, 7, boot).to_vec());

    let received = receive(&datagrams, Some(7));
    let session = received.main_session().unwrap();
    assert_eq!((session.delivered, session.duplicates, session.reordered), (5, 2, 1));
    assert_eq!((received.foreign, received.sessions.len()), (5, 1));
    assert_eq!((session.announced, session.sent_at_least()), (Some(7), 7));
    assert_eq!(session.numbers.missing(7), Some(vec![4, 6]));
    assert_eq!((session.in_window, session.delays.n()), (5, 5));

    // Without a wish for one session the other one is an account of its own.
    let received = receive(&datagrams, None);
    assert_eq!((received.foreign, received.sessions.len()), (4, 2));
    assert_eq!(received.ended, Ended::Idle, "session 8 has not announced its end");
}

#[test]
fn what_the_socket_buffer_cannot_hold_is_counted_by_the_kernel() {
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    let receiver =
        Receiver::bind(&ReceiverSettings { receive_buffer: Some(4096), ..receiver(Transport::Udp) }).unwrap();
    let socket = UdpSocket::bind(ANY).unwrap();
    for number in 0..100 {
        socket.send_to(&datagram(Kind::Message, number, 1), receiver.local_addr()).unwrap();
    }
    exchange.close(100, now());
    let received = receiver.run(&exchange, &stop);
    let delivered = received.main_session().unwrap().delivered;
    assert!(delivered > 0 && delivered < 100);
    assert_eq!((received.socket_drops, received.ended), (Some(100 - delivered), Ended::Deadline));
}

#[test]
fn claims_no_delay_across_machines() {
    let boot = id().unwrap().get() ^ 1;
    let datagrams = [datagram(Kind::Message, 0, boot).to_vec(), datagram(Kind::End, 1, boot).to_vec()];
    let received = receive(&datagrams, None);
    let session = received.main_session().unwrap();
    assert_eq!(received.ended, Ended::Complete);
    assert_eq!((session.same_machine, session.delivered, session.delays.n()), (Some(false), 1, 0));
}

#[test]
fn strangers_on_a_stream_end_nothing_and_are_counted() {
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    let until = Until { announced: true, ..Until::default() };
    let receiver = Receiver::bind(&ReceiverSettings { until, ..receiver(Transport::Tcp) }).unwrap();
    let address = receiver.local_addr();
    let received = thread::scope(|scope| {
        let received = scope.spawn(|| receiver.run(&exchange, &stop));
        // A port scan, a health check that says nothing, and one that speaks; each is gone before the sender comes.
        drop(TcpStream::connect(address).unwrap());
        let mut peer = TcpStream::connect(address).unwrap();
        peer.write_all(b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n").unwrap();
        assert_eq!(peer.read(&mut [0; 8]).unwrap_or(0), 0, "it is hung up on");
        let settings = SenderSettings { announce: true, ..sender(Transport::Tcp, address) };
        let there = Exchange::new(Duration::ZERO).unwrap();
        let sent = Sender::open(&settings).unwrap().run(&there, &stop);
        assert_eq!(sent.errors, vec![]);
        received.join().unwrap()
    });
    assert_eq!((received.ended, received.foreign, received.connections), (Ended::Complete, 1, 3));
    assert_eq!(received.sessions.len(), 1);
}

#[test]
fn a_full_house_of_silent_connections_has_room_for_a_sender() {
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    let until = Until { announced: true, ..Until::default() };
    let receiver = Receiver::bind(&ReceiverSettings { until, ..receiver(Transport::Tcp) }).unwrap();
    let address = receiver.local_addr();
    let received = thread::scope(|scope| {
        let received = scope.spawn(|| receiver.run(&exchange, &stop));
        let silent: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(address).unwrap()).collect();
        let settings = SenderSettings { announce: true, ..sender(Transport::Tcp, address) };
        let there = Exchange::new(Duration::ZERO).unwrap();
        let sent = Sender::open(&settings).unwrap().run(&there, &stop);
        assert_eq!((&sent.errors, sent.sent > 0), (&vec![], true));
        drop(silent);
        received.join().unwrap()
    });
    assert_eq!(received.ended, Ended::Complete);
    assert!(received.foreign >= 45, "{received:?}");
}

#[test]
fn a_full_house_of_senders_that_fell_silent_has_room_for_another() {
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    let receiver = Receiver::bind(&receiver(Transport::Tcp)).unwrap();
    let (address, boot) = (receiver.local_addr(), id().unwrap().get());
    let say = |sender: u16| {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut message = datagram(Kind::Message, 0, boot);
        message[28..30].copy_from_slice(&sender.to_be_bytes());
        stream.write_all(&message).unwrap();
        stream
    };
    // Far more tries than anybody needs.
    let heard = |messages: u64| {
        (0..30_000).any(|_| {
            exchange.delivered() == messages || {
                thread::sleep(Duration::from_millis(1));
                false
            }
        })
    };
    let (all_heard, room, received) = thread::scope(|scope| {
        let received = scope.spawn(|| receiver.run(&exchange, &stop));
        let _silent: Vec<TcpStream> = (0..256).map(&say).collect();
        let all_heard = heard(256);
        let _another = say(256);
        let room = heard(257);
        stop.set();
        (all_heard, room, received.join().unwrap())
    });
    assert!(all_heard && room, "{received:?}");
    assert_eq!((received.connections, received.evicted_connections, received.foreign), (257, 1, 0));
    assert_eq!((received.sessions.len(), received.errors), (257, vec![]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    #[test]
    fn arbitrary_datagrams_never_harm(
        bytes in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 0..20),
    ) {
        let boot = id().unwrap().get();
        let mut datagrams = bytes;
        datagrams.push(datagram(Kind::Message, 0, boot).to_vec());
        datagrams.push(datagram(Kind::End, 1, boot).to_vec());
        let received = receive(&datagrams, Some(7));
        prop_assert_eq!(received.sessions.len(), 1);
        prop_assert_eq!(received.sessions[0].delivered, 1);
        prop_assert_eq!(received.foreign, datagrams.len() as u64 - 2);
    }
}
