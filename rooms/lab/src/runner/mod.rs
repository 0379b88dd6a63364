//! Runs the cells of a sweep in parallel, and writes a result directory.

mod cells;
mod control;
mod earlier;
mod manifest;
mod queue;

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use weir_kernel::limits;
use weir_kernel::namespaces::user;
use weir_program::output::{self, complain, say};
use weir_program::stop::Stop;
use weir_report::opening::Seat;
use weir_report::record::{Manifest, Record};
use weir_report::store::{self, Store};
use weir_report::{self, json, judge, terminal};
use weir_units::format::shown_in_json;

use self::cells::{Extras, Job, Outcome, Worker, groups, jobs};
use self::queue::{Meeting, Queue};
use crate::cell::{self, Testbed};
use crate::environment;
use crate::iperf3;
use crate::machine::Machine;
use crate::scenario::{Engine, Jobs};
use crate::sweep::{Cell, Sweep};

/// A sweep that can run: every cell's network has been checked.
#[derive(Debug)]
pub struct Plan {
    sweep: Sweep,
    dir: PathBuf,
    command: Vec<String>,
    extras: Extras,
    /// Standard output carries only the result as JSON.
    json: bool,
    /// The run that this one resumes.
    earlier: Option<Manifest>,
}

impl Plan {
    /// Checks every cell. The result goes to `dir`, or to a new one under `results/`.
    pub fn new(sweep: Sweep, dir: Option<PathBuf>, command: Vec<String>) -> Result<Plan> {
        check(&sweep)?;
        let name = sweep.scenario().name.clone();
        let dir = dir.unwrap_or_else(|| Path::new("results").join(format!("{name}-{}", compact_time())));
        ensure!(
            !store::holds_a_run(&dir),
            "{}: already has a result. Choose another directory with --out, or run `weir lab resume`.",
            dir.display()
        );
        Ok(Plan::of(sweep, dir, command, None))
    }

    /// Resumes the run in `dir`, which was interrupted, killed, or ran out of disk: runs the missing cells with the
    /// settings of its manifest.
    pub fn resume(dir: PathBuf) -> Result<Plan> {
        let earlier = store::read_manifest(&dir)?;
        let origin = dir.join(store::MANIFEST).display().to_string();
        let sweep = Sweep::new(&origin, &earlier.source, &[])?;
        check(&sweep)?;
        Ok(Plan::of(sweep, dir, earlier.command.clone(), Some(earlier)))
    }

    fn of(sweep: Sweep, dir: PathBuf, command: Vec<String>, earlier: Option<Manifest>) -> Plan {
        let extras = Extras { messages: dir.join("messages"), capture: None };
        Plan { sweep, dir, command, extras, json: false, earlier }
    }

    /// The subcommands of this executable that the scenario's programs run.
    pub fn weir_commands(&self) -> impl Iterator<Item = &str> {
        let words = self.sweep.cells.iter().flat_map(|cell| &cell.scenario.programs).flat_map(|program| &program.run);
        let words = words.flat_map(|words| words.split_whitespace());
        words.clone().zip(words.skip(1)).filter(|(program, _)| *program == "{weir}").map(|(_, command)| command)
    }

    /// Prints the result as JSON on standard output, instead of all text.
    pub fn as_json(self) -> Plan {
        Plan { json: true, ..self }
    }

    /// A line of text.
    fn print_line(&self, line: &str) {
        if !self.json {
            say!("{line}");
        }
    }

    /// Captures a cell's packets at both ends, `snap` bytes of each, to `pcap/` in the result directory.
    pub fn capture(mut self, cell: String, snap: u32) -> Result<Plan> {
        let known = self.sweep.cells.iter().any(|other| other.name == cell);
        let names: Vec<&str> = self.sweep.cells.iter().map(|cell| cell.name.as_str()).collect();
        ensure!(known, "--pcap {cell}: no such cell (there are {})", names.join(", "));
        self.extras.capture = Some((cell, self.dir.join("pcap"), snap));
        Ok(self)
    }
}

/// How long a run may take to end after a signal: cells save their results, and the report is written.
const GRACE: Duration = Duration::from_secs(60);

/// Runs a plan, and returns whether an assertion of the scenario fails. Call it while the process has one thread: an
/// ordinary user enters a user namespace first.
pub fn run(plan: &Plan) -> Result<bool> {
    plan.sweep.cells.iter().any(uses_iperf3).then(iperf3::find).transpose()?;
    let privilege = user::obtain_network_privilege()?;
    let stop = Stop::on_signals_within(GRACE).context("handle Ctrl-C")?;
    let done = match plan.earlier {
        None => Vec::new(),
        Some(_) => {
            let records = store::read_records(&plan.dir)?;
            if let Some(changed) = store::changed(&plan.dir, &records) {
                complain!("weir: {changed}; its cells run again");
            }
            earlier::finished(&plan.sweep, records)
        }
    };
    let names: BTreeSet<_> = done.iter().map(earlier::key).collect();
    let scenario = plan.sweep.scenario();
    let jobs_left = jobs(&plan.sweep, |cell, repeat| !names.contains(&(cell.name.clone(), repeat)));
    let at_once = groups(jobs_left.clone()).iter().map(|(at_once, _)| *at_once).max().unwrap_or(0);
    ensure_descriptors(&plan.sweep, at_once)?;
    let mut store = match plan.earlier {
        None => Store::create(&plan.dir)?,
        Some(_) => Store::resume(&plan.dir, &done)?,
    };
    let testbed = Testbed::start(scenario, stop, if scenario.run.jobs == Jobs::All { 1 } else { at_once })?;
    let machine = Machine::start(testbed.realtime);
    let (started, before) = (Instant::now(), plan.earlier.as_ref().map_or(0.0, |earlier| earlier.elapsed_s));
    let facts = match &plan.earlier {
        None => {
            let buffer = scenario.tcp.buffer.map(|max| ("tcp buffers of the hosts".to_owned(), format!("up to {max}")));
            environment::facts(&scenario.run, &testbed, privilege).into_iter().chain(buffer).collect()
        }
        Some(earlier) => earlier.environment.clone(),
    };
    let mut manifest = manifest::of(plan, facts)?;
    if manifest.own_cost.is_none() && !scenario.run.control.duration().is_zero() {
        let measured = control::measure(&testbed, &machine, scenario)?;
        // A stopped cell is measured again when the run is resumed.
        manifest.own_cost = (!testbed.stop.is_set()).then_some(measured);
    }
    let written = store::write_manifest(&plan.dir, &manifest);
    written.map_err(|error| if plan.earlier.is_none() { error.at_the_start() } else { error })?;
    testbed.stop.last_words(format!("ended without a report. `weir lab report {}` creates it.", plan.dir.display()));
    let paths = manifest.network.iter().filter(|line| line.contains(" -> "));
    paths.for_each(|path| plan.print_line(&path.replace("; ", "\n  ")));
    type Ended<'e> = &'e mut (dyn FnMut(Outcome) -> Result<()> + Send);
    let run_all = |what: &str, jobs: Vec<Job<'_>>, earlier: &[Record], ended: Ended<'_>| {
        for (workers, jobs) in groups(jobs) {
            let queue = Queue::new(jobs, workers, Job::time);
            let cells = if queue.total == 1 { "cell" } else { "cells" };
            plan.print_line(&format!("{what}: {} {cells}, {workers} at once, {}", queue.total, queue.time()));
            let worker = |number| {
                let (testbed, machine, extras) = (&testbed, &machine, &plan.extras);
                let mut worker = Worker { number, workers, testbed, machine, extras, earlier, last: None };
                move |job: Job<'_>, meeting: &mut Meeting<'_>| worker.run(job, meeting)
            };
            queue.run(&testbed.stop, worker, &mut *ended)?;
        }
        Ok(())
    };
    let (mut records, mut unwritten) = (Vec::new(), None);
    let mut error = None;
    if !jobs_left.is_empty() {
        let what = match scenario.run.repeat.get() {
            1 => scenario.name.clone(),
            repeats => format!("{}, {repeats} repeats", scenario.name),
        };
        let mut keep = |(new, lost): Outcome| {
            unwritten = unwritten.take().or(lost);
            let stored = new.iter().try_for_each(|record| store.append(record));
            records.extend(new);
            // A full disk ends the run; earlier results stay in the directory.
            stored.context("the run was stopped")
        };
        error = run_all(&what, jobs_left, &[], &mut keep).err();
    }
    for _ in 0..scenario.run.reruns {
        let mut disturbed = earlier::disturbed(&records);
        // The capture belongs to its only run.
        disturbed.retain(|(cell, _)| plan.extras.capture.as_ref().is_none_or(|(captured, ..)| captured != cell));
        if error.is_some() || testbed.stop.is_set() || disturbed.is_empty() {
            break;
        }
        let again = jobs(&plan.sweep, |cell, repeat| disturbed.contains(&(cell.name.clone(), repeat)));
        let mut second = Vec::new();
        let ran = run_all("disturbed, run again", again, &records, &mut |(new, _)| {
            second.extend(new);
            Ok(())
        });
        let stored = earlier::replace(&mut records, second).iter().try_for_each(|better| store.append(better));
        error = ran.and(stored.context("the run was stopped")).err();
    }
    manifest.interrupted = testbed.stop.is_set();
    if !records.is_empty() {
        environment::conclude(&mut manifest.environment, &machine, plan.earlier.is_some());
    }
    drop((testbed, machine));

    manifest.elapsed_s = before + started.elapsed().as_secs_f64();
    let mut records: Vec<Record> = done.into_iter().chain(records).collect();
    store::put_in_order(&manifest, &mut records);
    if records.is_empty()
        && let Some(error) = error
    {
        return Err(error);
    }
    // Results are kept and shown, whatever else went wrong.
    let rendered = store::write_manifest(&plan.dir, &manifest)
        .and_then(|()| weir_report::write_all(&plan.dir, &manifest, &records));
    let styled = std::io::stdout().is_terminal();
    if plan.json {
        say!("{}", shown_in_json(&json::render(&manifest, &records, &plan.dir.to_string_lossy())?));
    } else {
        output::print(format_args!("{}", terminal::render(&manifest, &records, styled)));
    }
    if let Ok(rendered) = &rendered
        && !plan.json
    {
        say!("{}", Seat::new(|name| std::env::var(name).ok()).line(&rendered.page, styled));
    }
    error.map_or(Ok(()), Err)?;
    rendered.with_context(|| format!("create the report (retry: `weir lab report {}`)", plan.dir.display()))?;
    unwritten.map_or(Ok(()), Err)?;
    Ok(judge::fails(&manifest, &records))
}

/// Refuses a sweep with a cell that cannot run, or with more cells than memory holds.
fn check(sweep: &Sweep) -> Result<()> {
    sweep.check()?;
    let (cells, repeats) = (sweep.cells.len(), sweep.scenario().run.repeat);
    let all = (repeats.get() as usize).saturating_mul(cells);
    ensure!(all <= MAX_JOBS, "run.repeat: {repeats} times {cells} cells are {all}, but at most {MAX_JOBS} can run");
    Ok(())
}

fn uses_iperf3(cell: &Cell) -> bool {
    let mut traffic = cell::load(&cell.scenario).into_iter().chain([&cell.scenario.traffic]);
    traffic.any(|traffic| traffic.engine == Engine::Iperf3)
}

/// Ensures that this many cells of a sweep can be up at once.
pub(super) fn ensure_descriptors(sweep: &Sweep, cells: usize) -> Result<()> {
    limits::ensure_file_descriptors((cells * descriptors(sweep) + DESCRIPTORS_OF_THE_RUN) as u64)?;
    Ok(())
}

/// Descriptors of the largest cell: four per node (namespace, netlink socket, counters), two ports per link, two ends
/// per
/// connection, sockets and events, sockets that wait for switches to learn groups, and the emulator's.
fn descriptors(sweep: &Sweep) -> usize {
    let of = |cell: &Cell| {
        let scenario = &cell.scenario;
        let nodes = scenario.hosts.len() + scenario.routers.len() + scenario.switches.len();
        let traffic = std::iter::once(&scenario.traffic).chain(cell::load(scenario));
        let ends: usize = traffic.map(|traffic| 2 * traffic.streams as usize + traffic.to.names().len()).sum();
        4 * (nodes + 1) + 2 * scenario.links.len() + ends + 13
    };
    sweep.cells.iter().map(of).max().unwrap_or(0)
}

/// `20260131-235959`, UTC.
fn compact_time() -> String {
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    time.replace(['-', ':', 'Z'], "").replace('T', "-")
}

/// Cells times repeats.
const MAX_JOBS: usize = 100_000;

/// Standard streams, result files, the emulator's and the signals' events, and room for what a library opens.
const DESCRIPTORS_OF_THE_RUN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn more_repeats_than_memory_holds_are_refused_in_a_line() {
        let (_, text) = Scenario::find("telemetry").unwrap();
        let planned = |repeat: &str| {
            let sweep = Sweep::new("telemetry.toml", &text, &[("run.repeat".to_owned(), repeat.to_owned())]).unwrap();
            Plan::new(sweep, None, Vec::new()).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(planned("2380"), Ok(()));
        let refused = "run.repeat: 4000000000 times 42 cells are 168000000000, but at most 100000 can run";
        assert_eq!(planned("4000000000"), Err(refused.into()));
    }
}
