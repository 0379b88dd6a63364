//! A flag that stops threads, and wakes those that wait in `poll`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::Signal;

use crate::output::complain;
use crate::signals;

/// A request to end, shared by all threads that must see it. Once set it stays set.
///
/// As a file descriptor ([`AsFd`]) it is readable once it is set: put it into a `poll` set, never read it.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    set: AtomicBool,
    event: EventFd,
    grace_s: AtomicU64,
    last_words: OnceLock<String>,
}

impl Stop {
    /// A stop that is not set. Fails if the process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let (set, grace_s) = (AtomicBool::new(false), AtomicU64::new(signals::GRACE.as_secs()));
        Ok(Self(Arc::new(Inner { set, event, grace_s, last_words: OnceLock::new() })))
    }

    /// A stop that SIGINT, SIGTERM and SIGHUP (the terminal is closed) set. A second signal, at least a second later,
    /// ends the process at once, with status 128 + its number; earlier ones count as the first. Ten seconds after the
    /// first the process is ended in the same way, whatever is stuck.
    ///
    /// Blocks these signals in the calling thread and those it starts from then on: call it before starting any.
    pub fn on_signals() -> io::Result<Self> {
        Self::on_signals_within(signals::GRACE)
    }

    /// The same if an orderly end may take longer: this long after the first signal the process is ended, whatever is
    /// stuck.
    pub fn on_signals_within(grace: Duration) -> io::Result<Self> {
        let stop = Self::new()?;
        stop.set_grace(grace);
        stop.watch(&signals::that_ask_for_the_end(), |_| false)?;
        Ok(stop)
    }

    /// So long after the first signal the process is ended, whatever is stuck.
    pub fn set_grace(&self, grace: Duration) {
        self.0.grace_s.store(grace.as_secs(), Ordering::Relaxed);
    }

    /// Is set by these signals, as [`Self::on_signals`] has it, but by those that `takes` says are for something else.
    pub fn watch(&self, heard: &[Signal], mut takes: impl FnMut(Signal) -> bool + Send + 'static) -> io::Result<()> {
        let (stop, mut first) = (self.clone(), None);
        signals::watch(heard, move |signal| {
            if takes(signal) {
                return;
            }
            let (now, is_first) = (Instant::now(), first.is_none());
            if now < *first.get_or_insert(now) + signals::SAME_REQUEST {
                if is_first {
                    stop.set();
                    stop.bound_the_end(signal);
                }
                return;
            }
            if let Some(words) = stop.0.last_words.get() {
                complain!("weir: {words}");
            }
            process::exit(128 + signal as i32);
        })
    }

    fn bound_the_end(&self, signal: Signal) {
        let (stop, seconds) = (self.clone(), self.0.grace_s.load(Ordering::Relaxed));
        signals::bound_the_end(signal, Duration::from_secs(seconds), move || {
            let words = stop.0.last_words.get().map(|words| format!("; {words}")).unwrap_or_default();
            format!("the end took longer than {seconds} s: ended at once{words}")
        });
    }

    /// What is said where a second signal ends the process at once: what is left, and what to do with it. Once.
    pub fn last_words(&self, words: String) {
        let _ = self.0.last_words.set(words);
    }

    /// Requests all to end.
    pub fn set(&self) {
        self.0.set.store(true, Ordering::Release);
        // The counter can only overflow after 2^64 - 2 calls; then it is readable already.
        let _ = self.0.event.write(1);
    }

    /// Whether it has been set.
    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::Acquire)
    }

    /// Waits until this time, or until it is set; returns whether it is.
    pub fn wait(&self, until: Instant) -> bool {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.is_set() || left.is_zero() {
                return self.is_set();
            }
            // Rounded up, so that no time is left when it runs out.
            let timeout = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
            // Whatever wakes it, only the clock and the stop decide.
            let _ = poll(&mut [PollFd::new(self.as_fd(), PollFlags::POLLIN)], timeout);
        }
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn wakes_every_waiting_thread_and_stays_readable() {
        let stop = Stop::new().unwrap();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut fds = [PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
                    assert_eq!(poll(&mut fds, PollTimeout::NONE), Ok(1));
                    assert!(stop.is_set());
                });
            }
            assert!(!stop.is_set());
            stop.set();
        });
        let mut fds = [PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut fds, PollTimeout::ZERO), Ok(1));
    }
}
