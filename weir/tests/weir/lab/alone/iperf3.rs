//! Transfers by the real program, as fast as it can.

use std::thread;
use std::time::Duration;

use weir_kernel::counters;
use weir_kernel::sysctl;
use weir_lab::iperf3::Iperf3Settings;
use weir_program::clock::now;
use weir_program::stop::Stop;
use weir_testbed::program;
use weir_traffic::Transport;
use weir_traffic::bulk::BulkSettings;

use super::super::iperf3::{loopback, of, prepare, settings, transfer};

#[test]
fn what_both_ends_of_iperf3_say_comes_together() {
    let Some(_) = program("iperf3") else { return };
    let ns = loopback();
    let report = transfer(&ns, &of(BulkSettings { warmup: Duration::from_secs(1), ..settings().bulk }));
    assert_eq!((&report.errors, report.stopped, report.streams, report.connected), (&vec![], false, 2, 2));
    assert!(report.received_bytes > 0 && report.sent_bytes > report.received_bytes, "{report:?}");
    assert_eq!((report.batches.len(), report.batch, report.used.as_secs()), (10, Duration::from_millis(100), 1));
    assert_eq!(report.batches.iter().sum::<u64>(), report.received_bytes);
    let window = report.window.unwrap();
    assert!(window.end - window.start == 1_000_000_000 && window.end <= now(), "{window:?}");
    let is_told = report.engine.starts_with("iperf 3.") && report.engine.contains(": iperf3 -c 127.0.0.1 ");
    assert!(is_told && report.engine.contains(" --cport 5300 "), "{}", report.engine);

    // Whatever this machine's default is: bbr would have left its pacing behind.
    assert_eq!(sysctl::get(&ns, "ipv4/tcp_congestion_control").unwrap(), "reno");
    assert!(report.retransmits.is_some());
    assert!(report.samples.is_sorted_by_key(|sample| (sample.at, sample.stream)));
    for stream in 0..2 {
        let own = || report.samples.iter().filter(|sample| sample.stream == stream);
        // A look every 0.1 s, in the warm-up and in the window, even if the machine skips some.
        assert!((5..=21).contains(&own().count()), "{:?}", report.samples);
        assert!(own().all(|sample| sample.congestion_window > 0 && sample.rtt > Duration::ZERO));
        assert!(own().any(|sample| sample.at < Duration::from_secs(1)));
        assert!(own().any(|sample| sample.at > Duration::from_secs(1)));
    }

    let bulk = BulkSettings {
        transport: Transport::Udp,
        streams: 1,
        block_bytes: 1000,
        to: "[::1]:5202".parse().unwrap(),
        ..settings().bulk
    };
    let udp = Iperf3Settings { rate: Some(8_000_000), ..of(bulk) };
    let report = transfer(&ns, &udp);
    assert_eq!((&report.errors, report.retransmits), (&vec![], None));
    let datagrams = report.datagrams.unwrap();
    // 1000 a second; iperf3's pacing is not exact, and a busy machine keeps it from some.
    assert!((200..=1100).contains(&datagrams.sent), "{datagrams:?}");
    assert!(datagrams.received <= datagrams.sent && datagrams.jitter_us.is_some(), "{datagrams:?}");
    assert!((1..=datagrams.received).contains(&(report.received_bytes / 1000)), "{report:?}");
}

#[test]
fn a_stop_keeps_what_iperf3_has_seen() {
    let Some(_) = program("iperf3") else { return };
    let (ns, stop) = (loopback(), Stop::new().unwrap());
    let transfer = prepare(&ns, &of(BulkSettings { duration: Duration::from_secs(60), ..settings().bulk })).unwrap();
    let received = || counters::snmp(&ns).unwrap().get("Tcp", "InSegs").unwrap();
    let report = thread::scope(|scope| {
        scope.spawn(|| {
            // Spinning would take a processor from the programs that are to do something.
            let tick = Duration::from_millis(10);
            while received() < 1000 {
                thread::sleep(tick);
            }
            // The server has looked several times by then.
            let flowing = now();
            while now() < flowing + 2_000_000_000 {
                thread::sleep(tick);
            }
            stop.set();
        });
        transfer.run(now(), &stop)
    });
    assert_eq!((&report.errors, report.stopped, report.connected), (&vec![], true, 2));
    assert!(report.used < Duration::from_secs(30) && report.received_bytes > 0, "{report:?}");
    assert_eq!(report.batches.len() as u128, report.used.as_nanos() / 100_000_000);
}
