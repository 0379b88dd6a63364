//! `weir monitor`: signals from stations to any number of screens.

mod key;
mod station;

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
    /// Make a key to sign or to encrypt with.
    Key(key::Key),
}

impl Monitor {
    pub(super) fn run(self) -> Result<Outcome> {
        match self.command {
            Command::Station(station) => station.run(),
            Command::Key(key) => key.run(),
        }
    }
}
