//! What tracing costs: `cargo run --release -p bench-loss [-- ROUNDS]`, as root.
//!
//! In each round the same work is done without a tracer and with each of four, in a new order; what is compared are pairs
//! of one round. The work is single-threaded, on the loopback of a namespace of its own, where a datagram is
//! received in the softirq of its own send call: the thread's processor time holds all of it.

mod work;

use std::io::{IsTerminal, Write, stderr};

use anyhow::{Context, Result, ensure};
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_trace::{Detail, Filter, Tracer};

use crate::work::Bench;

const ROUNDS: usize = 41;

/// What runs, and whether it follows the traffic. The first, which looks at each drop and leaves it, is what any program at
/// that tracepoint costs on this machine.
const TRACERS: [(&str, Detail, bool); 4] = [
    ("not followed", Detail::Drops, false),
    ("drops", Detail::Drops, true),
    ("queues", Detail::Queues, true),
    ("everything", Detail::Everything, true),
];

/// Measured in one round: without a tracer, then with each.
type Round = [f64; 1 + TRACERS.len()];

/// A kind of work, its unit, and its goals: the most nanoseconds more with drops and with queues.
struct Scene {
    title: &'static str,
    run: fn(&Bench) -> Result<f64>,
    goals: [Option<f64>; TRACERS.len()],
}

const SCENES: [Scene; 3] = [
    Scene {
        title: "flood that is dropped at a full receive buffer, ns of processor a datagram",
        run: Bench::flood,
        goals: [None, Some(20.0), Some(100.0), None],
    },
    Scene {
        title: "sent and read without loss, as fast as one thread can, ns of processor a datagram",
        run: Bench::sent_and_read,
        goals: [None, Some(20.0), Some(100.0), None],
    },
    Scene {
        title: "300,000/s for 0.2 s from one thread to another, us a datagram that arrived",
        run: Bench::paced,
        goals: [None; TRACERS.len()],
    },
];

fn main() -> Result<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(ROUNDS), |text| text.parse()).context("how many rounds?")?;
    ensure!(rounds > 0, "no rounds");
    let network = NetNs::create()?;
    Netlink::open(&network)?.set_loopback_up()?;
    let bench = network.run(Bench::new)??;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    println!("Linux {}, {} processors", release.trim(), std::thread::available_parallelism()?);
    println!("medians of {rounds} interleaved rounds; 95 % intervals of the median of pairs\n");
    for scene in &SCENES {
        println!("{}", scene.title);
        let mut all = Vec::new();
        for round in 0..rounds {
            all.push(measure(&bench, scene, round)?);
            if stderr().is_terminal() {
                eprint!("\r{}/{rounds} ", round + 1);
                stderr().flush()?;
            }
        }
        print(scene, &all);
    }
    Ok(())
}

fn measure(bench: &Bench, scene: &Scene, round: usize) -> Result<Round> {
    let mut measured = [0.0; 1 + TRACERS.len()];
    for turn in 0..measured.len() {
        let which = (turn + round) % measured.len();
        let mut tracer = match which.checked_sub(1).map(|index| TRACERS[index]) {
            None => None,
            Some((_, detail, followed)) => {
                let port = if followed { bench.port()? } else { bench.port()? ^ 1 };
                Some(Tracer::start(detail, &Filter { ports: vec![port], namespaces: vec![bench.namespace] })?)
            }
        };
        measured[which] = (scene.run)(bench)?;
        if let Some(tracer) = &mut tracer {
            ensure!(tracer.refused().is_empty(), "{}", tracer.refused().join("; "));
            ensure!(tracer.read()?.missed.total() == 0, "events were missed");
        }
    }
    Ok(measured)
}

fn print(scene: &Scene, rounds: &[Round]) {
    let plain = quantiles(rounds.iter().map(|round| round[0]));
    println!("\r  {:12} {:8.1}", "no tracer", plain.median);
    for (index, (name, ..)) in TRACERS.iter().enumerate() {
        let more = quantiles(rounds.iter().map(|round| round[index + 1] - round[0]));
        let ratio = quantiles(rounds.iter().map(|round| round[index + 1] / round[0]));
        let own = quantiles(rounds.iter().map(|round| round[index + 1]));
        let goal = match scene.goals[index] {
            Some(most) => format!("goal <= {most:.0}: {}", if more.median <= most { "met" } else { "missed" }),
            None if scene.goals == [None; TRACERS.len()] => {
                format!("goal < 1.03: {}", if ratio.median < 1.03 { "met" } else { "missed" })
            }
            None => String::new(),
        };
        println!(
            "  {name:12} {:8.1}  {:+7.1} ({:+.1} to {:+.1})  ratio {:.3} ({:.3} to {:.3})  {goal}",
            own.median, more.median, more.low, more.high, ratio.median, ratio.low, ratio.high
        );
    }
    println!();
}

struct Quantiles {
    median: f64,
    low: f64,
    high: f64,
}

/// The median and the order statistics around it between which the true one lies in 95 of 100 cases.
fn quantiles(values: impl Iterator<Item = f64>) -> Quantiles {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let away = 0.98 * count.sqrt();
    let at = |rank: f64| values[(rank.max(0.0) as usize).min(values.len() - 1)];
    Quantiles { median: at(count / 2.0), low: at((count / 2.0 - away).floor()), high: at((count / 2.0 + away).ceil()) }
}
