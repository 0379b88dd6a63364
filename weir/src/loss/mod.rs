//! `weir loss`: where datagrams were lost, and what to change.

mod account;
mod check;
mod watch;

use std::net::IpAddr;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use weir_loss::watch::settings::Where;
use weir_trace::Detail;

use crate::Outcome;

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

/// How much to trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tracing {
    /// Sent, departed, arrived, queued, read and dropped datagrams.
    Everything,
    /// Queued, read and dropped datagrams.
    Queues,
    /// Dropped datagrams.
    Drops,
    /// Nothing: counters alone.
    Off,
}

impl Tracing {
    /// As the kernel's tracer has it; `None`: off.
    fn detail(self) -> Option<Detail> {
        match self {
            Tracing::Everything => Some(Detail::Everything),
            Tracing::Queues => Some(Detail::Queues),
            Tracing::Drops => Some(Detail::Drops),
            Tracing::Off => None,
        }
    }
}

/// The values of `--netns`.
fn namespaces(named: &[String]) -> Result<Where> {
    match named {
        [] => Ok(Where::Own),
        [all] if all == "all" => Ok(Where::All),
        several if several.iter().any(|name| name == "all") => bail!("--netns all: with no other"),
        named => Ok(Where::Named(named.to_vec())),
    }
}

/// A multicast group.
fn group(text: &str) -> Result<IpAddr, String> {
    let address: IpAddr = text.parse().map_err(|_| format!("`{text}`: write an address, e.g. 239.1.1.1"))?;
    if address.is_multicast() {
        Ok(address)
    } else {
        Err(format!("`{text}`: no multicast address (224.0.0.0/4 or ff00::/8)"))
    }
}
