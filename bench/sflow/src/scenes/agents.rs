//! What many agents cost: in time, and in memory.

use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bench_measure::{Report, machine, median};
use serde_json::json;

use super::Scale;
use crate::analysis::Analysis;
use crate::collector::{Collector, LISTENER, Place, configuration};
use crate::load::{Load, Plan};
use crate::programs::Programs;
use crate::source::while_sending;

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    println!(
        "Cost by the number of agents, of {INTERFACES} interfaces each; a shard in this process, 20 flow definitions"
    );
    let mut medians = Vec::new();
    for agents in [10, 100, 1000, 10_000, 50_000] {
        let datagrams = agents.max(20_000);
        let mut load = Load::new(Plan { agents, interfaces: INTERFACES, datagrams, ..Plan::USUAL })?;
        let costs = machine::pinned(machine::REPLICATOR, || {
            let mut analysis = Analysis::new(&configuration(""))?;
            // Each interface of each once, and two seconds at least: until then agents have to prove themselves.
            analysis.warm_up(&mut load, u64::from(datagrams * INTERFACES).max(900_000), RATE)?;
            let costs = (0..scale.rounds.max(3))
                .map(|_| Ok(analysis.feed(&mut load, (RATE * scale.cost.as_secs_f64()) as u64, RATE)?.cost()));
            let costs = costs.collect::<Result<Vec<_>>>()?;
            ensure!(analysis.entries("agents") == u64::from(agents), "{} agents", analysis.entries("agents"));
            Ok((costs, analysis.entries("sources"), analysis.entries("flows")))
        })?;
        let ((costs, sources, flows), cost) = (&costs, median(&costs.0));
        println!(
            "    {agents:6} agents, {sources:7} sources, {flows:7} flows  {cost:6.0} ns a datagram ({:.0} to {:.0})",
            min(costs),
            max(costs)
        );
        report.figure(json!({"scene": "agents", "agents": agents, "ns": cost, "sources": sources, "flows": flows}));
        medians.push(cost);
    }
    let ratio = max(&medians) / min(&medians);
    let words = report.goal("cost from 10 to 50,000 agents", "within 1.5 x", &format!("{ratio:.2} x"), ratio <= 1.5);
    println!("    the dearest is {ratio:.2} x the cheapest {words}");
    memory(programs, report)
}

/// 50,000 agents of 20 interfaces, all of which have told of samples and of counters.
fn memory(programs: &Programs, report: &mut Report) -> Result<()> {
    let plan = Plan {
        agents: AGENTS,
        interfaces: INTERFACES,
        datagrams: 2 * AGENTS,
        counters: 50,
        rotate: true,
        ..Plan::USUAL
    };
    let mut load = Load::new(plan)?;
    let collector = Collector::weir(programs, "", Place::Anywhere)?;
    let empty = collector.memory()?;
    let ns = collector.ns.try_clone()?;
    // The first passes do not count: until then so many new agents have to prove themselves.
    let wanted = 2 * u64::from(AGENTS) * u64::from(INTERFACES + 6);
    let (figures, _) = while_sending(&ns, LISTENER, &mut load, Some(100_000.0), |progress| {
        let deadline = Instant::now() + Duration::from_secs(120);
        while progress.sent.load(Ordering::Relaxed) < wanted {
            ensure!(Instant::now() < deadline, "the source is too slow");
            sleep(Duration::from_millis(100));
        }
        collector.client()?.get("/analyzer/json")
    })?;
    let (memory, entries) = (collector.memory()?, |table: &str| figures[format!("{table}_entries")].as_u64());
    let [agents, sources, flows] = ["agents", "sources", "flows"].map(|table| entries(table).unwrap_or_default());
    let gib = memory as f64 / f64::from(1 << 30);
    let all = agents == u64::from(AGENTS) && sources >= u64::from(AGENTS * INTERFACES) * 99 / 100;
    let words = report.goal(
        "memory of 50,000 agents of 20 interfaces",
        "<= 4 GiB",
        &format!("{gib:.2} GiB"),
        all && gib <= 4.0,
    );
    println!("  weir sflow serve with {agents} agents, {sources} data sources, {flows} flows");
    println!("    resident {gib:.2} GiB, {:.1} MiB of it at the start {words}", empty as f64 / f64::from(1 << 20));
    if !all {
        println!("    not all of them are there: {figures}");
    }
    report.figure(json!({"scene": "agents", "resident": memory, "agents": agents, "sources": sources, "flows": flows}));
    Ok(())
}

fn min(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn max(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

const AGENTS: u32 = 50_000;
const INTERFACES: u32 = 20;

/// Datagrams a second by the clock of the shard.
const RATE: f64 = 300_000.0;
