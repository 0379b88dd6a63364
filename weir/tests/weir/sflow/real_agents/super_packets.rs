//! Our own agent at 1 to 10 Gbit/s of super-packets: it tells of frames as they are on a wire. Interfaces count super-packets;
//! the truth are TCP's own count of segments, and that of UDP where segments arrive.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use weir_kernel::namespaces::process::Running;
use weir_testbed::network::{self, Host};
use weir_testbed::random::Source;
use weir_testbed::turn;

use super::meter::{Reading, TX_OCTETS, TX_PACKETS};
use super::{Analyser, Count, Hits, LOOKS, Meter, WEIR, program, start};

#[test]
fn rates_of_super_packets_are_true() {
    rates_are_true(&[]);
}

#[test]
fn without_ebpf_rates_of_super_packets_are_true() {
    let Some(setpriv) = weir_testbed::program("setpriv") else { return };
    let setpriv = setpriv.display().to_string();
    rates_are_true(&[&setpriv, "--bounding-set=-bpf,-perfmon,-sys_admin", "--inh-caps=-all"]);
}

/// TCP as fast as it goes, and 1 Gbit/s of UDP in super-packets the other way.
fn rates_are_true(before: &[&str]) {
    let Some(iperf3) = weir_testbed::program("iperf3") else { return };
    let _turn = turn();
    let Some(hosts) = network::cable(1500) else { return };
    let [told, other] = &hosts;
    let (analyser, meter) = (Analyser::start(&told.ns), Meter::start(&told.ns));
    for (name, value) in [("frames", "frames"), ("bytes", "bytes")] {
        analyser.define(name, "ipsource,ipprotocol", value, SMOOTHING);
    }
    // Of one that nobody reads, the kernel counts what finds it full.
    let _full = told.run(|| UdpSocket::bind((told.v4, PORT)).unwrap());
    let _transfer = transfer(&iperf3, told, other);
    let (over, mut moments) = (AtomicBool::new(false), Source::drawn());
    thread::scope(|scope| {
        scope.spawn(|| send(other, told, &over));
        let flags = [WEIR, "sflow", "agent", "--to", "127.0.0.1", "--agent", "10.0.0.1", "--polling", "2s"];
        let command = [before, &flags, &["--sampling", "1000", "--samples", "100000/s"]].concat();
        let agent = program(&told.ns, command[0]).args(&command[1..]);
        let _agent = start(agent, |program| program.take_stderr().unwrap(), "ready");
        let mut hits = [
            Hits::of("frames", "10.0.0.1,6", Count::Of(segments)),
            Hits::of("frames", "10.0.0.2,17", Count::Of(datagrams)),
            Hits::of("bytes", "10.0.0.1,6", Count::Of(bytes_of_segments)),
            Hits::of("bytes", "10.0.0.2,17", Count::Of(|reading| datagrams(reading) * DATAGRAM)),
        ];
        sleep(Duration::from_secs_f64(5.0 * SMOOTHING));
        let begin = Instant::now();
        for _ in 0..LOOKS {
            sleep(Duration::from_secs_f64(SMOOTHING));
            for hits in &mut hits {
                // It sends ten times a second, and between two of them sums sink: a look comes at any moment.
                sleep(Duration::from_secs_f64(0.1 * moments.uniform()));
                hits.check(&analyser, &meter, SMOOTHING);
            }
        }
        over.store(true, Ordering::Relaxed);
        let bits = |count| 8.0 * (meter.at(&count, Instant::now()) - meter.at(&count, begin));
        let gigabits = hits.each_ref().map(|hits| bits(hits.count) / begin.elapsed().as_secs_f64() / 1e9);
        eprintln!("TCP {:.1}, UDP {:.1} Gbit/s", gigabits[2], gigabits[3]);
        hits.iter().for_each(Hits::are_enough);
    });
}

fn segments(reading: &Reading) -> f64 {
    reading.protocol("Tcp", "OutSegs") + reading.protocol("Tcp", "RetransSegs")
}

/// What the interface sent, nothing but TCP, and what it left out: the headers of all segments of a super-packet but the first,
/// and the check sequence of each.
fn bytes_of_segments(reading: &Reading) -> f64 {
    const HEADERS: f64 = 66.0;
    let [bytes, buffers] = [TX_OCTETS, TX_PACKETS].map(|column| reading.column("eth0", column));
    bytes + (segments(reading) - buffers) * HEADERS + segments(reading) * 4.0
}

fn datagrams(reading: &Reading) -> f64 {
    reading.protocol("Udp", "InErrors")
}

/// iperf3 over TCP until dropped: server and client.
#[track_caller]
fn transfer(iperf3: &Path, from: &Host, to: &Host) -> [Running; 2] {
    let server = program(&to.ns, iperf3).args(["--server", "--one-off", "--forceflush"]);
    let server = start(server, |program| program.take_stdout().unwrap(), "Server listening");
    let target = to.v4.to_string();
    let client = program(&from.ns, iperf3).args(["--client", &target, "--time", "300", "--forceflush"]);
    [server, start(client, |program| program.take_stdout().unwrap(), "connected to")]
}

/// 1 Gbit/s, in super-packets of 40 datagrams.
fn send(from: &Host, to: &Host, over: &AtomicBool) {
    const AT_ONCE: usize = 40;
    let socket = from.run(|| UdpSocket::bind((from.v4, 0)).unwrap());
    setsockopt(&socket, sockopt::UdpGsoSegment, &(PAYLOAD as i32)).unwrap();
    let (payload, begin, mut sent) = (vec![0; AT_ONCE * PAYLOAD], Instant::now(), 0.0);
    while !over.load(Ordering::Relaxed) {
        while sent < begin.elapsed().as_secs_f64() * 1e9 / 8.0 {
            socket.send_to(&payload, (to.v4, PORT)).unwrap();
            sent += AT_ONCE as f64 * DATAGRAM;
        }
        sleep(Duration::from_millis(1));
    }
}

const PORT: u16 = 5001;

/// Bytes of a datagram.
const PAYLOAD: usize = 1400;

/// With addresses, type, IPv4, UDP, check sequence.
const DATAGRAM: f64 = 1400.0 + 14.0 + 20.0 + 8.0 + 4.0;

/// In seconds.
const SMOOTHING: f64 = 0.7;
