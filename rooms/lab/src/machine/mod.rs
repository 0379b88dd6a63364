//! The machine while cells run: when its processors stood still.
//!
//! A thread on each processor only sleeps, and notes how late it wakes up. A cell holds a [`Mark`] and asks what happened
//! since.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_kernel::scheduling;
use weir_program::clock::{self, Nanos, nanos, now};
use weir_stats::Distribution;

/// Watches the machine until dropped.
pub struct Machine {
    processors: Vec<Arc<Mutex<Beats>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    start: Mark,
}

/// What the thread of a processor has seen.
#[derive(Default)]
struct Beats {
    /// `None`: any.
    processor: Option<usize>,
    lateness: Distribution,
    /// Due and come, ns of CLOCK_MONOTONIC.
    late: VecDeque<(Nanos, Nanos)>,
    /// The earliest ones, for which there was no room.
    forgotten: u64,
}

/// A moment, to ask what happened since.
pub struct Mark {
    at: Nanos,
    lateness: Distribution,
    forgotten: u64,
}

/// A time in which something that had to run did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// When it had to run, ns of CLOCK_MONOTONIC.
    pub start: Nanos,
    /// When it ran.
    pub end: Nanos,
    /// `cpu 3`, or a direction of a link.
    pub place: String,
}

/// What happened since a [`Mark`].
pub struct Observed {
    /// The mark's time.
    pub from: Nanos,
    /// How late the threads woke up, on all processors.
    pub lateness: Distribution,
    /// Each time that one was late by [`LEAST`] or more.
    pub standstills: Vec<Standstill>,
    /// Such times that are not listed any more.
    pub forgotten: u64,
}

impl Machine {
    /// Begins to watch every processor that this process may use, before all ordinary threads if it is to be `realtime`.
    pub fn start(realtime: bool) -> Machine {
        let usable = scheduling::processors();
        let usable = if usable.is_empty() { vec![None] } else { usable.into_iter().map(Some).collect() };
        let of = |processor| Arc::new(Mutex::new(Beats { processor, ..Beats::default() }));
        let processors: Vec<_> = usable.into_iter().map(of).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let spawn = |beats: &Arc<Mutex<Beats>>| {
            let (beats, stop) = (beats.clone(), stop.clone());
            std::thread::spawn(move || beat(&beats, realtime, &stop))
        };
        let threads = processors.iter().map(spawn).collect();
        let start = mark(&processors);
        Machine { processors, stop, threads, start }
    }

    /// From here on.
    pub fn mark(&self) -> Mark {
        mark(&self.processors)
    }

    /// What has happened since then.
    pub fn since(&self, mark: &Mark) -> Observed {
        let now = self.mark();
        let mut standstills = Vec::new();
        for beats in &self.processors {
            let beats = lock(beats);
            let place = beats.processor.map_or("cpu".into(), |processor| format!("cpu {processor}"));
            let own = beats.late.iter().filter(|(_, end)| *end > mark.at);
            standstills.extend(own.map(|&(start, end)| Standstill { start, end, place: place.clone() }));
        }
        let (lateness, forgotten) = (now.lateness.since(&mark.lateness), now.forgotten - mark.forgotten);
        Observed { from: mark.at, lateness, standstills, forgotten }
    }

    /// What stood still since the start, in words.
    pub fn words(&self) -> String {
        let Observed { standstills, forgotten, .. } = self.since(&self.start);
        let longest = standstills.iter().map(|s| s.end - s.start).max();
        longest.map_or("none".to_owned(), |longest| {
            format!("{}, the longest {:.1} ms", standstills.len() as u64 + forgotten, longest as f64 / 1e6)
        })
    }

    /// How exact starts and lengths are: a standstill may have begun so much earlier than it says.
    pub const RESOLUTION: Duration = Duration::from_millis(1);
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has nothing left to say.
            let _ = thread.join();
        }
    }
}

fn mark(processors: &[Arc<Mutex<Beats>>]) -> Mark {
    let mut mark = Mark { at: now(), lateness: Distribution::new(), forgotten: 0 };
    for beats in processors {
        let beats = lock(beats);
        mark.lateness.merge(&beats.lateness);
        mark.forgotten += beats.forgotten;
    }
    mark
}

impl Beats {
    /// Counts a beat that was due and came at these times.
    fn record(&mut self, due: Nanos, came: Nanos) {
        let late = came.saturating_sub(due);
        self.lateness.record(late);
        if late >= LEAST {
            if self.late.len() == MOST_LISTED {
                self.late.pop_front();
                self.forgotten += 1;
            }
            self.late.push_back((due, came));
        }
    }
}

fn beat(beats: &Mutex<Beats>, realtime: bool, stop: &AtomicBool) {
    if realtime {
        // What fills a processor by itself is no standstill. A thread that may not run before it is late when others are.
        let _ = scheduling::become_watcher();
    }
    if let Some(processor) = lock(beats).processor {
        // Unpinned the beat still measures, only not this processor for certain.
        let _ = scheduling::run_on(processor);
    }
    clock::precise_timers();
    let mut seen = now();
    while !stop.load(Ordering::Relaxed) {
        let due = seen + nanos(Machine::RESOLUTION);
        clock::wait(&mut [], Some(due));
        seen = now();
        lock(beats).record(due, seen);
    }
}

fn lock(beats: &Mutex<Beats>) -> MutexGuard<'_, Beats> {
    beats.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shorter ones are ordinary scheduling, ns.
pub const LEAST: Nanos = 1_000_000;

/// Standstills of a processor that are remembered: 4 MB, and at least four minutes of nothing but them.
const MOST_LISTED: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn late_beats_are_standstills() {
        let mut beats = Beats::default();
        beats.record(10 * MS, 10 * MS + LEAST - 1);
        beats.record(20 * MS, 120 * MS);
        assert_eq!(beats.late, [(20 * MS, 120 * MS)]);
        assert_eq!((beats.lateness.n(), beats.lateness.max_us()), (2, Some(100_000.0)));
        for n in 0..MOST_LISTED as u64 {
            beats.record((1000 + n * 10) * MS, (1005 + n * 10) * MS);
        }
        assert_eq!((beats.late.len(), beats.forgotten, beats.late[0].0), (MOST_LISTED, 1, 1000 * MS));
    }

    #[test]
    fn each_observer_has_what_came_since_its_mark() {
        let machine = Machine::start(false);
        let first = machine.mark();
        while machine.since(&first).lateness.n() < 20 {
            std::thread::sleep(Machine::RESOLUTION);
        }
        let second = machine.mark();
        lock(&machine.processors[0]).record(second.at, second.at + 7 * MS);
        let has_it = |mark: &Mark| machine.since(mark).standstills.iter().any(|s| s.start == second.at);
        assert!(has_it(&first) && has_it(&second));
        assert!(machine.since(&second).lateness.n() < machine.since(&first).lateness.n());
        assert!(!has_it(&Mark { at: second.at + 8 * MS, ..machine.mark() }));
        assert!(machine.words().contains(", the longest "), "{}", machine.words());
    }
}
