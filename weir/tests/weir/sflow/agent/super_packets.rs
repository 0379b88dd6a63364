//! A super-packet is as many packets as its segments: the sender's TCP counts them, and interfaces do not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use weir_testbed::network::{Host, cable};

use super::{Collector, Privileges, be_still, start_with};

#[test]
fn super_packets_are_their_segments() {
    count_segments(Privileges::All);
}

#[test]
fn without_ebpf_super_packets_are_their_segments() {
    count_segments(Privileges::Container);
}

fn count_segments(privileges: Privileges) {
    const BYTES: usize = 60_000_000;
    let Some([one, other]) = cable(1500) else { return };
    be_still(&one);
    be_still(&other);
    let mut collector = Collector::bind(&one);
    let flags = ["--polling", "1s", "--sampling", "20", "--samples", "100000/s", "--drops", "0"];
    let Some(mut agent) = start_with(privileges, &one, &flags) else { return };
    collector.await_sample(|sample| sample.is_of("eth0"));

    transfer(&one, &other, BYTES);
    // Sent anew are not among those sent; what came in are acknowledgements, none of them a super-packet.
    let tcp = |name: &str| one.counter("Tcp", name);
    let passed = || tcp("OutSegs") + tcp("RetransSegs") + tcp("InSegs");
    let ledger = agent.await_ledger(|ledger| ledger["sampling"]["pool"] == passed());
    let segments = passed();
    assert!(segments > (BYTES / 1448) as u64, "{segments}");
    assert_eq!(ledger["sampling"]["lost"], 0);
    let ledger = agent.stop();
    collector.take_rest(&ledger);
    assert_eq!(
        (&ledger["sampling"]["pool"], &ledger["sampling"]["means"]),
        (&segments.into(), &privileges.means().into())
    );

    // One of 20 is a sample, whether it came alone or with others: within six deviations, which one run of ten million is not.
    let flows: Vec<_> = collector.samples.iter().filter(|sample| sample.format == 1).collect();
    let expected = segments as f64 / 20.0;
    assert!((flows.len() as f64 - expected).abs() < 6.0 * expected.sqrt(), "{} of {expected}", flows.len());
    // Frames of data are as long as they are on the wire: addresses, type, IPv4, TCP with a time, payload, check sequence.
    let lengths = flows.iter().map(|flow| u64::from(flow.word(1, 1)));
    assert!(lengths.clone().all(|length| length <= 1518), "{:?}", lengths.max());
    let deviation = 20.0 * (lengths.clone().map(|length| length * length).sum::<u64>() as f64).sqrt();
    let estimate = lengths.sum::<u64>() as f64 * 20.0;
    let truth = BYTES as f64 + segments as f64 * 70.0;
    assert!((estimate - truth).abs() < 6.0 * deviation, "{estimate} ± {deviation} bytes, not {truth}");
}

/// Sends so many bytes over TCP, and waits until all are read and the connection has ended.
fn transfer(from: &Host, to: &Host, bytes: usize) {
    let listener = to.run(|| TcpListener::bind((to.v4, 5001)).unwrap());
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = vec![0; 1 << 20];
            let mut read = 0;
            while read < bytes {
                read += stream.read(&mut buffer).unwrap();
            }
            // Only now does the sender end.
            stream.write_all(b"x").unwrap();
            assert_eq!(stream.read(&mut buffer).unwrap(), 0);
        });
        let mut stream = from.run(|| TcpStream::connect(address).unwrap());
        let chunk = vec![0; 1_000_000];
        (0..bytes / chunk.len()).for_each(|_| stream.write_all(&chunk).unwrap());
        stream.read_exact(&mut [0]).unwrap();
    });
}
