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
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

pub use event::{Event, is_told};
use weir_program::config::Address;
use weir_program::ledger;
use weir_program::ledger::Shared;

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
    queue: mpsc::Sender<Arc<Event>>,
    count: Arc<Count>,
}

ledger! {
    /// What became of the events of a receiver.
    pub struct Count by receiver {
        /// `command` or `syslog`.
        receiver: &'static str,
        /// Those that it took.
        told: Shared,
        /// Those that it did not take, or not in time.
        failed: Shared,
        /// Those that its queue had no room for.
        dropped: Shared,
    } together {
        /// Events by receiver and outcome: told, failed, dropped (its queue was full).
        Counter "weir_protect_hook_events" {receiver, outcome}: told, failed, dropped;
    }
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
        let count = Arc::new(Count { receiver: C::NAME, ..Count::default() });
        runtime.spawn(carry(carrier, events, count.clone()));
        self.receivers.push(Receiver { queue, count });
    }

    /// Tells all receivers, some time soon. Never waits.
    pub fn tell(&self, event: Event) {
        let event = Arc::new(event);
        for receiver in &self.receivers {
            if receiver.queue.try_send(event.clone()).is_err() {
                receiver.count.dropped.add(1);
            }
        }
    }

    /// What became of all events.
    pub fn counts(&self) -> Vec<Count> {
        self.receivers.iter().map(|receiver| Count::clone(&receiver.count)).collect()
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
async fn carry<C: Carrier>(mut carrier: C, mut events: mpsc::Receiver<Arc<Event>>, count: Arc<Count>) {
    let mut works = true;
    while let Some(event) = events.recv().await {
        match carrier.carry(&event).await {
            Ok(()) => {
                count.told.add(1);
                if !works {
                    tracing::info!("hook {}: works again", C::NAME);
                }
                works = true;
            }
            Err(why) => {
                count.failed.add(1);
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
