//! What drives quinn on one thread: its tasks, a stop, and a timer.

use std::future::{Future, pending};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};
use tokio::{select, task};
use weir_program::clock::{Nanos, now};
use weir_program::stop::Stop;

use super::sys;

/// A current-thread runtime that advances only within the calls of [`Self::until`].
#[derive(Debug)]
pub(super) struct Reactor {
    timer: TimerFd,
    /// A copy of the timer's descriptor, to wait for.
    expired: AsyncFd<OwnedFd>,
    /// `None`: it goes on although there was one.
    stop: Option<Flag>,
    // Last: what is registered with it goes first.
    runtime: Runtime,
}

/// A file descriptor that becomes readable once, and stays so.
#[derive(Debug)]
pub(super) struct Flag(AsyncFd<OwnedFd>);

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Waited<T> {
    /// What was waited for has come.
    Come(T),
    /// Time or stop came before.
    Not,
}

impl Reactor {
    /// Fails where the process has no file descriptor left.
    pub(super) fn new(stop: &Stop) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let context = runtime.enter();
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        let expired = sys::watch(timer.as_fd().try_clone_to_owned()?)?;
        let stop = Some(Flag::new(stop.as_fd())?);
        drop(context);
        Ok(Self { timer, expired, stop, runtime })
    }

    /// Makes something that belongs to the runtime.
    pub(super) fn with<T>(&self, make: impl FnOnce() -> T) -> T {
        let _context = self.runtime.enter();
        make()
    }

    /// Drives everything until `work` is done, the time `deadline` has come (`None`: never) or the stop is set. What
    /// is ready at once is done in any case.
    pub(super) fn until<T>(&self, deadline: Option<Nanos>, work: impl Future<Output = T>) -> Waited<T> {
        self.runtime.block_on(async {
            select! {
                biased;
                output = work => Waited::Come(output),
                () = self.stopped() => Waited::Not,
                () = self.reached(deadline) => Waited::Not,
            }
        })
    }

    /// From now on no stop ends a wait.
    pub(super) fn outlast_the_stop(&mut self) {
        self.stop = None;
    }

    /// Lets every task that is ready have its turn: what was handed to quinn leaves now.
    pub(super) fn turn(&self) {
        self.runtime.block_on(task::yield_now());
    }

    async fn stopped(&self) {
        match &self.stop {
            Some(stop) => stop.set().await,
            None => pending().await,
        }
    }

    async fn reached(&self, deadline: Option<Nanos>) {
        let Some(deadline) = deadline else { return pending().await };
        let at = Expiration::OneShot(TimeSpec::from_duration(Duration::from_nanos(deadline)));
        if now() >= deadline || self.timer.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME).is_err() {
            return;
        }
        // Readiness may be left from an earlier deadline. A timer that is set anew need not be read before.
        while let Ok(mut ready) = self.expired.readable().await {
            if now() >= deadline {
                return;
            }
            ready.clear_ready();
        }
    }
}

impl Flag {
    /// Call it where a runtime is entered.
    pub(super) fn new(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self(sys::watch(fd.try_clone_to_owned()?)?))
    }

    /// Waits until it is readable.
    pub(super) async fn set(&self) {
        // Nobody reads it, so that the readiness that is remembered is true for ever.
        let _ = self.0.readable().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_the_time_the_stop_or_the_work() {
        let stop = Stop::new().unwrap();
        let mut reactor = Reactor::new(&stop).unwrap();
        for wait in [3_000_000, 1_000_000, 0] {
            let deadline = now() + wait;
            assert_eq!(reactor.until(Some(deadline), pending::<()>()), Waited::Not);
            assert!(now() >= deadline);
        }
        assert_eq!(reactor.until(Some(0), async { 1 }), Waited::Come(1), "what is ready is done, however late it is");
        stop.set();
        assert_eq!(reactor.until(None, pending::<()>()), Waited::Not);
        assert_eq!(reactor.until(None, async { 2 }), Waited::Come(2));
        reactor.outlast_the_stop();
        let deadline = now() + 1_000_000;
        assert_eq!(reactor.until(Some(deadline), pending::<()>()), Waited::Not);
        assert!(now() >= deadline);
    }
}
