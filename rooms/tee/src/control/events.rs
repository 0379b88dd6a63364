//! What the control thread waits for.

use std::io;
use std::process;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use nix::sys::signal::Signal;
use weir_service::signals::{self, Request, Requests};

use crate::resolve;

/// Something that the control thread is to see to.
#[derive(Debug)]
pub(super) enum Event {
    /// To end.
    Stop,
    /// To read the configuration again.
    Reload,
    /// To print the ledger.
    Account,
    /// A host name means something else.
    Name(resolve::Event),
}

/// Turns signals into events, from now on also in threads that are still to be started. Another that asks for the end, a
/// second after the first or later, ends the process at once, with status 128 + its number. `reloads`: whether there is
/// anything to read again; without, SIGHUP (the terminal is gone) asks for the end.
pub(super) fn hear_signals(events: SyncSender<Event>, reloads: bool) -> io::Result<()> {
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
