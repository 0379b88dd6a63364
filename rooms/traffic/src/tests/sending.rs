//! Ways of sending: what is to arrive does, when and how it should.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use weir_program::clock::nanos;
use weir_program::stop::Stop;

use super::{ANY, assert_all_arrived, closed_udp, receiver, run, sender};
use crate::*;

#[test]
fn every_datagram_arrives() {
    let settings = SenderSettings { keep_departures: 10_000, ..sender(Transport::Udp, ANY.parse().unwrap()) };
    let (sent, received) = run(settings, &receiver(Transport::Udp));
    assert_all_arrived(&sent, &received, 1000);
    let session = received.main_session().unwrap();
    assert_eq!(session.same_machine, Some(true));
    assert_eq!(sent.departures.len() as u64, sent.sent);
    assert!(sent.departures.is_sorted_by_key(|departure| departure.sent));
    assert_eq!(sent.departures.last().map(|departure| departure.sent), sent.last_send);
    let window = sent.window.unwrap();
    assert_eq!(window.end - window.start, 200_000_000);
    assert!(sent.first_send >= Some(window.start) && sent.last_send < Some(window.end));
}

#[test]
fn every_message_of_a_stream_arrives() {
    let (sent, received) = run(sender(Transport::Tcp, ANY.parse().unwrap()), &receiver(Transport::Tcp));
    assert_all_arrived(&sent, &received, 1000);
    let drained = sent.tcp_after_drain.unwrap();
    assert!(sent.connect.is_some());
    assert_eq!((drained.outstanding_bytes, received.connections, received.partial_bytes), (0, 1, 0));
}

#[test]
fn every_message_over_quic_arrives() {
    for transport in [Transport::Quic, Transport::QuicDatagram] {
        let (sent, received) = run(sender(transport, ANY.parse().unwrap()), &receiver(transport));
        assert_all_arrived(&sent, &received, 1000);
        assert!(sent.connect.is_some() && sent.tcp_after_drain.is_none());
        assert_eq!((sent.lost_packets, received.socket_drops), (Some(0), Some(0)));
        assert_eq!((received.connections, received.partial_bytes), (1, 0));
    }
}

#[test]
fn ipv6_short_messages_and_announced_ends() {
    for (transport, payload_bytes) in [
        (Transport::Udp, 16),
        (Transport::Tcp, 40),
        (Transport::Udp, 40),
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
            (session.announced, session.same_machine),
            (Some(sent.sent), Some(true)),
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
    for payload_bytes in [1472, 200, 40_000] {
        let settings = SenderSettings {
            pacing: Pacing::Schedule,
            payload_bytes,
            // 29 x 7 ms > 200 ms: the last interval is cut off.
            interval: Duration::from_micros(if payload_bytes < 10_000 { 70 } else { 7000 }),
            quantum: Duration::from_millis(2),
            keep_departures: 10_000,
            ..sender(Transport::Udp, ANY.parse().unwrap())
        };
        let receiving = ReceiverSettings { receive_buffer: Some(64 << 20), ..receiver(Transport::Udp) };
        let (sent, received) = run(settings.clone(), &receiving);
        assert_all_arrived(&sent, &received, payload_bytes as u64);
        assert_eq!(sent.sent, if payload_bytes < 10_000 { 2858 } else { 29 });

        // None early, each late by the quantum and what the machine adds.
        let window = sent.window.unwrap();
        let interval = settings.interval.as_nanos() as u64;
        assert_eq!(sent.departures.len() as u64, sent.sent);
        for (number, departure) in (0..).zip(&sent.departures) {
            assert!(departure.sent >= window.start + number * interval, "message {number} left early");
        }
        let mut times: Vec<_> = sent.departures.iter().map(|departure| departure.sent).collect();
        times.dedup();
        assert!(times.len() <= 200 / 2 + 2, "{} calls", times.len());
        assert_eq!(sent.lateness.n(), sent.sent);
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
        open(SenderSettings { payload_bytes: 39, ..settings.clone() }),
        "payload of 39B: a message over tcp has 40B to 4294967295B"
    );
    let message = open(SenderSettings { congestion: Some("fastest".into()), ..settings });
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
