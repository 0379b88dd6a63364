//! `weir loss watch`.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use weir_loss::subject::Process;
use weir_loss::watch::settings::WatchOptions;
use weir_loss::watch::{self, Options};
use weir_units::Span;

use super::{Tracing, namespaces};
use crate::service::Service;
use crate::{Outcome, usage};

/// `weir loss watch`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir loss watch
  weir loss watch --port 5000 --netns all
  weir loss watch --json --duration 1m | jq .drops
  weir loss watch --admin 127.0.0.1:9515

On a terminal it shows a screen, elsewhere a line every 5 s. Without privilege it shows what
sock_diag and /proc tell, and says what is then unknown: eBPF needs CAP_BPF and CAP_PERFMON, other
namespaces CAP_SYS_ADMIN, the names of other users' processes CAP_SYS_PTRACE. docs/loss.md explains
every column and every field.")]
pub(super) struct Watch {
    /// Only sockets bound to this port, and drops on their way to it. May be given again.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// Network namespace by name, process or path; `all`: every one. May be given again [default: its own].
    #[arg(long, value_name = "NAME|PID|PATH")]
    netns: Vec<String>,
    /// Only sockets of this process, and drops on their way to its ports.
    #[arg(long, value_name = "PID|NAME")]
    process: Option<Process>,
    /// From one reading to the next.
    #[arg(long, value_name = "SPAN", default_value = "1s")]
    interval: Span,
    /// How much to trace by eBPF; `everything` tells who runs instead of the reader, too.
    #[arg(long, value_enum, default_value = "queues")]
    trace: Tracing,
    /// End after this time [default: never].
    #[arg(long, value_name = "SPAN")]
    duration: Option<Span>,
    /// Print one JSON object a line each interval.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    service: Service,
}

impl Watch {
    pub(super) fn run(self) -> Result<Outcome> {
        usage(self.check())?;
        let settings = WatchOptions {
            ports: self.port.clone(),
            namespaces: usage(namespaces(&self.netns))?,
            process: self.process.clone(),
            trace: self.trace.detail(),
            interval: self.interval.duration(),
        };
        let duration = self.duration.map(Duration::from);
        watch::run(&settings, Options { json: self.json, duration, launch: self.service.launch() })?;
        Ok(Outcome::Done)
    }

    fn check(&self) -> Result<()> {
        let interval = self.interval.duration();
        ensure!(interval >= SHORTEST, "--interval {}: shorter than {SHORTEST:?}", self.interval);
        Ok(())
    }
}

/// Reading takes milliseconds where there are many sockets.
const SHORTEST: Duration = Duration::from_millis(100);
