//! `weir tee`: every datagram, whole, to every destination.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use weir_forward::settings::{Source, Target};
use weir_program::config::{Address, Flags};
use weir_tee::config::document::Join;
use weir_tee::config::{Config, Origin};
use weir_tee::control::{self, Options};
use weir_units::Size;

use crate::service::{Configured, address, given};
use crate::{Outcome, usage};

/// `weir tee`.
#[derive(Debug, Args)]
#[command(mut_arg("config", |config| config.required_unless_present_all(["listen", "to"])
    .help("TOML file with listeners, destinations, groups and rules; SIGHUP reads it again")))]
#[command(after_help = "\
Examples:
  weir tee --listen 0.0.0.0:514 --to 10.0.0.5:514 --to [2001:db8::5]:514
  weir tee --listen 239.1.1.1:5000 --to siem.example:5000 --admin 127.0.0.1:9514
  weir tee -c tee.toml --check && weir tee -c tee.toml

Signals: SIGHUP reads the file again (one that is wrong changes nothing), SIGUSR1 prints the ledger
as JSON, SIGTERM and Ctrl-C send what was received and end with the ledger; a second one ends at
once. docs/tee.md explains every key of the file and every term of the ledger.")]
pub(super) struct Tee {
    #[command(flatten)]
    configured: Configured,
    /// Where datagrams come in; a multicast group is joined. May be given again.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address, conflicts_with = "config", requires = "to")]
    listen: Vec<SocketAddr>,
    /// Where each of them goes: an address, a multicast group or a host name, and a port. May be given again.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "config", requires = "listen")]
    to: Vec<Target>,
    /// What destinations see as the source: this machine, the original sender (needs CAP_NET_RAW), or this machine with
    /// the original in a PROXY protocol header before each payload [default: own].
    #[arg(long, value_parser = Source::ALL.map(Source::name), conflicts_with = "config")]
    source: Option<String>,
    /// Interface for multicast, in and out [default: as routed].
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    interface: Option<String>,
    /// Receive buffer to ask for; 0: the kernel's default [default: 8MiB].
    #[arg(long, value_name = "SIZE", conflicts_with = "config")]
    receive_buffer: Option<Size>,
    /// Threads that move datagrams [default: one a processor, 4 at most].
    #[arg(long, value_name = "N")]
    workers: Option<u16>,
    /// Show the ledger live, on this terminal.
    #[arg(long, conflicts_with = "check")]
    watch: bool,
}

impl Tee {
    pub(super) fn run(self) -> Result<Outcome> {
        let origin: Origin = self.configured.origin(usage(self.flags())?);
        let run = |config, verbosity| control::run(&origin, config, Options { watch: self.watch, verbosity });
        let config = Config::load(&origin).and_then(Config::startable);
        self.configured.run(config, |config| (&config.warnings, config.to_toml()), run)
    }

    /// What the flags say as a file would.
    fn flags(&self) -> Result<Flags> {
        let is_group = |to: &Target| matches!(to, Target::Address(address) if address.ip().is_multicast());
        let groups = self.listen.iter().any(|address| address.ip().is_multicast()) || self.to.iter().any(is_group);
        if let (Some(interface), false) = (&self.interface, groups) {
            bail!("--interface {interface}: there is no multicast group among --listen and --to");
        }
        let join = |group: IpAddr| Join { group, source: None, interface: self.interface.clone() };
        let listener = |&address: &SocketAddr| Listen {
            address: Address(address),
            join: address.ip().is_multicast().then(|| join(address.ip())),
            receive_buffer: self.receive_buffer,
        };
        let destination = |to: &Target| To {
            to: to.clone(),
            source: self.source.as_deref(),
            interface: self.interface.as_deref().filter(|_| is_group(to)),
        };
        let listeners: Vec<_> = self.listen.iter().map(listener).collect();
        let destinations: Vec<_> = self.to.iter().map(destination).collect();
        Ok(Flags::default()
            .with("--workers", "workers", self.workers)
            .with("--listen", "listener", given(&listeners))
            .with("--to", "destination", given(&destinations)))
    }
}

/// A `[[listener]]`.
#[derive(Serialize)]
struct Listen {
    address: Address,
    join: Option<Join>,
    receive_buffer: Option<Size>,
}

/// A `[[destination]]`.
#[derive(Serialize)]
struct To<'a> {
    to: Target,
    source: Option<&'a str>,
    interface: Option<&'a str>,
}
