//! What a room is to the service that runs it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;

use crate::metrics::Samples;
use crate::setup::Fixed;
use weir_program::signals::GRACE;

/// A long-running room, as its control thread drives it. All of it happens on that thread, one thing after the other;
/// each is a piece of work by which the watchdog sees that the thread lives.
pub trait Room {
    /// What its threads tell its control thread ([`Service::events`](crate::Service::events)); rooms without such have
    /// [`std::convert::Infallible`].
    type News: Send + 'static;
    /// Itself, as other threads see it.
    type State: Observable;
    /// What it does between the stop and its end: `sending what was received`.
    const ENDING: &'static str;

    /// Itself, as other threads see it.
    fn state(&self) -> Arc<Self::State>;

    /// How much of what it does, in a few words: `2 listeners, 3 destinations`.
    fn status(&self) -> String;

    /// Everything is started: says what there is to say, and returns when to look first.
    fn begin(&mut self) -> Instant;

    /// Looks after what changes by itself, and returns when to look again; `None`: its work is done.
    fn look(&mut self) -> Option<Instant>;

    /// News of its threads.
    fn hear(&mut self, _news: Self::News) {}

    /// Reads its configuration again and carries it out: all of it, or with an error none. Returns what it says of the
    /// process, which does not change. Called only where there is a file ([`Launch::file`](crate::Launch::file)).
    ///
    /// # Errors
    /// One line: what is wrong with the file, or what the kernel refuses of it.
    fn reload(&mut self) -> Result<Fixed> {
        bail!("there is nothing to reload")
    }

    /// Ends its threads, after what they have begun.
    fn end(&mut self);

    /// For how long the end may take, everything included: then the process is ended, whatever is stuck. Asked for at the
    /// start and after each reload.
    fn grace(&self) -> Duration {
        GRACE
    }
}

/// A room as seen from other threads: by scrapers, probes, whoever reads its ledger. Answers at once, from counters.
pub trait Observable: Send + Sync + 'static {
    /// Its account; keys are strings, so that it has a form in JSON.
    type Ledger: Serialize;

    /// Its samples; those of the process are added.
    fn metrics(&self, samples: &mut Samples<'_>);

    /// Its account now.
    fn ledger(&self) -> Self::Ledger;

    /// Whether it does its job now, so that traffic may be led to it; else why not, in one line.
    fn ready(&self) -> Result<(), String>;
}
