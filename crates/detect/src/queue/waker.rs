//! Wakes a thread that sleeps.

use std::sync::OnceLock;
use std::thread::{self, Thread};

/// Wakes one thread.
#[derive(Debug, Default)]
pub struct Waker(OnceLock<Thread>);

impl Waker {
    /// The calling thread is the one to be woken. It looks for work after this, and then parks.
    pub fn listen(&self) {
        self.0.get_or_init(thread::current);
    }

    /// Wakes the thread, or has it not sleep the next time.
    #[inline]
    pub fn wake(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}
