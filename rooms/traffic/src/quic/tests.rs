//! QUIC over the loopback interface: what is its own. What all transports share is in `traffic/tests.rs`.

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use weir_program::clock::{nanos, now};
use weir_program::stop::Stop;

use super::*;
use crate::{
    Ended, Exchange, Pacing, ReceiveReport, Receiver, ReceiverSettings, SendReport, Sender, SenderSettings, Transport,
    Until, in_words,
};

const ANY: &str = "127.0.0.1:0";

fn sending(transport: Transport, to: SocketAddr) -> SenderSettings {
    SenderSettings { transport, duration: Duration::from_millis(200), ..SenderSettings::new(to) }
}

fn receiving(transport: Transport) -> ReceiverSettings {
    ReceiverSettings { transport, ..ReceiverSettings::new(ANY.parse().unwrap()) }
}

fn run(settings: SenderSettings) -> (SendReport, ReceiveReport) {
    let (exchange, stop) = (Exchange::new(Duration::from_secs(10)).unwrap(), Stop::new().unwrap());
    let receiver = Receiver::bind(&receiving(settings.transport)).unwrap();
    let sender = Sender::open(&SenderSettings { to: receiver.local_addr(), ..settings }).unwrap();
    thread::scope(|scope| {
        let received = scope.spawn(|| receiver.run(&exchange, &stop));
        (sender.run(&exchange, &stop), received.join().unwrap())
    })
}

#[test]
fn messages_of_a_stream_keep_their_order_whatever_their_size() {
    // From a part of a packet to more than the send buffer holds.
    for payload_bytes in [100, 50_000, 3_000_000] {
        let is_one_sent = |window_ms| {
            let duration = Duration::from_millis(window_ms);
            let settings = SenderSettings {
                payload_bytes,
                interval: Duration::ZERO,
                duration,
                send_buffer: Some(1 << 20),
                ..sending(Transport::Quic, ANY.parse().unwrap())
            };
            let (sent, received) = run(settings);
            assert_eq!((&sent.errors, &received.errors), (&vec![], &vec![]));
            assert_eq!((sent.used, sent.send_buffer), (duration, Some(1 << 20)));
            assert!(
                sent.blocked > Duration::ZERO || payload_bytes < 1 << 20,
                "what does not fit into the buffer waits"
            );
            assert!(received.partial_bytes <= sent.partial_bytes);
            if sent.sent == 0 {
                return false;
            }
            let session = received.main_session().unwrap();
            assert_eq!((received.ended, session.delivered, session.reordered), (Ended::Complete, sent.sent, 0));
            assert_eq!(session.delivered_bytes, sent.sent * payload_bytes as u64);
            true
        };
        // A busy machine takes a while for 3 MB.
        assert!([200, 1_000, 5_000, 60_000].into_iter().any(is_one_sent), "{payload_bytes}");
    }
}

#[test]
fn datagrams_faster_than_the_path_wait_for_quinn() {
    let delivered = |window_ms| {
        let settings = SenderSettings {
            interval: Duration::ZERO,
            duration: Duration::from_millis(window_ms),
            send_buffer: Some(65_536),
            drain: Duration::ZERO,
            ..sending(Transport::QuicDatagram, ANY.parse().unwrap())
        };
        let (sent, received) = run(settings);
        assert_eq!((&sent.errors, sent.partial_bytes), (&vec![], 0));
        let Some(session) = received.main_session() else { return 0 };
        assert!(session.delivered <= sent.sent);
        assert_eq!((session.duplicates, session.delivered_bytes), (0, session.delivered * 1000));
        // What quinn held back at the end, and what the kernel dropped before a receiver that got no processor: 64 a
        // buffer at most.
        let missing = sent.sent - session.delivered;
        assert!(missing <= 100 + 64 * received.socket_drops.unwrap(), "{missing}: {:?}", received.socket_drops);
        session.delivered
    };
    // More than are under way at once, for which a busy machine needs longer.
    assert!([200, 200, 1_000, 5_000, 30_000].into_iter().any(|window_ms| delivered(window_ms) > 100));
}

/// quinn has less room for datagrams than it was given, also when none waits.
#[test]
fn datagrams_that_have_left_end_the_drain() {
    let settings = SenderSettings {
        drain: Duration::from_secs(600),
        announce: true,
        ..sending(Transport::QuicDatagram, ANY.parse().unwrap())
    };
    let (begin, stop) = (now(), Stop::new().unwrap());
    let [ours, theirs] = [(); 2].map(|()| Exchange::new(Duration::MAX).unwrap());
    let receiver = Receiver::bind(&receiving(settings.transport)).unwrap();
    let sender = Sender::open(&SenderSettings { to: receiver.local_addr(), ..settings }).unwrap();
    let sent = thread::scope(|scope| {
        scope.spawn(|| receiver.run(&theirs, &stop));
        let sent = sender.run(&ours, &stop);
        stop.set();
        sent
    });
    // But for an announcement of the end that the receiver did not wait for.
    assert!(sent.errors.is_empty() && sent.left_behind <= 72, "{sent:?}");
    assert_eq!((sent.never_left, sent.acknowledged), (0, Some(true)));
    assert!(sent.sent > 0 && now() - begin < nanos(Duration::from_secs(300)));
}

#[test]
fn the_engine_adds_little_delay() {
    for transport in [Transport::Quic, Transport::QuicDatagram] {
        let adds_little = |_| {
            let settings = SenderSettings {
                interval: Duration::from_millis(2),
                pacing: Pacing::Schedule,
                duration: Duration::from_secs(1),
                ..sending(transport, ANY.parse().unwrap())
            };
            let (sent, received) = run(settings);
            let delays = received.main_session().unwrap().delays.delays();
            let (delay, late) = (delays.quantile_us(0.5).unwrap().value, sent.lateness.quantile_us(0.5).unwrap().value);
            println!("{transport}: n {}, median {delay:.0} us, late by {late:.0} us", delays.n());
            // Most are a few system calls away. How long a thread of a busy machine waits for its turn, the sender's
            // lateness tells; a message wakes a few.
            delay < 1000.0 + 10.0 * late
        };
        assert!((0..10).any(adds_little), "{transport}");
    }
}

#[test]
fn nobody_there() {
    // Somebody else's socket: it hears and says nothing.
    let silent = UdpSocket::bind(ANY).unwrap();
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    let settings = SenderSettings {
        connect_timeout: Duration::from_millis(100),
        ..sending(Transport::Quic, silent.local_addr().unwrap())
    };
    let begin = now();
    let sent = Sender::open(&settings).unwrap().run(&exchange, &stop);
    assert!(now() - begin >= nanos(settings.connect_timeout));
    assert_eq!((sent.sent, sent.connect, sent.lost_packets), (0, None, None));
    let expected = format!("connect: connection timed out: perhaps nothing listens on {}", settings.to);
    assert_eq!(in_words(&sent.errors), expected);
}

/// Text, and messages as over UDP: quinn answers one of 1200 bytes and more with the versions that it knows.
#[test]
fn datagrams_that_are_not_quic_are_foreign() {
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    let until = Until { idle: Some(Duration::from_millis(100)), idle_from_start: true, ..Until::default() };
    let receiver = Receiver::bind(&ReceiverSettings { until, ..receiving(Transport::Quic) }).unwrap();
    let socket = UdpSocket::bind(ANY).unwrap();
    for bytes in [&b"GET / HTTP/1.1"[..], &[0; 20], &[0xa7; 1000], &[0xa7; 1400]] {
        socket.send_to(bytes, receiver.local_addr()).unwrap();
    }
    let received = receiver.run(&exchange, &stop);
    assert_eq!((received.ended, received.foreign, received.connections), (Ended::Idle, 4, 0));
}

/// Each would take the other's connection, and hear nothing of what it says.
#[test]
fn a_stream_and_datagrams_refuse_each_other_at_both_ends() {
    let both = [Transport::Quic, Transport::QuicDatagram];
    for (listens, sends) in [(both[0], both[1]), (both[1], both[0])] {
        let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
        let receiver = Receiver::bind(&receiving(listens)).unwrap();
        let sender = Sender::open(&sending(sends, receiver.local_addr())).unwrap();
        let (sent, received) = thread::scope(|scope| {
            let received = scope.spawn(|| receiver.run(&exchange, &stop));
            (sender.run(&exchange, &stop), received.join().unwrap())
        });
        let why = "one end has --transport quic, the other quic-datagram. Use the same at both ends.";
        assert_eq!((sent.sent, in_words(&sent.errors)), (0, format!("connect: {why}")));
        assert_eq!((received.connections, in_words(&received.errors)), (0, format!("accept: {why}")));
    }
}

#[test]
fn a_peer_that_goes_away_ends_the_run_and_is_counted() {
    let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
    let listener = Listener::bind(&receiving(Transport::Quic)).unwrap();
    let settings =
        SenderSettings { duration: Duration::from_secs(60), ..sending(Transport::Quic, listener.local_addr()) };
    let sender = Sender::open(&settings).unwrap();
    let sent = thread::scope(|scope| {
        scope.spawn(|| {
            let mut arrivals = listener;
            let mut events = Vec::new();
            while !events.iter().any(|event| matches!(event, Event::Message { .. })) {
                arrivals.next(&mut events, None, &[]);
            }
        });
        sender.run(&exchange, &stop)
    });
    assert!(sent.sent >= 1 && sent.used < Duration::from_secs(60));
    assert_eq!((sent.errors.len(), sent.errors[0].operation), (1, "send"), "{sent:?}");
}

/// As of a receiver that was killed, or behind a firewall that has changed its mind.
#[test]
fn what_a_peer_that_falls_silent_has_not_acknowledged_is_told() {
    for transport in [Transport::Quic, Transport::QuicDatagram] {
        let (exchange, stop) = (Exchange::new(Duration::ZERO).unwrap(), Stop::new().unwrap());
        let listener = Listener::bind(&receiving(transport)).unwrap();
        let settings = SenderSettings {
            interval: Duration::ZERO,
            duration: Duration::from_secs(2),
            // More than is under way at first.
            send_buffer: Some(1 << 20),
            drain: Duration::from_millis(300),
            announce: true,
            ..sending(transport, listener.local_addr())
        };
        let sender = Sender::open(&settings).unwrap();
        let (over, sender_is_over) = std::sync::mpsc::channel::<()>();
        let sent = thread::scope(|scope| {
            scope.spawn(|| {
                let sender_is_over = sender_is_over;
                let mut arrivals = listener;
                let mut events = Vec::new();
                while events.iter().all(|event| matches!(event, Event::Connected)) {
                    arrivals.next(&mut events, None, &[]);
                }
                // It lives, and does nothing.
                let _ = sender_is_over.recv();
            });
            let sent = sender.run(&exchange, &stop);
            drop(over);
            sent
        });
        assert_eq!((sent.sent > 0, sent.acknowledged), (true, Some(false)), "{transport}");
        assert_eq!(sent.never_left > 0, transport == Transport::QuicDatagram, "{transport}");
    }
}

#[test]
fn settings_that_cannot_work_are_refused_in_one_line() {
    let open = |settings: SenderSettings| Sender::open(&settings).unwrap_err().to_string();
    let settings = sending(Transport::QuicDatagram, "127.0.0.1:9".parse().unwrap());
    assert_eq!(
        open(SenderSettings { payload_bytes: 1435, ..settings.clone() }),
        "payload of 1435B: a message over quic-datagram has 16B to 1434B"
    );
    let with = |name: &str| SenderSettings { congestion: Some(name.to_owned()), ..settings.clone() };
    assert_eq!(open(with("vegas")), "quic.congestion `vegas`: use cubic, newreno, bbr");
    for name in CONGESTION {
        Sender::open(&with(name)).unwrap();
    }
}

#[test]
fn the_longest_datagram_is_what_quinn_can_send() {
    for (address, longest) in [("127.0.0.1:0", 1434), ("[::1]:0", 1414)] {
        let listen: SocketAddr = address.parse().unwrap();
        assert_eq!(longest_datagram(listen), longest);
        let stop = Stop::new().unwrap();
        let settings = ReceiverSettings { listen, ..receiving(Transport::QuicDatagram) };
        let listener = Listener::bind(&settings).unwrap();
        let to = listener.local_addr();
        let mut client = Client::open(&sending(Transport::QuicDatagram, to)).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut arrivals = listener;
                while !stop.is_set() {
                    arrivals.next(&mut Vec::new(), None, &[PollFd::new(stop.as_fd(), PollFlags::POLLIN)]);
                }
            });
            client.length = longest + 1;
            let error = client.connect(to, u64::MAX, &stop).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("payload of {}B: a QUIC datagram on this path holds at most {longest}B", longest + 1)
            );
            client.length = longest;
            client.connect(to, u64::MAX, &stop).unwrap();
            stop.set();
        });
    }
}
