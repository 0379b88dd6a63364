//! `weir monitor station`: samples of this machine, to a group.

use anyhow::Result;
use clap::Args;
use weir_monitor::station::config::{self, Source};
use weir_monitor::station::control;
use weir_program::config::{Checked, Flags};
use weir_units::{Frequency, Span};

use crate::Outcome;
use crate::service::{Configured, given};

/// `weir monitor station`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir monitor station
  weir monitor station --interface eth0 --source sine,name=coil,rate=10k/s,frequency=50/s
  weir monitor station --source udp,listen=127.0.0.1:8094,format=influx,rate=10/s
  sensor | weir monitor station --source stdin,format=csv,rate=100/s
  weir monitor station -c station.toml --check && weir monitor station -c station.toml

Sends samples of its sources to a multicast group, thinned to buckets that keep peaks (least,
greatest, first, last), and with `full_to` chosen channels at their full rate beside. Without a
source it sends this machine's own metrics. SIGHUP reads the file again, SIGUSR1 prints the ledger
as JSON, SIGTERM and Ctrl-C send the last samples and end with the ledger. docs/monitor.md explains
every key of the file, docs/signal.md every byte that is sent.")]
pub(super) struct Station {
    #[command(flatten)]
    configured: Configured,
    /// By which others know it [default: the host's name].
    #[arg(long, conflicts_with = "config")]
    name: Option<String>,
    /// Group or host that it sends to; a second one gets the same bytes [default: 239.192.77.1:5110].
    #[arg(long, value_name = "ADDR[:PORT]", conflicts_with = "config")]
    to: Vec<String>,
    /// Interface to send through: one for all, or one for each --to [default: where a route leads].
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    interface: Vec<String>,
    /// Hops to groups [default: 1].
    #[arg(long, value_name = "N", conflicts_with = "config")]
    ttl: Option<u8>,
    /// Where samples come from: `sine,name=coil,rate=1k/s`. May be given again [default: host].
    #[arg(long, value_name = "KIND[,KEY=VALUE...]", value_parser = config::source, conflicts_with = "config")]
    source: Vec<Source>,
    /// Buckets a second of each channel; 0: each sample [default: 200/s].
    #[arg(long, value_name = "RATE", conflicts_with = "config")]
    display: Option<Frequency>,
    /// Longest time from a sample to its datagram [default: 10ms].
    #[arg(long, value_name = "TIME", conflicts_with = "config")]
    delay: Option<Span>,
}

impl Station {
    pub(super) fn run(self) -> Result<Outcome> {
        let flags = Flags::default()
            .with("--name", "name", self.name.as_ref())
            .with("--to", "to", given(&self.to))
            .with("--interface", "interface", given(&self.interface))
            .with("--ttl", "ttl", self.ttl)
            .with("--display", "display", self.display)
            .with("--delay", "delay", self.delay)
            .with("--source", "source", given(&self.source));
        let origin = self.configured.origin(flags);
        let config = config::begin(&origin, self.configured.check);
        let run = |config, verbosity| control::run(&origin, &config, verbosity);
        self.configured.run(config, |config| (&[], config.to_toml()), run)
    }
}
