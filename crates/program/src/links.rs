//! Interfaces that disappear and come back under their names: a thread restores what sockets had on them
//! ([`weir_dgram::interfaces`]), and reports each change.

use std::os::fd::AsFd;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_dgram::interfaces::{Change, restore};
use weir_kernel::links::Events;

use crate::stop::Stop;

/// Follows the interfaces of the network namespace until it is dropped.
#[derive(Debug)]
pub struct Links {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Links {
    /// Starts the thread, named `links`, in the calling thread's network namespace. `tell` receives the changes.
    ///
    /// # Errors
    /// One line: the kernel does not report changes, or a thread cannot be started.
    pub fn follow(tell: fn(&Change)) -> Result<Self> {
        let events = Events::of_network().context("recreated interfaces are not noticed. Allow AF_NETLINK.")?;
        let stop = Stop::new()?;
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("links".into()).spawn(move || follow(&events, &stopped, tell))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.stop.set();
        // A panic on that thread was printed on stderr already.
        self.thread.take().map(JoinHandle::join);
    }
}

fn follow(events: &Events, stop: &Stop, tell: fn(&Change)) {
    loop {
        events.take();
        restore(false).iter().for_each(tell);
        // If routes change all the time, their effects are checked at intervals.
        if stop.wait(Instant::now() + LOOKS_APART) {
            return;
        }
        let mut fds = [stop.as_fd(), events.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let _ = poll(&mut fds, PollTimeout::NONE);
    }
}

/// Min time between two checks.
const LOOKS_APART: Duration = Duration::from_millis(100);
