//! `weir sflow`: sFlow, as it comes and analysed.

mod decode;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::Outcome;

/// `weir sflow`.
#[derive(Debug, Args)]
pub(super) struct Sflow {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print what is in sFlow datagrams, of a capture or as they come.
    Decode(decode::Decode),
}

impl Sflow {
    pub(super) fn run(self) -> Result<Outcome> {
        match self.command {
            Command::Decode(decode) => decode.run(),
        }
    }
}
