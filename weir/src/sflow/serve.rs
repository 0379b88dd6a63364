//! `weir sflow serve`: sFlow analysed in real time.

use std::collections::HashMap;
use std::net::SocketAddr;

use anyhow::Result;
use clap::Args;
use weir_program::config::{Address, Checked, Flags};
use weir_sflow::config::{Origin, Settings};
use weir_sflow::control;

use crate::Outcome;
use crate::service::{Configured, address, given};

/// `weir sflow serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir sflow serve
  weir sflow serve --listen 192.0.2.7:6343 --http 0.0.0.0:8008 --admin 127.0.0.1:9516
  weir sflow serve -c sflow.toml --check && weir sflow serve -c sflow.toml
  curl http://localhost:8008/agents/json

Without a file it listens on port 6343 of all addresses. SIGHUP reads the file again (one that is
wrong changes nothing, one that is right loses nothing), SIGUSR1 prints the ledger as JSON, SIGTERM
and Ctrl-C end with the ledger. docs/configuration.md has every key of the file.")]
pub(super) struct Serve {
    #[command(flatten)]
    configured: Configured,
    /// Where sFlow comes in [default: [::]:6343, IPv4 too]. May be given again.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address, conflicts_with = "config")]
    listen: Vec<SocketAddr>,
    /// Serve REST and Prometheus here [default: 127.0.0.1:8008].
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    http: Option<SocketAddr>,
    /// Threads that receive and analyse [default: one per CPU, 4 at most].
    #[arg(long, value_name = "N")]
    workers: Option<u16>,
}

impl Serve {
    pub(super) fn run(self) -> Result<Outcome> {
        let listeners: Vec<_> =
            self.listen.iter().map(|&address| HashMap::from([("address", Address(address))])).collect();
        let flags = Flags::default()
            .with("--listen", "listener", given(&listeners))
            .with("--http", "http", self.http.map(Address))
            .with("--workers", "workers", self.workers);
        let origin: Origin = self.configured.origin(flags);
        let mut settings = Settings::load(&origin, true);
        if self.configured.check
            && let Ok(settings) = &mut settings
        {
            let hindrance = control::hindrance(&origin, settings)?;
            settings.warnings.extend(hindrance);
        }
        let mut unsaved = None;
        let run = |settings, verbosity| {
            let ended = control::run(&origin, settings, verbosity)?;
            unsaved = ended.unsaved;
            Ok(ended.ledger)
        };
        let outcome = self.configured.run(settings, |settings| (&settings.warnings, settings.config.to_toml()), run)?;
        unsaved.map_or(Ok(outcome), Err)
    }
}
