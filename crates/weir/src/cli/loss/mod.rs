//! `weir loss`: where datagrams were lost, and what to change.

mod account;
mod check;
mod watch;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::Outcome;

/// `weir loss`.
#[derive(Debug, Args)]
pub(super) struct Loss {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Follow chosen traffic and account for every datagram, by place.
    Account(account::Account),
    /// Watch sockets, their buffers and drops live.
    Watch(watch::Watch),
    /// Audit this machine for a stated load, and mend it.
    Check(check::Check),
}

impl Loss {
    pub(super) fn run(self) -> Result<Outcome> {
        match self.command {
            Command::Account(account) => account.run(),
            Command::Watch(watch) => watch.run(),
            Command::Check(check) => check.run(),
        }
    }
}
