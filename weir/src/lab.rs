//! `weir lab`: run, resume, shell, report, compare, and the commands in `scenario`.

use std::io::IsTerminal;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use weir_lab::runner::{self, Plan};
use weir_lab::scenario::{Jobs, Scenario};
use weir_lab::shell::{self, Refusal};
use weir_lab::sweep::Sweep;
use weir_program::output::{complain, say};
use weir_report::opening::Seat;
use weir_report::{self, judge, store};
use weir_units::Span;
use weir_units::format::shown;

use crate::compare::Compare;
use crate::scenario::{self, Init};
use crate::{Outcome, usage};

/// `weir lab`.
#[derive(Debug, Args)]
pub(super) struct Lab {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// List the built-in scenarios.
    List,
    /// Print a built-in scenario.
    Show {
        /// Name of a built-in scenario (`weir lab list`).
        name: String,
    },
    /// Copy a built-in scenario to a file for editing.
    #[command(after_help = "Example:\n  weir lab init telemetry --out mine.toml")]
    Init(Init),
    /// Check a scenario and print it with all defaults, without running it.
    #[command(after_help = "Example:\n  weir lab check ./mine.toml --set path.loss=0%,5%")]
    Check(Document),
    /// Run a scenario and create its report.
    #[command(after_help = "Example:\n  weir lab run telemetry --duration 20s --set path.loss=0%,5%,20%")]
    Run(Run),
    /// Run the missing cells of an interrupted run and create its report.
    Resume {
        /// Result directory of the run.
        dir: PathBuf,
    },
    /// Run a program on a host of a scenario's network, which is up while one runs.
    #[command(after_help = "Example:\n  weir lab shell telemetry receiver python3 receiver.py")]
    Shell(Shell),
    /// Change what links of a running network do to packets.
    #[command(after_help = "Example:\n  weir lab set telemetry links.uplink.forward.loss=30%")]
    Set {
        /// Running network: the name of its scenario, or the path of its file.
        network: String,
        /// Scenario keys of links or of the path. Repeatable.
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = key_value)]
        set: Vec<(String, String)>,
    },
    /// Restart the steps and traces of a running network.
    Steps {
        #[command(subcommand)]
        command: Steps,
    },
    /// Print the ledger of a running network, link by link.
    Ledger {
        /// Running network: the name of its scenario, or the path of its file.
        network: String,
        /// Print the result as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Create the report of a result directory again.
    Report {
        /// Result directory of the run.
        dir: PathBuf,
        /// Also draw this cell over time, to charts/timeline-CELL.svg.
        #[arg(long)]
        cell: Option<String>,
    },
    /// Compare two result directories; exit status 3 if the second one is worse.
    #[command(after_help = "Example:\n  weir lab compare results/before results/after --column mbit_per_s")]
    Compare(Compare),
    /// Keep the network of `shell` up; `shell` starts this.
    #[command(hide = true)]
    Keep(Document),
}

#[derive(Debug, Args)]
struct Document {
    /// Name of a built-in scenario (`weir lab list`), or path of a TOML file.
    scenario: String,
    /// Set a scenario key; several values (`a,b`) make it an axis. Repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    document: Document,
    /// Result directory [default: results/SCENARIO-TIME].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Length of each cell's sending window, e.g. 60s or 20m.
    #[arg(long)]
    duration: Option<Span>,
    /// Number of runs of each cell.
    #[arg(long, value_parser = weir_traffic::flags::one_or_more::<NonZeroU32>)]
    repeat: Option<NonZeroU32>,
    /// Seed of all random choices.
    #[arg(long)]
    seed: Option<u64>,
    /// Cells to run at once: a number, `all` or `auto`.
    #[arg(long, value_parser = jobs)]
    jobs: Option<String>,
    /// Write the times of each message as CSV to messages/ in the result directory.
    #[arg(long)]
    messages: bool,
    /// Capture this cell's packets at both ends to pcap/ in the result directory.
    #[arg(long, value_name = "CELL")]
    pcap: Option<String>,
    /// Bytes to keep of each captured packet; 0: all.
    #[arg(long, value_name = "BYTES", default_value_t = 256, requires = "pcap")]
    snap: u32,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Shell {
    #[command(flatten)]
    document: Document,
    /// Host to run the program on.
    host: String,
    /// Program and its arguments [default: $SHELL].
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum Steps {
    /// Start all steps and traces now, from time 0.
    Start {
        /// Running network: the name of its scenario, or the path of its file.
        network: String,
    },
}

impl Lab {
    pub(super) fn run(self) -> Result<Outcome> {
        match self.command {
            LabCommand::List => scenario::list(),
            LabCommand::Show { name } => scenario::show(&name),
            LabCommand::Init(init) => init.run(),
            LabCommand::Check(document) => scenario::check(document.sweep(&[])),
            LabCommand::Run(run) => run.run(),
            LabCommand::Resume { dir } => run(&usage(Plan::resume(dir))?),
            LabCommand::Shell(Shell { document, host, command }) => {
                let sweep = usage(document.sweep(&[]))?;
                usage(shell::check(&sweep, &host))?;
                let status = shell::enter(&document.scenario, &document.set, &sweep, &host, &command)?;
                Ok(Outcome::Program(status))
            }
            LabCommand::Set { network, set } => {
                let network = network_name(&network)?;
                let changed = match shell::set(&network, &set) {
                    Err(error) if error.is::<Refusal>() => usage(Err(error))?,
                    changed => changed?,
                };
                say!("{}", shown(&changed));
                Ok(Outcome::Done)
            }
            LabCommand::Steps { command: Steps::Start { network } } => {
                say!("{}", shell::start_steps(&network_name(&network)?)?);
                Ok(Outcome::Done)
            }
            LabCommand::Ledger { network, json } => {
                let ledger = shell::ledger(&network_name(&network)?)?;
                match json {
                    true => say!("{}", serde_json::to_string_pretty(&ledger)?),
                    false => say!("{ledger}"),
                }
                Ok(Outcome::Done)
            }
            LabCommand::Report { dir, cell } => {
                let (manifest, records) = store::read(&dir)?;
                if let Some(changed) = store::changed(&dir, &records) {
                    complain!("weir: warning: {changed}");
                }
                let rendered = weir_report::write_all(&dir, &manifest, &records)?;
                let seat = Seat::new(|name| std::env::var(name).ok());
                say!("{}", seat.line(&rendered.page, std::io::stdout().is_terminal()));
                if let Some(cell) = cell {
                    say!("{}", weir_report::write_timeline(&dir, &manifest, &records, &cell)?.display());
                }
                let unmet = judge::fails(&manifest, &records);
                Ok(if unmet { Outcome::Unmet } else { Outcome::Done })
            }
            LabCommand::Compare(compare) => compare.run(),
            LabCommand::Keep(document) => {
                shell::keep(usage(document.sweep(&[]))?)?;
                Ok(Outcome::Done)
            }
        }
    }
}

/// `--jobs`, checked and unchanged.
fn jobs(text: &str) -> Result<String, String> {
    text.parse::<Jobs>().map(|_| text.to_owned())
}

impl Run {
    fn run(self) -> Result<Outcome> {
        let mut set = Vec::new();
        set.extend(self.duration.map(|duration| ("run.duration".to_owned(), duration.to_string())));
        set.extend(self.repeat.map(|repeat| ("run.repeat".to_owned(), repeat.to_string())));
        set.extend(self.seed.map(|seed| ("run.seed".to_owned(), seed.to_string())));
        set.extend(self.messages.then(|| ("run.messages".to_owned(), "true".to_owned())));
        set.extend(self.jobs.map(|jobs| ("run.jobs".to_owned(), jobs)));
        let sweep = self.document.sweep(&set);
        let plan = sweep.and_then(|sweep| Plan::new(sweep, self.out, std::env::args().collect()));
        let plan = match self.pcap {
            Some(cell) => plan.and_then(|plan| plan.capture(cell, self.snap)),
            None => plan,
        };
        let plan = usage(plan)?;
        run(&if self.json { plan.as_json() } else { plan })
    }
}

fn run(plan: &Plan) -> Result<Outcome> {
    #[cfg(not(feature = "rooms"))]
    if let Some(room) = plan.weir_commands().find(|command| !["lab", "send", "recv"].contains(command)) {
        return usage(Err(crate::not_in_this_build(&format!("weir {room}"))));
    }
    Ok(if runner::run(plan)? { Outcome::Unmet } else { Outcome::Done })
}

impl Document {
    fn sweep(&self, flags: &[(String, String)]) -> Result<Sweep> {
        let (origin, text) = Scenario::find(&self.scenario)?;
        let overrides: Vec<_> = self.set.iter().chain(flags).cloned().collect();
        Sweep::new(&origin, &text, &overrides)
    }
}

/// The name of a network: that of a scenario's file, or as given.
fn network_name(network: &str) -> Result<String> {
    let path = Path::new(network);
    if path.extension().is_none() && path.components().count() == 1 {
        return Ok(network.to_owned());
    }
    let (origin, text) = usage(Scenario::find(network))?;
    Ok(usage(Sweep::new(&origin, &text, &[]))?.scenario().name.clone())
}

fn key_value(text: &str) -> Result<(String, String)> {
    let (key, value) = text.split_once('=').context("write KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}
