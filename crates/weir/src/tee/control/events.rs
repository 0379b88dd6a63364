//! What the control thread waits for.

use std::io;
use std::process;
use std::sync::mpsc::SyncSender;

use nix::sys::signal::Signal;

use crate::service::signals;
use crate::tee::resolve;

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

/// Turns signals into events, from now on also in threads that are still to be started. The second that asks for the end
/// ends the process at once, with status 128 + its number. `reloads`: whether there is anything to read again; without,
/// SIGHUP (the terminal is gone) asks for the end.
pub(super) fn hear_signals(events: SyncSender<Event>, reloads: bool) -> io::Result<()> {
    let mut stopping = false;
    signals::watch(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGUSR1], move |signal| {
        let event = match signal {
            Signal::SIGUSR1 => Event::Account,
            Signal::SIGHUP if reloads => Event::Reload,
            _ if std::mem::replace(&mut stopping, true) => process::exit(128 + signal as i32),
            _ => Event::Stop,
        };
        // The queue has an end together with the process.
        let _ = events.send(event);
    })
}
