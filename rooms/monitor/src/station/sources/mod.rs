//! Where samples come from. Each source shows what is due to the board, and says when it has more.

mod clocked;
mod generator;
mod host;
mod points;
mod stream;
#[cfg(test)]
mod tests;
mod udp;

use std::os::fd::BorrowedFd;

use anyhow::Result;
use weir_program::clock::Nanos;

use super::board::Board;
use super::ledger::SourceCount;
use super::settings::{Kind, Source as Settings};

/// Where samples come from.
pub(super) trait Source: Send {
    /// Shows the board what is due by its clock.
    ///
    /// # Errors
    /// One line: the source has failed, and is over.
    fn take(&mut self, board: &mut Board) -> Result<Next>;

    /// Readable, when it has something.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// What became of what it got.
    fn count(&self) -> SourceCount {
        SourceCount::default()
    }
}

/// When a source is to be asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// By the clock of the station, or when its descriptor is readable.
    At(Nanos),
    /// When its descriptor is readable.
    Readable,
    /// There is nothing more.
    Over,
}

/// Opens a source, the so-manieth.
///
/// # Errors
/// One line: its file or its address cannot be opened.
pub(super) fn open(number: usize, settings: &Settings) -> Result<Box<dyn Source>> {
    Ok(match &settings.kind {
        Kind::Wave(shape, wave) => Box::new(generator::Waves::new(number, settings, *shape, wave)),
        Kind::Host => Box::new(host::Host::new(number, settings)),
        Kind::Stdin(feed) => Box::new(stream::Stream::stdin(number, settings, feed)?),
        Kind::Tail(path, feed) => Box::new(stream::Stream::tail(number, settings, path, feed)?),
        Kind::Udp(listen, feed) => Box::new(udp::Udp::bind(number, settings, *listen, feed)?),
    })
}

/// How it misses samples, and what to do.
pub(super) fn missing(settings: &Settings) -> (&'static str, &'static str) {
    match &settings.kind {
        Kind::Wave(..) => (
            "stood_still",
            "this program stood still for more than a second, or has no time for so many: fewer channels, a lower `rate`, or a machine \
             that is less busy",
        ),
        Kind::Host => ("stood_still", "it was read too late, or an interface was gone: a lower `rate`"),
        Kind::Stdin(_) | Kind::Tail(..) | Kind::Udp(..) => {
            ("skipped", "points came for some slots and not for others: lower `rate` to what comes")
        }
    }
}

/// What it is called in messages.
pub(super) fn name(settings: &Settings) -> String {
    let kind = match &settings.kind {
        Kind::Wave(..) => "generator",
        Kind::Host => "host",
        Kind::Stdin(_) => "standard input",
        Kind::Tail(path, _) => return path.display().to_string(),
        Kind::Udp(listen, _) => return format!("udp {listen}"),
    };
    if settings.name.is_empty() { kind.to_owned() } else { format!("{kind} {}", settings.name) }
}
