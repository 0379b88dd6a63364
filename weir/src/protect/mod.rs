//! `weir protect`: attacks that `weir sflow serve` has found, and what is done about them.

mod act;
mod client;
mod list;
mod replay;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use weir_program::escape::escaped;
use weir_program::output::say;
use weir_units::Span;

use self::act::{Add, Extend, Of};
use crate::Outcome;

/// `weir protect`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir protect list --token-file ~/.weir-token
  weir protect approve 17
  weir protect extend 17 2h
  weir protect add 192.0.2.7 30m
  weir protect stop
  weir protect replay yesterday.pcap -c sflow.toml
  weir protect replay packets.pcapng -c sflow.toml --sampling 1000

All but `replay` ask a running `weir sflow serve` that has [protect.access]. The token is read from
a file that nobody else may read, or from the environment's WEIR_TOKEN. docs/protect.md has the rest.")]
pub(super) struct Protect {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show attacks, the newest first, and what is done about them.
    List(list::List),
    /// Announce what waits for a person, take the next step, or take the harm upon yourself.
    Approve(Of),
    /// Withdraw what is announced for an attack; nothing more is done until it is over.
    Withdraw(Of),
    /// Let the routes of an attack live for so long from now on.
    Extend(Extend),
    /// Blackhole a prefix of a protected group by hand, for so long, whatever is found.
    Add(Add),
    /// Withdraw everything at once; nothing is announced until it is resumed, over restarts too.
    Stop(client::Client),
    /// Go on after a stop.
    Resume(client::Client),
    /// Tell what would have been done about a capture, and when.
    Replay(replay::Replay),
}

impl Protect {
    pub(super) fn run(self) -> Result<Outcome> {
        let seconds = |span: Span| span.duration().as_secs();
        let (client, path, body) = match self.command {
            Command::List(list) => return list.run(),
            Command::Replay(replay) => return replay.run(),
            Command::Approve(Of { id, client }) => (client, format!("attacks/{id}/approve"), None),
            Command::Withdraw(Of { id, client }) => (client, format!("attacks/{id}/withdraw"), None),
            Command::Extend(Extend { id, span, client }) => {
                (client, format!("attacks/{id}/extend"), Some(json!({ "seconds": seconds(span) })))
            }
            Command::Add(Add { prefix, span, client }) => {
                (client, "routes".into(), Some(json!({ "prefix": prefix, "seconds": seconds(span) })))
            }
            Command::Stop(client) => (client, "stop".into(), None),
            Command::Resume(client) => (client, "resume".into(), None),
        };
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let answer = client.ask("POST", &format!("/protect/{path}"), &body)?;
        let done = ["done", "message", "text"].into_iter().find_map(|key| answer[key].as_str());
        let done = escaped(done.unwrap_or("done"));
        if path == "stop" && client.ask("GET", "/protect/state", "")?["speaker"]["in_doubt"] == true {
            bail!("{done}");
        }
        say!("{done}");
        Ok(Outcome::Done)
    }
}
