//! Packet samples: the pool is what passed, and estimates hold the truth.

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use weir_testbed::await_that;
use weir_testbed::network::{Host, cable};

use super::{Agent, Collector, Privileges, be_still, nft, nft_packets, start_with};

/// Counts what passes eth0.
fn count(host: &Host) -> Option<()> {
    nft(
        host,
        "add table inet t; add chain inet t in { type filter hook input priority -500 ; }; \
               add chain inet t out { type filter hook output priority -500 ; }; \
               add rule inet t in iifname eth0 counter comment \"passed\"; \
               add rule inet t out oifname eth0 counter comment \"passed\"",
    )
    .map(drop)
}

/// Sends `count` datagrams of this size to a port, so many a millisecond, and no more after a standstill: the kernel drops bursts.
fn send(from: &Host, to: &Host, port: u16, size: usize, count: u32, a_millisecond: u32) {
    let payload = vec![0; size];
    let sender = from.run(|| UdpSocket::bind((from.v4, 0)).unwrap());
    let mut due = Instant::now();
    for number in 1..=count {
        sender.send_to(&payload, (to.v4, port)).unwrap();
        if number.is_multiple_of(a_millisecond) {
            // What a sleep takes too long is made up for, but no more than that.
            let now = Instant::now();
            due = (due + Duration::from_millis(1)).max(now - Duration::from_millis(5));
            thread::sleep(due.saturating_duration_since(now));
        }
    }
}

#[test]
fn the_pool_is_what_passed_and_estimates_hold_the_truth() {
    hold_the_truth(Privileges::All);
}

#[test]
fn without_ebpf_the_pool_is_what_passed_and_estimates_hold_the_truth() {
    hold_the_truth(Privileges::Container);
}

fn hold_the_truth(privileges: Privileges) {
    const BIG: u32 = 4_000;
    const SMALL: u32 = 36_000;
    let Some([one, other]) = cable(1500) else { return };
    be_still(&one);
    be_still(&other);
    if count(&one).is_none() {
        return;
    }
    let _sink = other.run(|| UdpSocket::bind((other.v4, 5001)).unwrap());
    let _sink_too = other.run(|| UdpSocket::bind((other.v4, 5002)).unwrap());
    let mut collector = Collector::bind(&one);
    let flags = ["--polling", "1s", "--sampling", "20", "--samples", "100000/s"];
    let Some(mut agent) = start_with(privileges, &one, &flags) else { return };
    collector.await_sample(|sample| sample.is_of("eth0"));
    thread::scope(|scope| {
        scope.spawn(|| send(&one, &other, 5001, 1400, BIG, 4));
        scope.spawn(|| send(&one, &other, 5002, 60, SMALL, 36));
    });
    // Back, too: what comes in is told apart.
    let _back = one.run(|| UdpSocket::bind((one.v4, 5003)).unwrap());
    send(&other, &one, 5003, 100, 2_000, 10);
    let passed = u64::from(BIG + SMALL + 2_000);
    await_that("all to pass", || nft_packets(&one, "passed") == passed);
    agent.await_ledger(|ledger| ledger["sampling"]["pool"] == passed);
    let ledger = agent.stop();
    collector.take_rest(&ledger);

    let sampling = &ledger["sampling"];
    assert_eq!(sampling["means"], privileges.means());
    assert_eq!((&sampling["pool"], &sampling["shed"], &sampling["lost"]), (&passed.into(), &0.into(), &0.into()));
    let flows: Vec<_> = collector.samples.iter().filter(|sample| sample.format == 1).collect();
    assert_eq!(sampling["sent"], flows.len());
    let eth0 = one.netlink().link("eth0").unwrap().index;
    // Sequence, pool: the last one has seen nearly all that passed.
    for (number, flow) in flows.iter().enumerate() {
        assert_eq!((flow.sequence as usize, flow.source, flow.words[0], flow.words[2]), (number + 1, (0, eth0), 20, 0));
    }
    assert!(flows.is_sorted_by_key(|flow| flow.words[1]));
    let pool = flows.last().unwrap().words[1];
    assert!(u64::from(pool) <= passed && u64::from(pool) > passed - 1_000, "{pool} of {passed}");

    let header = |flow: &super::Sample| flow.opaque(1, 3);
    let is = |port: u16| move |flow: &&&super::Sample| header(flow)[36..38] == port.to_be_bytes();
    for (port, truth, length, outgoing) in
        [(5001, BIG, 1446, true), (5002, SMALL, 106, true), (5003, 2_000, 146, false)]
    {
        let own: Vec<_> = flows.iter().filter(is(port)).collect();
        for flow in &own {
            let (input, output) = if outgoing { (0, eth0) } else { (eth0, 0) };
            assert_eq!((flow.words[3], flow.words[4]), (input, output));
            assert_eq!((flow.word(1, 0), flow.word(1, 1), flow.word(1, 2)), (1, length, 4));
            assert_eq!(header(flow).len(), 128.min(length as usize - 4));
        }
        // N c / n, and six times the standard deviation that it has about the truth: one run of ten million is beyond.
        let (n, c) = (flows.len() as f64, own.len() as f64);
        let (estimate, share) = (passed as f64 * c / n, f64::from(truth) / passed as f64);
        let deviation = passed as f64 * (share * (1.0 - share) / n).sqrt();
        assert!((estimate - f64::from(truth)).abs() < 6.0 * deviation, "{port}: {estimate} ± {deviation}, not {truth}");
    }
}

#[test]
fn in_a_flood_samples_are_shed_and_the_pool_stays_true() {
    shed(Privileges::All);
}

#[test]
fn without_ebpf_in_a_flood_samples_are_shed_and_the_pool_stays_true() {
    shed(Privileges::Container);
}

fn shed(privileges: Privileges) {
    const SENT: u32 = 60_000;
    let Some([one, other]) = cable(1500) else { return };
    be_still(&one);
    be_still(&other);
    if count(&one).is_none() {
        return;
    }
    let _sink = other.run(|| UdpSocket::bind((other.v4, 5001)).unwrap());
    let mut collector = Collector::bind(&one);
    let flags = ["--polling", "1s", "--sampling", "1", "--samples", "200/s"];
    let Some(mut agent) = start_with(privileges, &one, &flags) else { return };
    collector.await_sample(|sample| sample.is_of("eth0"));
    let begin = Instant::now();
    send(&one, &other, 5001, 60, SENT, 40);
    let seconds = begin.elapsed().as_secs_f64();
    agent.await_ledger(|ledger| ledger["sampling"]["pool"] == SENT);
    let ledger = agent.stop();
    collector.take_rest(&ledger);
    assert_eq!(nft_packets(&one, "passed"), u64::from(SENT));

    let count = |name: &str| ledger["sampling"][name].as_u64().unwrap();
    assert_eq!((ledger["sampling"]["means"].as_str(), count("pool")), (Some(privileges.means()), SENT.into()));
    assert_eq!(count("sent") + count("shed") + count("lost"), count("chosen"));
    match privileges {
        Privileges::All => assert_eq!(count("chosen"), u64::from(SENT)),
        // What is kept stands for what is shed: some 600 samples, of which 1/sqrt(600) is a deviation; five of them.
        Privileges::Container => assert!(count("chosen").abs_diff(SENT.into()) < u64::from(SENT) / 5, "{ledger:#}"),
    }
    // The first tenths of a second, before it is known for a flood, are up to so many packets more.
    let most = 200.0 * seconds + 20_000.0;
    assert!((count("sent") as f64) < most && count("shed") > 0, "{} of {most}, in {seconds} s", count("sent"));
    let last = collector.samples.iter().rfind(|sample| sample.format == 1).unwrap();
    // rate, pool, drops: what was shed is told.
    assert_eq!(last.words[0], 1);
    assert!(u64::from(last.words[2]) <= count("shed") + count("lost") && last.words[2] > SENT / 4, "{:?}", last.words);
}

#[test]
fn its_own_datagrams_do_not_call_for_more() {
    let Some([one, other]) = cable(1500) else { return };
    be_still(&one);
    be_still(&other);
    let sink = other.run(|| UdpSocket::bind((other.v4, 6343)).unwrap());
    let to = other.v4.to_string();
    let command = crate::weir(&["sflow", "agent", "--json", "--to", &to, "--polling", "1h", "--sampling", "1"]);
    let mut agent = Agent::spawn_in(&one.ns, command);
    // One of the start, and nothing in the seconds after it, though each datagram is a packet to be sampled.
    let ledger = agent.await_ledger(|ledger| ledger["elapsed_s"].as_f64().unwrap() > 2.5);
    let sent = ledger["datagrams"].as_u64().unwrap();
    assert!(sent <= 3, "{ledger:#}");
    let ledger = agent.stop();
    drop(sink);
    assert!(ledger["datagrams"].as_u64().unwrap() <= sent + 1, "{ledger:#}");
}
