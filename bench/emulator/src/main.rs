//! What the emulator carries, beside bare veth pairs: `cargo run --release -p bench-emulator [-- QUESTION ...]`.
//!
//! Questions: `tcp`, `shaped`, `packets`, `delay`, `cells`; all of them without arguments. What is compared is run in
//! turn, three rounds, and medians are printed.

mod network;
mod peers;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use weir_emulator::datapath::{Emulator, EmulatorSettings};
use weir_emulator::model::{Impairments, QueueLimit, Rate};
use weir_kernel::namespaces::user;

use crate::network::{Middle, Pair, direct};
use crate::peers::{delays, drizzle, flood, iperf3, iperf3_version};

const ROUNDS: usize = 3;

fn main() -> Result<()> {
    let privilege = user::obtain_network_privilege()?;
    let questions: Vec<String> = std::env::args().skip(1).collect();
    // A child in a user namespace answers one question with one number.
    if let [flag, seconds] = &questions[..]
        && flag == "--tcp"
    {
        println!("{}", tcp_through(seconds.parse()?)?);
        return Ok(());
    }
    let asked = |question: &str| questions.is_empty() || questions.iter().any(|q| q == question);
    println!("{} as {privilege:?}, {} processors", kernel()?, std::thread::available_parallelism()?);
    println!("peer: {}, with TCP cubic", iperf3_version());
    println!("medians of {ROUNDS} interleaved rounds\n");
    if asked("tcp") {
        tcp()?;
    }
    if asked("shaped") {
        shaped()?;
    }
    if asked("packets") {
        packets()?;
    }
    if asked("delay") {
        delay()?;
    }
    if asked("cells") {
        cells()?;
    }
    Ok(())
}

/// One link, 1 ms each way, and bare veth pairs.
fn tcp() -> Result<()> {
    const SECONDS: u32 = 4;
    println!("TCP through one link, 1 ms each way, 1500-byte packets, iperf3 -t {SECONDS} -O 1, Gbit/s");
    let inside_user_namespace = || -> Result<f64> {
        let program = std::env::current_exe()?;
        let output = Command::new("unshare")
            .args(["--user", "--map-root-user"])
            .arg(program)
            .args(["--tcp", &SECONDS.to_string()])
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim().parse().with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let paths: [(&str, &dyn Fn() -> Result<f64>); 4] = [
        ("bare veth, offloads on", &|| iperf3(&direct(true)?, SECONDS)),
        ("bare veth, offloads off", &|| iperf3(&direct(false)?, SECONDS)),
        ("link", &|| tcp_through(SECONDS)),
        ("link, in a user namespace", &inside_user_namespace),
    ];
    let medians = interleaved(&paths)?;
    for ((name, _), median) in paths.iter().zip(&medians) {
        let goal = if name.starts_with("link") { "(goal >= 7)" } else { "" };
        println!("  {name:38} {median:6.2}   {:4.2} of bare veth {goal}", median / medians[0]);
    }
    Ok(())
}

fn tcp_through(seconds: u32) -> Result<f64> {
    let impairments = Impairments { delay: Duration::from_millis(1), ..Default::default() };
    let (emulator, pair) = link(&EmulatorSettings::default(), &impairments)?;
    let rate = iperf3(&pair, seconds)?;
    sound(&emulator, &pair)?;
    Ok(rate)
}

/// CPU at 1 Gbit/s.
fn shaped() -> Result<()> {
    let rate = Some(Rate { bits_per_second: 1_000_000_000, burst_bytes: 0 });
    let delay = Duration::from_millis(1);
    let impairments = Impairments { rate, delay, queue: QueueLimit::Bytes(1 << 20), ..Default::default() };
    let (mut gigabits, mut loads) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (emulator, pair) = link(&EmulatorSettings::default(), &impairments)?;
        let (cpu, start) = (emulator.cpu_time()?, Instant::now());
        gigabits.push(iperf3(&pair, 4)?);
        loads.push(load(&emulator, cpu, start)?);
        sound(&emulator, &pair)?;
    }
    println!("TCP through a link shaped to 1 Gbit/s");
    println!("  {:.3} Gbit/s at {:.0} % of a core (goal <= 35)", median(&mut gigabits), median(&mut loads));
    Ok(())
}

/// The highest rate at which nothing is lost.
fn packets() -> Result<()> {
    println!("UDP, 200-byte datagrams through one link, 1 ms each way, packets/s without loss");
    let impairments = Impairments { delay: Duration::from_millis(1), ..Default::default() };
    let mut best = Vec::new();
    for _ in 0..ROUNDS {
        let mut highest: f64 = 0.0;
        for rate in (100_000..=800_000).step_by(50_000) {
            let (emulator, pair) = link(&EmulatorSettings::default(), &impairments)?;
            let flood = flood(&pair, 200, rate, Duration::from_secs(1))?;
            let report = emulator.report(pair.links[0])?.forward.ledger;
            ensure!(report.unexplained() == 0, "{report:#?}");
            if flood.received < flood.sent {
                println!(
                    "    at {:.0}: {} lost, of them {} before the emulator's sockets, {} at them",
                    flood.offered_per_s,
                    flood.sent - flood.received,
                    flood.sent - (report.received - report.control) - report.socket_dropped_frames,
                    report.socket_dropped_frames
                );
                break;
            }
            highest = highest.max(flood.offered_per_s);
        }
        best.push(highest);
    }
    println!("  {:10.0} (goal >= 300000)", median(&mut best));
    Ok(())
}

/// How exact the delay is.
fn delay() -> Result<()> {
    // Not a multiple of the interval, or timers would coincide.
    let nominal = Duration::from_micros(5037);
    let impairments = Impairments { delay: nominal, ..Default::default() };
    let measure = || -> Result<[f64; 4]> {
        let (emulator, pair) = link(&EmulatorSettings::default(), &impairments)?;
        let (cpu, start) = (emulator.cpu_time()?, Instant::now());
        let delays = delays(&pair, Duration::from_micros(100), 30_000)?;
        let load = load(&emulator, cpu, start)?;
        sound(&emulator, &pair)?;
        let [p50, p99, p999] = quantiles(&delays, nominal);
        Ok([p50, p99, p999, load])
    };
    println!("Delay error at 10,000 packets/s, nominal {nominal:?}, us");
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let [p50, p99, p999] = quantiles(&delays(&direct(true)?, Duration::from_micros(100), 30_000)?, Duration::ZERO);
        rounds[0].push([p50, p99, p999, 0.0]);
        rounds[1].push(measure()?);
    }
    let names = ["bare veth", "link"];
    let goals = ["", "(goal p50 <= 40, p99 <= 130)"];
    for ((name, rounds), goal) in names.iter().zip(&rounds).zip(goals) {
        let [p50, p99, p999, load] =
            [0, 1, 2, 3].map(|column| median(&mut rounds.iter().map(|round| round[column]).collect::<Vec<_>>()));
        println!("  {name:12} p50 {p50:6.1}  p99 {p99:6.1}  p99.9 {p999:7.1}  {load:3.0} % of a core {goal}");
    }
    Ok(())
}

/// Many quiet links in one thread.
fn cells() -> Result<()> {
    const CELLS: u8 = 40;
    let (mut loads, mut losses) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let settings = EmulatorSettings::default();
        let middle = Middle::new()?;
        let emulator = Emulator::spawn(settings.clone())?;
        let pair = |cell| middle.pair(cell, 2, &emulator, &settings, &Impairments::default());
        let pairs: Vec<Pair> = (1..=CELLS).map(pair).collect::<Result<_>>()?;
        let (cpu, start) = (emulator.cpu_time()?, Instant::now());
        let (sent, received) = drizzle(&pairs, 100, Duration::from_secs(4))?;
        loads.push(load(&emulator, cpu, start)?);
        losses.push((sent - received) as f64);
        for pair in &pairs {
            sound(&emulator, pair)?;
        }
    }
    println!("{CELLS} cells of 2 links and 100 packets/s in one thread");
    println!("  {:.0} % of a core (goal <= 25), {} lost (goal 0)", median(&mut loads), losses.iter().sum::<f64>());
    Ok(())
}

fn link(settings: &EmulatorSettings, impairments: &Impairments) -> Result<(Emulator, Pair)> {
    let emulator = Emulator::spawn(settings.clone())?;
    let pair = Middle::new()?.pair(1, 1, &emulator, settings, impairments)?;
    Ok((emulator, pair))
}

/// The ledger closes, and nothing was lost but by a full queue.
fn sound(emulator: &Emulator, pair: &Pair) -> Result<()> {
    for &link in &pair.links {
        let report = emulator.report(link)?;
        for ledger in [report.forward.ledger, report.backward.ledger] {
            let accidents =
                ledger.buffer_dropped + ledger.send_failed + ledger.malformed + ledger.socket_dropped_frames;
            ensure!(ledger.unexplained() == 0 && accidents == 0, "{ledger:#?}");
        }
    }
    Ok(())
}

/// CPU time since `cpu` and `start`, % of a core.
fn load(emulator: &Emulator, cpu: Duration, start: Instant) -> Result<f64> {
    Ok((emulator.cpu_time()? - cpu).as_secs_f64() / start.elapsed().as_secs_f64() * 100.0)
}

/// Median, p99 and p99.9 of what exceeds `nominal`, us.
fn quantiles(ascending: &[i64], nominal: Duration) -> [f64; 3] {
    [0.5, 0.99, 0.999].map(|q| {
        let delay = ascending[(ascending.len() as f64 * q) as usize];
        (delay - nominal.as_nanos() as i64) as f64 / 1e3
    })
}

fn interleaved(paths: &[(&str, &dyn Fn() -> Result<f64>)]) -> Result<Vec<f64>> {
    let mut results = vec![Vec::new(); paths.len()];
    for _ in 0..ROUNDS {
        for ((name, run), results) in paths.iter().zip(&mut results) {
            results.push(run().with_context(|| name.to_string())?);
        }
    }
    Ok(results.iter_mut().map(|r| median(r)).collect())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn kernel() -> Result<String> {
    Ok(format!("Linux {}", std::fs::read_to_string("/proc/sys/kernel/osrelease")?.trim()))
}
