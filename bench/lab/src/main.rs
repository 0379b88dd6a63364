//! What the lab measures, beside iperf3 and beside itself: `cargo run --release -p bench-lab [-- QUESTION ...]`.
//!
//! Questions: `engines` (our bulk engine against iperf3, paired by seed), `beside` (whether cells that run side by side
//! measure what they measure alone), `again` (whether a rerun with the same seed repeats), `alarms` (how often two runs
//! of the same are found to differ), `whole` (how long the 266 cells take, and whether the surface falls; minutes, so
//! only when asked for). All but the last without arguments. It runs the release build of `weir`.

mod runs;

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::runs::{Weir, geometric_mean, interval_of_ratio};

fn main() -> Result<()> {
    let questions: Vec<String> = std::env::args().skip(1).collect();
    let asked = |question: &str| questions.is_empty() || questions.iter().any(|q| q == question);
    let weir = Weir::find()?;
    println!("{}, {} processors", kernel()?, std::thread::available_parallelism()?);
    if asked("engines") {
        engines(&weir)?;
    }
    if asked("beside") {
        beside(&weir)?;
    }
    if asked("again") {
        again(&weir)?;
    }
    if asked("alarms") {
        alarms(&weir)?;
    }
    if questions.iter().any(|question| question == "whole") {
        whole(&weir)?;
    }
    Ok(())
}

/// Both engines over the same cells with the same seeds, in one run, so that neighbours in time are compared.
fn engines(weir: &Weir) -> Result<()> {
    const REPEATS: usize = 5;
    println!("\nBulk TCP of our own against iperf3, 4 s a cell, {REPEATS} pairs with the same seed, Mbit/s");
    let run = weir.run(
        "matrix",
        &[
            "cells=[]",
            "run.duration=4s",
            "links.access.forward.loss=0%,1%,5%",
            "links.access.forward.delay=1ms,10ms,50ms",
            "traffic.engine=weir,iperf3",
            &format!("run.repeat={REPEATS}"),
        ],
    )?;
    println!("{:<14}{:>10}{:>10}{:>9}  95 % intervals of the ratio, jointly", "cell", "weir", "iperf3", "ratio");
    let cells = run.cells_ending("/weir");
    for cell in &cells {
        let (ours, theirs) =
            (run.column(&format!("{cell}/weir"), "mbit_per_s"), run.column(&format!("{cell}/iperf3"), "mbit_per_s"));
        let (low, high) = interval_of_ratio(&ours, &theirs, cells.len());
        let ratio = geometric_mean(&ours) / geometric_mean(&theirs);
        let verdict = if low <= 1.0 && 1.0 <= high { "agree" } else { "DIFFER" };
        let goal = if *cell == "0%/1ms" {
            goal(geometric_mean(&ours).min(geometric_mean(&theirs)) >= 900.0, "both >= 900")
        } else {
            String::new()
        };
        println!(
            "{cell:<14}{:>10.1}{:>10.1}{ratio:>9.3}  {low:.3} to {high:.3}  {verdict}  {goal}",
            geometric_mean(&ours),
            geometric_mean(&theirs)
        );
    }
    Ok(())
}

/// The same cells with the same seeds one by one and as the gate lets them in.
fn beside(weir: &Weir) -> Result<()> {
    const REPEATS: usize = 6;
    println!("\nCells side by side against the same alone, 2 s a cell, {REPEATS} pairs with the same seed, Mbit/s");
    let run = |jobs: &str| {
        let repeat = format!("run.repeat={REPEATS}");
        let loss = "links.access.forward.loss=1%,5%,20%";
        let delay = "links.access.forward.delay=1ms,5ms,20ms";
        weir.run("matrix", &["cells=[]", "run.duration=2s", loss, delay, &repeat, jobs])
    };
    let (alone, beside) = (run("run.jobs=1")?, run("run.jobs=4")?);
    println!("{:<14}{:>10}{:>10}{:>9}  95 % intervals of the ratio, jointly", "cell", "beside", "alone", "ratio");
    let mut logs = Vec::new();
    let cells = alone.cells_ending("");
    for cell in &cells {
        let (over, under) = (beside.column(cell, "mbit_per_s"), alone.column(cell, "mbit_per_s"));
        let (low, high) = interval_of_ratio(&over, &under, cells.len());
        let ratio = geometric_mean(&over) / geometric_mean(&under);
        let (beside, alone) = (geometric_mean(&over), geometric_mean(&under));
        println!("{cell:<14}{beside:>10.2}{alone:>10.2}{ratio:>9.3}  {low:.3} to {high:.3}");
        logs.push(ratio);
    }
    println!("all cells: {:.3} of what they reach alone", geometric_mean(&logs));
    Ok(())
}

/// The same seed twice: datagrams to the last count, TCP within its intervals.
fn again(weir: &Weir) -> Result<()> {
    println!("\nThe same seed again");
    let datagrams = [
        "cells=[]",
        "run.duration=2s",
        "links.access.forward.loss=0%,1%,10%,50%",
        "links.access.forward.delay=1ms,20ms",
        "traffic.transport=udp",
        "traffic.payload=1000B",
        "traffic.rate=80mbit",
    ];
    let runs = [weir.run("matrix", &datagrams)?, weir.run("matrix", &datagrams)?];
    let ledgers = runs.each_ref().map(|run| {
        run.columns(&["cell", "sent", "delivered", "planned_drops", "queue_drops", "socket_drops", "unexplained"])
    });
    println!(
        "UDP, 8 cells of 20,000 datagrams: ledgers {}",
        if ledgers[0] == ledgers[1] { "identical" } else { "DIFFER" }
    );
    Ok(())
}

/// Pairs of equal runs, compared: each alarm is a false one.
fn alarms(weir: &Weir) -> Result<()> {
    const PAIRS: u64 = 20;
    println!("\n{PAIRS} pairs of equal runs of four cells, 3 repeats of 1 s each, compared");
    let run = |seed: u64| {
        weir.run(
            "matrix",
            &[
                "cells=[]",
                "run.control=0s",
                "run.duration=1s",
                "run.repeat=3",
                "links.access.forward.loss=2%,10%",
                "links.access.forward.delay=5ms,20ms",
                &format!("run.seed={seed}"),
            ],
        )
    };
    let mut alarms = 0;
    for pair in 0..PAIRS {
        let (a, b) = (run(pair)?, run(pair)?);
        let compared = weir.compare(&a, &b)?;
        alarms += u64::from(compared.alarm);
        if pair == 0 {
            println!("{}", compared.text.trim_end());
        }
    }
    println!("false alarms: {alarms} of {PAIRS} comparisons  {}", goal(alarms <= PAIRS / 20, "<= 5 %"));
    Ok(())
}

/// The whole matrix, timed.
fn whole(weir: &Weir) -> Result<()> {
    for (seconds, minutes) in [(3, 6.0), (10, 15.0)] {
        let begin = Instant::now();
        let run = weir.run("matrix", &[&format!("run.duration={seconds}s")])?;
        let took = begin.elapsed().as_secs_f64() / 60.0;
        println!(
            "\n{} cells of {seconds} s: {took:.1} min  {}, {} disturbed",
            run.rows(),
            goal(took <= minutes, &format!("<= {minutes} min")),
            run.disturbed()
        );
        println!("{}", run.report);
    }
    Ok(())
}

fn goal(met: bool, goal: &str) -> String {
    format!("({goal}: {})", if met { "met" } else { "MISSED" })
}

fn kernel() -> Result<String> {
    let output = Command::new("uname").arg("-sr").output().context("run uname")?;
    ensure!(output.status.success(), "uname failed");
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
