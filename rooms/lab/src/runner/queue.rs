//! The jobs of a run, taken by parallel workers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use weir_program::output::complain;
use weir_program::stop::Stop;

/// Jobs that wait for a worker.
pub(super) struct Queue<J> {
    waiting: Mutex<VecDeque<J>>,
    done: AtomicUsize,
    /// Number of jobs.
    pub(super) total: usize,
    /// Number of parallel jobs.
    pub(super) workers: usize,
    expected: Duration,
}

/// Where workers with a single job each wait for one another: building and removing networks disturbs
/// traffic.
pub(super) struct Meeting<'q> {
    barrier: &'q Barrier,
    stop: &'q Stop,
    started: bool,
}

impl Meeting<'_> {
    /// Waits until every worker's network is up.
    pub(super) fn before_traffic(&mut self) {
        if !std::mem::replace(&mut self.started, true) {
            self.barrier.wait();
        }
    }
}

/// However a worker ends, the others must not wait for it forever.
impl Drop for Meeting<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stop.set();
        }
        self.before_traffic();
        self.barrier.wait();
    }
}

impl<J: Send> Queue<J> {
    /// Jobs to run in this order, this many in parallel; `time` estimates the duration of each.
    pub(super) fn new(jobs: Vec<J>, workers: usize, time: impl Fn(&J) -> Duration) -> Self {
        let (total, workers) = (jobs.len(), workers.min(jobs.len()));
        let (longest, sum) = jobs
            .iter()
            .map(time)
            .fold((Duration::ZERO, Duration::ZERO), |(longest, sum), time| (longest.max(time), sum + time));
        let expected = longest.max(sum / workers.max(1) as u32);
        Queue { waiting: Mutex::new(jobs.into()), done: AtomicUsize::new(0), total, workers, expected }
    }

    /// The estimated total time, as text.
    pub(super) fn time(&self) -> String {
        format!("about {}", whole_seconds(self.expected))
    }

    /// Runs all jobs, or those before a stop; an error stops the others. `worker` creates the context in which the
    /// worker of a number runs its jobs; `ended` receives each result at once.
    ///
    /// # Errors
    /// The first error of a job or of `ended`.
    pub(super) fn run<R, W: FnMut(J, &mut Meeting<'_>) -> Result<R>>(
        &self,
        stop: &Stop,
        worker: impl Fn(usize) -> W + Sync,
        ended: impl FnMut(R) -> Result<()> + Send,
    ) -> Result<()> {
        let outcome = Mutex::new((ended, Ok(())));
        let barrier = Barrier::new(if self.workers == self.total { self.workers } else { 1 });
        let work = |number| {
            let mut run = worker(number);
            // Dropped before the worker's last network.
            let mut meeting = Meeting { barrier: &barrier, stop, started: false };
            while !stop.is_set() {
                let Some(job) = lock(&self.waiting).pop_front() else { break };
                let result = run(job, &mut meeting);
                let (ended, outcome) = &mut *lock(&outcome);
                if let Err(error) = result.and_then(&mut *ended) {
                    stop.set();
                    *outcome = std::mem::replace(outcome, Ok(())).and(Err(error));
                }
                self.done.fetch_add(1, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            let work = &work;
            let workers: Vec<_> = (0..self.workers).map(|number| scope.spawn(move || work(number))).collect();
            self.show_progress(|| workers.iter().all(|worker| worker.is_finished()));
            // The results of the others are kept. The panic itself is on standard error already.
            if workers.into_iter().filter_map(|worker| worker.join().err()).count() > 0 {
                let outcome = &mut lock(&outcome).1;
                *outcome = std::mem::replace(outcome, Ok(()))
                    .and(Err(anyhow!("a cell panicked, a bug in Weir. Please report it.")));
            }
        });
        outcome.into_inner().unwrap_or_else(PoisonError::into_inner).1
    }

    fn show_progress(&self, finished: impl Fn() -> bool) {
        let bar = ProgressBar::new(self.expected.as_millis() as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {msg}") {
            bar.set_style(style);
        }
        let start = Instant::now();
        let mut shown = start;
        while !finished() {
            let left = self.expected.saturating_sub(start.elapsed());
            // The estimate has been exceeded.
            let words = if left.is_zero() { "any moment now".into() } else { format!("{} left", whole_seconds(left)) };
            let words = format!("{}/{} cells, {words}", self.done.load(Ordering::Relaxed), self.total);
            if bar.is_hidden() && shown.elapsed() >= LINE_EVERY {
                shown = Instant::now();
                complain!("{words}");
            }
            bar.set_position((self.expected - left).as_millis() as u64);
            bar.set_message(words);
            std::thread::sleep(REDRAW);
        }
        bar.finish_and_clear();
    }
}

fn whole_seconds(time: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(time.as_secs()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Without a terminal: time between two progress lines.
const LINE_EVERY: Duration = Duration::from_secs(10);

const REDRAW: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs numbers with a closure in place of cells: what has ended, sorted, and the error.
    fn run(workers: usize, cell: impl Fn(u32, &mut Meeting<'_>) -> Result<u32> + Sync) -> (Vec<u32>, Option<String>) {
        let queue = Queue::new((0..6).collect(), workers, |_| Duration::from_secs(10));
        let mut ended = Vec::new();
        let cell = &cell;
        let result = queue.run(
            &Stop::new().unwrap(),
            |_| |job, meeting: &mut Meeting<'_>| cell(job, meeting),
            |job| {
                ended.push(job);
                Ok(())
            },
        );
        ended.sort_unstable();
        (ended, result.err().map(|error| error.to_string()))
    }

    #[test]
    fn every_job_runs_once_however_many_workers_there_are() {
        for workers in [1, 4, 6, 100] {
            assert_eq!(run(workers, |job, _| Ok(job)), ((0..6).collect(), None), "{workers}");
        }
    }

    #[test]
    fn all_networks_are_up_before_any_traffic_if_all_cells_run_at_once() {
        let up = AtomicUsize::new(0);
        let (ended, error) = run(6, |job, meeting| {
            up.fetch_add(1, Ordering::SeqCst);
            meeting.before_traffic();
            assert_eq!(up.load(Ordering::SeqCst), 6);
            Ok(job)
        });
        assert_eq!((ended.len(), error), (6, None));
    }

    #[test]
    fn an_error_and_a_panic_end_the_run_and_keep_what_was_measured() {
        let fails = |job, _: &mut Meeting<'_>| if job == 2 { Err(anyhow!("no link")) } else { Ok(job) };
        assert_eq!(run(1, fails), (vec![0, 1], Some("no link".into())));
        let panics = |job, _: &mut Meeting<'_>| if job == 2 { panic!("on purpose") } else { Ok(job) };
        assert_eq!(run(1, panics), (vec![0, 1], Some("a cell panicked, a bug in Weir. Please report it.".into())));
        // The others do not wait for one that ended before its traffic.
        let (ended, error) = run(6, |job, meeting| {
            assert_ne!(job, 2, "on purpose");
            meeting.before_traffic();
            Ok(job)
        });
        assert!(!ended.contains(&2) && error.is_some(), "{ended:?}");
    }

    #[test]
    fn the_expected_time_is_that_of_the_longest_and_of_all_of_them() {
        let time = |workers| Queue::new(vec![10, 10, 40], workers, |s| Duration::from_secs(*s)).time();
        assert_eq!([1, 2, 3].map(time), ["about 1m", "about 40s", "about 40s"]);
    }
}
