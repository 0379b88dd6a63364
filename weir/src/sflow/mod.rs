//! `weir sflow`: sFlow, as it comes and analysed.

mod agent;
mod decode;
mod serve;

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
    /// Analyse sFlow in real time: rates, flows and events over REST and Prometheus.
    Serve(serve::Serve),
    /// Tell collectors what this machine's interfaces carry, what it does, and what it drops.
    Agent(agent::Agent),
    /// Print what is in sFlow datagrams, of a capture or as they come.
    Decode(decode::Decode),
}

impl Sflow {
    pub(super) fn run(self) -> Result<Outcome> {
        match self.command {
            Command::Serve(serve) => serve.run(),
            Command::Agent(agent) => agent.run(),
            Command::Decode(decode) => decode.run(),
        }
    }
}
