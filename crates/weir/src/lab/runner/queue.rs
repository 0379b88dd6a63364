//! The cells of a run and the workers that take them, one network at a time each.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

use crate::lab::account;
use crate::lab::cell::{Bench, Measured, Prepared};
use crate::lab::scenario::Jobs;
use crate::lab::sweep::{Cell, Sweep};
use crate::report::record::Record;
use crate::report::store::{Store, StoreError};

/// The jobs of a run, taken by its workers.
pub(super) struct Queue<'a> {
    waiting: Mutex<VecDeque<Job<'a>>>,
    done: AtomicUsize,
    /// Workers.
    pub(super) jobs: usize,
    /// Cells times repeats.
    pub(super) total: usize,
    expected: Duration,
}

/// What the workers bring back.
#[derive(Default)]
pub(super) struct Results {
    /// Each with its place in the sweep.
    pub(super) records: Vec<(usize, Record)>,
    /// Why the run was stopped.
    pub(super) error: Option<anyhow::Error>,
}

#[derive(Clone, Copy)]
struct Job<'a> {
    place: usize,
    cell: &'a Cell,
    repeat: u32,
}

/// Takes cells until there are none.
struct Worker<'q, 'a> {
    number: usize,
    queue: &'q Queue<'a>,
    bench: &'q Bench,
    /// Making and removing networks disturbs those that carry traffic: all come up before any traffic starts, and the
    /// last ones stay until all traffic has ended.
    meeting: &'q Barrier,
    started: bool,
    /// The last cell's network.
    last: Option<Measured<'q>>,
}

impl<'a> Queue<'a> {
    /// Lays out the jobs of a sweep.
    pub(super) fn new(sweep: &'a Sweep) -> Self {
        let run = &sweep.scenario().run;
        let jobs = (1..=run.repeat.max(1)).flat_map(|repeat| sweep.cells.iter().map(move |cell| (cell, repeat)));
        let waiting: VecDeque<Job> =
            jobs.enumerate().map(|(place, (cell, repeat))| Job { place, cell, repeat }).collect();
        let total = waiting.len();
        let jobs = match run.jobs {
            Jobs::All | Jobs::Auto => total,
            Jobs::Count(count) => count.min(total),
        };
        let each = run.duration.duration() + run.drain.duration();
        let expected = each * total.div_ceil(jobs.max(1)) as u32;
        Queue { waiting: Mutex::new(waiting), done: AtomicUsize::new(0), jobs, total, expected }
    }

    /// What is about to happen, and how long it takes if no cell has to run again.
    pub(super) fn announcement(&self, scenario: &str) -> String {
        let time = humantime::format_duration(Duration::from_secs(self.expected.as_secs()));
        format!("{scenario}: {} cells, {} at once, about {time}", self.total, self.jobs)
    }

    /// Runs every cell, or as many as there is time for until the stop.
    pub(super) fn run(&self, bench: &Bench, store: Store) -> Results {
        let results = Mutex::new((Results::default(), store));
        let meeting = Barrier::new(self.jobs);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.jobs)
                .map(|number| {
                    let (results, meeting) = (&results, &meeting);
                    let worker = Worker { number, queue: self, bench, meeting, started: false, last: None };
                    scope.spawn(move || worker.run(results))
                })
                .collect();
            self.show_progress(|| workers.iter().all(|worker| worker.is_finished()));
        });
        results.into_inner().unwrap_or_else(PoisonError::into_inner).0
    }

    fn show_progress(&self, finished: impl Fn() -> bool) {
        let bar = ProgressBar::new(self.expected.as_millis() as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {msg}") {
            bar.set_style(style);
        }
        let start = Instant::now();
        while !finished() {
            let left = self.expected.saturating_sub(start.elapsed());
            bar.set_position((self.expected - left).as_millis() as u64);
            let left = Duration::from_secs(left.as_secs());
            let cells = self.done.load(Ordering::Relaxed);
            bar.set_message(format!("{cells}/{} cells, {} left", self.total, humantime::format_duration(left)));
            std::thread::sleep(REDRAW);
        }
        bar.finish_and_clear();
    }
}

impl Worker<'_, '_> {
    fn run(mut self, results: &Mutex<(Results, Store)>) {
        while !self.bench.stop.is_set() {
            let Some(job) = lock(&self.queue.waiting).pop_front() else { break };
            let outcome = self.run_job(job);
            let (results, store) = &mut *lock(results);
            let outcome = outcome.and_then(|record| {
                let stored = store.append(&record).map_err(keep_what_is_there);
                results.records.push((job.place, record));
                stored
            });
            if let Err(error) = outcome {
                self.bench.stop.set();
                results.error.get_or_insert(error);
            }
            self.queue.done.fetch_add(1, Ordering::Relaxed);
        }
        self.meet_before_traffic();
        self.meeting.wait();
    }

    /// Runs a cell until it is undisturbed, three times at most.
    fn run_job(&mut self, job: Job<'_>) -> Result<Record> {
        let (cell, run) = (job.cell, &job.cell.scenario.run);
        let seed = run.seed.wrapping_add(u64::from(job.repeat - 1).wrapping_mul(REPEAT_STRIDE));
        let interval = cell.scenario.traffic.interval.duration();
        // Cells that run side by side do not send in step, nor start at once.
        let stagger = interval * self.number as u32 / self.queue.jobs as u32 + SPACING * self.number as u32;
        let mut reruns = 0;
        loop {
            drop(self.last.take());
            let prepared = Prepared::new(self.bench, cell, seed, job.place as u16);
            self.meet_before_traffic();
            let measured = prepared.and_then(|prepared| prepared.run(stagger));
            let measured = self.last.insert(measured.with_context(|| format!("cell {}", cell.name))?);
            let mut record = account::record(cell, job.repeat, measured);
            record.reruns = reruns;
            if record.row.valid || reruns == MOST_RERUNS || self.bench.stop.is_set() {
                return Ok(record);
            }
            reruns += 1;
        }
    }

    fn meet_before_traffic(&mut self) {
        if !std::mem::replace(&mut self.started, true) {
            self.meeting.wait();
        }
    }
}

/// A full disk ends the run; what is in the directory already stays.
fn keep_what_is_there(error: StoreError) -> anyhow::Error {
    anyhow::Error::new(error).context("the run was stopped")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Between the starts of cells that run side by side.
const SPACING: Duration = Duration::from_millis(10);

const MOST_RERUNS: u32 = 2;

const REDRAW: Duration = Duration::from_millis(200);

/// Far apart and odd, so that the seeds of repeats never meet those of neighbouring runs.
const REPEAT_STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;
