//! Whether threads make progress, for the watchdog and `/healthz`.
//!
//! A thread records when it begins a piece of work and when it waits for the next. Waiting may take any time; a piece
//! of work that takes too long is a stall.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The pulses of a service's threads. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Pulses(Arc<Mutex<Vec<Watched>>>);

/// The pulse of one thread, checked until it is dropped. A panic that drops it counts as a stall that never ends.
#[derive(Debug)]
pub struct Pulse(Arc<AtomicU64>);

#[derive(Debug)]
struct Watched {
    name: String,
    /// Odd: working, on the piece with this number. Even: waiting.
    beat: Arc<AtomicU64>,
    /// The last odd number, and when it was first seen.
    seen: Option<(u64, Instant)>,
}

impl Pulses {
    /// No threads yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The pulse of a thread, whose name appears in a stall. It begins waiting.
    pub fn pulse(&self, name: impl Into<String>) -> Pulse {
        let beat = Arc::new(AtomicU64::new(0));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Watched { name: name.into(), beat: beat.clone(), seen: None });
        Pulse(beat)
    }

    /// Whether every thread waits or has begun another piece of work since a check at least `limit` ago; otherwise a
    /// line that names the stalled thread. Call it more than once per `limit`.
    ///
    /// # Errors
    /// The line.
    pub fn check(&self, now: Instant, limit: Duration) -> Result<(), String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|watched| watched.beat.load(Ordering::Relaxed) != ENDED);
        let mut stalled = Ok(());
        for Watched { name, beat, seen } in all.iter_mut() {
            let number = beat.load(Ordering::Relaxed);
            if number == PANICKED {
                return Err(format!("thread {name} has panicked"));
            }
            let first = match *seen {
                Some((before, first)) if before == number => first,
                _ => now,
            };
            *seen = (number % 2 == 1).then_some((number, first));
            if seen.is_some() && now.duration_since(first) >= limit && stalled.is_ok() {
                stalled = Err(format!("thread {name} has made no progress for {} s", (now - first).as_secs()));
            }
        }
        stalled
    }
}

impl Pulse {
    /// A piece of work begins: a batch was received, a timer has run out.
    pub fn work(&self) {
        self.set(|beat| beat.wrapping_add(1) | 1);
    }

    /// The thread is about to wait for the next.
    pub fn wait(&self) {
        self.set(|beat| beat.wrapping_add(1) & !1);
    }

    /// Only one thread writes, so no atomic addition is needed. 2^63 pieces of work never occur.
    fn set(&self, next: impl Fn(u64) -> u64) {
        self.0.store(next(self.0.load(Ordering::Relaxed)), Ordering::Relaxed);
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.0.store(if thread::panicking() { PANICKED } else { ENDED }, Ordering::Relaxed);
    }
}

const PANICKED: u64 = u64::MAX;
const ENDED: u64 = u64::MAX - 1;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn waiting_is_no_fault_and_endless_work_is() {
        let pulses = Pulses::new();
        let (one, other) = (pulses.pulse("worker 0"), pulses.pulse("worker 1"));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(pulses.check(at(0), LIMIT), Ok(()));
        assert_eq!(pulses.check(at(3600), LIMIT), Ok(()));

        one.work();
        other.work();
        assert_eq!(pulses.check(at(3601), LIMIT), Ok(()));
        other.work();
        assert_eq!(pulses.check(at(3610), LIMIT), Ok(()));
        other.work();
        assert_eq!(pulses.check(at(3611), LIMIT), Err("thread worker 0 has made no progress for 10 s".into()));
        // A check in between changes nothing.
        assert!(pulses.check(at(3611), LIMIT).is_err());
        one.wait();
        other.wait();
        assert_eq!(pulses.check(at(3612), LIMIT), Ok(()));
        one.work();
        assert_eq!(pulses.check(at(9000), LIMIT), Ok(()));
        drop(one);
        assert_eq!(pulses.check(at(9999), LIMIT), Ok(()));
    }

    #[test]
    fn a_panic_is_a_stall_that_never_ends() {
        let pulses = Pulses::new();
        let pulse = pulses.pulse("worker 3");
        let panicked = thread::Builder::new().name("panics on purpose".into()).spawn(move || {
            pulse.wait();
            panic!("on purpose");
        });
        assert!(panicked.unwrap().join().is_err());
        for _ in 0..2 {
            let told = pulses.check(Instant::now(), LIMIT);
            assert_eq!(told, Err("thread worker 3 has panicked".into()));
        }
    }
}
