//! `weir monitor record`: what comes, and what does not, into files.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use weir_monitor::record;
use weir_monitor::record::config::begin;
use weir_program::config::{Checked, Flags};
use weir_units::{Size, Span};

use super::listens;
use super::replay::address;
use crate::service::{Configured, given};
use crate::{Outcome, usage};

/// `weir monitor record`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir monitor record --dir /data
  weir monitor record --listen 239.192.77.1 --interface eth1 --dir /data --prefix shot-4711 --cut-after 5min
  weir monitor record --listen 0.0.0.0:5111 --dir /data --leave 50GiB
  weir monitor record -c record.toml --check && weir monitor record -c record.toml

Writes MCAP files, which Foxglove and PlotJuggler open, as samples come. Up to its last whole chunk a
file can be read whatever happens; what did not come, or could not be written, is in it as a gap with
its cause. No file that is there is ever written to. SIGUSR1 prints the ledger as JSON, SIGTERM and
Ctrl-C write what has come and end with the ledger. docs/monitor-archive.md
explains every key.")]
pub(super) struct Record {
    #[command(flatten)]
    configured: Configured,
    /// A group, or an address of this machine [default: 239.192.77.1:5110]. May be given again.
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = address, conflicts_with = "config")]
    listen: Vec<SocketAddr>,
    /// Of groups: the interface to join them on [default: where a route leads].
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    interface: Option<String>,
    /// Of groups: the one source to hear [default: any].
    #[arg(long, value_name = "ADDR", conflicts_with = "config")]
    source: Option<IpAddr>,
    /// The directory of files [default: this one].
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    dir: Option<PathBuf>,
    /// What names of files begin with [default: weir].
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    prefix: Option<String>,
    /// Begin another file after so many bytes [default: 1GiB].
    #[arg(long, value_name = "SIZE", conflicts_with = "config")]
    cut_size: Option<Size>,
    /// Begin another file after this time [default: 15min].
    #[arg(long, value_name = "TIME", conflicts_with = "config")]
    cut_after: Option<Span>,
    /// Leave so much of the disk to others, 8MiB at least [default: 1GiB].
    #[arg(long, value_name = "SIZE", conflicts_with = "config")]
    leave: Option<Size>,
    /// What may wait for the disk, in memory [default: 64MiB].
    #[arg(long, value_name = "SIZE", conflicts_with = "config")]
    queue: Option<Size>,
}

impl Record {
    pub(super) fn run(self) -> Result<Outcome> {
        let listen = usage(listens(&self.listen, self.interface.as_deref(), self.source))?;
        let flags = Flags::default()
            .with("--listen", "listen", given(&listen))
            .with("--dir", "directory", self.dir.as_ref())
            .with("--prefix", "prefix", self.prefix.as_ref())
            .with("--cut-size", "cut_size", self.cut_size)
            .with("--cut-after", "cut_after", self.cut_after)
            .with("--leave", "leave", self.leave)
            .with("--queue", "queue", self.queue);
        let origin = self.configured.origin(flags);
        let config = begin(&origin, self.configured.check);
        let run = |(config, _), verbosity| record::run(&origin, &config, verbosity);
        self.configured.run(config, |(config, warnings)| (warnings, config.to_toml()), run)
    }
}
