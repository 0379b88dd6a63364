//! The cells of a run and the workers that take them, one network at a time each.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use weir_kernel::contention::Observer;
use weir_program::output::complain;
use weir_report::record::{MESSAGES_LACK, Record};
use weir_report::store::{Store, StoreError};

use super::cost::Cost;
use super::gate::Gate;
use crate::account;
use crate::cell::{Measured, Prepared, Testbed};
use crate::endpoints;
use crate::machine::Machine;
use crate::messages;
use crate::scenario::{Jobs, MessageFiles};
use crate::sweep::{Cell, Sweep};

/// The jobs of a run, taken by its workers.
pub(super) struct Queue<'a> {
    gate: Gate<Job<'a>>,
    done: AtomicUsize,
    /// Workers.
    pub(super) jobs: usize,
    /// Cells times repeats that are still to run.
    pub(super) total: usize,
    /// Making and removing networks disturbs those that carry traffic. Where as many cells as there are workers run at
    /// once, all come up before any traffic starts.
    meets: bool,
    /// What else the workers do.
    extras: Extras,
    expected: Duration,
    /// Whether records are kept as cells end.
    keeps: bool,
}

/// What is done with a cell besides measuring it.
#[derive(Clone, Debug, Default)]
pub(super) struct Extras {
    /// The cell to capture the packets of, the directory to put them into, and how many bytes of each to keep.
    pub(super) capture: Option<(String, PathBuf, u32)>,
    /// The directory to put the times of messages into.
    pub(super) messages: Option<PathBuf>,
}

/// What the workers bring back.
#[derive(Default)]
pub(super) struct Results {
    /// As the cells ended.
    pub(super) records: Vec<Record>,
    /// Why the run was stopped.
    pub(super) error: Option<anyhow::Error>,
    /// The first file of messages that could not be written: the run went on.
    pub(super) unwritten: Option<anyhow::Error>,
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
    testbed: &'q Testbed,
    machine: &'q Machine,
    /// The networks of the first cells come up before any traffic starts, the last ones stay until all traffic has
    /// ended.
    meeting: &'q Barrier,
    started: bool,
    /// The last cell's network.
    last: Option<Measured<'q>>,
}

impl<'a> Queue<'a> {
    /// Lays out the jobs of a sweep: those (cell and repeat) that are `wanted`.
    pub(super) fn new(
        sweep: &'a Sweep,
        repeats: u32,
        wanted: impl Fn(&(String, u32)) -> bool,
        extras: Extras,
    ) -> Result<Self> {
        Self::on(processors(), sweep, repeats, wanted, extras)
    }

    /// The same on so many processors.
    fn on(
        processors: f64,
        sweep: &'a Sweep,
        repeats: u32,
        wanted: impl Fn(&(String, u32)) -> bool,
        extras: Extras,
    ) -> Result<Self> {
        let run = &sweep.scenario().run;
        let jobs = (1..=repeats).flat_map(|repeat| sweep.cells.iter().map(move |cell| (cell, repeat)));
        let jobs: Vec<Job> = jobs
            .enumerate()
            .map(|(place, (cell, repeat))| Job { place, cell, repeat })
            .filter(|job| wanted(&(job.cell.name.clone(), job.repeat)))
            .collect();
        let costs = jobs.iter().map(|job| anyhow::Ok(Cost::of(job.cell, &job.cell.topology()?)));
        let mut jobs: Vec<(Job, Cost)> = jobs.iter().copied().zip(costs.collect::<Result<Vec<_>>>()?).collect();
        let total = jobs.len();
        let workers = workers(run.jobs, total);
        let room = if run.jobs == Jobs::Auto { processors * MOST_BUSY } else { f64::INFINITY };
        if room.is_finite() {
            // The large ones first: small ones fill what they leave.
            jobs.sort_by(|(_, a), (_, b)| b.processors.total_cmp(&a.processors));
        }
        let gate = Gate::new(jobs, room);
        let expected = gate.expected(workers);
        let meets = room.is_infinite();
        Ok(Queue { gate, done: AtomicUsize::new(0), jobs: workers, total, meets, extras, expected, keeps: true })
    }

    /// What is about to happen, and how long it takes; `chosen`: how often was left to the machine.
    pub(super) fn announcement(&self, scenario: &str, repeats: u32, chosen: bool) -> String {
        let at_once =
            if self.meets { format!("{} at once", self.jobs) } else { format!("up to {} at once", self.jobs) };
        let cells = if self.total == 1 { "cell" } else { "cells" };
        let repeats = match repeats {
            1 if chosen => ", each run once: more this machine does not carry".to_owned(),
            1 => String::new(),
            repeats => format!(", each run {repeats} times"),
        };
        format!("{scenario}: {} {cells}{repeats}, {at_once}, {}", self.total, self.time())
    }

    /// How long it takes, in words.
    pub(super) fn time(&self) -> String {
        format!("about {}", whole_seconds(self.expected))
    }

    /// Leaves it to others to keep the records.
    pub(super) fn without_store(self) -> Self {
        Queue { keeps: false, ..self }
    }

    /// Runs every cell, or as many as there is time for until the stop.
    pub(super) fn run(&self, testbed: &Testbed, machine: &Machine, store: &mut Store) -> Results {
        let results = Mutex::new((Results::default(), store));
        let meeting = Barrier::new(if self.meets { self.jobs } else { 1 });
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.jobs)
                .map(|number| {
                    let (results, meeting) = (&results, &meeting);
                    let worker = Worker { number, queue: self, testbed, machine, meeting, started: false, last: None };
                    scope.spawn(move || worker.run(results))
                })
                .collect();
            self.show_progress(|| workers.iter().all(|worker| worker.is_finished()));
            // What the others measured is kept. The panic itself has been told on standard error.
            if workers.into_iter().filter_map(|worker| worker.join().err()).count() > 0 {
                lock(&results).0.error.get_or_insert_with(|| anyhow!("a cell ended in a panic: please report it"));
            }
        });
        results.into_inner().unwrap_or_else(PoisonError::into_inner).0
    }

    fn show_progress(&self, finished: impl Fn() -> bool) {
        let bar = ProgressBar::new(self.expected.as_millis() as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {msg}") {
            bar.set_style(style);
        }
        let start = Instant::now();
        let mut told = start;
        while !finished() {
            let left = self.expected.saturating_sub(start.elapsed());
            bar.set_position((self.expected - left).as_millis() as u64);
            let cells = format!("{}/{} cells", self.done.load(Ordering::Relaxed), self.total);
            // Guesses are exceeded.
            let left =
                if left.is_zero() { "any moment now".to_owned() } else { format!("{} left", whole_seconds(left)) };
            if bar.is_hidden() && told.elapsed() >= TELL {
                told = Instant::now();
                complain!("{} of {}: {cells}, {left}", whole_seconds(start.elapsed()), whole_seconds(self.expected));
            }
            bar.set_message(format!("{cells}, {left}"));
            std::thread::sleep(REDRAW);
        }
        bar.finish_and_clear();
    }
}

impl Worker<'_, '_> {
    fn run(mut self, results: &Mutex<(Results, &mut Store)>) {
        while !self.testbed.stop.is_set() {
            let Some((job, pass)) = self.queue.gate.next() else { break };
            if self.testbed.stop.is_set() {
                break;
            }
            let outcome = self.run_job(job);
            drop(pass);
            let (results, store) = &mut *lock(results);
            let outcome = outcome.and_then(|(records, unwritten)| {
                if let Some(error) = unwritten {
                    results.unwritten.get_or_insert(error.into());
                }
                let mut stored = Ok(());
                for record in records {
                    if self.queue.keeps {
                        stored = stored.and(store.append(&record).map_err(keep_what_is_there));
                    }
                    results.records.push(record);
                }
                stored
            });
            if let Err(error) = outcome {
                self.testbed.stop.set();
                results.error.get_or_insert(error);
            }
            self.queue.done.fetch_add(1, Ordering::Relaxed);
        }
        if self.testbed.stop.is_set() {
            self.queue.gate.close();
        }
    }

    /// Runs a cell: what was measured, and which file of messages could not be written.
    fn run_job(&mut self, job: Job<'_>) -> Result<(Vec<Record>, Option<StoreError>)> {
        let (cell, run) = (job.cell, &job.cell.scenario.run);
        let seed = run.seed.wrapping_add(u64::from(job.repeat - 1).wrapping_mul(REPEAT_STRIDE));
        let interval = endpoints::interval(&cell.scenario.traffic);
        // Cells that run side by side do not send in step, nor start at once.
        let stagger = match self.queue.meets {
            true => interval * self.number as u32 / self.queue.jobs as u32 + SPACING * self.number as u32,
            false => Duration::ZERO,
        };
        drop(self.last.take());
        let mut prepared = Prepared::new(self.testbed, cell, seed, job.place as u16, self.number);
        if let Some((name, dir, snap)) = &self.queue.extras.capture
            && *name == cell.name
        {
            // Repeats may run side by side.
            let name = if job.repeat > 1 { format!("{name}-{}", job.repeat) } else { name.clone() };
            prepared = prepared.and_then(|mut prepared| prepared.capture(dir, &name, *snap).map(|()| prepared));
        }
        self.meet_before_traffic();
        let measured = prepared.and_then(|prepared| prepared.run(stagger, self.machine));
        let measured = self.last.insert(measured.with_context(|| format!("cell {}", cell.name))?);
        let dir = self.queue.extras.messages.as_ref().filter(|_| run.messages != MessageFiles::Off);
        // What was measured is kept without it.
        let unwritten = dir.and_then(|dir| messages::write(dir, cell, job.repeat, measured).err());
        let unwritten = unwritten.map(StoreError::outside_the_lab);
        let mut records = account::records(cell, job.repeat, measured);
        if let Some(error) = &unwritten {
            let remark = format!("{MESSAGES_LACK} all messages, and is not there: {error}");
            records.iter_mut().for_each(|record| record.remarks.push(remark.clone()));
        }
        Ok((records, unwritten))
    }

    fn meet_before_traffic(&mut self) {
        if !std::mem::replace(&mut self.started, true) && self.queue.meets {
            self.meeting.wait();
        }
    }
}

/// Whatever ends a worker, a panic too: the others must not wait for it for ever.
impl Drop for Worker<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.testbed.stop.set();
            self.queue.gate.close();
        }
        if self.queue.meets {
            self.meet_before_traffic();
            self.meeting.wait();
        }
    }
}

/// Processors that this process may use: as many as there are, or as its control group's quota amounts to.
pub(super) fn processors() -> f64 {
    let all = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    Observer::new().quota().map_or(all, |quota| all.min(quota.processors()))
}

/// Workers that take the cells of a run.
pub(super) fn workers(jobs: Jobs, cells: usize) -> usize {
    match jobs {
        Jobs::All => cells,
        Jobs::Count(count) => count.min(cells),
        Jobs::Auto => MOST_AT_ONCE.min(cells),
    }
}

fn whole_seconds(time: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(time.as_secs()))
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

/// Without a terminal: between two lines about how far it is.
const TELL: Duration = Duration::from_secs(10);

const REDRAW: Duration = Duration::from_millis(200);

/// Cells that run side by side where the processors decide how many.
const MOST_AT_ONCE: usize = 24;

/// The share of all processors that cells side by side are to keep busy: what they share must not show in them.
pub(super) const MOST_BUSY: f64 = 0.6;

/// Far apart and odd, so that the seeds of repeats never meet those of neighbouring runs.
const REPEAT_STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = r#"
        name = "jobs"
        title = "Jobs"
        [axes]
        "traffic.port" = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
        [run]
        duration = "2s"
        drain = "1s"
        [hosts]
        a.addresses = ["10.0.0.1/24"]
        b.addresses = ["10.0.0.2/24"]
        [links.wire]
        ends = ["a", "b"]
        [traffic]
        from = "a"
        to = "b"
        payload = "1000B"
    "#;
    const MESSAGES: &str = "transport = \"udp\"";
    const BULK: &str = "transport = \"tcp\"\nmode = \"bulk\"";

    /// How many of ten cells run at once at most on a machine, and how long all of them take, in tenths of a second.
    #[track_caller]
    fn ten(traffic: &str, jobs: Option<&str>, processors: f64) -> (usize, u128) {
        let set: Vec<_> = jobs.map(|jobs| ("run.jobs".to_owned(), jobs.to_owned())).into_iter().collect();
        let sweep = Sweep::new("jobs.toml", &format!("{NETWORK}{traffic}"), &set).unwrap();
        let queue = Queue::on(processors, &sweep, 1, |_| true, Extras::default()).unwrap();
        (queue.jobs, queue.expected.as_millis() / 100)
    }

    /// What a user gets who says nothing, on a machine of one processor, too: light cells side by side, in the time of
    /// one, and those that fill a processor alone.
    #[test]
    fn cells_that_need_little_run_side_by_side_by_default() {
        // 2 s, 1 s for what is late (of TCP nothing is), 0.7 s to build the network.
        for processors in [1.0, 2.0, 64.0] {
            assert_eq!(ten(MESSAGES, None, processors), (10, 37), "{processors}");
        }
        for processors in [1.0, 2.0] {
            assert_eq!(ten(BULK, None, processors).1, 270, "{processors}");
        }
        for traffic in [MESSAGES, BULK] {
            assert_eq!(ten(traffic, None, 2.0), ten(traffic, Some("auto"), 2.0));
        }
        assert_eq!(ten(MESSAGES, Some("1"), 2.0), (1, 370));
    }
}
