//! From a sensor to a pixel of a page, beside a page that polls InfluxDB: 64 channels at 1 kHz.

use std::fmt::Write;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use bench_measure::{Report, build_weir, median, peer, peers};
use serde_json::{Value, json};
use weir_kernel::namespaces::NetNs;
use weir_kernel::namespaces::process::Program;

use super::{Scale, quantile};
use crate::network::Network;
use crate::programs::Programs;

pub(crate) fn run(_: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    if !web.join("node_modules/playwright-core").exists() {
        println!("From a sensor to a pixel: left out, it needs what web/package.json names (make deps)");
        return Ok(());
    }
    println!("From a sensor to a pixel of a page in Chromium: {CHANNELS} channels at 1 kHz, ms");
    let weir = build_weir()?;
    // Some two steps a half second.
    let span = scale.look * 10;
    let (mut own, mut ends, mut frames, mut missed, mut sight) = (vec![], vec![], vec![], 0, 0);
    let (mut theirs, mut late) = (vec![], vec![]);
    let influx = peer("influxd");
    for _ in 0..scale.rounds.min(ROUNDS) {
        let told = live(&weir, &web, span)?;
        let delays = numbers(&told["delays"])?;
        own.push(quantile(&delays, 0.5));
        ends.push(quantile(&delays, 0.99));
        frames.push(told["frame_ms"].as_f64().unwrap_or(f64::NAN));
        missed += told["missed"].as_i64().unwrap_or(i64::MAX).abs();
        sight = told["sight"].as_u64().unwrap_or(0);
        if influx.exists() {
            let delays = numbers(&polled(&influx, &web, span)?["delays"])?;
            theirs.push(quantile(&delays, 0.5));
            late.push(quantile(&delays, 0.99));
        }
    }
    let (middle, end) = (median(&own), median(&ends));
    let words = report.goal("sensor to pixel, 99th percentile", "<= 50 ms", &format!("{end:.0} ms"), end <= 50.0);
    println!(
        "    weir: median {middle:.0}, 99 % within {end:.0} {words}; a frame of {sight} plots in sight takes {:.1}",
        median(&frames)
    );
    let words = report.goal("steps that the page did not show", "0", &missed.to_string(), missed == 0);
    println!("    steps that were not shown: {missed} {words}");
    if theirs.is_empty() {
        println!("    InfluxDB is missing, left out");
    } else {
        println!(
            "    InfluxDB by UDP, polled each second: median {:.0}, 99 % within {:.0}",
            median(&theirs),
            median(&late)
        );
    }
    report.figure(json!({
        "scene": "pixel", "p50_ms": middle, "p99_ms": end, "frame_ms": median(&frames), "in_sight": sight, "missed": missed,
        "influx_p50_ms": median(&theirs), "influx_p99_ms": median(&late),
    }));
    Ok(())
}

/// Ascending.
fn numbers(told: &Value) -> Result<Vec<f64>> {
    let mut numbers: Vec<f64> = told.as_array().context("no delays")?.iter().filter_map(Value::as_f64).collect();
    ensure!(numbers.len() >= 10, "only {} delays", numbers.len());
    numbers.sort_unstable_by(f64::total_cmp);
    Ok(numbers)
}

/// What the script says of a server's page.
fn live(weir: &Path, web: &Path, span: Duration) -> Result<Value> {
    let network = Network::new(2)?;
    let program = |host: usize, words: &[&str]| -> Result<_> {
        let program = Program::new(&network.hosts[host], "monitor", weir).args(["monitor"]).args(words);
        Ok(program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    };
    let _server = program(1, &["serve"])?;
    let source = format!("step,name=coil,rate=1k/s,frequency=2.3/s,copies={CHANNELS}");
    let _station = program(0, &["station", "--interface", "eth0", "--source", &source])?;
    script(&network.hosts[1], web, span, ("SERVER", "127.0.0.1:5180"))
}

/// What it says of one that polls a database, to which a sensor sends lines.
fn polled(influx: &Path, web: &Path, span: Duration) -> Result<Value> {
    let network = Network::new(2)?;
    let directory = peers().with_file_name("influx");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory)?;
    let config = directory.join("influxdb.conf");
    let place = directory.display();
    let text = format!(
        "reporting-disabled = true\n[meta]\ndir = \"{place}/meta\"\n[data]\ndir = \"{place}/data\"\nwal-dir = \"{place}/wal\"\n\
         query-log-enabled = false\n[http]\nbind-address = \"127.0.0.1:8086\"\nlog-enabled = false\n\
         [[udp]]\nenabled = true\nbind-address = \":8089\"\ndatabase = \"signals\"\nread-buffer = 8388608\n"
    );
    fs::write(&config, text)?;
    let database = Program::new(&network.hosts[1], "influx", influx).args(["-config"]).args([&config]);
    let _database = database.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    network.hosts[1].run(|| await_port("127.0.0.1:8086"))??;
    let socket = network.hosts[0].run(|| UdpSocket::bind("0.0.0.0:0"))??;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| sense(&socket, &over));
        let told = script(&network.hosts[1], web, span, ("INFLUX", "127.0.0.1:8086"));
        over.store(true, Ordering::Relaxed);
        told
    })
}

/// A sensor as one writes it: each 10 ms a sample of each millisecond and channel, in lines.
fn sense(socket: &UdpSocket, over: &AtomicBool) {
    let (mut lines, mut at) = (String::new(), now_ms());
    while !over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(10));
        let now = now_ms();
        while at < now {
            for channel in 0..CHANNELS {
                let value = if (at / 217) % 2 == 0 { -1 } else { 1 };
                // Writing to a string does not fail.
                let _ = writeln!(lines, "signal,channel={channel} value={value} {}", at * 1_000_000);
                if lines.len() > 1400 {
                    // A database that is not there yet refuses.
                    let _ = socket.send_to(lines.as_bytes(), "10.0.0.2:8089");
                    lines.clear();
                }
            }
            at += 1;
        }
    }
}

fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

fn await_port(address: &str) -> Result<()> {
    let begun = Instant::now();
    while let Err(error) = std::net::TcpStream::connect(address) {
        ensure!(begun.elapsed() < Duration::from_secs(20), "{address}: {error}");
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn script(host: &NetNs, web: &Path, span: Duration, (key, server): (&str, &str)) -> Result<Value> {
    let program = Program::new(host, "viewer", "node").args(["test/pixel.mjs"]).current_dir(web);
    let program = program.env(key, server).env("CHANNELS", CHANNELS.to_string());
    let program = program.env("LOOK_MS", span.as_millis().to_string());
    let running = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (status, stdout, stderr) = running.output()?;
    ensure!(status == 0, "web/test/pixel.mjs: {}", String::from_utf8_lossy(&stderr).trim());
    serde_json::from_slice(&stdout).context("what web/test/pixel.mjs says")
}

const CHANNELS: usize = 64;

/// Each has a hundred steps or so.
const ROUNDS: usize = 3;
