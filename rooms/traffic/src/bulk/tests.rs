//! Both ends over real sockets: on the loopback interface, and between networks of our own where a path has to fail.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use weir_kernel::counters::{self, Interfaces};
use weir_kernel::links::{MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;
use weir_program::clock::now;

use super::*;
use crate::in_words;

const ANY: &str = "127.0.0.1:0";

fn settings() -> BulkSettings {
    BulkSettings {
        duration: Duration::from_millis(300),
        batch: Duration::from_millis(50),
        congestion: Some("cubic".into()),
        ..BulkSettings::new(ANY.parse().unwrap())
    }
}

/// Runs both ends until something came in time and the connections were looked at in the warm-up. A busy machine may need
/// longer: the settings with their times as they were at last.
fn over_loopback_from_the_start(settings: &BulkSettings) -> (BulkSettings, BulkReport) {
    let BulkSettings { warmup, duration, batch, .. } = *settings;
    let tries = [1, 1, 4, 16, 64].map(|longer| {
        let (warmup, duration, batch) = (warmup * longer, duration * longer, batch * longer);
        BulkSettings { warmup, duration, batch, ..settings.clone() }
    });
    let reports = tries.into_iter().map(|settings| {
        let report = over_loopback(&settings);
        (settings, report)
    });
    let is_whole = |(settings, report): &(BulkSettings, BulkReport)| {
        report.received_bytes > 0 && report.samples.first().is_some_and(|first| first.at < settings.warmup)
    };
    reports.into_iter().find(is_whole).expect("nothing came, or nobody looked")
}

/// Runs both ends over the loopback interface.
fn over_loopback(settings: &BulkSettings) -> BulkReport {
    let receiver = Receiver::bind(settings).unwrap();
    let sender = Sender::open(&BulkSettings { to: receiver.local_addr(), ..settings.clone() }).unwrap();
    run(sender, receiver, now(), &Stop::new().unwrap())
}

#[test]
fn every_received_byte_is_in_a_batch() {
    let warmup = Duration::from_millis(60);
    let (settings, report) = over_loopback_from_the_start(&BulkSettings { warmup, ..settings() });
    assert_eq!((&report.errors, report.streams, report.connected, report.stopped), (&vec![], 1, 1, false));
    assert!(report.received_bytes > 0 && report.sent_bytes >= report.received_bytes, "{report:?}");
    assert_eq!((report.batches.len(), report.batch), (6, settings.batch));
    assert_eq!(report.batches.iter().sum::<u64>(), report.received_bytes);
    let window = report.window.unwrap();
    assert_eq!((u128::from(window.end - window.start), report.used), (settings.duration.as_nanos(), settings.duration));
    assert!(report.connect.unwrap() < Duration::from_secs(5));

    let [first, .., last] = &report.samples[..] else { panic!("{:?}", report.samples) };
    assert!(first.at < settings.warmup && last.at >= settings.warmup + settings.duration, "{first:?} {last:?}");
    assert!(report.samples.is_sorted_by_key(|sample| (sample.at, sample.retransmits)));
    assert!(last.congestion_window > 0 && last.rtt > Duration::ZERO && last.delivery_rate > Some(0), "{last:?}");
    let [end] = report.at_end[..] else { panic!("{:?}", report.at_end) };
    assert_eq!(report.retransmits, Some(end.retransmits.into()));
    // What the kernel was handed, but for what is acknowledged between its two answers.
    assert!(end.acked_bytes - 1 + u64::from(end.outstanding_bytes) <= report.sent_bytes, "{report:?}");
    assert_eq!(report.engine, format!("weir {}: tcp, cubic", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_warmup_does_not_count() {
    let warmup = Duration::from_millis(300);
    let (settings, report) = over_loopback_from_the_start(&BulkSettings { warmup, ..settings() });
    let end = report.at_end[0];
    assert!(report.received_bytes < end.acked_bytes, "{report:?}");
    let began = report.window.unwrap().start;
    let sending = report.samples.last().unwrap().at;
    assert!(sending >= settings.warmup + settings.duration, "{sending:?} since {began}");
}

#[test]
fn streams_share_the_window() {
    let mut settings = BulkSettings { streams: 8, congestion: Some("reno".into()), ..settings() };
    settings.to = "[::1]:0".parse().unwrap();
    let report = over_loopback(&settings);
    assert_eq!((&report.errors, report.streams, report.connected), (&vec![], 8, 8));
    assert_eq!(report.batches.iter().sum::<u64>(), report.received_bytes);
    assert_eq!(report.at_end.len(), 8);
    assert!(report.at_end.iter().all(|end| end.acked_bytes > 1), "a stream had no turn: {:?}", report.at_end);
    for stream in 0..8 {
        assert!(report.samples.iter().any(|sample| sample.stream == stream));
    }
    assert!(report.engine.ends_with("tcp, reno"), "{}", report.engine);
}

#[test]
fn quic_streams_share_the_window() {
    for (streams, congestion) in [(1, "cubic"), (4, "newreno"), (2, "bbr")] {
        let warmup = Duration::from_millis(100);
        let (settings, report) = over_loopback_from_the_start(&BulkSettings {
            transport: Transport::Quic,
            streams,
            congestion: Some(congestion.to_owned()),
            warmup,
            ..settings()
        });
        assert_eq!((&report.errors, report.streams, report.connected), (&vec![], streams, streams));
        assert!(report.received_bytes > 0 && report.sent_bytes > report.received_bytes, "{report:?}");
        assert_eq!(report.batches.iter().sum::<u64>(), report.received_bytes);
        assert_eq!((report.batches.len(), report.used), (6, settings.duration));
        assert!(report.connect.unwrap() < Duration::from_secs(5) && report.retransmits.is_some());
        let last = report.samples.last().unwrap();
        assert!(last.congestion_window > 0 && last.rtt > Duration::ZERO, "{last:?}");
        assert!(report.samples[0].at < settings.warmup && last.at >= settings.warmup + settings.duration);
        for stream in 0..streams {
            assert!(report.samples.iter().any(|sample| sample.stream == stream));
        }
        assert!(report.engine.ends_with(&format!("quic by quinn, {congestion}")), "{}", report.engine);
    }
}

#[test]
fn a_quic_transfer_to_nobody_is_zero() {
    let silent = std::net::UdpSocket::bind(ANY).unwrap();
    let timeout = Duration::from_millis(100);
    let quic = BulkSettings { transport: Transport::Quic, streams: 3, connect_timeout: timeout, ..settings() };
    let receiver = Receiver::bind(&quic).unwrap();
    let to = silent.local_addr().unwrap();
    let sender = Sender::open(&BulkSettings { to, ..quic }).unwrap();
    let report = run(sender, receiver, now(), &Stop::new().unwrap());
    let expected = format!("connect: connection timed out: perhaps nothing listens on {to} (3 times)");
    assert_eq!(in_words(&report.errors), expected);
    assert_eq!((report.connected, report.connect, report.window), (0, None, None));
    assert_eq!((report.sent_bytes, report.received_bytes, report.retransmits), (0, 0, None));
}

#[test]
fn a_stop_keeps_the_whole_batches() {
    for transport in [Transport::Tcp, Transport::Quic] {
        stops(transport);
    }
}

fn stops(transport: Transport) {
    let (duration, batch) = (Duration::from_secs(60), Duration::from_millis(20));
    let settings = BulkSettings { transport, duration, batch, ..settings() };
    let receiver = Receiver::bind(&settings).unwrap();
    let to = receiver.local_addr();
    let sender = Sender::open(&BulkSettings { to, ..settings.clone() }).unwrap();
    let (stop, begin) = (Stop::new().unwrap(), now());
    let report = thread::scope(|scope| {
        scope.spawn(|| {
            while now() < begin + 200_000_000 {
                thread::yield_now();
            }
            stop.set();
        });
        run(sender, receiver, begin, &stop)
    });
    assert!(report.stopped && report.used < Duration::from_secs(30), "{:?}", report.used);
    assert_eq!(report.batches.len() as u128, report.used.as_nanos() / 20_000_000);
    assert!(report.batches.iter().sum::<u64>() <= report.received_bytes);
    assert_eq!(report.errors, vec![]);
}

#[test]
fn a_stop_before_the_begin_ends_it_at_once() {
    let receiver = Receiver::bind(&settings()).unwrap();
    let sender = Sender::open(&BulkSettings { to: receiver.local_addr(), ..settings() }).unwrap();
    let stop = Stop::new().unwrap();
    stop.set();
    let report = run(sender, receiver, now() + 60_000_000_000, &stop);
    assert_eq!((report.stopped, report.received_bytes, report.window), (true, 0, None));
}

#[test]
fn nobody_there() {
    let (_held, closed) = super::super::tests::closed_tcp();
    let receiver = Receiver::bind(&settings()).unwrap();
    let sender = Sender::open(&BulkSettings { to: closed, streams: 3, ..settings() }).unwrap();
    let report = run(sender, receiver, now(), &Stop::new().unwrap());
    assert_eq!(in_words(&report.errors), "connect: connection refused (3 times)");
    assert_eq!((report.connected, report.connect, report.window), (0, None, None));
    assert_eq!((report.sent_bytes, report.received_bytes, report.retransmits), (0, 0, None));
    assert!(report.batches.is_empty() && report.samples.is_empty() && !report.stopped);
}

#[test]
fn errors_say_what_to_do() {
    let open = |settings: BulkSettings| Sender::open(&settings).unwrap_err().to_string();
    let unknown = open(BulkSettings { congestion: Some("fastest".into()), ..settings() });
    assert!(unknown.starts_with("set TCP_CONGESTION to fastest: no such file or directory (available: "), "{unknown}");
    assert!(unknown.contains("reno") && unknown.ends_with("; others are kernel modules: modprobe tcp_NAME)"));
    assert_eq!(open(BulkSettings { streams: 0, ..settings() }), "bulk traffic over 0 connections: must be 1 to 1024");
    let udp = open(BulkSettings { transport: Transport::Udp, ..settings() });
    assert!(udp.starts_with("bulk traffic over udp: not supported"), "{udp}");
    let quic = |congestion: &str| {
        open(BulkSettings { transport: Transport::Quic, congestion: Some(congestion.into()), ..settings() })
    };
    assert_eq!(quic("reno"), "quic.congestion `reno`: use cubic, newreno, bbr");
    let taken = Receiver::bind(&settings()).unwrap();
    let twice = Receiver::bind(&BulkSettings { to: taken.local_addr(), ..settings() }).unwrap_err().to_string();
    assert!(twice.starts_with(&format!("bind {}: address already in use", taken.local_addr())), "{twice}");
}

/// Two networks and a wire between them: 10.0.0.1 here, 10.0.0.2 there, permanent neighbours.
struct Wire {
    here: NetNs,
    there: NetNs,
}

impl Wire {
    fn new() -> Wire {
        let wire = Wire { here: NetNs::create().unwrap(), there: NetNs::create().unwrap() };
        let mac = |number| MacAddress::local(number);
        let near = VethEnd { name: "eth0", mtu: 1500, mac: mac(1), ns: &wire.here, queue_length: 0 };
        let far = VethEnd { name: "eth0", mtu: 1500, mac: mac(2), ns: &wire.there, queue_length: 0 };
        Netlink::open(&wire.here).unwrap().add_veth(&near, &far).unwrap();
        for (ns, own, peer) in [(&wire.here, 1, 2), (&wire.there, 2, 1)] {
            let mut links = Netlink::open(ns).unwrap();
            let index = links.link("eth0").unwrap().index;
            links.add_address(index, format!("10.0.0.{own}/24").parse().unwrap()).unwrap();
            links.add_neighbour(index, format!("10.0.0.{peer}").parse().unwrap(), mac(peer)).unwrap();
            links.set_up(index).unwrap();
        }
        for ns in [&wire.here, &wire.there] {
            Netlink::open(ns).unwrap().wait_until_running("eth0").unwrap();
        }
        wire
    }

    /// Makes every packet to the far end go to nobody.
    fn cut(&self) {
        let mut links = Netlink::open(&self.here).unwrap();
        let index = links.link("eth0").unwrap().index;
        links.add_neighbour(index, "10.0.0.2".parse().unwrap(), MacAddress::local(99)).unwrap();
    }

    fn ends(&self, settings: &BulkSettings) -> (Sender, Receiver) {
        let receiver = self.there.run(|| Receiver::bind(settings)).unwrap().unwrap();
        (self.here.run(|| Sender::open(settings)).unwrap().unwrap(), receiver)
    }

    /// Connections of both ends that the kernel still has, in whatever state.
    fn left(&self) -> Vec<String> {
        let rows = |ns: &NetNs| ns.run(|| fs::read_to_string("/proc/thread-self/net/tcp").unwrap()).unwrap();
        [rows(&self.here), rows(&self.there)].iter().flat_map(|text| text.lines().skip(1)).map(str::to_owned).collect()
    }
}

#[test]
fn a_path_that_never_connects_is_zero() {
    let wire = Wire::new();
    wire.cut();
    let timeout = Duration::from_millis(200);
    let to = "10.0.0.2:5201".parse().unwrap();
    let (sender, receiver) = wire.ends(&BulkSettings { to, streams: 2, connect_timeout: timeout, ..settings() });
    let begin = now();
    let report = run(sender, receiver, begin, &Stop::new().unwrap());
    assert!(Duration::from_nanos(now() - begin) >= timeout);
    assert_eq!(in_words(&report.errors), "connect: connection timed out (2 times)");
    assert_eq!((report.connected, report.connect, report.received_bytes, report.stopped), (0, None, 0, false));
    assert_eq!(wire.left(), Vec::<String>::new(), "the kernel goes on trying");
}

#[test]
fn a_path_that_dies_leaves_nothing() {
    let wire = Wire::new();
    let to: SocketAddr = "10.0.0.2:5201".parse().unwrap();
    let (sender, receiver) = wire.ends(&BulkSettings { to, duration: Duration::from_secs(60), ..settings() });
    let arrived = || {
        let counters = Interfaces::open(&wire.there).unwrap().read().unwrap();
        counters.iter().find(|counter| counter.name == "eth0").unwrap().received
    };
    let resent = || counters::snmp(&wire.here).unwrap().get("Tcp", "RetransSegs").unwrap();
    let stop = Stop::new().unwrap();
    let report = thread::scope(|scope| {
        scope.spawn(|| {
            while arrived() < 100 {
                thread::yield_now();
            }
            wire.cut();
            while resent() == 0 {
                thread::yield_now();
            }
            stop.set();
        });
        run(sender, receiver, now(), &stop)
    });
    assert_eq!((&report.errors, report.connected, report.stopped), (&vec![], 1, true));
    assert!(report.received_bytes > 0 && report.sent_bytes > report.received_bytes, "{report:?}");
    assert!((1..=resent() as u64).contains(&report.retransmits.unwrap()), "{:?}", report.retransmits);
    assert!(report.at_end[0].outstanding_bytes > 0);
    // Unacknowledged data would be sent again for many minutes.
    assert_eq!(wire.left(), Vec::<String>::new());
}
