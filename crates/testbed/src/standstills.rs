//! For how long the machine stood still: virtual machines do, for 100 ms at a time, and what runs on them is not to blame.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_kernel::scheduling::{become_watcher, processors, run_on};

/// Watches each processor, until dropped.
#[derive(Debug)]
pub struct Standstills {
    processors: Vec<Arc<Mutex<Watched>>>,
    ended: Arc<AtomicBool>,
    watching: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Watched {
    standstills: Vec<[Instant; 2]>,
    /// All that was before is known.
    known: Instant,
}

impl Standstills {
    /// Begins to watch.
    #[must_use]
    pub fn watch() -> Self {
        let begin = Instant::now();
        let mut watch = Self { processors: Vec::new(), ended: Arc::default(), watching: Vec::new() };
        for processor in processors() {
            let watched = Arc::new(Mutex::new(Watched { standstills: Vec::new(), known: begin }));
            watch.processors.push(Arc::clone(&watched));
            let ended = Arc::clone(&watch.ended);
            watch.watching.push(thread::spawn(move || {
                run_on(processor).unwrap();
                // Without the right to it, busy neighbours keep it waiting for less than `LONG`.
                let _ = become_watcher();
                while !ended.load(Ordering::Relaxed) {
                    thread::sleep(LOOK);
                    watched.lock().unwrap().look(Instant::now());
                }
            }));
        }
        watch
    }

    /// The time between two past ones for which no processor stood still.
    #[must_use]
    pub fn running(&self, from: Instant, to: Instant) -> Duration {
        let mut standstills: Vec<_> =
            self.processors.iter().flat_map(|one| Self::known(one, to).standstills.clone()).collect();
        standstills.sort_unstable();
        let (mut still, mut counted) = (Duration::ZERO, from);
        for [begin, end] in standstills {
            let end = end.min(to);
            still += end.saturating_duration_since(begin.max(counted));
            counted = counted.max(end);
        }
        to - from - still
    }

    /// Waits until all is known that was before.
    fn known(processor: &Mutex<Watched>, to: Instant) -> MutexGuard<'_, Watched> {
        loop {
            let watched = processor.lock().unwrap();
            if watched.known >= to {
                return watched;
            }
            drop(watched);
            thread::sleep(LOOK);
        }
    }
}

impl Watched {
    fn look(&mut self, now: Instant) {
        if now - self.known > LONG {
            self.standstills.push([self.known + LOOK, now]);
        }
        self.known = now;
    }
}

impl Drop for Standstills {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for watching in self.watching.drain(..) {
            watching.join().unwrap();
        }
    }
}

const LOOK: Duration = Duration::from_millis(2);

/// What keeps a thread waiting that is due for its turn is shorter.
const LONG: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_look_is_a_standstill() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut watched = Watched { standstills: Vec::new(), known: begin };
        for ms in [2, 5, 14, 120, 123] {
            watched.look(at(ms));
        }
        assert_eq!((watched.standstills, watched.known), (vec![[at(16), at(120)]], at(123)));
    }

    #[test]
    fn what_two_processors_lose_at_once_counts_once() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let processor = |standstills: &[[u64; 2]]| {
            let standstills = standstills.iter().map(|still| still.map(at)).collect();
            Arc::new(Mutex::new(Watched { standstills, known: at(1000) }))
        };
        let processors = vec![processor(&[[102, 200]]), processor(&[[152, 300], [902, 1000]])];
        let watch = Standstills { processors, ended: Arc::default(), watching: Vec::new() };
        let running = |from, to| watch.running(at(from), at(to)).as_millis();
        assert_eq!(running(0, 1000), 1000 - 198 - 98);
        assert_eq!((running(120, 1000), running(0, 250), running(120, 130), running(300, 900)), (602, 102, 0, 600));
    }
}
