//! `weir monitor`: signals from stations to any number of screens.

mod check;
mod export;
mod key;
mod record;
mod replay;
mod serve;
mod station;
mod view;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::Outcome;

/// `weir monitor`.
#[derive(Debug, Args)]
pub(super) struct Monitor {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send samples of this machine to a group.
    Station(station::Station),
    /// Receive signals, watch them, and show them on a page.
    Serve(Box<serve::Serve>),
    /// Show signals on this terminal.
    View(view::View),
    /// Write what comes to files, and what does not.
    Record(record::Record),
    /// Write an archive as a table: CSV or Parquet.
    Export(export::Export),
    /// Send an archive again, at any speed.
    Replay(replay::Replay),
    /// Try the way of a group, and tell what is wrong with it.
    Check(check::Check),
    /// Make a key to sign or to encrypt with.
    Key(key::Key),
}

impl Monitor {
    pub(super) fn run(self) -> Result<Outcome> {
        match self.command {
            Command::Station(station) => station.run(),
            Command::Serve(serve) => serve.run(),
            Command::View(view) => view.run(),
            Command::Record(record) => record.run(),
            Command::Export(export) => export.run(),
            Command::Replay(replay) => replay.run(),
            Command::Check(check) => check.run(),
            Command::Key(key) => key.run(),
        }
    }
}
