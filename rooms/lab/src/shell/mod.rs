//! A network for interactive use.
//!
//! ```text
//! weir lab shell ----------- asks ----> keeper: namespaces, links, emulator
//!    program on a host <-- descriptors of the host's namespaces --'   ^
//! weir lab set, steps, ledger --------- ask --------------------------'
//! ```
//! The first shell starts the *keeper* process; every shell holds a connection to it, and it ends with the last one. If
//! a process is killed, the kernel closes its connection. The impairments of links may be changed meanwhile; the
//! keeper's [`Ledger`] shows the packets' fate and the changes.

mod keeper;
mod ledger;

use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use weir_kernel::namespaces::process::Program;
use weir_kernel::namespaces::{NetNs, user};
use weir_kernel::rendezvous::{self, Lease, Reply};
use weir_program::output::complain;
use weir_program::signals;
use weir_report::store;

pub use self::keeper::keep;
pub use self::ledger::Ledger;
use crate::sweep::Sweep;

/// A request to a keeper, as JSON.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// Send the descriptors of a host of exactly this network.
    Enter { fingerprint: u64, host: String },
    /// Set keys of links or of the path, all or none.
    Set { set: Vec<(String, String)> },
    /// Start steps and traces now, at time 0.
    StartSteps,
    /// Send the ledger.
    Ledger,
}

/// A request that a keeper refuses, as JSON.
#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

/// Checks the network of a scenario, and that it has this host, before starting anything.
pub fn check(sweep: &Sweep, host: &str) -> Result<()> {
    sweep.topology()?.node(host).map(drop)
}

/// Runs `command` (or the user's shell) on a host of a scenario's network and returns its exit status.
///
/// `document` and `overrides` are the source of `sweep`. A network that is up is joined if it is the same. Call it
/// while the process has one thread.
pub fn enter(
    document: &str,
    overrides: &[(String, String)],
    sweep: &Sweep,
    host: &str,
    command: &[String],
) -> Result<u8> {
    let name = &sweep.scenario().name;
    let request = Request::Enter { fingerprint: fingerprint(sweep), host: host.to_owned() };
    let answer = match ask(name, &request)? {
        Some(answer) => answer,
        None => {
            let keeper = start_keeper(document, overrides)?;
            let answer = ask(name, &request)?.context("the network went down as soon as it was up")?;
            // From here on the keeper lives as long as the leases do.
            drop(keeper);
            answer
        }
    };
    let (said, descriptors, lease) = answer;
    let Ok([user, network]) = <[_; 2]>::try_from(descriptors) else { bail!("the network's keeper sent no network") };
    for line in said.lines() {
        complain!("weir: {line}");
    }
    user::join(user)?;
    let network = NetNs::from_fd(network);
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into());
    let (program, arguments) = match command {
        [] => (shell.as_str(), command),
        [program, arguments @ ..] => (program.as_str(), arguments),
    };
    let program = Program::new(&network, host, program).args(arguments);
    // Its report survives this process.
    let status = program.run(&signals::that_ask_for_the_end(), signals::SAME_REQUEST)?;
    drop(lease);
    Ok(u8::try_from(status).unwrap_or(u8::MAX))
}

/// Changes the impairments of a network that is up; `name` is its scenario's. Returns text for the user, one line per
/// key.
///
/// # Errors
/// No such network is up, a key is not one of links or of the path, or a value is invalid: nothing is changed then.
pub fn set(name: &str, set: &[(String, String)]) -> Result<String> {
    send_request(name, &Request::Set { set: set.to_vec() })
}

/// Starts the steps and traces of a network that is up now, at time 0; `name` is its scenario's.
///
/// # Errors
/// No such network is up.
pub fn start_steps(name: &str) -> Result<String> {
    send_request(name, &Request::StartSteps)
}

/// The ledger of a network that is up; `name` is its scenario's.
///
/// # Errors
/// No such network is up.
pub fn ledger(name: &str) -> Result<Ledger> {
    Ok(serde_json::from_str(&send_request(name, &Request::Ledger)?)?)
}

/// The answer of the keeper of a network that is up.
fn send_request(name: &str, request: &Request) -> Result<String> {
    let (said, ..) = ask(name, request)?
        .with_context(|| format!("no network `{name}` is up. Start one with `weir lab shell SCENARIO HOST`."))?;
    Ok(said)
}

/// Asks the keeper of a network: returns its text (the ledger as JSON), and with [`Request::Enter`] the host's
/// descriptors.
/// `None`: it is not up.
fn ask(name: &str, request: &Request) -> Result<Option<(String, Vec<OwnedFd>, Lease)>> {
    let Some(reply) = rendezvous::ask(&place(name)?, &serde_json::to_string(request)?)? else { return Ok(None) };
    let Reply { text, descriptors, lease } = reply;
    let said: Result<String, Refusal> = serde_json::from_str(&text)
        .context("the network belongs to another version of Weir. Leave its shells first.")?;
    Ok(Some((said?, descriptors, lease)))
}

/// The keeper's standard input: while it is open, the keeper stays.
fn start_keeper(document: &str, overrides: &[(String, String)]) -> Result<Option<std::process::ChildStdin>> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["lab", "keep", document]);
    for (key, value) in overrides {
        command.arg("--set").arg(format!("{key}={value}"));
    }
    let mut keeper = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // A Ctrl-C for the program must not reach it.
        .process_group(0)
        .spawn()
        .context("start the network's keeper")?;
    let mut word = String::new();
    if let Some(output) = keeper.stdout.take() {
        BufReader::new(output.take(MAX_ANSWER)).read_line(&mut word).context("read from the network's keeper")?;
    }
    match word.trim() {
        READY => Ok(keeper.stdin.take()),
        "" => bail!("the network's keeper ended without a message"),
        error => bail!("{error}"),
    }
}

/// Socket of the keeper of a network: one network per user and scenario.
fn place(name: &str) -> Result<PathBuf> {
    let path = rendezvous::own_folder("weir-lab")?.join(format!("{name}.socket"));
    ensure!(path.as_os_str().len() <= LONGEST_PATH, "name: too long for the socket of a shell: {}", path.display());
    Ok(path)
}

/// Hash of a scenario; stable within one version of the program.
fn fingerprint(sweep: &Sweep) -> u64 {
    store::checksum([env!("CARGO_PKG_VERSION"), &sweep.to_toml().unwrap_or_default()].concat().as_bytes())
}

const READY: &str = "ready";

/// Longest message of a keeper, bytes.
const MAX_ANSWER: u64 = 4096;

/// Max bytes of a socket's path (unix(7)), minus the lock file's suffix.
const LONGEST_PATH: usize = 100;
