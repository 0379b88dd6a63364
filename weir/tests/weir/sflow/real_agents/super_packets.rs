//! Our own agent at 1 to 10 Gbit/s of super-packets: it tells of frames as they are on a wire. Interfaces count super-packets;
//! the truth are TCP's own count of segments, and that of UDP where segments arrive.

use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use weir_testbed::network::{self, Host};
use weir_testbed::random::Source;

use super::meter::{Reading, TX_OCTETS, TX_PACKETS};
use super::{Analyser, Count, Hits, LOOKS, Meter, Started, load};
use crate::WEIR;

mod alone {
    use super::*;

    #[test]
    #[ignore = "long: 61 s"]
    fn rates_of_super_packets_are_true() {
        rates_are_true(&[]);
    }

    #[test]
    #[ignore = "long: 66 s"]
    fn without_ebpf_rates_of_super_packets_are_true() {
        let Some(setpriv) = weir_testbed::program("setpriv") else { return };
        let setpriv = setpriv.display().to_string();
        rates_are_true(&[&setpriv, "--bounding-set=-bpf,-perfmon,-sys_admin", "--inh-caps=-all"]);
    }
}

/// TCP as fast as it goes, and 1 Gbit/s of UDP in super-packets the other way.
fn rates_are_true(before: &[&str]) {
    let Some(iperf3) = weir_testbed::program("iperf3") else { return };
    let Some(hosts) = network::cable(1500) else { return };
    let [told, other] = &hosts;
    let (analyser, meter) = (Analyser::start(&told.ns), Meter::start(&told.ns));
    for (name, value) in [("frames", "frames"), ("bytes", "bytes")] {
        analyser.define(name, "ipsource,ipprotocol", value, SMOOTHING);
    }
    // Of one that nobody reads, the kernel counts what finds it full.
    let _full = told.run(|| UdpSocket::bind((told.v4, PORT)).unwrap());
    let _transfer = load(&iperf3, told, other, &[]);
    let (over, mut moments) = (AtomicBool::new(false), Source::drawn());
    thread::scope(|scope| {
        scope.spawn(|| send(other, told, &over));
        let _over = Over(&over);
        let flags = [&**WEIR, "sflow", "agent", "--to", "127.0.0.1", "--agent", "10.0.0.1", "--polling", "2s"];
        let command = [before, &flags, &["--sampling", "1000", "--samples", "100000/s"]].concat();
        let mut agent = Command::new(command[0]);
        agent.args(&command[1..]);
        let _agent = told.run(|| Started::ready(agent));
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
        let bits = |count| 8.0 * (meter.at(&count, Instant::now()) - meter.at(&count, begin));
        let gigabits = hits.each_ref().map(|hits| bits(hits.count) / begin.elapsed().as_secs_f64() / 1e9);
        eprintln!("TCP {:.1}, UDP {:.1} Gbit/s", gigabits[2], gigabits[3]);
        hits.iter().for_each(Hits::are_enough);
    });
}

/// Ends the sending when dropped, in a panic, too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
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
