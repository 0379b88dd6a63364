//! `weir loss check`: this machine against a stated load.

use std::env;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{process, thread};

use anyhow::{Context, Result, bail};
use clap::Args;
use weir_loss::check;
use weir_loss::check::facts::Scope;
use weir_loss::check::load::Stated;
use weir_loss::subject::Process;
use weir_program::output::complain;
use weir_program::stop::Stop;
use weir_units::{Frequency, Size, Span};

use super::group;
use crate::{Outcome, print_result, usage};

/// `weir loss check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir loss check --port 5000
  weir loss check --rate 50k/s --payload 200B --stall 40ms
  sudo weir loss check --port 5000 --receive-buffer 4MiB --apply
  sudo weir loss check --rate 50k/s --payload 200B --stall 40ms --apply
  sudo weir loss check --undo

What of the load is not given is taken from what comes for some seconds, to the port or process, or to
the socket that loses most. Prints what is wrong, with its evidence and the command that mends it. Exit status 3: something is
wrong (still). docs/loss.md explains every finding.")]
pub(super) struct Check {
    /// Datagrams that arrive, e.g. 50k/s.
    #[arg(long, value_name = "RATE")]
    rate: Option<Frequency>,
    /// UDP payload of each.
    #[arg(long, value_name = "SIZE")]
    payload: Option<Size>,
    /// The longest time for which the receiver does not read: garbage collection, a disk that is flushed.
    #[arg(long, value_name = "TIME")]
    stall: Option<Span>,
    /// What a program is to ask for (SO_RCVBUF), in place of what the load needs.
    #[arg(long, value_name = "SIZE")]
    receive_buffer: Option<Size>,
    /// A port that a running program receives at. May be given again.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// A running program that receives.
    #[arg(long, value_name = "PID|NAME")]
    process: Option<Process>,
    /// The interface that datagrams come in by [default: all that are up].
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// The multicast group that is received.
    #[arg(long, value_name = "ADDR", value_parser = group)]
    group: Option<IpAddr>,
    /// The network namespace to look at [default: this one].
    #[arg(long, value_name = "NAME|PID|PATH")]
    netns: Option<String>,
    /// Mend what can be mended, one by one.
    #[arg(long)]
    apply: bool,
    /// Put back what --apply has changed.
    #[arg(long, conflicts_with_all = ["apply", "rate", "payload", "stall", "receive_buffer", "port", "process",
        "interface", "group", "netns"])]
    undo: bool,
    /// Where changes are recorded before they are made [default: loss-check.json in /var/lib/weir, or in
    /// $STATE_DIRECTORY].
    #[arg(long, value_name = "FILE")]
    changes: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(self) -> Result<Outcome> {
        let changes = self.changes.clone().unwrap_or_else(|| default_changes(env::var_os("STATE_DIRECTORY")));
        if self.undo {
            let report = check::undo(&changes)?;
            print_result(&report, self.json)?;
            return match report.failed() {
                0 if report.is_unmet() => Ok(Outcome::Unmet),
                0 => Ok(Outcome::Done),
                failed => bail!("{failed} of {} changes could not be put back: see above", report.undone.len()),
            };
        }
        let load = usage(self.load())?;
        let check = check::Check {
            load,
            receive_buffer: self.receive_buffer,
            scope: Scope { ports: self.port, process: self.process, interface: self.interface, group: self.group },
            netns: self.netns,
            changes: self.apply.then_some(changes),
        };
        if let Some(changes) = &check.changes {
            tell_when_interrupted(changes).context("watch for Ctrl-C")?;
        }
        let report = check.run()?;
        print_result(&report, self.json)?;
        Ok(if report.is_unmet() { Outcome::Unmet } else { Outcome::Done })
    }

    fn load(&self) -> Result<Stated> {
        if let Some(rate) = self.rate.filter(|rate| rate.micro_hertz == 0) {
            bail!("--rate {rate}: nothing arrives, nothing can be lost; write e.g. 50k/s");
        }
        if let Some(payload) = self.payload.filter(|payload| payload.bytes > MOST_PAYLOAD) {
            bail!("--payload {payload}: a datagram holds at most {MOST_PAYLOAD}B");
        }
        Ok(Stated { rate: self.rate, payload: self.payload, stall: self.stall })
    }
}

/// What is changed is recorded before, so the program may end at any moment; but it says what to do then.
fn tell_when_interrupted(changes: &Path) -> Result<()> {
    let stop = Stop::on_signals()?;
    let changes = changes.to_owned();
    thread::Builder::new().name("interrupted".into()).spawn(move || {
        while !stop.wait(Instant::now() + Duration::from_secs(3600)) {}
        complain!(
            "weir: interrupted: what was changed stays until `weir loss check --undo --changes {}`",
            changes.display()
        );
        process::exit(1);
    })?;
    Ok(())
}

/// systemd names several directories with colons in between.
fn default_changes(state: Option<OsString>) -> PathBuf {
    let state = state.and_then(|state| Some(state.to_str()?.split(':').next()?.to_owned()));
    PathBuf::from(state.filter(|state| !state.is_empty()).unwrap_or_else(|| "/var/lib/weir".into()))
        .join("loss-check.json")
}

/// Of UDP over IPv4.
const MOST_PAYLOAD: u64 = 65_507;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_recorded_where_services_keep_their_state() {
        let of = |state: Option<&str>| default_changes(state.map(OsString::from)).display().to_string();
        assert_eq!(of(None), "/var/lib/weir/loss-check.json");
        assert_eq!(of(Some("/var/lib/w:/var/lib/x")), "/var/lib/w/loss-check.json");
        assert_eq!(of(Some("")), "/var/lib/weir/loss-check.json");
    }
}
