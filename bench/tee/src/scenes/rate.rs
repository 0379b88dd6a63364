//! The highest rate at which nothing is lost.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bench_measure::Report;
use serde_json::json;
use weir_kernel::links::Netlink;

use super::Scale;
use crate::network::{LISTENER, Network, Shape, sink};
use crate::replicator::{Kind, Place, Programs};
use crate::stream::{Progress, Stream};

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    const ALL: &[Kind] = &[Kind::Plain, Kind::Gso, Kind::Weir, Kind::Pmacct];
    const INPUTS: [(&str, bool, &[Kind]); 2] =
        [("single datagrams in", false, ALL), ("GRO runs in", true, &[Kind::Weir, Kind::Pmacct])];
    println!(
        "Highest rate without loss, {SIZE} bytes to {DESTINATIONS} destinations on all processors, thousands a second"
    );
    println!(
        "  the source sends {RUN} at once, sinks drop at ingress and count there; {:?} to confirm a rate",
        scale.step
    );
    for (words, runs_arrive, kinds) in INPUTS {
        println!("  {words}");
        let network = Network::new(Shape { runs_arrive, offload: true, drop: true })?;
        let mut rates = Vec::new();
        for &kind in kinds.iter().filter(|kind| programs.has(**kind)) {
            let highest = search(programs, kind, &network, scale.step)?;
            report.figure(json!({"scene": "rate", "input": words, "replicator": kind.name(), "per_s": highest.rate,
                "limited_by_source": highest.limited_by_source}));
            rates.push((kind, highest));
        }
        let of = |kind| rates.iter().find(|(other, _)| *other == kind).map(|(_, highest)| highest.rate);
        for (kind, highest) in &rates {
            let verdict = match of(Kind::Pmacct) {
                Some(peer) if *kind == Kind::Weir => {
                    let measured = format!("{:.1} x", highest.rate / peer);
                    let what = format!("loss-free rate to {DESTINATIONS}, {words}, over pmacct tee's");
                    let words = report.goal(&what, ">= 3 x", &measured, highest.rate >= peer * 3.0);
                    format!("{measured} pmacct tee's {words}")
                }
                _ => String::new(),
            };
            let limit = if highest.limited_by_source { " (beyond it the source falls behind)" } else { "" };
            println!("    {:12} {:7.1} {verdict}{limit}", kind.name(), highest.rate / 1e3);
        }
    }
    Ok(())
}

/// The end of a search.
struct Highest {
    /// Datagrams a second.
    rate: f64,
    limited_by_source: bool,
}

enum Step {
    Whole,
    Lossy,
    /// The source did not keep the pace.
    Late,
}

fn search(programs: &Programs, kind: Kind, network: &Network, confirm: Duration) -> Result<Highest> {
    let to: Vec<_> = (0..DESTINATIONS).map(sink).collect();
    let _replicator = programs.start(kind, network, &to, Place::Anywhere)?;
    network.await_flow(DESTINATIONS)?;
    let scout = confirm / 8;
    let (mut good, mut bad, mut limited_by_source) = (0.0, 10e3, false);
    // Doubling until it is too much, then halving the interval.
    loop {
        match step(network, bad, scout)? {
            Step::Whole => (good, bad) = (bad, bad * 1.6),
            Step::Lossy => break,
            Step::Late => {
                limited_by_source = true;
                break;
            }
        }
    }
    while bad > good * 1.05 && bad > 1e3 {
        let middle = (good + bad) / 2.0;
        match step(network, middle, scout)? {
            Step::Whole => good = middle,
            Step::Lossy => (bad, limited_by_source) = (middle, false),
            Step::Late => (bad, limited_by_source) = (middle, true),
        }
    }
    while good > 1e3 && !matches!(step(network, good, confirm)?, Step::Whole) {
        good *= 0.95;
    }
    Ok(Highest { rate: good, limited_by_source })
}

fn step(network: &Network, rate: f64, time: Duration) -> Result<Step> {
    let mut netlink = Netlink::open(&network.tee)?;
    let before = network.left(&mut netlink, SIZE)?;
    let (progress, start) = (Progress::default(), Instant::now());
    let wanted = (rate * time.as_secs_f64()) as u64;
    Stream::paced(SIZE, RUN, rate).send(&network.source, LISTENER, &progress, wanted)?;
    let late = start.elapsed() > time.mul_f64(1.02) + Duration::from_millis(10);
    let expected = progress.sent.load(Ordering::Relaxed) * DESTINATIONS as u64;
    let copied = network.settled(&mut netlink, SIZE)? - before;
    ensure!(copied <= expected, "{copied} copies of {expected} left the tee");
    Ok(match (copied == expected, late) {
        (false, _) => Step::Lossy,
        (true, true) => Step::Late,
        (true, false) => Step::Whole,
    })
}

const SIZE: usize = 1000;
const DESTINATIONS: usize = 4;

/// Datagrams that arrive at once.
const RUN: usize = 32;
