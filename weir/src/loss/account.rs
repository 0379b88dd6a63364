//! `weir loss account`.

use std::io::{IsTerminal, stderr};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use weir_kernel::trace::Trace;
use weir_loss::account::book::Account as Book;
use weir_loss::account::{FollowOptions, Following, ReceivedSession, SentSession, Sessions, join};
use weir_loss::statement;
use weir_loss::subject::{Process, TrafficFilter};
use weir_service::output::{complain, say, tell};
use weir_service::stop::Stop;
use weir_units::Span;

use super::{Tracing, group};
use crate::{Outcome, usage};

/// `weir loss account`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir loss account --port 5000
  weir loss account --port 5000 --netns all --duration 1m --json
  weir loss account --group 239.1.1.1 --port 5000 --received recv.json
  weir loss account --process rsyslogd
  weir loss account --join sender.json receiver.json

Follows UDP traffic until the duration is over or Ctrl-C, and then says where every datagram is:
received, lost at which place and why, or pending. It sees the most as root (eBPF); without, it tells
what the counters tell and what is then unknown. --netns all follows both ends of an emulated network.")]
pub(super) struct Account {
    /// Port that the datagrams go to; may be repeated.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// Multicast group; may be repeated.
    #[arg(long, value_name = "ADDR", value_parser = group)]
    group: Vec<IpAddr>,
    /// Receiving socket, by the address it is bound to; may be repeated.
    #[arg(long, value_name = "ADDR:PORT")]
    socket: Vec<SocketAddr>,
    /// Program, by number or name: all its sockets.
    #[arg(long, value_name = "PID|NAME")]
    process: Option<Process>,
    /// Network namespace, by name, process or path, or `all`; may be repeated [default: its own].
    #[arg(long, value_name = "NAME|PID|PATH")]
    netns: Vec<String>,
    /// How long to follow.
    #[arg(long, value_name = "SPAN", default_value = "10s")]
    duration: Span,
    /// How much to trace by eBPF [default: everything that is permitted].
    #[arg(long, value_enum, default_value = "everything", hide_default_value = true)]
    trace: Tracing,
    /// What `weir send --json` printed: closes the ledger with its sequence numbers. Read at the end.
    #[arg(long, value_name = "FILE")]
    sent: Option<PathBuf>,
    /// What `weir recv --json` printed.
    #[arg(long, value_name = "FILE")]
    received: Option<PathBuf>,
    /// Join the accounts (--json) of two hosts, the sender's and the receiver's, and follow nothing.
    #[arg(long, num_args = 2, value_names = ["SENDER", "RECEIVER"],
        conflicts_with_all = ["port", "group", "socket", "process", "netns", "sent", "received"])]
    join: Vec<PathBuf>,
    /// Print the account as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Account {
    pub(super) fn run(self) -> Result<Outcome> {
        if let [sender, receiver] = &self.join[..] {
            let book = usage(join::files(sender, receiver))?;
            self.print(&book)?;
            return Ok(Outcome::Done);
        }
        let stop = Stop::on_signals().context("watch for Ctrl-C")?;
        let options = self.options();
        let mut following = Following::start(&options)?;
        for warning in following.warnings() {
            complain!("weir: {warning}");
        }
        complain!("following {}", following.in_words());
        let live = stderr().is_terminal();
        let mut shown = Instant::now();
        following.watch(Instant::now() + self.duration.duration(), &stop, |trace, elapsed| {
            if live && shown.elapsed() >= Duration::from_millis(500) {
                shown = Instant::now();
                tell(format_args!("\r\x1b[K{}", status(trace, elapsed)));
            }
        });
        if live {
            tell(format_args!("\r\x1b[K"));
        }
        let (sessions, missing) = self.sessions();
        let mut book = following.close(&sessions);
        book.warnings.extend(missing);
        self.print(&book)?;
        Ok(Outcome::Done)
    }

    fn options(&self) -> FollowOptions {
        FollowOptions {
            filter: TrafficFilter {
                ports: self.port.iter().copied().collect(),
                groups: self.group.clone(),
                sockets: self.socket.clone(),
                process: self.process.clone(),
            },
            namespaces: self.netns.clone(),
            trace: self.trace.detail(),
        }
    }

    /// What the sessions told, and why one did not.
    fn sessions(&self) -> (Sessions, Vec<String>) {
        let mut missing = Vec::new();
        let mut told = |error: anyhow::Error| missing.push(format!("{error:#}"));
        let sent = self.sent.as_deref().and_then(|path| SentSession::read(path).map_err(&mut told).ok());
        let received = self.received.as_deref().and_then(|path| ReceivedSession::read(path).map_err(&mut told).ok());
        (Sessions { sent, received }, missing)
    }

    fn print(&self, book: &Book) -> Result<()> {
        if self.json {
            say!("{}", serde_json::to_string(book)?);
        } else {
            say!("{}", statement::of(book).trim_end());
        }
        if book.ledgers.is_empty() && !self.join.is_empty() {
            bail!("join: the two accounts have no port in common");
        }
        Ok(())
    }
}

/// One line while it goes on.
fn status(trace: &Trace, elapsed: Duration) -> String {
    let arrived: u64 = trace.arrivals.iter().map(|passage| passage.datagrams).sum();
    let read: u64 = trace.sockets.iter().map(|socket| socket.read_datagrams.unwrap_or(socket.reads)).sum();
    let dropped: u64 = trace.drops.iter().map(|drop| drop.datagrams).sum();
    format!("{:4.1} s  arrived {arrived}  read {read}  dropped {dropped}", elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        account: Account,
    }

    fn account(arguments: &str) -> Result<Account, String> {
        let words = std::iter::once("account").chain(arguments.split_whitespace());
        Command::try_parse_from(words).map(|command| command.account).map_err(|error| error.to_string())
    }

    #[test]
    fn mistakes_are_usage_errors() {
        for arguments in
            ["--port 0", "--port 70000", "--group 10.0.0.1", "--trace all", "--join a", "--join a b --port 5"]
        {
            assert!(account(arguments).is_err(), "{arguments}");
        }
        let options = account("--port 5 --port 6 --process weir --netns all --trace off").unwrap().options();
        assert_eq!(options.filter.ports, [5, 6].into());
        assert_eq!((options.trace, &options.namespaces[..]), (None, &["all".to_owned()][..]));
    }
}
