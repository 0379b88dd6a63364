//! Whom the room tells by itself: a program, syslog.
//!
//! ```text
//! guard: tell(event) --> a bounded queue a receiver --> a thread each
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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

pub use event::{Event, is_told};
use weir_program::config::Address;
use weir_program::ledger;
use weir_program::ledger::Shared;

use crate::config::document::Hooks as Settings;

/// The receivers, which are told until this is dropped.
#[derive(Debug, Default)]
pub struct Hooks {
    receivers: Vec<Receiver>,
    /// What waits then is for nobody, and a program that runs is killed.
    ends: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Receiver {
    queue: SyncSender<Arc<Event>>,
    thread: JoinHandle<()>,
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

    /// Why it could not, in one line. `ends`: nobody waits for it any more.
    fn carry(&mut self, event: &Event, ends: &AtomicBool) -> Result<(), String>;
}

impl Hooks {
    /// Starts a thread for each who is to be told.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(settings: &Settings) -> std::io::Result<Self> {
        let mut hooks = Self::default();
        if !settings.command.is_empty() {
            hooks.add(command::Program::new(settings.command.clone(), settings.timeout.duration()))?;
        }
        if let Some(Address(address)) = settings.syslog {
            hooks.add(syslog::Sender::new(address))?;
        }
        Ok(hooks)
    }

    fn add<C: Carrier>(&mut self, carrier: C) -> std::io::Result<()> {
        let (queue, events) = sync_channel(QUEUE);
        let count = Arc::new(Count { receiver: C::NAME, ..Count::default() });
        let (counts, ends) = (count.clone(), self.ends.clone());
        let thread = thread::Builder::new().name("hooks".into());
        let thread = thread.spawn(move || carry(carrier, &events, &counts, &ends))?;
        self.receivers.push(Receiver { queue, thread, count });
        Ok(())
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
        self.ends.store(true, Ordering::Relaxed);
        for Receiver { queue, thread, .. } in self.receivers.drain(..) {
            drop(queue);
            // A panic on that thread has been told on stderr already.
            let _ = thread.join();
        }
    }
}

/// Carries events one after another.
fn carry<C: Carrier>(mut carrier: C, events: &mpsc::Receiver<Arc<Event>>, count: &Count, ends: &AtomicBool) {
    let mut works = true;
    for event in events.iter().take_while(|_| !ends.load(Ordering::Relaxed)) {
        let carried = carrier.carry(&event, ends);
        match &carried {
            Ok(()) if works => {}
            Ok(()) => tracing::info!("hook {}: works again", C::NAME),
            Err(why) if works => {
                tracing::warn!("hook {}: {why}; events that it does not take are counted, not kept", C::NAME);
            }
            Err(_) => {}
        }
        works = carried.is_ok();
        let outcome = if works { &count.told } else { &count.failed };
        outcome.add(1);
    }
}

/// Events that wait for a receiver.
const QUEUE: usize = 256;
