//! From a sensor to the WebSocket of a page: 64 channels at 1 kHz.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use bench_measure::{Report, build_weir, median};
use serde_json::{Value, json};
use weir_kernel::namespaces::process::Program;
use weir_wire::signal::{Body, Datagram, Values};

use super::Scale;
use crate::network::Network;
use crate::programs::Programs;

pub(crate) fn run(_: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    println!(
        "From a sensor to a page's WebSocket: {CHANNELS} channels at 1 kHz, a screen of 10 s on 1,200 columns, ms"
    );
    let weir = build_weir()?;
    let (mut middles, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..scale.rounds {
        let mut delays = look(&weir, scale.look * 2)?;
        delays.sort_unstable_by(f64::total_cmp);
        middles.push(quantile(&delays, 0.5));
        ends.push(quantile(&delays, 0.99));
    }
    let (middle, end) = (median(&middles), median(&ends));
    let words =
        report.goal("sensor to WebSocket client, 99th percentile", "<= 50 ms", &format!("{end:.1} ms"), end <= 50.0);
    println!("    median {middle:.1}, 99 % within {end:.1} {words}");
    report.figure(json!({"scene": "latency", "p50_ms": middle, "p99_ms": end}));
    Ok(())
}

fn quantile(ascending: &[f64], share: f64) -> f64 {
    let rank = (share * ascending.len() as f64).ceil() as usize;
    ascending.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// From when the oldest sample of each bucket was to when the client had it, ms.
fn look(weir: &std::path::Path, span: Duration) -> Result<Vec<f64>> {
    let network = Network::new(2)?;
    let program = |host: usize, words: &[&str]| -> Result<_> {
        let program = Program::new(&network.hosts[host], "monitor", weir).args(["monitor"]).args(words);
        Ok(program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    };
    let _server = program(1, &["serve"])?;
    let source = format!("sine,name=coil,rate=1k/s,copies={CHANNELS}");
    let _station = program(0, &["station", "--interface", "eth0", "--source", &source])?;
    network.hosts[1].run(|| {
        let begun = Instant::now();
        let mut client = loop {
            match Client::open() {
                Ok(client) => break client,
                Err(error) => ensure!(begun.elapsed() < PATIENCE, "the server is not there: {error:#}"),
            }
            thread::sleep(Duration::from_millis(50));
        };
        let mut keys = BTreeSet::new();
        while keys.len() < CHANNELS {
            if let Message::Text(text) = client.receive()? {
                let text: Value = serde_json::from_slice(&text)?;
                let channels = text["channels"].as_array().into_iter().flatten();
                keys.extend(channels.filter_map(|channel| channel["key"].as_u64()));
            }
            ensure!(begun.elapsed() < PATIENCE, "only {} channels are there", keys.len());
        }
        let ask = json!({"ask": 1, "watch": keys, "columns": 1200, "span_ms": 10_000});
        client.send(ask.to_string().as_bytes())?;
        // The past comes first.
        let mut whole = false;
        while !whole {
            if let Message::Text(text) = client.receive()? {
                whole = serde_json::from_slice::<Value>(&text)?.get("whole").is_some();
            }
        }
        let (mut delays, begun) = (Vec::new(), Instant::now());
        while begun.elapsed() < span {
            let Message::Binary(bytes) = client.receive()? else { continue };
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as i128;
            let Body::Data(blocks) = Datagram::parse(&bytes)?.body else { continue };
            for block in blocks {
                let step = match block.values {
                    Values::Gap(_) => continue,
                    Values::Buckets(_, bucket, _) => u64::from(bucket),
                    Values::Samples(..) => 1,
                };
                let times = (0..block.samples()).step_by(step as usize).map(|at| block.rate.nanos(at));
                delays.extend(times.map(|at| (now - i128::from(block.time) - at) as f64 / 1e6));
            }
        }
        ensure!(!delays.is_empty(), "nothing came");
        Ok(delays)
    })?
}

/// A WebSocket (RFC 6455), as far as the server's needs it.
struct Client(TcpStream);

enum Message {
    Text(Vec<u8>),
    Binary(Vec<u8>),
    Other,
}

impl Client {
    fn open() -> Result<Self> {
        let mut stream = TcpStream::connect("127.0.0.1:5180")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(
            b"GET /live HTTP/1.1\r\nHost: 127.0.0.1:5180\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
              Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.extend(byte);
        }
        ensure!(
            head.starts_with(b"HTTP/1.1 101"),
            "{}",
            String::from_utf8_lossy(&head).lines().next().unwrap_or_default()
        );
        Ok(Self(stream))
    }

    fn send(&mut self, text: &[u8]) -> Result<()> {
        // One frame, whose mask is 0.
        let mut frame = vec![0x81, 0x80 | 126];
        frame.extend(u16::try_from(text.len()).context("a question is short")?.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(text);
        Ok(self.0.write_all(&frame)?)
    }

    fn receive(&mut self) -> Result<Message> {
        let mut head = [0; 2];
        self.0.read_exact(&mut head)?;
        let length = match head[1] & 0x7f {
            126 => {
                let mut length = [0; 2];
                self.0.read_exact(&mut length)?;
                u64::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                self.0.read_exact(&mut length)?;
                u64::from_be_bytes(length)
            }
            length => u64::from(length),
        };
        let mut bytes = vec![0; usize::try_from(length)?];
        self.0.read_exact(&mut bytes)?;
        Ok(match head[0] & 0x0f {
            1 => Message::Text(bytes),
            2 => Message::Binary(bytes),
            _ => Message::Other,
        })
    }
}

const CHANNELS: usize = 64;

const PATIENCE: Duration = Duration::from_secs(20);
