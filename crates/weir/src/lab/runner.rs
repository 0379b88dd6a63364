//! Drives the cells of a sweep, side by side, and leaves a result directory.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use weir_kernel::limits;
use weir_kernel::namespaces::user;

use super::account;
use super::cell::{Bench, Prepared};
use super::environment;
use super::scenario::Jobs;
use super::sweep::{Cell, Sweep};
use super::topology::Topology;
use crate::report::record::{Manifest, Record};
use crate::report::store::{self, Store, StoreError};
use crate::report::{self, terminal};
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
    let mut manifest = manifest(plan, queue.total, environment::facts(&scenario.run, &bench, privilege))?;
    let store = Store::create(&plan.dir)?;
    store.manifest(&manifest)?;
    let started = Instant::now();
    let results = queue.run(&bench, store);
    let interrupted = bench.stop.is_set();
    drop(bench);

    manifest.elapsed_s = started.elapsed().as_secs_f64();
    manifest.interrupted = interrupted;
    let mut records = results.records;
    records.sort_by_key(|(place, _)| *place);
    let records: Vec<Record> = records.into_iter().map(|(_, record)| record).collect();
    // What was measured is kept and shown, whatever else went wrong.
    let rendered =
        store::write_manifest(&plan.dir, &manifest).and_then(|()| report::write_all(&plan.dir, &manifest, &records));
    let styled = std::io::stdout().is_terminal();
    print!("{}", terminal::render(&manifest, &records, styled));
    if let Some(error) = results.error {
        return Err(error);
    }
    println!("{}", rendered?.page.display());
    Ok(Summary {
        dir: plan.dir.clone(),
        disturbed: records.iter().filter(|record| !record.row.valid).count(),
        interrupted,
    })
}

/// The jobs of a run, taken by its workers.
struct Queue<'a> {
    waiting: Mutex<VecDeque<Job<'a>>>,
    jobs: usize,
    total: usize,
    expected: Duration,
}

#[derive(Clone, Copy)]
struct Job<'a> {
    place: usize,
    cell: &'a Cell,
    repeat: u32,
}

#[derive(Default)]
struct Results {
    /// Each with its place in the sweep.
    records: Vec<(usize, Record)>,
    error: Option<anyhow::Error>,
}

impl<'a> Queue<'a> {
    fn new(sweep: &'a Sweep) -> Self {
        let run = &sweep.scenario().run;
        let jobs = (1..=run.repeat.max(1)).flat_map(|repeat| sweep.cells.iter().map(move |cell| (cell, repeat)));
        let waiting: VecDeque<Job> =
            jobs.enumerate().map(|(place, (cell, repeat))| Job { place, cell, repeat }).collect();
        let total = waiting.len();
        let jobs = match run.jobs {
            Jobs::All => total,
            Jobs::Count(count) => count.min(total),
        };
        let each = run.duration.duration() + run.drain.duration();
        Queue { waiting: Mutex::new(waiting), jobs, total, expected: each * total.div_ceil(jobs.max(1)) as u32 }
    }

    fn run(&self, bench: &Bench, store: Store) -> Results {
        let results = Mutex::new((Results::default(), store));
        let done = AtomicUsize::new(0);
        // Networks come up before any traffic starts: setting hundreds of namespaces up would disturb it.
        let all_up = Barrier::new(self.jobs);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.jobs)
                .map(|worker| {
                    let (results, done, all_up) = (&results, &done, &all_up);
                    scope.spawn(move || self.work(worker, bench, all_up, results, done))
                })
                .collect();
            self.show_progress(&done, || workers.iter().all(|worker| worker.is_finished()));
        });
        results.into_inner().unwrap_or_else(PoisonError::into_inner).0
    }

    fn work(
        &self,
        worker: usize,
        bench: &Bench,
        all_up: &Barrier,
        results: &Mutex<(Results, Store)>,
        done: &AtomicUsize,
    ) {
        let mut first = Some(all_up);
        while !bench.stop.is_set() {
            let Some(job) = lock(&self.waiting).pop_front() else {
                break;
            };
            let outcome = self.run_job(worker, bench, &mut first, job);
            let (results, store) = &mut *lock(results);
            let outcome = outcome.and_then(|record| {
                let stored = store.append(&record).map_err(keep_what_is_there);
                results.records.push((job.place, record));
                stored
            });
            if let Err(error) = outcome {
                bench.stop.set();
                results.error.get_or_insert(error);
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(barrier) = first {
            barrier.wait();
        }
    }

    /// Runs a cell until it is undisturbed, three times at most.
    fn run_job(&self, worker: usize, bench: &Bench, first: &mut Option<&Barrier>, job: Job<'_>) -> Result<Record> {
        let scenario = &job.cell.scenario;
        let seed = scenario.run.seed.wrapping_add(u64::from(job.repeat - 1).wrapping_mul(REPEAT_STRIDE));
        let stagger = scenario.traffic.interval.duration() * worker as u32 / self.jobs as u32;
        let mut reruns = 0;
        loop {
            let prepared = Prepared::new(bench, job.cell, seed, job.place as u16);
            if let Some(barrier) = first.take() {
                barrier.wait();
            }
            let measured = prepared.and_then(|prepared| prepared.run(stagger));
            let measured = measured.with_context(|| format!("cell {}", job.cell.name))?;
            let mut record = account::record(job.cell, job.repeat, &measured);
            record.reruns = reruns;
            if record.row.valid || reruns == MOST_RERUNS || bench.stop.is_set() {
                return Ok(record);
            }
            reruns += 1;
        }
    }

    fn show_progress(&self, done: &AtomicUsize, finished: impl Fn() -> bool) {
        let bar = ProgressBar::new(self.expected.as_millis() as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {msg}") {
            bar.set_style(style);
        }
        let start = Instant::now();
        while !finished() {
            let left = self.expected.saturating_sub(start.elapsed());
            bar.set_position((self.expected - left).as_millis() as u64);
            let left = Duration::from_secs(left.as_secs());
            let cells = done.load(Ordering::Relaxed);
            bar.set_message(format!("{cells}/{} cells, {} left", self.total, humantime::format_duration(left)));
            std::thread::sleep(REDRAW);
        }
        bar.finish_and_clear();
    }
}

/// A full disk ends the run; what is in the directory already stays.
fn keep_what_is_there(error: StoreError) -> anyhow::Error {
    anyhow::Error::new(error).context("the run was stopped")
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
    })
}

/// Makes sure that this many cells of a sweep can be up at once.
pub(super) fn ensure_descriptors(sweep: &Sweep, cells: usize) -> Result<()> {
    limits::ensure_file_descriptors((cells * descriptors(sweep) + DESCRIPTORS_OF_THE_RUN) as u64)?;
    Ok(())
}

/// Descriptors of the largest cell: namespace, netlink socket and counters, four a node, two ports a link, sockets and events.
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const MOST_RERUNS: u32 = 2;

const REDRAW: Duration = Duration::from_millis(200);

/// Standard streams, result files, the emulator's and the signals' events, and room for what a library opens.
const DESCRIPTORS_OF_THE_RUN: usize = 64;

/// Far apart and odd, so that the seeds of repeats never meet those of neighbouring runs.
const REPEAT_STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;
