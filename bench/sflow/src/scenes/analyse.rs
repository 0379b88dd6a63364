//! Everything that is done with a datagram: decoding, streams, correction, counters, twenty flow definitions.

use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use bench_measure::{Report, machine, median};
use serde_json::json;

use super::Scale;
use crate::analysis::Analysis;
use crate::collector::{Collector, Kind, LISTENER, Place, configuration};
use crate::load::{Load, Plan};
use crate::programs::Programs;
use crate::source::while_sending;

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    let mut load = Load::new(Plan::USUAL)?;
    let Plan { agents, interfaces, conversations, .. } = Plan::USUAL;
    println!(
        "Analysis of {:.0} bytes and {:.2} samples a datagram, {agents} agents of {interfaces} interfaces, {conversations} conversations",
        load.bytes_each(),
        load.samples_each()
    );
    in_memory(scale, &mut load, report)?;
    sockets(programs, scale, &mut load, report)
}

fn in_memory(scale: Scale, load: &mut Load, report: &mut Report) -> Result<()> {
    println!("  a shard in this process, CPU time");
    let full = configuration("");
    // Without flow definitions: decoding, streams, correction, counters.
    let (before, _) = full.split_once("[flow.").unwrap_or((&full, ""));
    let cases = [("no flow definition", before), ("20 flow definitions", &full)];
    let mut costs = [Vec::new(), Vec::new()];
    let mut entries = 0;
    machine::pinned(machine::REPLICATOR, || {
        for _ in 0..scale.rounds {
            for ((_, configuration), costs) in cases.iter().zip(&mut costs) {
                let mut analysis = Analysis::new(configuration)?;
                analysis.warm_up(load, WARM_UP, RATE)?;
                costs.push(analysis.feed(load, (RATE * scale.cost.as_secs_f64()) as u64, RATE)?.cost());
                entries = analysis.entries("flows");
            }
        }
        Ok(())
    })?;
    for ((name, _), costs) in cases.iter().zip(&costs) {
        let cost = median(costs);
        let rate = 1e9 / cost;
        let verdict = if *name == cases[1].0 {
            report.goal(
                "analysis, a core, in memory",
                ">= 300,000 datagrams/s",
                &format!("{rate:.0}/s, {:.2} M samples/s", rate * load.samples_each() / 1e6),
                rate >= GOAL,
            )
        } else {
            String::new()
        };
        report.figure(json!({"scene": "analyse", "case": "in memory", "who": name, "ns": cost}));
        println!(
            "    {name:22} {cost:7.0} ns  {:6.0} k datagrams/s  {:5.2} M samples/s {verdict}",
            rate / 1e3,
            rate * load.samples_each() / 1e6
        );
    }
    println!("    {entries} flows");
    Ok(())
}

/// A look at a collector that is offered more than it can take.
struct Look {
    /// CPU time a datagram that it took, us.
    cost: f64,
    /// Datagrams a second, thousands.
    offered: f64,
    taken: f64,
    /// Share of its processor.
    busy: f64,
}

fn sockets(programs: &Programs, scale: Scale, load: &mut Load, report: &mut Report) -> Result<()> {
    println!("  over sockets, the collector on one processor, the source on the other, offered all it can send");
    let kinds = [Kind::Weir, Kind::Goflow2Bin, Kind::Goflow2Json, Kind::Sfacctd];
    let mut looks: Vec<(Kind, Vec<Look>)> =
        kinds.into_iter().filter(|kind| kind.is_there(programs)).map(|kind| (kind, Vec::new())).collect();
    for _ in 0..scale.rounds {
        for (kind, looks) in &mut looks {
            looks.push(look(programs, *kind, scale, load)?);
        }
    }
    let column = |looks: &[Look], of: fn(&Look) -> f64| median(&looks.iter().map(of).collect::<Vec<_>>());
    for (kind, own) in &looks {
        let [cost, offered] = [column(own, |look| look.cost), column(own, |look| look.offered)];
        let [taken, busy] = [column(own, |look| look.taken), column(own, |look| look.busy)];
        let verdict = if *kind == Kind::Weir {
            let rate = taken / busy * 1e3;
            report.goal(
                "analysis, a core, over sockets",
                ">= 300,000 datagrams/s",
                &format!("{rate:.0}/s"),
                rate >= GOAL,
            )
        } else {
            let weir = &looks[0].1;
            let ratio = median(&weir.iter().zip(own).map(|(weir, own)| own.cost / weir.cost).collect::<Vec<_>>());
            format!("{ratio:5.1} x weir's")
        };
        report.figure(json!({"scene": "analyse", "case": "sockets", "who": kind.name(), "us": cost,
            "offered_kpps": offered, "taken_kpps": taken, "busy": busy}));
        println!(
            "    {:18} {cost:6.2} us {verdict:40} took {taken:4.0} of {offered:4.0} k/s, busy {:3.0} %",
            kind.name(),
            busy * 100.0
        );
    }
    Ok(())
}

fn look(programs: &Programs, kind: Kind, scale: Scale, load: &mut Load) -> Result<Look> {
    let collector = Collector::start(programs, kind, Place::Pinned)?;
    let ns = collector.ns.try_clone()?;
    let (look, _) = while_sending(&ns, LISTENER, load, None, |progress| {
        sleep(SETTLED);
        let snapshot = || -> Result<[f64; 3]> {
            let drops = collector.drops()?.unwrap_or_default() as f64;
            let sent = progress.sent.load(Ordering::Relaxed) as f64;
            Ok([collector.cpu_time()?.as_secs_f64(), sent, sent - drops])
        };
        let (start, first) = (Instant::now(), snapshot()?);
        sleep(scale.cost);
        let (last, time) = (snapshot()?, start.elapsed().as_secs_f64());
        let [cpu, sent, taken] = [0, 1, 2].map(|index| last[index] - first[index]);
        Ok(Look { cost: cpu / taken * 1e6, offered: sent / time / 1e3, taken: taken / time / 1e3, busy: cpu / time })
    })?;
    Ok(look)
}

const GOAL: f64 = 300_000.0;

/// Datagrams a second by the clock of the shard in this process.
const RATE: f64 = 300_000.0;

/// Datagrams until its tables are as full as they stay: agents are proven after a second.
const WARM_UP: u64 = 600_000;

/// Until a collector's queues and tables are as full as they stay.
const SETTLED: Duration = Duration::from_millis(1500);
