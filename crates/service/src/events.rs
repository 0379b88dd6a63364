//! What the control thread of a service waits for: signals, and what other threads tell it.

use std::io;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use weir_program::signals::{self, Request, Requests};

/// Something that the control thread is to see to.
#[derive(Debug)]
pub(crate) enum Event<N> {
    /// To end.
    Stop,
    /// To read the configuration again.
    Reload,
    /// To print the ledger.
    Account,
    /// News for the room.
    News(N),
}

/// Where other threads tell the control thread something. Clones lead to the same place.
#[derive(Debug)]
pub struct EventSender<N>(pub(crate) SyncSender<Event<N>>);

impl<N> EventSender<N> {
    /// Tells it without waiting; `false`: so much else waits already, or the service has ended.
    pub fn try_tell(&self, news: N) -> bool {
        self.0.try_send(Event::News(news)).is_ok()
    }
}

impl<N> Clone for EventSender<N> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// What the thread of signals and the control thread know of the end.
#[derive(Clone, Debug)]
pub(crate) struct End(Arc<(AtomicBool, AtomicU64)>);

impl End {
    pub(crate) fn new() -> Self {
        Self(Arc::new((AtomicBool::new(false), AtomicU64::new(0))))
    }

    /// Whether it was asked for while the queue was full.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.0.load(Ordering::Relaxed)
    }

    /// Says how long it may take.
    pub(crate) fn set_grace(&self, grace: Duration) {
        self.0.1.store(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn bound(&self, signal: Signal) {
        let grace = Duration::from_millis(self.0.1.load(Ordering::Relaxed)).max(signals::GRACE);
        signals::bound_the_end(signal, grace, move || {
            format!("the end took longer than {} s: something is stuck, ended at once", grace.as_secs())
        });
    }
}

/// Turns signals into events, from now on also in threads that are still to be started. Another that asks for the end, a
/// second after the first or later, ends the process at once, with status 128 + its number; and so does the time that `end`
/// allows. A control thread that is stuck keeps no signal from being heard. `reloads`: whether there is
/// anything to read again; without, SIGHUP (the terminal is gone) asks for the end.
pub(crate) fn hear_signals<N: Send + 'static>(events: SyncSender<Event<N>>, end: End, reloads: bool) -> io::Result<()> {
    // Whoever quits a screen wants the terminal as it was.
    let mut heard = vec![Signal::SIGUSR1, Signal::SIGQUIT];
    heard.extend(signals::that_ask_for_the_end());
    if reloads && !heard.contains(&Signal::SIGHUP) {
        heard.push(Signal::SIGHUP);
    }
    let mut requests = Requests::default();
    signals::watch(&heard, move |signal| {
        let event = match signal {
            Signal::SIGUSR1 => Event::Account,
            Signal::SIGHUP if reloads => Event::Reload,
            _ => match requests.hear(Instant::now()) {
                Request::End => {
                    end.bound(signal);
                    Event::Stop
                }
                Request::Same => return,
                Request::AtOnce => process::exit(128 + signal as i32),
            },
        };
        // Where the queue is full, much is told already: the end is seen behind whatever comes next, and of reloads and
        // accounts one more would tell nothing new.
        if let Err(TrySendError::Full(Event::Stop)) = events.try_send(event) {
            end.0.0.store(true, Ordering::Relaxed);
        }
    })
}
