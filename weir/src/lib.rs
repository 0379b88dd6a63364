//! The command line: flags, then validated settings, then a room. One file a subcommand.

mod account;
mod compare;
mod files;
mod lab;
mod lines;
#[cfg(feature = "rooms")]
mod loss;
mod messages;
#[cfg(feature = "rooms")]
mod monitor;
#[cfg(feature = "rooms")]
mod protect;
mod recv;
mod scenario;
mod send;
#[cfg(feature = "rooms")]
mod service;
#[cfg(feature = "rooms")]
mod sflow;
#[cfg(feature = "rooms")]
mod tee;

use std::fmt::Display;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use serde::Serialize;
use weir_program::config::{Mistakes, Pointed};
use weir_program::output::{self, complain, in_one_line, print, say};
use weir_units::format::{shown, shown_in_json};

#[cfg(not(feature = "rooms"))]
use self::{Absent as Loss, Absent as Monitor, Absent as Protect, Absent as Sflow, Absent as Tee};
#[cfg(feature = "rooms")]
use self::{loss::Loss, monitor::Monitor, protect::Protect, sflow::Sflow, tee::Tee};

/// Replicate, measure, analyse and protect UDP telemetry.
#[derive(Debug, Parser)]
#[command(name = "weir", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run experiments in an emulated network on this machine.
    Lab(lab::Lab),
    /// Send test messages over UDP, TCP or QUIC.
    Send(send::Send),
    /// Receive test messages and report loss, delay and jitter.
    Recv(recv::Recv),
    /// Copy each UDP datagram to several destinations.
    Tee(Tee),
    /// Find where datagrams are dropped and how to fix it.
    Loss(Loss),
    /// Collect, analyse, decode and export sFlow.
    Sflow(Sflow),
    /// Stream signals from stations to any number of screens.
    Monitor(Monitor),
    /// List and handle the attacks that `weir sflow serve` detects.
    Protect(Protect),
}

/// A command that is not in this build: `make build` builds all of Weir.
#[cfg(not(feature = "rooms"))]
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
struct Absent {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _ignored: Vec<std::ffi::OsString>,
}

#[cfg(not(feature = "rooms"))]
impl Absent {
    fn run(self) -> anyhow::Result<Outcome> {
        usage(Err(not_in_this_build(&format!("weir {}", std::env::args().nth(1).unwrap_or_default()))))
    }
}

/// The error for a room that is not in this build.
#[cfg(not(feature = "rooms"))]
fn not_in_this_build(what: &str) -> anyhow::Error {
    anyhow::anyhow!("{what}: not in this build, which has only the lab. Run `make build` to build all of Weir.")
}

/// How a command ended that did its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All is well.
    Done,
    /// An assertion or a check did not hold.
    Unmet,
    /// The exit status of the program that `weir lab shell` ran.
    Program(u8),
}

/// A mistake in flags or configuration: exit status 2. Other failures: exit status 1.
#[derive(Debug, thiserror::Error)]
#[error("{}", in_one_line(.0))]
struct Usage(anyhow::Error);

/// Runs the command line and returns the exit status: 0 done, 1 failed, 2 usage or configuration, 3 a check did not
/// hold.
pub fn main() -> ExitCode {
    weir_kernel::namespaces::process::init_if_asked();
    let outcome = match Cli::try_parse().unwrap_or_else(|error| with_hint(error).exit()).command {
        Command::Lab(lab) => lab.run(),
        Command::Send(send) => send.run(),
        Command::Recv(recv) => recv.run(),
        Command::Tee(tee) => tee.run(),
        Command::Loss(loss) => loss.run(),
        Command::Sflow(sflow) => sflow.run(),
        Command::Monitor(monitor) => monitor.run(),
        Command::Protect(protect) => protect.run(),
    };
    match outcome {
        Ok(_) if output::failed() => ExitCode::FAILURE,
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Unmet) => ExitCode::from(3),
        Ok(Outcome::Program(status)) => ExitCode::from(status),
        Err(error) => {
            let usage = error.downcast_ref::<Usage>().map(|Usage(error)| error);
            match usage.and_then(|error| error.downcast_ref::<Mistakes>()) {
                Some(Mistakes(lines)) => lines.iter().for_each(|line| complain!("weir: {}", shown(line))),
                None => complain!("weir: {}", in_one_line(&error)),
            }
            if let Some(pointed) = usage.and_then(|error| error.downcast_ref::<Pointed>()) {
                complain!("{}", pointed.caret());
            }
            ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
        }
    }
}

/// Adds the flag of Weir that does what an unknown flag of iperf3 does.
fn with_hint(mut error: clap::Error) -> clap::Error {
    let flag = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) if error.kind() == ErrorKind::UnknownArgument => flag.clone(),
        _ => return error,
    };
    let hint = match &*flag {
        "-c" => "send with `weir send --to ADDR:PORT`",
        "-s" => "receive with `weir recv --listen ADDR:PORT`",
        "-t" => "set the duration with `--duration 10s`",
        "-p" => "write the port in the address: ADDR:PORT",
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    error
}

/// Prints a result as one JSON object or as text, without control characters.
fn print_result(result: &(impl Serialize + Display), json: bool) -> anyhow::Result<()> {
    if json {
        say!("{}", shown_in_json(&serde_json::to_string(result)?));
    } else {
        print(format_args!("{result}"));
    }
    Ok(())
}

/// Marks the errors of a result as the user's mistake.
fn usage<T>(result: anyhow::Result<T>) -> anyhow::Result<T> {
    result.map_err(|error| Usage(error).into())
}
