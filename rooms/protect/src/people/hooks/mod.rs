//! Whom the room tells by itself: a program, syslog.
//!
//! ```text
//! guard: tell(event) --> a bounded queue a receiver --> one task each, on the thread `hooks`
//! ```
//!
//! Telling never waits: what a full queue has no room for is counted. A receiver that is dead or slow holds up neither the guard nor
//! another receiver, and is told of in one line when it fails, and in another when it works again.

mod command;
mod event;
mod syslog;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

pub use event::{Event, is_told};
use weir_program::config::Address;

use crate::config::document::Hooks as Settings;

/// The receivers, which are told until this is dropped.
#[derive(Debug)]
pub struct Hooks {
    receivers: Vec<Receiver>,
    /// Dropping the sender ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Receiver {
    name: &'static str,
    queue: mpsc::Sender<Arc<Event>>,
    counts: Arc<Cells>,
}

#[derive(Debug, Default)]
struct Cells {
    told: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

/// What became of the events of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// `command` or `syslog`.
    pub receiver: &'static str,
    /// Those that it took.
    pub told: u64,
    /// Those that it did not take, or not in time.
    pub failed: u64,
    /// Those that its queue had no room for.
    pub dropped: u64,
}

/// Who carries an event to its receiver.
trait Carrier: Send + 'static {
    const NAME: &'static str;

    /// Why it could not, in one line.
    fn carry(&mut self, event: &Event) -> impl Future<Output = Result<(), String>> + Send;
}

impl Hooks {
    /// Starts the thread `hooks`, if anybody is to be told.
    ///
    /// # Errors
    /// The thread or its runtime cannot be had.
    pub fn start(settings: &Settings) -> anyhow::Result<Self> {
        let mut hooks = Self { receivers: Vec::new(), stop: None, thread: None };
        if settings.command.is_empty() && settings.syslog.is_none() {
            return Ok(hooks);
        }
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build()?;
        let timeout = settings.timeout.duration();
        if !settings.command.is_empty() {
            hooks.add(&runtime, command::Program::new(settings.command.clone(), timeout));
        }
        if let Some(Address(address)) = settings.syslog {
            hooks.add(&runtime, syslog::Sender::new(address));
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let running = move || {
            // What is left when it ends is for nobody: programs that run are killed with their tasks.
            runtime.block_on(async {
                let _ = stopped.await;
            });
            runtime.shutdown_background();
        };
        hooks.thread = Some(thread::Builder::new().name("hooks".into()).spawn(running)?);
        hooks.stop = Some(stop);
        Ok(hooks)
    }

    fn add<C: Carrier>(&mut self, runtime: &Runtime, carrier: C) {
        let (queue, events) = mpsc::channel(QUEUE);
        let counts = Arc::<Cells>::default();
        runtime.spawn(carry(carrier, events, counts.clone()));
        self.receivers.push(Receiver { name: C::NAME, queue, counts });
    }

    /// Tells all receivers, some time soon. Never waits.
    pub fn tell(&self, event: Event) {
        let event = Arc::new(event);
        for receiver in &self.receivers {
            if receiver.queue.try_send(event.clone()).is_err() {
                receiver.counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// What became of all events.
    pub fn counts(&self) -> Vec<Count> {
        let count = |receiver: &Receiver| Count {
            receiver: receiver.name,
            told: receiver.counts.told.load(Ordering::Relaxed),
            failed: receiver.counts.failed.load(Ordering::Relaxed),
            dropped: receiver.counts.dropped.load(Ordering::Relaxed),
        };
        self.receivers.iter().map(count).collect()
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic on that thread has been told on stderr already.
            let _ = thread.join();
        }
    }
}

/// Carries events one after another.
async fn carry<C: Carrier>(mut carrier: C, mut events: mpsc::Receiver<Arc<Event>>, counts: Arc<Cells>) {
    let mut works = true;
    while let Some(event) = events.recv().await {
        match carrier.carry(&event).await {
            Ok(()) => {
                counts.told.fetch_add(1, Ordering::Relaxed);
                if !works {
                    tracing::info!("hook {}: works again", C::NAME);
                }
                works = true;
            }
            Err(why) => {
                counts.failed.fetch_add(1, Ordering::Relaxed);
                if works {
                    tracing::warn!("hook {}: {why}; events that it does not take are counted, not kept", C::NAME);
                }
                works = false;
            }
        }
    }
}

/// Events that wait for a receiver.
const QUEUE: usize = 256;
