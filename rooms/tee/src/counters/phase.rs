//! The mark by which a reader knows when a worker's cells agree, and how it gets a copy of them then.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Whether a worker's cells agree at the moment, and who wants to know.
#[derive(Default)]
#[repr(align(128))]
pub struct Phase {
    /// Odd: they don't.
    number: AtomicU64,
    /// Whether there is a job.
    asked: AtomicBool,
    /// What the worker is to do when its cells agree: copy them for somebody.
    job: Mutex<Option<Job>>,
}

type Job = Box<dyn FnOnce() + Send>;

/// The stretch in which a worker's cells disagree: until it is dropped.
pub struct PhaseMark<'a>(&'a Phase);

impl Phase {
    /// From here on the worker's cells disagree. Only the one writer may call this, and not twice at a time.
    pub fn begin(&self) -> PhaseMark<'_> {
        self.number.store(self.number.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        PhaseMark(self)
    }

    /// A copy taken while they agreed: by the caller from a worker that rests, else by the worker.
    pub(crate) fn between<T: Send + 'static>(&self, copy: impl Fn() -> T + Send + Sync + 'static) -> T {
        let copy = Arc::new(copy);
        let start = Instant::now();
        loop {
            let before = self.number.load(Ordering::Acquire);
            // A worker that has ended or is stuck in the middle is not waited for.
            let stuck = start.elapsed() > PATIENCE;
            if before.is_multiple_of(2) || stuck {
                let value = copy();
                fence(Ordering::Acquire);
                if self.number.load(Ordering::Relaxed) == before || stuck {
                    return value;
                }
            }
            let (reply, answer) = mpsc::channel();
            let theirs = Arc::clone(&copy);
            *self.job() = Some(Box::new(move || drop(reply.send(theirs()))));
            self.asked.store(true, Ordering::Relaxed);
            // It may have gone to rest meanwhile.
            if let Ok(value) = answer.recv_timeout(REST) {
                return value;
            }
            self.job().take();
        }
    }

    /// Waits until what the worker is doing now has been counted; one that has ended or is stuck is not waited for.
    pub(crate) fn pass(&self) {
        let now = self.number.load(Ordering::Acquire);
        let start = Instant::now();
        while !now.is_multiple_of(2) && self.number.load(Ordering::Acquire) == now && start.elapsed() < PATIENCE {
            thread::sleep(PASSES);
        }
    }

    fn job(&self) -> MutexGuard<'_, Option<Job>> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PhaseMark<'_> {
    fn drop(&mut self) {
        let phase = self.0;
        phase.number.store(phase.number.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        // A worker with much to do begins anew at once: whoever waits for a copy gets it made.
        if phase.asked.load(Ordering::Relaxed) {
            let job = phase.job().take();
            phase.asked.store(false, Ordering::Relaxed);
            if let Some(job) = job {
                job();
            }
        }
    }
}

impl fmt::Debug for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Phase").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Longest wait for a worker whose cells disagree.
const PATIENCE: Duration = Duration::from_secs(1);

/// Longest wait for a worker to make a copy before another look whether it rests.
const REST: Duration = Duration::from_millis(1);

/// From one look whether a turn is over to the next.
const PASSES: Duration = Duration::from_micros(50);
