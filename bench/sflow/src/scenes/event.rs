//! How soon a threshold crossing is an event at a client that waits for it.

use std::collections::HashMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bench_measure::Report;
use serde_json::json;
use weir_kernel::namespaces::NetNs;
use weir_wire::sflow::encode::{self, Flow, Put};
use weir_wire::sflow::{DataFormat, DataSource, HeaderProtocol, Interface, Space, Structure};

use super::{Scale, quantile};
use crate::collector::{Collector, LISTENER, Place};
use crate::http::Client;
use crate::load::{Load, Plan};
use crate::programs::Programs;
use crate::source::while_sending;

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    println!(
        "From just before a datagram is sent to its event at a client that long-polls, with {BACKGROUND:.0} other datagrams/s"
    );
    let mut load = Load::new(Plan::USUAL)?;
    let collector = Collector::weir(programs, "", Place::Anywhere)?;
    let mut client = collector.client()?;
    client.put(
        "/flow/victims/json",
        &json!({"keys": "ipdestination", "value": "frames", "filter": "udpdestinationport=7777"}),
    )?;
    client
        .put("/threshold/victims/json", &json!({"metric": "victims", "value": 100, "byFlow": true, "timeout": 10}))?;
    let ns = collector.ns.try_clone()?;
    let (delays, _) = while_sending(&ns, LISTENER, &mut load, Some(BACKGROUND), |_| {
        sleep(Duration::from_secs(1));
        crossings(&ns, client, scale.crossings)
    })?;
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| quantile(&delays, share) * 1e3);
    let words =
        report.goal("a crossing is an event at a client, p99", "<= 10 ms", &format!("{p99:.2} ms"), p99 <= 10.0);
    println!("    {} crossings: p50 {p50:.2} ms, p99 {p99:.2} ms, at most {most:.2} ms {words}", delays.len());
    report.figure(json!({"scene": "event", "crossings": delays.len(), "p50_ms": p50, "p99_ms": p99, "max_ms": most}));
    Ok(())
}

/// Makes flows cross their threshold, one after the other; how long each took, in seconds, ascending.
fn crossings(ns: &NetNs, client: Client, count: u32) -> Result<Vec<f64>> {
    let (done, came) = (AtomicBool::new(false), Mutex::new(HashMap::new()));
    let sent = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(client, count, &done, &came));
        let sent = send(ns, count);
        let deadline = Instant::now() + Duration::from_secs(5);
        while !waiting.is_finished() && Instant::now() < deadline {
            sleep(Duration::from_millis(10));
        }
        done.store(true, Ordering::Relaxed);
        waiting.join().map_err(|_| anyhow!("the client panicked"))??;
        sent
    })?;
    let came = came.into_inner().map_err(|_| anyhow!("the client panicked"))?;
    ensure!(came.len() == count as usize, "{} of {count} crossings became events", came.len());
    let delay = |(address, at): (&Ipv4Addr, &Instant)| {
        let came: &Instant = came.get(&address.to_string()).with_context(|| format!("{address} was not told"))?;
        Ok(came.duration_since(*at).as_secs_f64())
    };
    let mut delays = sent.iter().map(|(address, at)| delay((address, at))).collect::<Result<Vec<_>>>()?;
    delays.sort_by(f64::total_cmp);
    Ok(delays)
}

/// Sends one datagram each for so many new destinations: whom, and when.
fn send(ns: &NetNs, count: u32) -> Result<Vec<(Ipv4Addr, Instant)>> {
    let socket = ns.run(|| UdpSocket::bind("127.0.0.1:0"))??;
    let mut random = fastrand::Rng::with_seed(7);
    let (mut sent, mut bytes) = (Vec::new(), Vec::new());
    for number in 1..=count {
        let victim = Ipv4Addr::from(u32::from(Ipv4Addr::new(203, 0, 112, 0)) + number);
        bytes.clear();
        write(&mut bytes, number, victim)?;
        sent.push((victim, Instant::now()));
        socket.send_to(&bytes, LISTENER)?;
        sleep(Duration::from_micros(random.u64(5_000..15_000)));
    }
    Ok(sent)
}

/// When each event was there, by its flow.
fn wait(mut client: Client, count: u32, done: &AtomicBool, came: &Mutex<HashMap<String, Instant>>) -> Result<()> {
    let (mut last, mut seen) = (-1, 0);
    while seen < count && !done.load(Ordering::Relaxed) {
        let events =
            client.get(&format!("/events/json?eventID={last}&thresholdID=victims&timeout=1&maxEvents=1000"))?;
        let now = Instant::now();
        let mut came = came.lock().map_err(|_| anyhow!("poisoned"))?;
        for event in events.as_array().context("events are a list")? {
            last = last.max(event["eventID"].as_i64().context("an event without its number")?);
            let flow = event["flowKey"].as_str().context("an event without its flow")?;
            came.entry(flow.to_owned()).or_insert(now);
            seen += 1;
        }
    }
    Ok(())
}

/// A datagram of an agent of its own, about one packet to `victim`.
fn write(bytes: &mut Vec<u8>, number: u32, victim: Ipv4Addr) -> Result<()> {
    let header = encode::Header { agent: AGENT.into(), sub_agent: 0, sequence: number, uptime: number * 10 };
    let mut samples = encode::datagram(bytes, &header);
    let sample = Flow {
        sequence: number,
        source: DataSource { class: DataSource::IF_INDEX, index: 1 },
        sampling_rate: 1000,
        sample_pool: number * 1000,
        drops: 0,
        input: Interface::Index(1),
        output: Interface::Index(2),
        expanded: false,
    };
    let mut frame =
        vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 100, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1];
    frame.extend(victim.octets());
    frame.extend([0x1e, 0x61, 0x1e, 0x61, 0, 80, 0, 0]);
    let format = DataFormat { enterprise: 0, format: 1 };
    let structure = Structure::find(Space::Flow, format).context("the codec knows no sampled_header")?;
    let values = [Put::U32(HeaderProtocol::ETHERNET.0), Put::U32(118), Put::U32(4), Put::Opaque(&frame)];
    Ok(samples.flow(&sample).put(structure, &values)?)
}

const AGENT: Ipv4Addr = Ipv4Addr::new(10, 199, 0, 1);

/// Other datagrams a second.
const BACKGROUND: f64 = 20_000.0;
