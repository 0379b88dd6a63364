//! Drives the cells of a sweep, side by side, and leaves a result directory.

mod queue;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use weir_kernel::limits;
use weir_kernel::namespaces::user;
use weir_kernel::scheduling::Awake;

use self::queue::Queue;
use super::cell::Bench;
use super::environment;
use super::sweep::{Cell, Sweep};
use super::topology::Topology;
use crate::report::record::{Manifest, Record};
use crate::report::store::{self, Store};
use crate::report::{self, terminal};
use crate::service::output::{self, say};
use crate::service::stop::Stop;

/// A sweep that can run: every cell's network has been checked.
#[derive(Debug)]
pub struct Plan {
    sweep: Sweep,
    dir: PathBuf,
    command: Vec<String>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The result directory.
    pub dir: PathBuf,
    /// Cells that stayed disturbed.
    pub disturbed: usize,
    /// Whether it was stopped early.
    pub interrupted: bool,
}

impl Plan {
    /// Checks every cell. The result goes to `dir`, or to a new one under `results/`.
    pub fn new(sweep: Sweep, dir: Option<PathBuf>, command: Vec<String>) -> Result<Plan> {
        for cell in &sweep.cells {
            cell.topology()?;
        }
        let name = sweep.scenario().name.clone();
        let dir = dir.unwrap_or_else(|| Path::new("results").join(format!("{name}-{}", compact_time())));
        ensure!(
            !dir.join(store::MANIFEST).exists() && !dir.join(store::CELLS).exists(),
            "{} holds a result already: choose another directory with --out",
            dir.display()
        );
        Ok(Plan { sweep, dir, command })
    }
}

/// Runs a plan. To be called while the process has one thread: an ordinary user enters a user namespace first.
pub fn run(plan: &Plan) -> Result<Summary> {
    let privilege = user::obtain_network_privilege()?;
    let stop = Stop::on_signals().context("watch for Ctrl-C")?;
    let queue = Queue::new(&plan.sweep);
    ensure_descriptors(&plan.sweep, queue.jobs)?;

    let scenario = plan.sweep.scenario();
    let bench = Bench::start(scenario, stop)?;
    let awake = scenario.run.realtime.then(Awake::request).and_then(Result::ok);
    let facts = environment::facts(&scenario.run, &bench, awake.is_some(), privilege);
    let mut manifest = manifest(plan, queue.total, facts)?;
    let store = Store::create(&plan.dir)?;
    store.manifest(&manifest)?;
    say!("{}", queue.announcement(&scenario.name));
    let started = Instant::now();
    let results = queue.run(&bench, store);
    let interrupted = bench.stop.is_set();
    drop((bench, awake));

    manifest.elapsed_s = started.elapsed().as_secs_f64();
    manifest.interrupted = interrupted;
    let mut records = results.records;
    records.sort_by_key(|(place, _)| *place);
    let records: Vec<Record> = records.into_iter().map(|(_, record)| record).collect();
    // What was measured is kept and shown, whatever else went wrong.
    let rendered =
        store::write_manifest(&plan.dir, &manifest).and_then(|()| report::write_all(&plan.dir, &manifest, &records));
    let styled = std::io::stdout().is_terminal();
    output::print(format_args!("{}", terminal::render(&manifest, &records, styled)));
    if let Some(error) = results.error {
        return Err(error);
    }
    say!("{}", rendered?.page.display());
    Ok(Summary {
        dir: plan.dir.clone(),
        disturbed: records.iter().filter(|record| !record.row.valid).count(),
        interrupted,
    })
}

fn manifest(plan: &Plan, planned_cells: usize, environment: Vec<(String, String)>) -> Result<Manifest> {
    let scenario = plan.sweep.scenario();
    let topology = Topology::new(scenario)?;
    Ok(Manifest {
        format: 1,
        weir_version: env!("CARGO_PKG_VERSION").into(),
        scenario: scenario.name.clone(),
        title: scenario.title.clone(),
        description: scenario.description.clone(),
        command: plan.command.clone(),
        source: plan.sweep.document.to_string(),
        seed: scenario.run.seed,
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        elapsed_s: 0.0,
        planned_cells,
        interrupted: true,
        axes: plan.sweep.axes.iter().map(|axis| (axis.key.clone(), axis.as_written())).collect(),
        environment,
        network: topology.describe(),
        charts: scenario.charts.clone(),
        published: scenario.published.clone(),
        claims: scenario.claims.clone(),
        own_cost: None,
    })
}

/// Makes sure that this many cells of a sweep can be up at once.
pub(super) fn ensure_descriptors(sweep: &Sweep, cells: usize) -> Result<()> {
    limits::ensure_file_descriptors((cells * descriptors(sweep) + DESCRIPTORS_OF_THE_RUN) as u64)?;
    Ok(())
}

/// Descriptors of the largest cell: four a node (namespace, netlink socket, counters), two ports a link, sockets and
/// events.
fn descriptors(sweep: &Sweep) -> usize {
    let of = |cell: &Cell| {
        let scenario = &cell.scenario;
        4 * (scenario.hosts.len() + scenario.switches.len() + 1) + 2 * scenario.links.len() + 6
    };
    sweep.cells.iter().map(of).max().unwrap_or(0)
}

/// `20260131-235959`, UTC.
fn compact_time() -> String {
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    time.chars().filter(|c| c.is_ascii_digit() || *c == 'T').map(|c| if c == 'T' { '-' } else { c }).collect()
}

/// Standard streams, result files, the emulator's and the signals' events, and room for what a library opens.
const DESCRIPTORS_OF_THE_RUN: usize = 64;
