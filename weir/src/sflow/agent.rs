//! `weir sflow agent`: this machine as an sFlow agent.

use std::net::IpAddr;

use anyhow::Result;
use clap::Args;
use weir_agent::config::{Collector, Config, To};
use weir_agent::control;
use weir_program::config::{Checked, Flags, Origin};
use weir_units::{Frequency, Span};

use crate::Outcome;
use crate::service::{Configured, given};

/// `weir sflow agent`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir sflow agent --to collector.example
  weir sflow agent --to 192.0.2.7 --to 192.0.2.8:6344 --interface 'eth*' --sampling 500
  weir sflow agent -c agent.toml --check && weir sflow agent -c agent.toml

Sends counters of interfaces and of the machine, samples of packets, and the packets that the kernel
drops, with its reasons. Counters need no privilege, samples CAP_NET_RAW and CAP_BPF, drops CAP_BPF
and CAP_PERFMON; all of it is given up once attached. SIGHUP reads the file again, SIGUSR1 prints
the ledger as JSON, SIGTERM and Ctrl-C send the last samples and end with the ledger.
docs/configuration.md has every key of the file.")]
pub(super) struct Agent {
    #[command(flatten)]
    configured: Configured,
    /// Who is told: an address or a host name, and a port [default: 6343]. May be given again.
    #[arg(long, value_name = "HOST[:PORT]", value_parser = |text: &str| To::try_from(text.to_owned()), conflicts_with = "config")]
    to: Vec<To>,
    /// The address by which collectors know this machine [default: the one it reaches the first of them from].
    #[arg(long, value_name = "ADDR", conflicts_with = "config")]
    agent: Option<IpAddr>,
    /// Interfaces to count and sample; `*` stands for any characters [default: all but loopback]. May be given again.
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    interface: Vec<String>,
    /// From one counter sample to the next [default: 20s].
    #[arg(long, value_name = "TIME", conflicts_with = "config")]
    polling: Option<Span>,
    /// Sample one of N packets; 0: none [default: as many as the interface has Mbit/s].
    #[arg(long, value_name = "N", conflicts_with = "config")]
    sampling: Option<u32>,
    /// Send so many flow samples at most; the others are shed, and counted [default: 1000/s].
    #[arg(long, value_name = "RATE", conflicts_with = "config")]
    samples: Option<Frequency>,
    /// Tell of so many dropped packets at most, the others are counted; 0: none [default: 100/s].
    #[arg(long, value_name = "RATE", conflicts_with = "config")]
    drops: Option<Frequency>,
}

impl Agent {
    pub(super) fn run(self) -> Result<Outcome> {
        let collectors: Vec<_> = self.to.iter().map(|to| Collector { to: to.clone() }).collect();
        let flags = Flags::default()
            .with("--agent", "agent", self.agent)
            .with("--interface", "interfaces", given(&self.interface))
            .with("--polling", "polling", self.polling)
            .with("--sampling", "sampling", self.sampling)
            .with("--samples", "samples", self.samples)
            .with("--drops", "drops", self.drops)
            .with("--to", "collector", given(&collectors));
        let origin: Origin<Config> = self.configured.origin(flags);
        let run = |config, verbosity| control::run(&origin, config, verbosity);
        self.configured.run(origin.load(), |config| (&[], config.to_toml()), run)
    }
}
