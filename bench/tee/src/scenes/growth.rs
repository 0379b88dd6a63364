//! What the control side costs as destinations, rules and members of a group grow in number, with the exponent of the
//! growth: 0 is flat, 1 as many, 2 their square.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, hint};

use anyhow::{Context, Result, ensure};
use bench_measure::{Report, median};
use nix::sys::signal::Signal;
use serde_json::json;
use weir_forward::plan::Plan;
use weir_tee::config::{Config, Local};

use super::Scale;
use super::reload::await_ready;
use crate::network::{LISTENER, MOST_SINKS, Network, SINGLES, sink};
use crate::replicator::{Kind, Place, Programs, Replicator};
use crate::stream::patience;

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    if programs.has(Kind::Weir) {
        destinations(programs, scale, report)?;
    }
    lookups(report)
}

/// A tee with so many destinations, from its start to its end; medians of as many tees as there are rounds.
fn destinations(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    println!("The control side by the number of destinations, one worker; exponents are fitted from {FITTED} on");
    println!("  {:>12}{}", "", SIZES.map(|size| format!("{size:>10}")).concat());
    let mut looks: Vec<[f64; FIGURES.len()]> = Vec::new();
    for size in SIZES {
        let looked: Vec<_> = (0..scale.rounds).map(|_| look(programs, size, scale)).collect::<Result<_>>()?;
        looks.push(std::array::from_fn(|figure| median(&looked.iter().map(|look| look[figure]).collect::<Vec<_>>())));
    }
    for (figure, (name, bound)) in FIGURES.into_iter().enumerate() {
        let values: Vec<f64> = looks.iter().map(|look| look[figure]).collect();
        let row: String = values.iter().map(|value| format!("{value:>10.3}")).collect();
        let verdict = tell(name, &values, report);
        let largest = values[values.len() - 1];
        let goal = bound.map_or(String::new(), |bound| {
            let what = format!("{name}, {} destinations", SIZES[SIZES.len() - 1]);
            report.goal(&what, &format!("< {bound}"), &format!("{largest:.3}"), largest < bound)
        });
        println!("  {name:>12}{row}  {verdict} {goal}");
    }
    Ok(())
}

/// One tee: its figures, in the order of [`FIGURES`].
fn look(programs: &Programs, size: usize, scale: Scale) -> Result<[f64; FIGURES.len()]> {
    let network = Network::new(SINGLES)?;
    let file = programs.directory().join("growth.toml");
    let manager = programs.directory().join("notify-growth");
    let _ = fs::remove_file(&manager);
    let notices = UnixDatagram::bind(&manager).with_context(|| format!("bind {}", manager.display()))?;
    notices.set_read_timeout(Some(Duration::from_secs(60)))?;
    fs::write(&file, document(size, 0)?)?;
    let arguments = ["tee", "--workers", "1", "-c"].map(str::to_owned).into_iter().chain([file.display().to_string()]);
    let environment = [("NOTIFY_SOCKET", manager.to_str().context("a path that is not UTF-8")?)];
    let start = Instant::now();
    let tee =
        programs.start_with(Kind::Weir, &network, &arguments.collect::<Vec<_>>(), &environment, Place::Anywhere)?;
    await_ready(&notices)?;
    let started = start.elapsed();
    await_rest(&tee)?;
    let (since, before) = (Instant::now(), tee.cpu_time()?);
    // Nothing happens meanwhile: that is what is looked at.
    sleep(scale.delay.max(Duration::from_secs(2)));
    let idle = (tee.cpu_time()? - before).as_secs_f64() / since.elapsed().as_secs_f64() * 100.0;

    // One destination in ten is another one.
    fs::write(&file, document(size, 1)?)?;
    let start = Instant::now();
    tee.signal(Signal::SIGHUP)?;
    await_ready(&notices)?;
    let reloaded = start.elapsed();

    let (scraped, bytes) = get(&network, "/metrics")?;
    let (one, _) = get(&network, "/metrics?destination=1")?;
    let (ledger, _) = get(&network, "/ledger")?;
    let start = Instant::now();
    ensure!(tee.stop()? == Some(0), "weir tee did not stop properly");
    let stopped = start.elapsed();
    Ok([
        started.as_secs_f64(),
        idle,
        reloaded.as_secs_f64(),
        stopped.as_secs_f64(),
        scraped.as_secs_f64(),
        bytes as f64 / 1e6,
        one.as_secs_f64(),
        ledger.as_secs_f64(),
    ])
}

/// Until what a start leaves behind is done with: it has hardly run for a while.
fn await_rest(tee: &Replicator) -> Result<()> {
    let deadline = patience();
    let (mut since, mut before) = (Instant::now(), tee.cpu_time()?);
    while since.elapsed() < REST {
        ensure!(Instant::now() < deadline, "weir tee does not come to rest");
        sleep(Duration::from_millis(5));
        let now = tee.cpu_time()?;
        if now - before > REST / 20 {
            (since, before) = (Instant::now(), now);
        }
    }
    Ok(())
}

/// A rest: a twentieth of it may be work.
const REST: Duration = Duration::from_millis(200);

/// What is measured, in which unit, and below what it is to be with the most destinations.
const FIGURES: [(&str, Option<f64>); 8] = [
    ("start s", None),
    ("idle %", Some(1.0)),
    ("reload s", Some(0.3)),
    ("stop s", None),
    ("metrics s", Some(0.3)),
    ("metrics MB", Some(3.0)),
    ("of one s", None),
    ("ledger s", None),
];

fn document(size: usize, generation: usize) -> Result<String> {
    let mut text = format!("admin = \"{ADMIN}\"\n[[listener]]\naddress = \"{LISTENER}\"\n");
    for number in 0..size {
        let (to, turn) = (sink(number % MOST_SINKS), if number % 10 == 1 { generation } else { 0 });
        let port = 10_000 + number + turn * 20_000;
        writeln!(text, "[[destination]]\nname = \"{number}\"\nto = \"{}:{port}\"", to.ip())?;
    }
    Ok(text)
}

/// How long an answer took, and its bytes.
fn get(network: &Network, path: &str) -> Result<(Duration, usize)> {
    let start = Instant::now();
    let mut stream = network.tee.run(|| TcpStream::connect(ADMIN))??;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    ensure!(answer.starts_with(b"HTTP/1.0 200") || answer.starts_with(b"HTTP/1.1 200"), "{path}: no answer");
    Ok((start.elapsed(), answer.len()))
}

/// What a plan takes to find the way of a source.
fn lookups(report: &mut Report) -> Result<()> {
    println!("The way of a source that was not seen before, ns");
    println!("  {:>12}{}", "", SIZES.map(|size| format!("{size:>10}")).concat());
    let by_rules = SIZES.map(|size| -> Result<f64> {
        let mut rules = String::new();
        for number in 0..size {
            let net = Ipv4Addr::from_bits(0x0a00_0000 + ((number as u32) << 8));
            writeln!(rules, "[[rule]]\nfrom = [\"{net}/24\"]\nto = \"0\"")?;
        }
        let plan = plan(1, &rules)?;
        let mut found = Vec::new();
        Ok(time(size, |source| plan.matcher.matching(0, source, hint::black_box(&mut found))))
    });
    let by_members = SIZES.map(|size| -> Result<f64> {
        let members: Vec<String> = (0..size).map(|number| format!("\"{number}\"")).collect();
        let group = format!("[[group]]\nname = \"all\"\npolicy = \"hash\"\nmembers = [{}]\n", members.join(","));
        let plan = plan(size, &group)?;
        Ok(time(size, |source| {
            hint::black_box(plan.groups[0].preferred(source));
        }))
    });
    for (name, times) in [("rules", by_rules), ("members", by_members)] {
        let times = times.into_iter().collect::<Result<Vec<f64>>>()?;
        let row: String = times.iter().map(|time| format!("{time:>10.0}")).collect();
        let verdict = tell(name, &times, report);
        println!("  {name:>12}{row}  {verdict}");
    }
    Ok(())
}

fn plan(destinations: usize, rest: &str) -> Result<Plan> {
    let text = document(destinations, 0)? + rest;
    let settings = Config::read("growth", &text, &Local::default())?.settings;
    Ok(Plan::build(Arc::new(settings), &BTreeMap::new(), None))
}

/// ns a source, of as many as are asked for in a tenth of a second.
fn time(size: usize, mut find: impl FnMut(IpAddr)) -> f64 {
    let (start, mut asked) = (Instant::now(), 0_u32);
    while start.elapsed() < Duration::from_millis(100) {
        for _ in 0..100 {
            // Spread over all that the rules name, and as much again.
            let spread = asked.wrapping_mul(0x9e37_79b9) % (size as u32 * 2);
            find(Ipv4Addr::from_bits(0x0a00_0000 + (spread << 8)).into());
            asked += 1;
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(asked)
}

/// Notes a row of figures, and says how they grow.
fn tell(name: &str, values: &[f64], report: &mut Report) -> String {
    let points: Vec<(f64, f64)> = SIZES.iter().zip(values).map(|(size, value)| (*size as f64, *value)).collect();
    let fitted: Vec<_> = points.iter().copied().filter(|(size, _)| *size >= FITTED as f64).collect();
    let exponent = exponent(&fitted);
    report.figure(json!({"scene": "growth", "what": name, "sizes": SIZES, "values": values, "exponent": exponent}));
    let verdict = report.goal(&format!("growth of {name}"), "<= 1.2", &format!("{exponent:.2}"), exponent <= 1.2);
    format!("n^{exponent:.2} {verdict}")
}

/// The slope of the logarithms, by least squares.
fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.max(1e-9).ln())).collect();
    let count = logs.len() as f64;
    let (x, y) = logs.iter().fold((0.0, 0.0), |(x, y), log| (x + log.0 / count, y + log.1 / count));
    let over: f64 = logs.iter().map(|log| (log.0 - x) * (log.1 - y)).sum();
    over / logs.iter().map(|log| (log.0 - x).powi(2)).sum::<f64>()
}

/// At most as many as 20,000 descriptors permit, of which a reload needs two for each.
const SIZES: [usize; 5] = [1, 10, 100, 1_000, 9_900];

/// The smallest number at which what grows can be told from what is there anyway.
const FITTED: usize = 100;

const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(*LISTENER.ip()), 9_514);
