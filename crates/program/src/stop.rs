//! A flag that stops threads, and wakes those that wait in `poll`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::output::complain;
use crate::signals::{self, Request, Requests};

/// A request to end, shared by all threads that must see it. Once set it stays set.
///
/// As a file descriptor ([`AsFd`]) it is readable once it is set: put it into a `poll` set, never read it.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    set: AtomicBool,
    event: EventFd,
    last_words: OnceLock<String>,
}

impl Stop {
    /// A stop that is not set. Fails if the process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self(Arc::new(Inner { set: AtomicBool::new(false), event, last_words: OnceLock::new() })))
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
        let handle = stop.clone();
        let mut requests = Requests::default();
        signals::watch(&signals::that_ask_for_the_end(), move |signal| match requests.hear(Instant::now()) {
            Request::End => {
                handle.set();
                let stop = handle.clone();
                signals::bound_the_end(signal, grace, move || {
                    let words = stop.0.last_words.get().map(|words| format!("; {words}")).unwrap_or_default();
                    format!("stopping took longer than {} s: ended at once{words}", grace.as_secs())
                });
            }
            Request::Same => {}
            Request::AtOnce => {
                if let Some(words) = handle.0.last_words.get() {
                    complain!("weir: {words}");
                }
                process::exit(128 + signal as i32);
            }
        })?;
        Ok(stop)
    }

    /// Text if a second signal ends the process at once: what is left, and what to do with it. Set once.
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
