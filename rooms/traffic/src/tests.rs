//! Both ends over real sockets on the loopback interface.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use weir_service::clock::{id, nanos, now};
use weir_service::stop::Stop;
use weir_wire::control::{CONTROL_LEN, Control, Says, Terms};
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
    assert_eq!((received.sessions.len(), received.foreign, received.unlisted), (1, 0, 0));
    assert_eq!((session.delivered, session.delivered_bytes), (sent.sent, sent.sent * bytes));
    assert_eq!((session.duplicates, session.reordered, session.stale), (0, 0, 0));
    assert_eq!(session.numbers.missing(sent.sent), Some(vec![]));
    assert_eq!(session.delays.n(), sent.sent);
    assert_eq!((session.session, session.peer), (7, sent.local.unwrap()));
}

#[test]
fn every_datagram_arrives() {
    let settings = SenderSettings { keep_send_times: true, ..sender(Transport::Udp, ANY.parse().unwrap()) };
    let (sent, received) = run(settings, &receiver(Transport::Udp));
    assert_all_arrived(&sent, &received, 1000);
    let session = received.main_session().unwrap();
    assert_eq!(session.machine, Machine::Same);
    assert_eq!(session.intended_delays.n(), sent.sent);
    assert!(session.intended_delays.delays().sum_ns() >= session.delays.delays().sum_ns());
    assert_eq!(sent.send_times.len() as u64, sent.sent);
    assert!(sent.send_times.is_sorted());
    assert_eq!(sent.send_times.last().copied(), sent.last_send);
    let window = sent.window.unwrap();
    assert_eq!(window.end - window.start, 200_000_000);
    assert!(sent.first_send >= Some(window.start) && sent.last_send < Some(window.end));
}

#[test]
fn every_message_of_a_stream_arrives() {
    let (sent, received) = run(sender(Transport::Tcp, ANY.parse().unwrap()), &receiver(Transport::Tcp));
    assert_all_arrived(&sent, &received, 1000);
    let (at_end, drained) = (sent.tcp_at_end.unwrap(), sent.tcp_after_drain.unwrap());
    assert!(sent.connect.is_some() && at_end.sent_bytes <= drained.sent_bytes);
    assert_eq!((drained.outstanding_bytes(), received.connections, received.partial_bytes), (0, 1, 0));
}

#[test]
fn every_message_over_quic_arrives() {
    for transport in [Transport::Quic, Transport::QuicDatagram] {
        let (sent, received) = run(sender(transport, ANY.parse().unwrap()), &receiver(transport));
        assert_all_arrived(&sent, &received, 1000);
        assert!(sent.connect.is_some() && sent.tcp_at_end.is_none() && sent.tcp_after_drain.is_none());
        assert_eq!((sent.lost_packets, received.socket_drops), (Some(0), Some(0)));
        assert_eq!((received.connections, received.partial_bytes), (1, 0));
    }
}

#[test]
fn ipv6_short_messages_and_announced_ends() {
    for (transport, payload_bytes) in [
        (Transport::Udp, 16),
        (Transport::Tcp, 16),
        (Transport::Tcp, 39),
        (Transport::Udp, 40),
        (Transport::Quic, 16),
        (Transport::Quic, 40),
        (Transport::QuicDatagram, 16),
        (Transport::QuicDatagram, 1414),
    ] {
        let receiving = ReceiverSettings { transport, ..ReceiverSettings::new("[::1]:0".parse().unwrap()) };
        let settings = SenderSettings { payload_bytes, announce: true, ..sender(transport, receiving.listen) };
        let receiving =
            ReceiverSettings { until: Until { settle: Duration::from_millis(300), ..Until::default() }, ..receiving };
        let (sent, received) = run(settings, &receiving);
        assert_all_arrived(&sent, &received, payload_bytes as u64);
        let session = received.main_session().unwrap();
        assert_eq!(
            (session.announced, session.machine),
            (Some(sent.sent), Machine::Same),
            "{transport} {payload_bytes}"
        );
    }
}

#[test]
fn a_schedule_keeps_its_count() {
    let settings = SenderSettings { pacing: Pacing::Schedule, ..sender(Transport::Udp, ANY.parse().unwrap()) };
    let (sent, received) = run(settings, &receiver(Transport::Udp));
    assert_all_arrived(&sent, &received, 1000);
    // Late ones are made up for, behind the window, too.
    assert_eq!(sent.sent, 50);
}

#[test]
fn batches_send_all_of_a_schedule_at_few_times() {
    for (payload_bytes, coalesce) in [(1472, true), (200, false), (40_000, false)] {
        let settings = SenderSettings {
            pacing: Pacing::Schedule,
            payload_bytes,
            // 29 x 7 ms > 200 ms: the last interval is cut off.
            interval: Duration::from_micros(if payload_bytes < 10_000 { 70 } else { 7000 }),
            quantum: Duration::from_millis(2),
            keep_send_times: true,
            ..sender(Transport::Udp, ANY.parse().unwrap())
        };
        let receiving = ReceiverSettings { coalesce, receive_buffer: Some(64 << 20), ..receiver(Transport::Udp) };
        let (sent, received) = run(settings.clone(), &receiving);
        assert_all_arrived(&sent, &received, payload_bytes as u64);
        assert_eq!(sent.sent, if payload_bytes < 10_000 { 2858 } else { 29 });

        // None early, each late by the quantum and what the machine adds.
        let window = sent.window.unwrap();
        let interval = settings.interval.as_nanos() as u64;
        assert_eq!(sent.send_times.len() as u64, sent.sent);
        for (number, &at) in (0..).zip(&sent.send_times) {
            assert!(at >= window.start + number * interval, "message {number} left early");
        }
        let mut times = sent.send_times.clone();
        times.dedup();
        assert!(times.len() <= 200 / 2 + 2, "{} calls", times.len());
        assert_eq!(sent.lateness.n(), sent.sent);
        let session = received.main_session().unwrap();
        assert!(session.intended_delays.delays().sum_ns() >= session.delays.delays().sum_ns());
    }
}

#[test]
fn a_schedule_that_cannot_be_kept_is_given_up_after_its_overtime() {
    let nobody_reads = UdpSocket::bind(ANY).unwrap();
    let goes_on_behind_the_window = |quantum| {
        let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
        let settings = SenderSettings {
            pacing: Pacing::Schedule,
            // 5 million in 50 ms.
            interval: Duration::from_nanos(10),
            duration: Duration::from_millis(50),
            overtime: Duration::from_millis(50),
            quantum,
            ..sender(Transport::Udp, nobody_reads.local_addr().unwrap())
        };
        let sent = Sender::open(&settings).unwrap().run(&exchange, &stop);
        let (window, last) = (sent.window.unwrap(), sent.last_send.unwrap());
        assert!((1..5_000_000).contains(&sent.sent), "{}", sent.sent);
        assert!(last < window.start + 100_000_000, "{last} {window:?}");
        // The rate is what the wire has seen, not what the plan was.
        assert!(nanos(sent.used) >= last - window.start, "{last} {sent:?}");
        assert_eq!((sent.due, sent.shortfall()), (Some(5_000_000), 5_000_000 - sent.sent));
        last > window.end
    };
    for quantum in [Duration::ZERO, Duration::from_millis(1)] {
        // A machine that stands still from before the end of the window on sends nothing behind it, but not each time.
        assert!((0..50).any(|_| goes_on_behind_the_window(quantum)));
    }
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

#[test]
fn batches_to_nobody_are_sent_all_the_same() {
    let (_held, closed) = closed_udp();
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    let settings = SenderSettings {
        pacing: Pacing::Schedule,
        quantum: Duration::from_millis(10),
        ..sender(Transport::Udp, closed)
    };
    let sent = Sender::open(&settings).unwrap().run(&exchange, &stop);
    assert_eq!((sent.sent, exchange.closed()), (50, Some(50)));
    assert_eq!((sent.errors.len(), sent.errors[0].error.as_str()), (1, "connection refused"), "{:?}", sent.errors);
}

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
        assert!(sent.tcp_at_end.unwrap().unsent_bytes > 0);
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
fn a_connection_that_asks_on_is_refused_once() {
    let reverse = Some(ReverseSettings { rate: 1_000_000, duration: Duration::from_secs(1), flows: 1 });
    let receiver = Receiver::bind(&ReceiverSettings { reverse, ..receiver(Transport::Tcp) }).unwrap();
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    let mut asking = TcpStream::connect(receiver.local_addr()).unwrap();
    let terms = Terms { payload: 1000, interval: 1000, duration: 1, count: 0, scheduled: true, both: false };
    let ask = Control { session: 7, request: 1, cookie: None, says: Says::Ask(terms) }.bytes();
    let received = thread::scope(|scope| {
        let received = scope.spawn(|| receiver.run(&exchange, &stop));
        for _ in 0..3 {
            asking.write_all(&ask).unwrap();
            let mut answer = [0; CONTROL_LEN];
            asking.read_exact(&mut answer).unwrap();
            assert_eq!(Control::parse(&answer).unwrap().says, Says::Refused(Refusal::Rate(1_000_000)));
        }
        stop.set();
        received.join().unwrap()
    });
    assert_eq!(received.requests, Requests { refused: 1, ..Requests::default() });
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

/// A datagram of session 7.
fn datagram(kind: Kind, sequence: u32, clock: u32) -> [u8; 40] {
    let extension = Some(Extension { intended: now(), clock, incarnation: 1, length: 40 });
    let mut bytes = [0; 40];
    Probe { kind, session: 7, sequence, sent: now(), extension }.write(&mut bytes).unwrap();
    bytes
}

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
    assert_eq!((session.machine, session.delivered, session.delays.n()), (Machine::Other, 1, 0));
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
fn silence_ends_what_was_not_announced() {
    for transport in [Transport::Tcp, Transport::Udp, Transport::Quic] {
        let until = Until {
            announced: true,
            idle: Some(Duration::from_millis(100)),
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
            (Ended::Idle, if transport == Transport::Quic { vec![] } else { vec![None] })
        );
    }
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
fn a_count_ends_each_way_of_sending() {
    for (pacing, quantum) in [
        (Pacing::Sleep, Duration::ZERO),
        (Pacing::Schedule, Duration::ZERO),
        (Pacing::Schedule, Duration::from_millis(20)),
    ] {
        let settings = SenderSettings {
            pacing,
            quantum,
            count: std::num::NonZeroU64::new(7),
            duration: Duration::from_secs(3600),
            ..sender(Transport::Udp, ANY.parse().unwrap())
        };
        let (sent, received) = run(settings, &receiver(Transport::Udp));
        assert_all_arrived(&sent, &received, 1000);
        assert_eq!((sent.sent, sent.shortfall()), (7, 0));
        assert!(sent.used < Duration::from_secs(60));
    }
}

#[test]
fn packets_bear_their_code_point() {
    for (transport, to) in
        [(Transport::Udp, ANY), (Transport::Udp, "[::1]:0"), (Transport::Tcp, ANY), (Transport::Tcp, "[::1]:0")]
    {
        let to: SocketAddr = to.parse().unwrap();
        let marked = SenderSettings { dscp: Some(46), ..sender(transport, to) };
        let field = Sender::open(&marked).unwrap().traffic_class();
        assert_eq!(field, Some(46 << 2), "{transport} {to}");
    }
}

#[test]
fn errors_say_what_to_do() {
    let held = UdpSocket::bind(ANY).unwrap();
    let taken = held.local_addr().unwrap();
    let error = |result: Result<Receiver, TrafficError>| result.unwrap_err().to_string();
    let bind = |listen: SocketAddr| error(Receiver::bind(&ReceiverSettings::new(listen)));
    assert_eq!(
        bind(taken),
        format!("bind {taken}: address already in use (another program listens there: choose another port, or end it)")
    );
    assert_eq!(
        bind("192.0.2.1:9".parse().unwrap()),
        "bind 192.0.2.1:9: cannot assign requested address \
         (no interface has this address: `0.0.0.0` or `[::]` listens on all)"
    );
    let open = |settings: SenderSettings| Sender::open(&settings).unwrap_err().to_string();
    let settings = sender(Transport::Tcp, taken);
    assert_eq!(
        open(SenderSettings { payload_bytes: 15, ..settings.clone() }),
        "payload of 15B: a message over tcp has between 16B and 4294967295B"
    );
    let tcp = TcpSettings { congestion: Some("fastest".into()), nodelay: false };
    let message = open(SenderSettings { tcp, ..settings });
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    let available = available.split_whitespace().collect::<Vec<_>>().join(", ");
    assert_eq!(
        message,
        format!(
            "set TCP_CONGESTION to fastest: no such file or directory \
             (available: {available}; others are kernel modules: modprobe tcp_NAME)"
        )
    );
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
