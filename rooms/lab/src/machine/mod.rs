//! Watches the machine while cells run: when its CPUs stood still.
//!
//! A thread on each CPU only sleeps, and records how late it wakes up. A cell holds a [`Mark`] and asks what happened
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

/// Observations of the thread of a CPU.
#[derive(Default)]
struct Beats {
    /// `None`: any CPU.
    processor: Option<usize>,
    lateness: Distribution,
    /// Due time and wake-up, ns of CLOCK_MONOTONIC.
    late: VecDeque<(Nanos, Nanos)>,
    /// Early standstills that were forgotten for want of room.
    forgotten: u64,
}

/// A moment, for questions about the time since.
pub struct Mark {
    at: Nanos,
    lateness: Distribution,
    forgotten: u64,
}

/// A time in which something that was due did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// When it was due, ns of CLOCK_MONOTONIC.
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
    /// How late the threads woke up, on all CPUs.
    pub lateness: Distribution,
    /// Each time that a thread was late by [`MIN_STANDSTILL`] or more.
    pub standstills: Vec<Standstill>,
    /// Number of such times that are no longer listed.
    pub forgotten: u64,
}

impl Machine {
    /// Starts to watch every CPU that this process may use; if `realtime`, with priority over all ordinary threads.
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

    /// A mark of the present.
    pub fn mark(&self) -> Mark {
        mark(&self.processors)
    }

    /// What has happened since the mark.
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

    /// The standstills since the start, as text.
    pub fn words(&self) -> String {
        let Observed { standstills, forgotten, .. } = self.since(&self.start);
        let longest = standstills.iter().map(|s| s.end - s.start).max();
        longest.map_or("none".to_owned(), |longest| {
            format!("{}, the longest {:.1} ms", standstills.len() as u64 + forgotten, longest as f64 / 1e6)
        })
    }

    /// Precision of starts and lengths: a standstill may have begun this much earlier than recorded.
    pub const RESOLUTION: Duration = Duration::from_millis(1);
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has no result.
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
    /// Counts a beat that was due and ran at these times.
    fn record(&mut self, due: Nanos, came: Nanos) {
        let late = came.saturating_sub(due);
        self.lateness.record(late);
        if late >= MIN_STANDSTILL {
            if self.late.len() == MAX_LISTED {
                self.late.pop_front();
                self.forgotten += 1;
            }
            self.late.push_back((due, came));
        }
    }
}

fn beat(beats: &Mutex<Beats>, realtime: bool, stop: &AtomicBool) {
    if realtime {
        // A thread that uses all of a CPU is not a standstill. A thread with lower priority is late when others run.
        let _ = scheduling::become_watcher();
    }
    if let Some(processor) = lock(beats).processor {
        // Unpinned, the beat still measures, but maybe on another CPU.
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
pub const MIN_STANDSTILL: Nanos = 1_000_000;

/// Max standstills kept per CPU: 4 MB, or at least four minutes of nothing but standstills.
const MAX_LISTED: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn late_beats_are_standstills() {
        let mut beats = Beats::default();
        beats.record(10 * MS, 10 * MS + MIN_STANDSTILL - 1);
        beats.record(20 * MS, 120 * MS);
        assert_eq!(beats.late, [(20 * MS, 120 * MS)]);
        assert_eq!((beats.lateness.n(), beats.lateness.max_us()), (2, Some(100_000.0)));
        for n in 0..MAX_LISTED as u64 {
            beats.record((1000 + n * 10) * MS, (1005 + n * 10) * MS);
        }
        assert_eq!((beats.late.len(), beats.forgotten, beats.late[0].0), (MAX_LISTED, 1, 1000 * MS));
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
