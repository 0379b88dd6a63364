//! What the control thread of a service waits for: signals, and what other threads tell it.

use std::io;
use std::sync::mpsc::SyncSender;

use nix::sys::signal::Signal;

use weir_program::signals;
use weir_program::stop::Stop;

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

/// Turns signals into events, from now on also in threads that are still to be started; those that ask for the end also set `stop`, as
/// [`Stop::on_signals`] has it. A control thread that is stuck keeps no signal from being heard. `reloads`: whether there is anything to
/// read again; without, SIGHUP (the terminal is gone) asks for the end.
pub(crate) fn hear_signals<N: Send + 'static>(
    events: SyncSender<Event<N>>,
    stop: &Stop,
    reloads: bool,
) -> io::Result<()> {
    // Whoever quits a screen wants the terminal as it was.
    let mut heard = vec![Signal::SIGUSR1, Signal::SIGQUIT];
    heard.extend(signals::that_ask_for_the_end());
    if reloads && !heard.contains(&Signal::SIGHUP) {
        heard.push(Signal::SIGHUP);
    }
    stop.watch(&heard, move |signal| {
        let event = match signal {
            Signal::SIGUSR1 => Event::Account,
            Signal::SIGHUP if reloads => Event::Reload,
            _ => Event::Stop,
        };
        let is_other = !matches!(event, Event::Stop);
        // Where the queue is full, much is told already: the stop is seen behind whatever comes next, and of reloads and
        // accounts one more would tell nothing new.
        let _ = events.try_send(event);
        is_other
    })
}
