//! Counters are those of /proc.

use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;

use weir_testbed::await_that;
use weir_testbed::network::{cable, end};

use super::{Collector, be_still, start};

/// Columns of /proc/net/dev by interface.
fn dev() -> BTreeMap<String, Vec<u64>> {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let row = |line: &str| {
        let (name, columns) = line.split_once(':')?;
        Some((name.trim().to_owned(), columns.split_whitespace().map(|column| column.parse().unwrap()).collect()))
    };
    text.lines().skip(2).filter_map(row).collect()
}

fn value(text: &str, begins: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(begins)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn interfaces_come_and_go_and_count_as_proc_does() {
    let Some([one, other]) = cable(1500) else { return };
    be_still(&one);
    be_still(&other);
    let mut collector = Collector::bind(&one);
    let mut agent = start(&one, &["--polling", "1s", "--sampling", "0", "--drops", "0"]);
    let first = collector.await_sample(|sample| sample.is_of("eth0"));

    // What is sent to nobody is an error of the protocol, but not of the interface.
    one.run(|| {
        let sender = UdpSocket::bind((one.v4, 0)).unwrap();
        (0..500).for_each(|_| assert_eq!(sender.send_to(&[0; 200], (other.v4, 5000)).unwrap(), 200));
    });
    // The kernel may take its time over both ways: what is sent, and what is answered.
    await_that("all to come, and each answer", || {
        // Only where all have come are there no more answers.
        let all_came = other.counter("Udp", "NoPorts") == 500;
        all_came && one.counter("Icmp", "InDestUnreachs") == other.counter("Icmp", "OutDestUnreachs")
    });
    let truth = one.run(dev)["eth0"].clone();
    // eth0 is still now: the agent speaks through the loopback interface.
    let sample = collector.await_sample(|sample| sample.is_of("eth0") && u64::from(sample.word(1, 16)) == truth[9]);
    assert_eq!((sample.word(1, 1), sample.long(1, 2), sample.word(1, 4), sample.word(1, 5)), (6, 10_000_000_000, 1, 3));
    let (bytes, packets) = (sample.long(1, 6), sample.word(1, 8) + sample.word(1, 9));
    assert_eq!((bytes, u64::from(packets)), (truth[0], truth[1]), "received");
    assert_eq!(
        (u64::from(sample.word(1, 12)), u64::from(sample.word(1, 11))),
        (truth[2], truth[3]),
        "errors, discards"
    );
    assert_eq!((sample.long(1, 14), u64::from(sample.word(1, 16))), (truth[8], truth[9]), "sent");
    assert_eq!(
        (u64::from(sample.word(1, 20)), u64::from(sample.word(1, 19))),
        (truth[10], truth[11]),
        "errors, discards"
    );
    assert_eq!(sample.records.keys().copied().collect::<Vec<_>>(), [1, 2, 1005]);
    let eth0 = one.netlink().link("eth0").unwrap().index;
    assert_eq!((sample.source, sample.word(1, 0)), ((0, eth0), eth0));
    assert!(sample.sequence > first.sequence);

    // One that comes is told at once, under the name that it gets later, and not for ever.
    one.netlink().add_veth(&end(&one.ns, "late0", 77, 1500), &end(&one.ns, "late1", 78, 1500)).unwrap();
    let late = collector.await_sample(|sample| sample.is_of("late0"));
    assert_eq!((late.sequence, late.word(1, 5)), (1, 0), "down, and not wanted up");
    agent.await_ledger(|ledger| ledger["interfaces"] == 3);
    let Some(ip) = weir_testbed::program("ip") else { return };
    let gone = one.run(|| std::process::Command::new(ip).args(["link", "del", "late0"]).status().unwrap());
    assert!(gone.success());
    let ledger = agent.await_ledger(|ledger| ledger["interfaces"] == 1);
    assert_eq!((&ledger["sampling"], &ledger["drops"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    let ledger = agent.stop();
    collector.take_rest(&ledger);
    assert_eq!(ledger["counter_samples"], collector.samples.len());
}

#[test]
fn the_machine_counts_as_proc_does() {
    let Some([one, _other]) = cable(1500) else { return };
    let mut collector = Collector::bind(&one);
    let _agent = start(&one, &["--polling", "1s", "--sampling", "0", "--drops", "0"]);
    collector.await_sample(|sample| sample.source == (2, 1));
    let proc = |file: &str| fs::read_to_string(format!("/proc/{file}")).unwrap();
    let (stat, uptime) = (proc("stat"), value(&proc("uptime").replace('.', " "), ""));
    one.run(|| {
        let sender = UdpSocket::bind((one.v4, 0)).unwrap();
        (0..7).for_each(|_| drop(sender.send_to(&[0; 9], (one.v4, 5009))));
    });
    await_that("what nobody wants to come", || one.counter("Udp", "NoPorts") >= 7);
    let unwanted = u32::try_from(one.counter("Udp", "NoPorts")).unwrap();
    let sample = collector.await_sample(|sample| sample.source == (2, 1) && sample.word(2010, 1) == unwanted);
    let later = proc("stat");

    let records: Vec<u32> = sample.records.keys().copied().collect();
    assert_eq!(records, [2000, 2001, 2003, 2004, 2005, 2006, 2007, 2008, 2009, 2010]);
    assert_eq!(sample.opaque(2000, 0), proc("sys/kernel/hostname").trim_end().as_bytes());
    // One adapter: number, and a list of one address in 8 bytes.
    let eth0 = one.netlink().link("eth0").unwrap();
    assert_eq!((sample.word(2001, 0), sample.word(2001, 1), sample.word(2001, 2)), (1, eth0.index, 1));
    assert_eq!(sample.records[&2001][12..18], eth0.mac.unwrap().0);
    assert_eq!(sample.word(2003, 5) as usize, stat.lines().filter(|line| line.starts_with("cpu")).count() - 1);
    assert!((uptime..=uptime + 20).contains(&sample.word(2003, 7).into()));
    // The machine may have run for so long that what has 32 bits began anew. Of the first line, user: milliseconds of ticks of 10.
    for (at, begins, unit) in [(8, "cpu ", 10), (15, "intr ", 1), (16, "ctxt ", 1)] {
        let [from, to] = [&stat, &later].map(|text| value(text, begins) * unit);
        let grown = sample.word(2003, at).wrapping_sub(from as u32);
        assert!(u64::from(grown) <= to - from, "{begins}: {grown} since {from}, and {to} later");
    }
    assert_eq!(sample.long(2004, 0), value(&proc("meminfo"), "MemTotal:") * 1024);
    assert_eq!(sample.long(2004, 10), value(&proc("meminfo"), "SwapTotal:") * 1024);
    // What is counted in this namespace alone, and stands still.
    let counted = |protocol: &str, name: &str| one.counter(protocol, name) as u32;
    assert_eq!(sample.word(2007, 1), counted("Ip", "DefaultTTL"));
    assert_eq!(sample.word(2007, 4), counted("Ip", "InAddrErrors"));
    assert_eq!(sample.word(2008, 14), counted("Icmp", "OutDestUnreachs"));
    assert_eq!(sample.word(2009, 4), counted("Tcp", "ActiveOpens"));
    assert_eq!(sample.word(2010, 2), counted("Udp", "InErrors"));
}
