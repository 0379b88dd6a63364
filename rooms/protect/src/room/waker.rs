//! Wakes a thread that sleeps, and costs nothing where it does not.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{self, Thread};
use std::time::Duration;

/// Wakes one thread.
#[derive(Debug, Default)]
pub struct Waker {
    thread: OnceLock<Thread>,
    sleeps: AtomicBool,
}

impl Waker {
    /// Wakes the thread if it sleeps, or is about to.
    #[inline]
    pub fn wake(&self) {
        // What was put into a queue before is seen by the sleeper, or its sleep is seen here.
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) {
            self.rouse();
        }
    }

    #[cold]
    fn rouse(&self) {
        if self.sleeps.swap(false, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// The calling thread sleeps, unless `has_work`, until it is woken or so long.
    pub(super) fn sleep(&self, has_work: impl FnOnce() -> bool, at_most: Duration) {
        self.thread.get_or_init(thread::current);
        self.sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !has_work() {
            thread::park_timeout(at_most);
        }
        self.sleeps.store(false, Ordering::Relaxed);
    }
}
