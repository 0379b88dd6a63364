//! `weir protect`: attacks that `weir sflow serve` has found, and what is done about them.

mod act;
mod client;
mod list;
mod replay;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::Outcome;

/// `weir protect`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir protect list --token-file ~/.weir-token
  weir protect approve 17
  weir protect extend 17 2h
  weir protect add 192.0.2.7 30m
  weir protect stop
  weir protect replay yesterday.pcap -c sflow.toml
  weir protect replay packets.pcapng -c sflow.toml --sampling 1000

All but `replay` ask a running `weir sflow serve` that has [protect.access]. The token is read from
a file that nobody else may read, or from the environment's WEIR_TOKEN. docs/protect.md has the rest.")]
pub(super) struct Protect {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show attacks, the newest first, and what is done about them.
    List(list::List),
    /// Announce what waits for a person, take the next step, or take the harm upon yourself.
    Approve(act::Of),
    /// Withdraw what is announced for an attack; nothing more is done until it is over.
    Withdraw(act::Of),
    /// Let the routes of an attack live for so long from now on.
    Extend(act::Extend),
    /// Blackhole a prefix of a protected group by hand, for so long, whatever is found.
    Add(act::Add),
    /// Withdraw everything at once; nothing is announced until it is resumed, over restarts too.
    Stop(act::All),
    /// Go on after a stop.
    Resume(act::All),
    /// Tell what would have been done about a capture, and when.
    Replay(replay::Replay),
}

impl Protect {
    pub(super) fn run(self) -> Result<Outcome> {
        match self.command {
            Command::List(list) => list.run(),
            Command::Approve(of) => of.run("approve"),
            Command::Withdraw(of) => of.run("withdraw"),
            Command::Extend(extend) => extend.run(),
            Command::Add(add) => add.run(),
            Command::Stop(all) => all.run("stop"),
            Command::Resume(all) => all.run("resume"),
            Command::Replay(replay) => replay.run(),
        }
    }
}
