//! How long the machine stands still: threads that only sleep, and note how late they wake up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::stats::Distribution;

/// One sleeping thread a processor, until dropped.
pub struct Heartbeat {
    windows: Arc<Mutex<Vec<Weak<Window>>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// The beats since [`Heartbeat::observe`].
pub struct Window(Mutex<Distribution>);

impl Heartbeat {
    /// Starts beating, every two milliseconds on every processor this process may use.
    pub fn start() -> Heartbeat {
        let windows = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let threads = processors()
            .into_iter()
            .map(|processor| {
                let (windows, stop) = (windows.clone(), stop.clone());
                std::thread::spawn(move || beat(processor, &windows, &stop))
            })
            .collect();
        Heartbeat { windows, stop, threads }
    }

    /// Collects the beats from now on, for as long as the result is held.
    pub fn observe(&self) -> Arc<Window> {
        let window = Arc::new(Window(Mutex::new(Distribution::new())));
        lock(&self.windows).push(Arc::downgrade(&window));
        window
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A heartbeat that panicked has nothing left to say.
            let _ = thread.join();
        }
    }
}

impl Window {
    /// Lateness of the beats so far.
    pub fn lateness(&self) -> Distribution {
        lock(&self.0).clone()
    }
}

const INTERVAL: Duration = Duration::from_millis(2);

fn beat(processor: Option<usize>, windows: &Mutex<Vec<Weak<Window>>>, stop: &AtomicBool) {
    if let Some(processor) = processor {
        let mut set = CpuSet::new();
        if set.set(processor).is_ok() {
            // Unpinned the beat still measures, only not this processor for certain.
            let _ = sched_setaffinity(Pid::from_raw(0), &set);
        }
    }
    // The default slack of 50 us would read as lateness.
    let _ = nix::sys::prctl::set_timerslack(1);
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        std::thread::sleep(INTERVAL);
        let late = start.elapsed().saturating_sub(INTERVAL).as_nanos() as u64;
        lock(windows).retain(|window| match window.upgrade() {
            Some(window) => {
                lock(&window.0).record(late);
                true
            }
            None => false,
        });
    }
}

/// Processors this process may run on; one unpinned beat where that is unknown.
fn processors() -> Vec<Option<usize>> {
    let Ok(set) = nix::sched::sched_getaffinity(Pid::from_raw(0)) else {
        return vec![None];
    };
    (0..CpuSet::count()).filter(|&processor| set.is_set(processor).unwrap_or(false)).map(Some).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
