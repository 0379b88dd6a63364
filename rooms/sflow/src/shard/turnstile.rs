//! A lock between one worker, which is never to wait long, and readers, which are not to starve.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Something that a worker changes batch after batch, and others read in slices. A lock that is taken again as soon as it was
/// let go would never be had by anybody else: before each batch the worker lets one reader go first.
#[derive(Debug, Default)]
pub(super) struct Turnstile<T> {
    inner: Mutex<T>,
    waiting: AtomicUsize,
    /// Readers that have had their turn.
    served: AtomicUsize,
}

impl<T> Turnstile<T> {
    /// With this in it.
    pub(super) fn new(inner: T) -> Self {
        Self { inner: Mutex::new(inner), waiting: AtomicUsize::new(0), served: AtomicUsize::new(0) }
    }

    /// The worker's turn, after that of one reader if there are any.
    pub(super) fn work(&self) -> MutexGuard<'_, T> {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.let_one_go_first();
        }
        self.lock()
    }

    /// A reader's turn: whoever has much to read takes it in several, each well below a millisecond.
    pub(super) fn read<R>(&self, slice: impl FnOnce(&mut T) -> R) -> R {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.served.fetch_add(1, Ordering::Relaxed);
        slice(&mut inner)
    }

    #[cold]
    fn let_one_go_first(&self) {
        let (served, start) = (self.served.load(Ordering::Relaxed), Instant::now());
        while self.waiting.load(Ordering::Relaxed) > 0
            && self.served.load(Ordering::Relaxed) == served
            && start.elapsed() < COURTESY
        {
            thread::yield_now();
        }
    }

    /// A panic of another thread has been told; what it left behind is as good as any estimate.
    fn lock(&self) -> MutexGuard<'_, T> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Longest wait of a worker for a reader that does not come.
const COURTESY: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// A worker that never rests, and a reader that must get its turns all the same.
    #[test]
    fn a_reader_is_served_beside_a_worker_that_never_rests() {
        let turnstile = Arc::new(Turnstile::new(0_u64));
        let done = Arc::new(AtomicBool::new(false));
        let worker = thread::spawn({
            let (turnstile, done) = (turnstile.clone(), done.clone());
            move || {
                let mut batches = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    *turnstile.work() += 1;
                    batches += 1;
                }
                batches
            }
        });
        let mut seen = 0;
        for _ in 0..1000 {
            seen = turnstile.read(|value| {
                assert!(*value >= seen);
                *value
            });
        }
        done.store(true, Ordering::Relaxed);
        let batches = worker.join().unwrap();
        assert_eq!(turnstile.read(|value| *value), batches);
        assert_eq!(turnstile.waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_reader_that_does_not_come_does_not_hold_the_worker() {
        let turnstile = Turnstile::new(());
        turnstile.waiting.store(1, Ordering::Relaxed);
        let start = Instant::now();
        drop(turnstile.work());
        assert!(start.elapsed() >= COURTESY);
    }
}
