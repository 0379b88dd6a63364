//! What the datagram engine costs, beside plain loops in C: `cargo run --release -p bench-dgram [-- plain|batched|runs ...]`.
//!
//! Loopback, one thread: bursts are sent and taken in again by turns, each side on its own clocks. Ours and the peers in
//! `peers/`, compiled here by `cc -O2`, run as processes of their own by turns.

mod engine;
mod measure;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::{NetNs, user};

use crate::measure::Costs;

/// How datagrams are handed to the kernel.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mode {
    Plain,
    Batched,
    Runs,
}

impl Mode {
    const ALL: [(Mode, &'static str); 3] = [(Mode::Plain, "plain"), (Mode::Batched, "batched"), (Mode::Runs, "runs")];
}

const PAYLOADS: [usize; 5] = [16, 200, 1000, 1472, 8972];
const ROUNDS: usize = 7;
/// Datagrams sent before they are taken in: a multiple of the batch.
const BURST: usize = 512;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, mode, payload, bursts, burst] = &arguments[..]
        && flag == "--engine"
    {
        let (mode, _) = Mode::ALL.into_iter().find(|(_, name)| name == mode).context("no such mode")?;
        println!("{}", engine::run(mode, payload.parse()?, bursts.parse()?, burst.parse()?)?);
        return Ok(());
    }
    let privilege = user::obtain_network_privilege()?;
    let network = NetNs::create()?;
    Netlink::open(&network)?.set_loopback_up()?;
    let compiled = tempfile::tempdir()?;
    let peers = Mode::ALL.map(|(_, name)| compile(name, compiled.path()));
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    println!("Linux {} as {privilege:?}, loopback, one thread, {}", release.trim(), compiler()?);
    println!("CPU ns a datagram, medians of {ROUNDS} interleaved rounds; ratio: engine / C, median of the rounds'");
    println!(
        "{:8} {:>6}  {:>29}  {:>29}",
        "", "bytes", "send: C, engine, ratio, M/s", "receive: C, engine, ratio, M/s"
    );
    let mut worst: f64 = 0.0;
    for ((_, name), peer) in Mode::ALL.iter().zip(peers) {
        let peer = peer?;
        if !arguments.is_empty() && !arguments.iter().any(|argument| argument == name) {
            continue;
        }
        for payload in PAYLOADS {
            let (ours, theirs) = network.run(|| rounds(name, &peer, payload))??;
            let mut line = format!("{name:8} {payload:6}");
            for side in [Costs::send, Costs::receive] {
                let ratio = median(ours.iter().zip(&theirs).map(|(ours, theirs)| side(ours).cpu / side(theirs).cpu));
                let cost = |all: &[Costs]| median(all.iter().map(|costs| side(costs).cpu));
                let rate = 1e3 / median(ours.iter().map(|costs| side(costs).wall));
                line += &format!("  {:8.1} {:8.1} {ratio:5.2} {rate:5.2}", cost(&theirs), cost(&ours));
                worst = worst.max(ratio);
            }
            println!("{line}");
        }
    }
    println!(
        "plain: send, recvfrom; batched: sendmmsg, recvmmsg, 64 each; runs: UDP_SEGMENT, UDP_GRO, up to 64 or 65,000 bytes"
    );
    println!("M/s: million datagrams a second through the engine. Highest ratio {worst:.2} (goal <= 1.05)");
    Ok(())
}

fn rounds(mode: &str, peer: &Path, payload: usize) -> Result<(Vec<Costs>, Vec<Costs>)> {
    // Some tenths of a second each.
    let bursts = match mode {
        "runs" => 400,
        _ => 160,
    };
    let engine = std::env::current_exe()?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Who goes first changes.
        for first in [round % 2 == 0, round % 2 != 0] {
            let mut command = Command::new(if first { &engine } else { peer });
            if first {
                command.args(["--engine", mode]);
            }
            let costs = measure(command.args([payload, bursts, BURST].map(|number| number.to_string())))?;
            if first { &mut ours } else { &mut theirs }.push(costs);
        }
    }
    Ok((ours, theirs))
}

fn measure(command: &mut Command) -> Result<Costs> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    let costs: Costs = String::from_utf8_lossy(&output.stdout).parse()?;
    ensure!(costs.is_lossless(), "{command:?}: the receive buffer was too small ({costs})");
    Ok(costs)
}

fn compile(name: &str, into: &Path) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(format!("{name}.c"));
    let program = into.join(name);
    let status = Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(&source).status().context("run cc")?;
    ensure!(status.success(), "cc {}: {status}", source.display());
    Ok(program)
}

fn compiler() -> Result<String> {
    let output = Command::new("cc").arg("--version").output().context("run cc")?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or("cc").to_owned())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
