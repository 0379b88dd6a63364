//! One network, brought up to be entered by hand.
//!
//! ```text
//! weir lab shell --- asks ---> keeper: namespaces, links, emulator
//!    program on a host <-- descriptors of the host's namespaces --'
//! ```
//! The first shell starts the *keeper*, a process of its own; every shell holds a connection to it, and with the last
//! one it ends. Whoever is killed, the kernel closes the connection.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use weir_kernel::namespaces::process::Program;
use weir_kernel::namespaces::{NetNs, user};
use weir_kernel::rendezvous::{self, Answer, Rendezvous, Reply};
use weir_service::signals;
use weir_service::stop::Stop;

use crate::cell::Testbed;
use crate::network::Network;
use crate::runner;
use crate::sweep::Sweep;
use crate::topology::Topology;

/// Checks the network of a scenario, and that it has this host, before anything is started.
pub fn check(sweep: &Sweep, host: &str) -> Result<()> {
    let cell = sweep.cells.first().context("a sweep has a cell")?;
    cell.topology()?.node(host).map(drop)
}

/// Runs `command` (or the user's shell) on a host of a scenario's network and returns its exit status.
///
/// `document` and `overrides` are what `sweep` was made of. A network that runs already is joined if it is the same.
/// To be called while the process has one thread.
pub fn enter(
    document: &str,
    overrides: &[(String, String)],
    sweep: &Sweep,
    host: &str,
    command: &[String],
) -> Result<u8> {
    let name = rendezvous_name(sweep);
    let request = format!("{:x} {host}", fingerprint(sweep));
    let reply = match rendezvous::ask(&name, &request)? {
        Some(reply) => reply,
        None => start_keeper(document, overrides, &name, &request)?,
    };
    let Reply { text, descriptors, lease } = reply;
    let Ok([user, network]) = <[_; 2]>::try_from(descriptors) else { bail!("{text}") };
    user::join(user)?;
    let network = NetNs::from_fd(network);
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into());
    let (program, arguments) = match command {
        [] => (shell.as_str(), command),
        [program, arguments @ ..] => (program.as_str(), arguments),
    };
    let program = Program::new(&network, host, program).args(arguments);
    // What it has to report is not lost with us.
    let status = program.run(&signals::that_ask_for_the_end(), signals::SAME_REQUEST)?;
    drop(lease);
    Ok(u8::try_from(status).unwrap_or(u8::MAX))
}

/// The keeper: holds the network of a scenario until the last shell has gone. Says [`READY`], or what is wrong, on
/// standard output, and stays at least until standard input ends.
pub fn keep(sweep: &Sweep) -> Result<()> {
    let mut output = io::stdout();
    match serve(sweep, &mut output) {
        // Another keeper was faster: its network is as good.
        Err(error) if error.downcast_ref().and_then(weir_kernel::Error::errno) == Some(Errno::EADDRINUSE) => {
            writeln!(output, "{READY}")?;
        }
        Err(error) => writeln!(output, "{error:#}")?,
        Ok(()) => {}
    }
    Ok(())
}

fn serve(sweep: &Sweep, output: &mut impl Write) -> Result<()> {
    let (name, fingerprint) = (rendezvous_name(sweep), format!("{:x}", fingerprint(sweep)));
    user::obtain_network_privilege()?;
    runner::ensure_descriptors(sweep, 1)?;
    let scenario = sweep.scenario();
    let topology = Topology::new(scenario)?;
    let testbed = Testbed::start(scenario, Stop::new()?, 1)?;
    let network = Network::build(&topology, testbed.emulator(0), &testbed.settings, scenario.run.seed)?;
    let mut hosts = HashMap::new();
    for (index, node) in topology.nodes.iter().enumerate() {
        hosts.insert(node.name.clone(), network.namespace(index).try_clone()?);
    }
    let user = user::current()?;
    let rendezvous = Rendezvous::offer(&name, move |request| {
        let (asked, host) = request.split_once(' ').unwrap_or((request, ""));
        if asked != fingerprint {
            return Ok(refusal("its network is up with other settings: leave the shells that use it first".into()));
        }
        let Some(network) = hosts.get(host) else {
            let mut names: Vec<&str> = hosts.keys().map(String::as_str).collect();
            names.sort_unstable();
            return Ok(refusal(format!("there is no host `{host}` (there are {})", names.join(", "))));
        };
        let descriptors: io::Result<Vec<_>> =
            [user.as_fd(), network.as_fd()].into_iter().map(|held| held.try_clone_to_owned()).collect();
        Ok(match descriptors {
            Ok(descriptors) => Answer { text: READY.into(), descriptors },
            Err(error) => refusal(format!("hand out the network of {host}: {error}")),
        })
    })?;
    writeln!(output, "{READY}")?;
    output.flush()?;
    // Until the shell that started us has its lease, or has died.
    io::copy(&mut io::stdin(), &mut io::sink())?;
    rendezvous.wait_until_unused();
    Ok(())
}

fn start_keeper(document: &str, overrides: &[(String, String)], name: &str, request: &str) -> Result<Reply> {
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
        BufReader::new(output.take(MOST_WORDS)).read_line(&mut word).context("hear from the network's keeper")?;
    }
    match word.trim() {
        READY => {}
        "" => bail!("the network's keeper ended without a word"),
        error => bail!("{error}"),
    }
    let reply = rendezvous::ask(name, request)?.context("the network went down as soon as it was up")?;
    // From here on it lives as long as the leases do.
    drop(keeper.stdin.take());
    Ok(reply)
}

fn refusal(text: String) -> Answer {
    Answer { text, descriptors: Vec::new() }
}

/// One network a user and scenario.
fn rendezvous_name(sweep: &Sweep) -> String {
    format!("weir-lab-{}-{}", nix::unistd::geteuid(), sweep.scenario().name)
}

/// Tells scenarios apart; the same within one version of the program.
fn fingerprint(sweep: &Sweep) -> u64 {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    sweep.document.to_string().hash(&mut hasher);
    hasher.finish()
}

const READY: &str = "ready";

/// Longest message of a keeper, bytes.
const MOST_WORDS: u64 = 4096;
