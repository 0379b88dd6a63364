//! When the machine stands still: threads that only sleep, and note how late they wake up.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use weir_kernel::scheduling;
use weir_program::clock::{self, Nanos, nanos, now};
use weir_stats::Distribution;

use super::standstills::{LEAST, Standstill};

/// One sleeping thread a processor, until dropped.
pub(super) struct Heartbeat {
    beats: Vec<Arc<Mutex<Beats>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// What one thread has seen.
struct Beats {
    /// Its processor; `None`: any.
    processor: Option<usize>,
    lateness: Distribution,
    standstills: VecDeque<(Nanos, Nanos)>,
    /// Those that there was no room for: the earliest of all.
    forgotten: u64,
    /// What the thread has taken of its processor.
    spent: Duration,
}

/// The beats at one moment.
pub(super) struct Mark {
    /// Of all processors together.
    lateness: Distribution,
    forgotten: u64,
    at: Nanos,
}

/// The beats since a [`Mark`].
pub(super) struct Since {
    /// By how much they were late.
    pub(super) lateness: Distribution,
    /// Those that were late by [`LEAST`] or more.
    pub(super) standstills: Vec<Standstill<Option<usize>>>,
    /// Such ones that are not listed any more.
    pub(super) forgotten: u64,
}

impl Heartbeat {
    /// Starts beating on every processor that this process may use, before all ordinary threads if it is to be `realtime`.
    pub(super) fn start(realtime: bool) -> Heartbeat {
        let stop = Arc::new(AtomicBool::new(false));
        let processors = scheduling::processors();
        let affinity = if processors.is_empty() { vec![None] } else { processors.into_iter().map(Some).collect() };
        let beats: Vec<_> = affinity.into_iter().map(|processor| Arc::new(Mutex::new(Beats::new(processor)))).collect();
        let start = |beats: &Arc<Mutex<Beats>>| {
            let (beats, stop) = (beats.clone(), stop.clone());
            std::thread::spawn(move || beat(&beats, realtime, &stop))
        };
        let threads = beats.iter().map(start).collect();
        Heartbeat { beats, stop, threads }
    }

    /// How many processors it watches.
    pub(super) fn processors(&self) -> usize {
        self.beats.len()
    }

    /// What watching has taken of the processors.
    pub(super) fn spent(&self) -> Duration {
        self.beats.iter().map(|beats| lock(beats).spent).sum()
    }

    /// From here on.
    pub(super) fn mark(&self) -> Mark {
        let mut mark = Mark { lateness: Distribution::new(), forgotten: 0, at: now() };
        for beats in &self.beats {
            let beats = lock(beats);
            mark.lateness.merge(&beats.lateness);
            mark.forgotten += beats.forgotten;
        }
        mark
    }

    /// What has been seen since then.
    pub(super) fn since(&self, mark: &Mark) -> Since {
        let now = self.mark();
        let (lateness, forgotten) = (now.lateness.since(&mark.lateness), now.forgotten - mark.forgotten);
        let mut since = Since { lateness, standstills: Vec::new(), forgotten };
        for beats in &self.beats {
            let beats = lock(beats);
            let own = beats.standstills.iter().rev().take_while(|(_, end)| *end > mark.at);
            let place = beats.processor;
            since.standstills.extend(own.map(|&(start, end)| Standstill { start, end, place }));
        }
        since.standstills.sort_by_key(|standstill| (standstill.start, standstill.place));
        since
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

impl Beats {
    fn new(processor: Option<usize>) -> Beats {
        Beats {
            processor,
            lateness: Distribution::new(),
            standstills: VecDeque::new(),
            forgotten: 0,
            spent: Duration::ZERO,
        }
    }

    /// Counts a beat that was due and came at these times.
    fn record(&mut self, due: Nanos, came: Nanos) {
        let late = came.saturating_sub(due);
        self.lateness.record(late);
        if late >= LEAST {
            if self.standstills.len() == MOST_LISTED {
                self.standstills.pop_front();
                self.forgotten += 1;
            }
            self.standstills.push_back((due, came));
        }
    }
}

fn beat(beats: &Mutex<Beats>, realtime: bool, stop: &AtomicBool) {
    if realtime {
        // What fills a processor by itself is no standstill. One that may not is late when others are.
        let _ = scheduling::become_watcher();
    }
    if let Some(processor) = lock(beats).processor {
        // Unpinned the beat still measures, only not this processor for certain.
        let _ = scheduling::run_on(processor);
    }
    clock::precise_timers();
    let mut seen = now();
    while !stop.load(Ordering::Relaxed) {
        let due = seen + nanos(INTERVAL);
        clock::wait(&mut [], Some(due));
        let came = now();
        {
            let mut beats = lock(beats);
            beats.record(due, came);
            beats.spent = spent_by_this_thread();
        }
        seen = came;
    }
}

/// Processor time of the calling thread.
pub(super) fn spent_by_this_thread() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn lock(beats: &Mutex<Beats>) -> MutexGuard<'_, Beats> {
    beats.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Between two beats: a standstill may have begun so much earlier than it says.
pub(super) const INTERVAL: Duration = Duration::from_millis(1);

/// Standstills of a processor that are remembered.
const MOST_LISTED: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn late_beats_are_standstills() {
        let mut beats = Beats::new(Some(3));
        beats.record(10 * MS, 10 * MS + LEAST - 1);
        beats.record(20 * MS, 120 * MS);
        assert_eq!(beats.standstills, [(20 * MS, 120 * MS)]);
        assert_eq!((beats.lateness.n(), beats.lateness.max_us()), (2, Some(100_000.0)));
        for n in 0..MOST_LISTED as u64 {
            beats.record((1000 + n * 10) * MS, (1005 + n * 10) * MS);
        }
        assert_eq!((beats.standstills.len(), beats.forgotten, beats.standstills[0].0), (MOST_LISTED, 1, 1000 * MS));
    }

    #[test]
    fn each_observer_has_what_came_since_its_mark() {
        let heartbeat = Heartbeat::start(false);
        let first = heartbeat.mark();
        while heartbeat.since(&first).lateness.n() < 20 {
            std::thread::sleep(INTERVAL);
        }
        let second = heartbeat.mark();
        lock(&heartbeat.beats[0]).record(second.at, second.at + 7 * MS);
        let has_it = |mark: &Mark| heartbeat.since(mark).standstills.iter().any(|s| s.start == second.at);
        assert!(has_it(&first) && has_it(&second));
        assert!(heartbeat.since(&second).lateness.n() < heartbeat.since(&first).lateness.n());
        let third = Mark { at: second.at + 8 * MS, ..heartbeat.mark() };
        assert!(!has_it(&third));
    }
}
