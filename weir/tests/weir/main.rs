//! Black box: the `weir` command as a user runs it.

#![allow(clippy::unwrap_used)]

mod budget;
mod configurations;
mod deploy;
mod docs;
mod endings;
mod features;
mod fuzz;
mod lab;
mod links;
mod loss;
mod monitor;
mod network;
mod protect;
mod reverse;
mod send_recv;
mod service;
mod sflow;
mod tee;

use std::env;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// The program: that of the environment variable `WEIR`, or the one just built.
static WEIR: LazyLock<String> =
    LazyLock::new(|| env::var("WEIR").unwrap_or_else(|_| env!("CARGO_BIN_EXE_weir").to_owned()));

/// `weir ARGUMENTS`, without standard input; what it prints is the test's.
fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::new(&*WEIR);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
