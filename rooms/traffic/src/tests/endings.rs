//! How both ends come to an end, and who is not there.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use weir_program::clock::{id, now};
use weir_program::stop::Stop;
use weir_wire::probe::{Kind, Probe};

use super::{ANY, closed_tcp, closed_udp, datagram, receiver, sender};
use crate::*;

#[test]
fn the_window_ends_although_the_peer_does_not_read() {
    for payload_bytes in [10_000, 20_000_000] {
        let listener = TcpListener::bind(ANY).unwrap();
        let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
        let settings = SenderSettings {
            payload_bytes,
            interval: Duration::ZERO,
            send_buffer: Some(65_536),
            drain: Duration::from_millis(100),
            ..sender(Transport::Tcp, listener.local_addr().unwrap())
        };
        let sender = Sender::open(&settings).unwrap();
        let begin = now();
        let sent = sender.run(&exchange, &stop);
        let took = Duration::from_nanos(now() - begin);
        assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(20), "{took:?}");
        assert_eq!(sent.used, Duration::from_millis(200), "nothing was sent behind the window");
        // From when on, the machine decides.
        assert!(sent.blocked > Duration::ZERO, "{:?}", sent.blocked);
        assert!(sent.tcp_after_drain.unwrap().outstanding_bytes > 0);
        assert_eq!((exchange.closed(), &sent.errors), (Some(sent.sent), &vec![]));
        assert_eq!(sent.sent > 0, payload_bytes == 10_000);
        assert!(sent.sent > 0 || sent.partial_bytes > 0);

        // What counts as sent is what the kernel has, byte for byte.
        let (mut peer, _) = listener.accept().unwrap();
        let mut bytes = Vec::new();
        peer.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, sent.sent_bytes + sent.partial_bytes);
        assert_eq!(sent.sent_bytes, sent.sent * payload_bytes as u64);
    }
}

/// Larger than what the kernel takes, and not read before the window is over.
#[test]
fn a_message_that_the_window_cuts_is_finished_before_the_end_is_announced() {
    let listener = TcpListener::bind(ANY).unwrap();
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    let settings = SenderSettings {
        payload_bytes: 20_000_000,
        drain: Duration::from_secs(60),
        announce: true,
        ..sender(Transport::Tcp, listener.local_addr().unwrap())
    };
    let sender = Sender::open(&settings).unwrap();
    let (sent, bytes) = thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let (mut peer, _) = listener.accept().unwrap();
            while exchange.window().is_none_or(|window| now() < window.end) {
                thread::yield_now();
            }
            let mut bytes = Vec::new();
            peer.read_to_end(&mut bytes).unwrap();
            bytes
        });
        (sender.run(&exchange, &stop), reading.join().unwrap())
    });
    assert_eq!((sent.sent, sent.partial_bytes, exchange.closed()), (1, 0, Some(1)));
    let end = Probe::parse_datagram(&bytes[20_000_000..]).unwrap();
    assert_eq!((end.kind, end.sequence), (Kind::End, 1));
}

#[test]
fn a_reset_ends_the_run_and_is_counted() {
    let listener = TcpListener::bind(ANY).unwrap();
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    let settings =
        SenderSettings { duration: Duration::from_secs(60), ..sender(Transport::Tcp, listener.local_addr().unwrap()) };
    let sender = Sender::open(&settings).unwrap();
    let sent = thread::scope(|scope| {
        scope.spawn(|| {
            let (mut peer, _) = listener.accept().unwrap();
            peer.read_exact(&mut [0; 2500]).unwrap();
            socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
        });
        sender.run(&exchange, &stop)
    });
    assert!(sent.sent >= 3 && sent.used < Duration::from_secs(60));
    assert_eq!(sent.errors.len(), 1);
    assert_eq!((sent.errors[0].operation, sent.errors[0].count), ("send", 1));
}

#[test]
fn nobody_there() {
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    let (_held, closed) = closed_tcp();
    let sent = Sender::open(&sender(Transport::Tcp, closed)).unwrap().run(&exchange, &stop);
    assert_eq!((sent.sent, sent.window, exchange.closed()), (0, None, Some(0)));
    assert_eq!(in_words(&sent.errors), "connect: connection refused");

    let (_held, closed) = closed_udp();
    let exchange = Exchange::new(Duration::ZERO).unwrap();
    let settings = SenderSettings { pacing: Pacing::Schedule, ..sender(Transport::Udp, closed) };
    let sent = Sender::open(&settings).unwrap().run(&exchange, &stop);
    // Every datagram is answered, and none is skipped for the answer to the one before. A kernel with much to do may
    // answer a few together.
    assert_eq!((sent.sent, sent.errors.len()), (50, 1), "{sent:?}");
    assert!(sent.errors[0].error == "connection refused" && (40..=50).contains(&sent.errors[0].count), "{sent:?}");
}

#[test]
fn a_stop_ends_both_ends_at_once() {
    for transport in [Transport::Udp, Transport::Tcp, Transport::Quic, Transport::QuicDatagram] {
        let (exchange, stop) = (Exchange::new(Duration::from_secs(60)).unwrap(), Stop::new().unwrap());
        let receiver = Receiver::bind(&receiver(transport)).unwrap();
        let settings = SenderSettings {
            duration: Duration::from_secs(60),
            interval: Duration::from_secs(60),
            ..sender(transport, receiver.local_addr())
        };
        let sender = Sender::open(&settings).unwrap();
        let (exchange, stop) = (&exchange, &stop);
        let begin = now();
        thread::scope(|scope| {
            let received = scope.spawn(move || receiver.run(exchange, stop));
            let sent = scope.spawn(move || sender.run(exchange, stop));
            while exchange.delivered() == 0 {
                thread::yield_now();
            }
            stop.set();
            assert!(sent.join().unwrap().stopped);
            assert_eq!(received.join().unwrap().ended, Ended::Stopped);
        });
        assert!(now() - begin < 20_000_000_000);
    }
}

#[test]
fn a_stop_waits_for_what_is_under_way() {
    // Of a sender in this process, and of one that announces its end.
    for (transport, here) in [Transport::Udp, Transport::Tcp, Transport::Quic, Transport::QuicDatagram]
        .into_iter()
        .flat_map(|transport| [(transport, true), (transport, false)])
    {
        let exchange = || Exchange::new(Duration::from_secs(60)).unwrap();
        let (exchange, elsewhere) = (exchange(), exchange());
        let (stop, never) = (Stop::new().unwrap(), Stop::new().unwrap());
        let until = Until { under_way: Duration::from_secs(60), ..Until::default() };
        let receiver = Receiver::bind(&ReceiverSettings { until, ..receiver(transport) }).unwrap();
        let settings = SenderSettings { announce: !here, ..sender(transport, receiver.local_addr()) };
        let sender = Sender::open(&settings).unwrap();
        let (sent, received) = thread::scope(|scope| {
            let received = scope.spawn(|| receiver.run(&exchange, &stop));
            let sent = scope.spawn(|| sender.run(if here { &exchange } else { &elsewhere }, &never));
            while exchange.delivered() == 0 {
                thread::yield_now();
            }
            stop.set();
            (sent.join().unwrap(), received.join().unwrap())
        });
        let delivered = received.main_session().unwrap().delivered;
        assert_eq!((delivered, received.ended), (sent.sent, Ended::Stopped), "{transport} {here}");
    }
}

#[test]
fn the_drain_ends_what_never_completes() {
    let (exchange, stop) = (Exchange::new(Duration::from_millis(50)).unwrap(), Stop::new().unwrap());
    let receiver = Receiver::bind(&receiver(Transport::Udp)).unwrap();
    exchange.close(1, now());
    let begin = now();
    let received = receiver.run(&exchange, &stop);
    assert_eq!((received.ended, received.sessions.len()), (Ended::Deadline, 0));
    assert!((50_000_000..5_000_000_000).contains(&(now() - begin)));
}

#[test]
fn silence_ends_what_was_not_announced() {
    for transport in [Transport::Tcp, Transport::Udp, Transport::Quic] {
        let until = Until {
            announced: true,
            // A closed connection is no silence, but the end 1 s later.
            idle: Some(Duration::from_millis(if transport == Transport::Tcp { 60_000 } else { 100 })),
            idle_from_start: transport == Transport::Quic,
            ..Until::default()
        };
        let receiver = Receiver::bind(&ReceiverSettings { until, ..receiver(transport) }).unwrap();
        let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
        let message = datagram(Kind::Message, 0, id().unwrap().get());
        if transport == Transport::Tcp {
            // Gone without an end, as one that was killed.
            TcpStream::connect(receiver.local_addr()).unwrap().write_all(&message).unwrap();
        } else if transport == Transport::Udp {
            UdpSocket::bind(ANY).unwrap().send_to(&message, receiver.local_addr()).unwrap();
        }
        let received = receiver.run(&exchange, &stop);
        assert_eq!(
            (received.ended, received.sessions.iter().map(|s| s.announced).collect::<Vec<_>>()),
            (
                if transport == Transport::Tcp { Ended::Closed } else { Ended::Idle },
                if transport == Transport::Quic { vec![] } else { vec![None] }
            )
        );
    }
}
