//! `weir monitor`: signals from stations to any number of screens.

mod serve;

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
    /// Receive signals, watch them, and show them on a page.
    Serve(Box<serve::Serve>),
}

impl Monitor {
    pub(super) fn run(self) -> Result<Outcome> {
        match self.command {
            Command::Serve(serve) => serve.run(),
        }
    }
}
