//! What three receivers of a group lose, at full bandwidth of a line of 100 Mbit/s and 64 bytes a datagram.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench_measure::{Report, machine, median, peer};
use nix::sys::signal::Signal;
use serde_json::json;
use weir_dgram::{Options, Outgoing, Socket};
use weir_kernel::namespaces::process::Program;
use weir_signal::receive::{Listen, News, Receiver, Settings, Sink, Stream};
use weir_wire::signal::{
    Block, Channel, Clock, Element, Flags, Form, Header, Kind, Metadata, PORT, Packer, Position, Rate, Values, encode,
};

use super::Scale;
use crate::network::Network;
use crate::programs::Programs;

pub(crate) fn run(_: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    println!(
        "Three receivers of a group, as they are by default: {RATE:.0} datagrams of 64 bytes a second, 100 Mbit/s on the line"
    );
    let iperf = peer("iperf");
    let (mut own, mut other, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scale.rounds {
        let look = weir(scale.look * 2)?;
        rates.push(look.rate);
        own.push(look.worst);
        if iperf.exists() {
            other.push(iperf2(scale.look * 2)?);
        }
    }
    let worst = own.iter().copied().fold(0.0, f64::max);
    // Of a sender that cannot keep its rate nothing is learnt.
    let full = median(&rates) >= 0.95 * RATE;
    let measured = format!("{} at {:.0} datagrams/s", percent(worst), median(&rates));
    let words = report.goal(
        "samples that the worst of three receivers lacks at 100 Mbit/s",
        "0 at 113,636 datagrams/s",
        &measured,
        full && worst == 0.0,
    );
    println!("    weir     {} of what was sent, at {:.0} datagrams/s {words}", percent(worst), median(&rates));
    let theirs = median(&other);
    if other.is_empty() {
        println!("    iperf 2 is missing, left out (apt install iperf)");
    } else {
        println!("    iperf 2  {} (its worst receiver, the median of {} looks)", percent(theirs), other.len());
    }
    report.figure(
        json!({"scene": "receive", "weir_lost": worst, "iperf_lost": theirs, "datagrams_per_s": median(&rates)}),
    );
    Ok(())
}

fn percent(share: f64) -> String {
    format!("{:.4} %", share * 100.0)
}

struct Look {
    /// The largest share that a receiver lacks.
    worst: f64,
    /// Datagrams that were sent a second.
    rate: f64,
}

/// Counts.
#[derive(Default)]
struct Tally {
    shown: u64,
    missing: u64,
}

impl Sink for Tally {
    fn channel(&mut self, _: &Arc<Stream>, _: &Arc<Channel>) {}

    fn block(&mut self, _: &Arc<Stream>, block: &Block<'_>) {
        match block.values {
            Values::Gap(gap) => self.missing += gap.samples,
            _ => self.shown += block.samples(),
        }
    }

    fn stream(&mut self, _: &Arc<Stream>, _: News) {}
}

fn weir(span: Duration) -> Result<Look> {
    let network = Network::new(4)?;
    let over = AtomicBool::new(false);
    let group = SocketAddr::from((Ipv4Addr::new(239, 192, 77, 1), PORT));
    let receivers = network.hosts[1..].iter().map(|ns| {
        let listen = vec![Listen { address: group, interface: Some("eth0".into()), source: None }];
        anyhow::Ok(ns.run(|| Receiver::open(&Settings { listen, ..Settings::default() }))??)
    });
    let receivers = receivers.collect::<Result<Vec<_>>>()?;
    let options = Options { multicast_interface: Some("eth0".into()), gso: true, ..Options::default() };
    let socket = network.hosts[0].run(|| Socket::bind((Ipv4Addr::UNSPECIFIED, 0).into(), &options))??;
    thread::scope(|scope| {
        let watching: Vec<_> = receivers
            .into_iter()
            .map(|mut receiver| {
                let over = &over;
                scope.spawn(move || {
                    let mut tally = Tally::default();
                    while !over.load(Ordering::Relaxed) {
                        receiver.take(Duration::from_millis(20), &mut tally);
                    }
                    tally
                })
            })
            .collect();
        let (sent, elapsed) = machine::pinned(machine::TRAFFIC, || Ok(send(&socket, group, span)))?;
        // What waits for its place, or in a buffer.
        thread::sleep(Duration::from_millis(300));
        over.store(true, Ordering::Relaxed);
        let mut worst = 0.0_f64;
        for thread in watching {
            let tally = thread.join().ok().context("a receiver panicked")?;
            let lacks = sent.saturating_sub(tally.shown);
            anyhow::ensure!(lacks == tally.missing, "{lacks} samples lack, {} are gaps", tally.missing);
            worst = worst.max(lacks as f64 / sent as f64);
        }
        Ok(Look { worst, rate: sent as f64 / elapsed.as_secs_f64() })
    })
}

/// Sends one sample a datagram; how many, and how long it took.
fn send(socket: &Socket, group: SocketAddr, span: Duration) -> (u64, Duration) {
    let to = group.into();
    let rate = Rate::hertz(RATE as u32);
    let header = |kind, sequence| Header {
        kind,
        flags: Flags::default(),
        clock: Clock::default(),
        count: 0,
        session: 77,
        sequence,
    };
    let channel = Channel { name: "sine".into(), rate, ..Channel::default() };
    let metadata = Metadata { station: "bench".into(), channels: vec![channel], ..Metadata::default() };
    let say = |bytes: &[u8]| {
        let pieces = [IoSlice::new(bytes)];
        socket.send(&[Outgoing { pieces: &pieces, segment: None, to: Some(&to) }]);
    };
    let mut scratch = Vec::new();
    let positions = |next| [Position { channel: 0, next }];
    encode::metadata(header(Kind::Metadata, 0), &metadata, 1472, &mut scratch, say);
    encode::positions(header(Kind::Heartbeat, 0), &positions(0), 1472, &mut scratch, say);
    let mut packers = vec![Packer::new(64); BATCH];
    let (begun, mut sent) = (Instant::now(), 0_u64);
    while begun.elapsed() < span {
        let due = (begun.elapsed().as_secs_f64() * RATE) as u64;
        while sent < due {
            let count = BATCH.min((due - sent) as usize);
            let datagrams: Vec<_> = packers[..count]
                .iter_mut()
                .zip(sent..)
                .map(|(packer, index)| {
                    packer.clear();
                    let position = (0, index, (rate.nanos(index)) as i64);
                    let bytes = packer.block(position, rate, (Element::F32, Form::Samples), 1);
                    bytes.extend_from_slice(&(index as f32).to_le_bytes());
                    IoSlice::new(packer.finish(header(Kind::Data, index)))
                })
                .collect();
            // Joined, so that the sender keeps its rate on a slow machine; the kernel cuts them before a receiver sees them.
            let batch: Vec<_> = datagrams
                .chunks(JOINED)
                .map(|pieces| Outgoing { pieces, segment: NonZeroU16::new(pieces[0].len() as u16), to: Some(&to) })
                .collect();
            // What the kernel does not take is sent with the next ones.
            let taken = socket.send(&batch);
            sent += (batch[..taken.messages].iter().map(|run| run.pieces.len()).sum::<usize>() + taken.segments) as u64;
        }
        thread::sleep(Duration::from_micros(200));
    }
    let elapsed = begun.elapsed();
    for _ in 0..3 {
        encode::positions(header(Kind::End, sent), &positions(sent), 1472, &mut scratch, say);
    }
    (sent, elapsed)
}

/// The share that the worst of three receivers lacks, as they report it.
fn iperf2(span: Duration) -> Result<f64> {
    let network = Network::new(4)?;
    let program = |host: usize| Program::new(&network.hosts[host], "iperf", peer("iperf")).stdin(Stdio::null());
    let servers = (1..=3).map(|host| {
        let server = program(host).args(["-s", "-u", "-B", GROUP, "-y", "C"]);
        Ok(server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?)
    });
    let servers = servers.collect::<Result<Vec<_>>>()?;
    // They say nothing when they have joined.
    thread::sleep(Duration::from_millis(500));
    let seconds = span.as_secs_f64().to_string();
    let rate = format!("{RATE:.0}pps");
    let client = program(0).args(["-c", GROUP, "-u", "-l", "64", "-b", &rate, "-t", &seconds, "-T", "1"]);
    let client =
        machine::pinned(machine::TRAFFIC, || Ok(client.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))?;
    let (status, _, _) = client.output()?;
    anyhow::ensure!(status == 0, "iperf ended with status {status}");
    thread::sleep(Duration::from_millis(500));
    let mut worst = 0.0_f64;
    for server in servers {
        server.signal(Signal::SIGTERM)?;
        let (_, stdout, _) = server.output()?;
        let text = String::from_utf8_lossy(&stdout);
        // timestamp, addresses, id, interval, bytes, bits/s, jitter, lost, datagrams, percent, out of order
        let fields: Vec<&str> = text.lines().last().unwrap_or_default().split(',').collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.trim().parse::<f64>().ok());
        let (lost, all) = number(10).zip(number(11)).context("iperf told no loss")?;
        worst = worst.max(lost / all.max(1.0));
    }
    Ok(worst)
}

/// Datagrams a second: 64 bytes of payload, 28 of IP and UDP, 18 of Ethernet, 880 bits.
const RATE: f64 = 100e6 / 880.0;

const GROUP: &str = "239.192.77.1";

/// Datagrams of a call.
const BATCH: usize = 64;

/// Datagrams that are joined at most.
const JOINED: usize = 16;
