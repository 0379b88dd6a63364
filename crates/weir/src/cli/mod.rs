//! The command line: flags, then validated settings, then a room. One file a subcommand.

mod compare;
mod lab;
mod loss;
mod recv;
mod scenario;
mod send;
mod tee;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::service::output::{self, complain};

/// Carries, splits, measures and explains real-time telemetry over UDP.
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
    /// Send numbered, timestamped messages over UDP or TCP.
    Send(send::Send),
    /// Receive them, and tell what was lost and how late the rest was.
    Recv(recv::Recv),
    /// Copy every datagram, whole, to every destination.
    Tee(tee::Tee),
    /// Tell where datagrams are lost, and what to change.
    Loss(loss::Loss),
}

/// How a command ended that could do its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All is well.
    Done,
    /// An assertion or a check did not hold.
    Unmet,
    /// The exit status of a program that was run for the user.
    Program(u8),
}

/// A mistake in flags or configuration, exit status 2. Everything else that fails is exit status 1.
#[derive(Debug, thiserror::Error)]
#[error("{}", in_one_line(.0))]
struct Usage(anyhow::Error);

/// Runs the command line and returns the exit status: 0 done, 1 failed, 2 usage or configuration, 3 a check did not
/// hold.
pub fn main() -> ExitCode {
    weir_kernel::namespaces::process::init_if_asked();
    let outcome = match Cli::parse().command {
        Command::Lab(lab) => lab.run(),
        Command::Send(send) => send.run(),
        Command::Recv(recv) => recv.run(),
        Command::Tee(tee) => tee.run(),
        Command::Loss(loss) => loss.run(),
    };
    match outcome {
        Ok(_) if output::failed() => ExitCode::FAILURE,
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Unmet) => ExitCode::from(3),
        Ok(Outcome::Program(status)) => ExitCode::from(status),
        Err(error) => {
            complain!("weir: {}", in_one_line(&error));
            ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
        }
    }
}

/// An error and its causes, outermost first. Many errors name the kernel's answer themselves, before the remedy: then
/// it is not repeated. What a file or a peer has put into it can neither begin a line nor command a terminal.
pub(crate) fn in_one_line(error: &anyhow::Error) -> String {
    let said = error.chain().map(ToString::to_string).fold(String::new(), |said, cause| {
        let answer = cause.split(" (os error ").next().unwrap_or_default();
        match said.as_str() {
            "" => cause,
            known if known.to_lowercase().contains(&answer.to_lowercase()) => said,
            known => format!("{known}: {cause}"),
        }
    });
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    said.chars().map(shown).collect()
}

/// Marks the errors of a result as the user's mistake.
fn usage<T>(result: anyhow::Result<T>) -> anyhow::Result<T> {
    result.map_err(|error| Usage(error).into())
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::anyhow;

    use super::*;

    #[test]
    fn the_kernels_answer_is_told_once() {
        let answer = || io::Error::from_raw_os_error(nix::libc::EADDRNOTAVAIL);
        let told = anyhow!(answer()).context("bind 192.0.2.7:5: cannot assign requested address (listen on 0.0.0.0)");
        assert_eq!(
            in_one_line(&told.context("cell 5%")),
            "cell 5%: bind 192.0.2.7:5: cannot assign requested address (listen on 0.0.0.0)"
        );
        let untold = anyhow!(answer()).context("bind 192.0.2.7:5");
        assert_eq!(in_one_line(&untold), format!("bind 192.0.2.7:5: {}", answer()));
        assert_eq!(in_one_line(&anyhow!("unknown `a\nb\u{1b}[2J`")), "unknown `a\\nb\\u{1b}[2J`");
        assert_eq!(usage::<()>(Err(untold)).unwrap_err().to_string(), format!("bind 192.0.2.7:5: {}", answer()));
    }
}
