//! The threads that move datagrams, and their handle.
//!
//! ```text
//! thread: events -> receive: recvmmsg -> routing -> lanes -> join -> send: sendmmsg
//!                                                             |  (rest)       (at once, from the receive buffers)
//!                                                             +-> backlog -> EPOLLOUT -> join -> send
//! ```

mod answers;
mod backlog;
mod batch;
mod command;
mod events;
mod join;
mod lane;
mod lanes;
mod packetize;
mod random;
mod receive;
mod recent;
mod recycle;
mod reports;
mod routing;
mod send;
mod sender;
mod sessions;
mod singly;
mod tap;
mod thread;
mod turn;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::time::{ClockId, clock_gettime};

use crate::counters::InUse;
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::sockets::{OpenError, Sockets};
use command::{Assignment, Command, Handle, ListenerSocket};
use events::Events;
use thread::Worker;

pub use tap::{Tap, Tapped};

/// The workers of a tee. Dropping them stops them without a drain.
///
/// ```no_run
/// # use std::{collections::BTreeMap, sync::Arc, time::Duration};
/// # use weir_forward::{plan::Plan, settings::Settings, sockets::Sockets, worker::Workers};
/// # fn run(settings: Settings, other: Settings) -> Result<(), Box<dyn std::error::Error>> {
/// let plan = Plan::build(Arc::new(settings), &BTreeMap::new(), None);
/// let sockets = Sockets::open(&plan, Vec::new(), None)?;
/// let workers = Workers::start(plan, sockets)?;
/// // A reload: nothing has changed when one of the first two lines fails.
/// let plan = Plan::build(Arc::new(other), &BTreeMap::new(), Some(&workers.plan()));
/// let sockets = workers.open(&plan)?;
/// workers.replace(plan, sockets);
/// workers.stop(Duration::from_secs(5));
/// println!("{:?}", workers.ledger());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Workers {
    handles: Vec<Handle>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    current: Mutex<Current>,
}

/// What is carried out.
#[derive(Debug)]
struct Current {
    plan: Arc<Plan>,
    sockets: Sockets,
    /// The threads have ended, and counted what sockets had dropped.
    stopped: bool,
}

/// A thread, or the descriptors it needs, could not be made.
#[derive(Debug, thiserror::Error)]
#[error("start worker {number}: {operation}: {source}")]
pub struct StartError {
    number: usize,
    operation: &'static str,
    source: io::Error,
}

impl Workers {
    /// Starts as many threads as the plan's books are for, in the caller's network namespace.
    ///
    /// # Errors
    /// No file descriptors or threads left.
    pub fn start(plan: impl Into<Arc<Plan>>, sockets: Sockets) -> Result<Self, StartError> {
        Self::start_tapped(plan, sockets, Vec::new())
    }

    /// The same with a tap a worker, which reads what that worker receives and is dropped when it ends. Workers beyond
    /// the taps have none.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_tapped(
        plan: impl Into<Arc<Plan>>,
        mut sockets: Sockets,
        taps: Vec<Box<dyn Tap>>,
    ) -> Result<Self, StartError> {
        let plan = plan.into();
        let numbers = 0..plan.books.workers();
        let (mut handles, mut parts) = (Vec::new(), Vec::new());
        for number in numbers.clone() {
            let (handle, commands, events) = prepare(number)?;
            handles.push(handle);
            parts.push((commands, events));
        }
        let assignments: Vec<_> = numbers.map(|number| sockets.assignment(&plan, number)).collect();
        sockets.settle();
        sockets.tell_closed(&plan);
        let current = Mutex::new(Current { plan, sockets, stopped: false });
        let workers = Self { handles, threads: Mutex::default(), current };
        let mut taps = taps.into_iter();
        for (number, ((commands, events), assignment)) in parts.into_iter().zip(assignments).enumerate() {
            let tap = taps.next();
            let thread = std::thread::Builder::new()
                .name(format!("worker {number}"))
                .spawn(move || Worker::new(number, assignment, commands, events, tap).run());
            // If it fails the others end with `workers`.
            let thread = thread.map_err(|source| StartError { number, operation: "thread", source })?;
            workers.threads().push(thread);
        }
        Ok(workers)
    }

    /// The plan that is carried out.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.current().plan)
    }

    /// Opens the sockets that a plan needs beyond those in use; see [`Sockets::open`].
    ///
    /// # Errors
    /// As for [`Sockets::open`].
    pub fn open(&self, plan: &Plan) -> Result<Sockets, OpenError> {
        Sockets::open(plan, Vec::new(), Some(&self.current().sockets))
    }

    /// Goes over to another plan, made from the current one, and returns when every worker has. What stays loses
    /// nothing; what was queued at removed listeners is sent as the old plan says.
    pub fn replace(&self, plan: impl Into<Arc<Plan>>, mut sockets: Sockets) {
        let plan = plan.into();
        let mut current = self.current();
        sockets.leave_reuseport_groups();
        let (reply, answers) = mpsc::channel();
        for (number, handle) in self.handles.iter().enumerate() {
            handle.send(Command::Replace(Box::new(sockets.assignment(&plan, number)), reply.clone()));
        }
        drop(reply);
        // A worker that has ended takes nothing over; `is_alive` tells.
        answers.iter().for_each(drop);
        sockets.settle();
        sockets.tell_closed(&plan);
        (current.plan, current.sockets) = (plan, sockets);
    }

    /// Tells something of the sockets in use, with their plan.
    pub fn with_sockets<T>(&self, tell: impl FnOnce(&Plan, &Sockets) -> T) -> T {
        let current = self.current();
        tell(&current.plan, &current.sockets)
    }

    /// Whether every worker answers within this time: what a watchdog asks.
    pub fn is_alive(&self, within: Duration) -> bool {
        let until = Instant::now() + within;
        let answers: Vec<_> = self.handles.iter().map(|handle| handle.run(|| ())).collect();
        answers.iter().all(|answer| answer.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok())
    }

    /// Has every worker look at what waits for next hops: some have answered, or failed. Does not wait for it.
    pub fn look(&self) {
        for handle in &self.handles {
            handle.send(Command::Look);
        }
    }

    /// Lets nothing more in, sends what the kernel had accepted, no longer than `drain`, and ends the threads.
    pub fn stop(&self, drain: Duration) {
        let mut current = self.current();
        for handle in &self.handles {
            handle.send(Command::Stop(drain));
        }
        for thread in self.threads().drain(..) {
            let _ = thread.join();
        }
        current.stopped = true;
    }

    /// The account now: of what is there in the order of the plan, then of what was removed.
    pub fn ledger(&self) -> Ledger {
        let current = self.current();
        let Current { plan, sockets, stopped } = &*current;
        let in_use = InUse {
            listeners: plan.listeners.iter().map(|listener| &listener.book).collect(),
            rules: plan.rules.iter().map(|rule| &rule.book).collect(),
            outlets: plan.outlets.iter().map(|outlet| &outlet.book).collect(),
        };
        let mut ledger = plan.books.ledger(&in_use, |worker, copy| self.between(plan, worker, copy));
        for (index, (count, listener)) in ledger.listeners.iter_mut().zip(&plan.listeners).enumerate() {
            if !stopped {
                count.kernel_drops =
                    count.kernel_drops.zip(sockets.listeners[index].kernel_drops()).map(|(a, b)| a + b);
            }
            if let Some(address) = sockets.local_addr(index) {
                count.address = address.to_string();
            }
            count.asked_buffer = listener.settings.receive_buffer;
            count.receive_buffer =
                sockets.granted(index).map(|granted| granted.receive_buffer.granted).min().unwrap_or(0);
            count.receive_queue = sockets.listeners[index].receive_queue().filter(|_| !stopped);
        }
        let outlets = plan.outlets.iter().zip(&sockets.outlets);
        for (count, (outlet, sockets)) in ledger.destinations.iter_mut().zip(outlets) {
            count.healthy = Some(outlet.healthy());
            count.not_joined = sockets.not_joined();
            count.queue_limit = Some((outlet.settings.queue_bytes() * plan.settings.workers) as u64);
        }
        ledger
    }

    /// For each worker, what `copy` makes of what that worker and its tap count, at a moment at which all of it agrees.
    pub fn agreed<T: Send + 'static>(&self, copy: impl Fn(&Plan, usize) -> T + Send + Sync + 'static) -> Vec<T> {
        let plan = self.plan();
        let copy = Arc::new(copy);
        let copied = |worker: usize| {
            let (plan, copy) = (Arc::clone(&plan), Arc::clone(&copy));
            self.between(&plan.clone(), worker, move || copy(&plan, worker))
        };
        (0..plan.books.workers()).map(copied).collect()
    }

    /// A copy of what a worker counts, taken between two of its turns: here if it rests, else by itself. One that has ended
    /// or is stuck is not waited for.
    fn between<T: Send + 'static>(
        &self,
        plan: &Plan,
        worker: usize,
        copy: impl Fn() -> T + Send + Sync + 'static,
    ) -> T {
        let (turns, copy) = (plan.books.turns(worker), Arc::new(copy));
        if let Some(value) = turns.read(&*copy) {
            return value;
        }
        let theirs = Arc::clone(&copy);
        let answer = self.handles[worker].run(move || theirs());
        let start = Instant::now();
        loop {
            match answer.recv_timeout(REST) {
                Ok(value) => return value,
                Err(RecvTimeoutError::Timeout) if start.elapsed() < PATIENCE => {
                    // It may sleep in a receive.
                    if let Some(value) = turns.read(&*copy) {
                        return value;
                    }
                }
                Err(_) => return copy(),
            }
        }
    }

    /// CPU time that each worker has used; zero of one that has ended.
    pub fn cpu_times(&self) -> Vec<Duration> {
        let answers: Vec<_> = self.handles.iter().map(|handle| handle.run(cpu_time)).collect();
        answers.into_iter().map(|answer| answer.recv().unwrap_or_default()).collect()
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

impl Sockets {
    /// A worker's part of a plan.
    fn assignment(&self, plan: &Arc<Plan>, worker: usize) -> Assignment {
        let listeners = self.listeners.iter().enumerate().filter_map(|(listener, sockets)| {
            let (socket, lasting) = sockets.of_worker(worker)?;
            Some(ListenerSocket { listener, address: socket.local_addr(), socket, lasting, ready: true })
        });
        Assignment {
            plan: Arc::clone(plan),
            listeners: listeners.collect(),
            egress: self.outlets.iter().map(|sockets| sockets.of_worker(worker)).collect(),
        }
    }
}

/// What a worker needs, before it starts.
fn prepare(number: usize) -> Result<(Handle, mpsc::Receiver<Command>, Events), StartError> {
    let failed = |(operation, source)| StartError { number, operation, source };
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let wake = EventFd::from_value_and_flags(0, flags).map_err(|errno| failed(("eventfd", errno.into())))?;
    let wake = Arc::new(wake);
    let events = Events::new(Arc::clone(&wake)).map_err(failed)?;
    let (sender, commands) = mpsc::channel();
    Ok((Handle::new(sender, wake), commands, events))
}

/// CPU time that the calling thread has used.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Longest wait for a worker to make a copy before another look whether it rests.
const REST: Duration = Duration::from_millis(1);

/// Longest wait for a worker whose counts disagree.
const PATIENCE: Duration = Duration::from_secs(1);
