//! `weir monitor check`: the way of a group, tried.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use weir_monitor::check::{self, Report, Settings};
use weir_monitor::serve::settings::Keys;
use weir_program::output::complain;
use weir_program::stop::Stop;
use weir_signal::receive;
use weir_units::Span;

use super::replay::address;
use crate::{Outcome, print_result, usage};

/// `weir monitor check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir monitor check
  weir monitor check --group 239.192.77.9:5110 --interface eth1 --duration 130s
  weir monitor check --send --ttl 4        on one machine, and on the other, meanwhile
  weir monitor check

Joins the group and listens, at the interface (CAP_NET_RAW) and at the socket, and tells what is wrong
with its evidence and the command that mends it; who sends what a server would not take is named, with
the keys of a server (--key, --sender) by those, too. Exit status 3: something is wrong. docs/monitor.md
explains every finding.")]
pub(super) struct Check {
    /// The group.
    #[arg(long, value_name = "ADDR[:PORT]", default_value = "239.192.77.1:5110", value_parser = address)]
    group: SocketAddr,
    /// The interface to join it on [default: where a route leads].
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// File of the group's key: what is not encrypted with it is told.
    #[arg(long, value_name = "FILE", conflicts_with = "send")]
    key: Option<PathBuf>,
    /// File of the public key of a sender: what nobody of them has signed is told. May be given again.
    #[arg(long, value_name = "FILE", conflicts_with = "send")]
    sender: Vec<PathBuf>,
    /// Send something to listen to, instead of listening.
    #[arg(long)]
    send: bool,
    /// With --send: routers that it may pass, and one.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "send")]
    ttl: u8,
    /// For how long [default: 3s; with --send until Ctrl-C].
    #[arg(long, value_name = "TIME")]
    duration: Option<Span>,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "send")]
    json: bool,
}

impl Check {
    pub(super) fn run(self) -> Result<Outcome> {
        if !self.group.ip().is_multicast() {
            return usage(Err(anyhow!("--group {}: it is no group (224.0.0.0/4 or ff00::/8)", self.group)));
        }
        let stop = Stop::on_signals().context("watch for Ctrl-C")?;
        let usual = if self.send { Span::from_secs(366 * 86_400) } else { Span::from_secs(3) };
        let settings = Settings {
            group: self.group,
            interface: self.interface,
            duration: self.duration.unwrap_or(usual).duration(),
            receive_buffer: receive::Settings::default().receive_buffer,
            keys: Keys { group: self.key, senders: self.sender },
        };
        if self.send {
            complain!(
                "sending to {}: weir monitor check on another machine is to hear it (Ctrl-C ends)",
                settings.group
            );
            let sent = check::send(&settings, self.ttl, &stop)?;
            complain!("{sent} datagrams sent with TTL {}", self.ttl);
            return Ok(Outcome::Done);
        }
        let report = Report::new(check::listen(&settings, &stop)?);
        print_result(&report, self.json)?;
        Ok(if report.findings.is_empty() { Outcome::Done } else { Outcome::Unmet })
    }
}
