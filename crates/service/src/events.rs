//! What the control thread of a service waits for: signals, and what other threads tell it.

use std::io;
use std::process;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use nix::sys::signal::Signal;

use crate::signals::{self, Request, Requests};

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

/// Turns signals into events, from now on also in threads that are still to be started. Another that asks for the end, a
/// second after the first or later, ends the process at once, with status 128 + its number. `reloads`: whether there is
/// anything to read again; without, SIGHUP (the terminal is gone) asks for the end.
pub(crate) fn hear_signals<N: Send + 'static>(events: SyncSender<Event<N>>, reloads: bool) -> io::Result<()> {
    let mut heard = vec![Signal::SIGUSR1];
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
                Request::End => Event::Stop,
                Request::Same => return,
                Request::AtOnce => process::exit(128 + signal as i32),
            },
        };
        // The queue has an end together with the process.
        let _ = events.send(event);
    })
}
