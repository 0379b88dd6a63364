//! Drives the cells of a sweep, side by side, and leaves a result directory.

mod again;
mod cost;
mod gate;
mod last_words;
mod manifest;
mod own_cost;
mod queue;
mod repeats;

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use weir_kernel::limits;
use weir_kernel::namespaces::user;
use weir_program::output::{self, complain, say};
use weir_program::stop::Stop;
use weir_report::columns::RECEIVER;
use weir_report::opening::Seat;
use weir_report::record::{Manifest, Record};
use weir_report::store::{self, Store};
use weir_report::{self, json, judge, terminal};
use weir_units::format::shown_in_json;

use self::last_words::LastWords;
use self::queue::{Extras, Queue};
use self::repeats::Load;
use crate::cell::{self, Testbed};
use crate::environment;
use crate::iperf3;
use crate::machine::Machine;
use crate::scenario::{Engine, Jobs, Repeat};
use crate::sweep::{Cell, Sweep};

/// A sweep that can run: every cell's network has been checked.
#[derive(Debug)]
pub struct Plan {
    sweep: Sweep,
    dir: PathBuf,
    command: Vec<String>,
    extras: Extras,
    /// Standard output has the result as JSON, and nothing else.
    json: bool,
    /// The run that this one goes on with.
    earlier: Option<Manifest>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The result directory.
    pub dir: PathBuf,
    /// Cells that stayed disturbed.
    pub disturbed: usize,
    /// Whether it was stopped early.
    pub interrupted: bool,
    /// Whether an assertion of the scenario fails.
    pub unmet: bool,
}

impl Plan {
    /// Checks every cell. The result goes to `dir`, or to a new one under `results/`.
    pub fn new(sweep: Sweep, dir: Option<PathBuf>, command: Vec<String>) -> Result<Plan> {
        sweep.check()?;
        check_size(&sweep)?;
        let name = sweep.scenario().name.clone();
        let dir = dir.unwrap_or_else(|| Path::new("results").join(format!("{name}-{}", compact_time())));
        ensure!(
            !store::holds_a_run(&dir),
            "{} holds a result already: choose another directory with --out, or go on with it by `weir lab resume`",
            dir.display()
        );
        let extras = Extras { messages: Some(dir.join("messages")), ..Extras::default() };
        Ok(Plan { sweep, dir, command, extras, json: false, earlier: None })
    }

    /// Goes on with the run in `dir`, which was interrupted, killed, or ran out of disk: the cells that it lacks are
    /// run with the settings that its manifest has.
    pub fn resume(dir: PathBuf) -> Result<Plan> {
        let earlier = store::read_manifest(&dir)?;
        let origin = dir.join(store::MANIFEST).display().to_string();
        let sweep = Sweep::new(&origin, &earlier.source, &[])?;
        sweep.check()?;
        check_size(&sweep)?;
        let extras = Extras { messages: Some(dir.join("messages")), ..Extras::default() };
        let command = earlier.command.clone();
        Ok(Plan { sweep, dir, command, extras, json: false, earlier: Some(earlier) })
    }

    /// Says the result as JSON, on standard output, in place of all words.
    pub fn as_json(self) -> Plan {
        Plan { json: true, ..self }
    }

    /// Tells people who read along.
    fn tell(&self, line: &str) {
        if !self.json {
            say!("{line}");
        }
    }

    /// Captures the packets of a cell at both ends, `snap` bytes of each, into `pcap/` in the result directory.
    pub fn capture(mut self, cell: String, snap: u32) -> Result<Plan> {
        let known = self.sweep.cells.iter().any(|other| other.name == cell);
        let names: Vec<&str> = self.sweep.cells.iter().map(|cell| cell.name.as_str()).collect();
        ensure!(known, "--pcap {cell}: there is no such cell (there are {})", names.join(", "));
        self.extras.capture = Some((cell, self.dir.join("pcap"), snap));
        Ok(self)
    }
}

/// How long a run may take to end after a signal: cells put away what they have, the report is written.
const GRACE: Duration = Duration::from_secs(60);

/// Runs a plan. To be called while the process has one thread: an ordinary user enters a user namespace first.
pub fn run(plan: &Plan) -> Result<Summary> {
    let iperf3 = plan.sweep.cells.iter().any(uses_iperf3).then(iperf3::find).transpose()?;
    let privilege = user::obtain_network_privilege()?;
    let stop = Stop::on_signals_within(GRACE).context("watch for Ctrl-C")?;
    let done = match plan.earlier {
        None => Vec::new(),
        Some(_) => finished(&plan.sweep, store::whole_records(&plan.dir)?),
    };
    let names = done.iter().map(|record| (sweep_name(record).to_owned(), record.row.repeat));
    let names: BTreeSet<_> = names.collect();
    let scenario = plan.sweep.scenario();
    let jobs = scenario.run.jobs;
    // More cells than these cannot be up at once, whatever the repeats.
    let fewest = queue::workers(jobs, plan.sweep.cells.len());
    let descriptors = ensure_descriptors(&plan.sweep, fewest)?;
    let mut store = match plan.earlier {
        None => Store::create(&plan.dir)?,
        Some(_) => Store::resume(&plan.dir, &done)?,
    };
    let testbed = Testbed::start(scenario, stop, if jobs == Jobs::All { 1 } else { fewest })?;
    let machine = Machine::start(testbed.realtime, scenario.run.realtime);
    let (started, before) = (Instant::now(), plan.earlier.as_ref().map_or(0.0, |earlier| earlier.elapsed_s));
    let mut own_cost = plan.earlier.as_ref().and_then(|earlier| earlier.own_cost.clone());
    let mut load = None;
    if own_cost.is_none() && !scenario.run.control.duration().is_zero() {
        let (measured, seen) = own_cost::measure(&testbed, &machine, scenario)?;
        load = Some(seen);
        // One that was stopped is measured again when the run is resumed.
        own_cost = (!testbed.stop.is_set()).then_some(measured);
    }
    let most = most_cells(&plan.sweep, descriptors);
    let repeats = repeats::how_many(&plan.sweep, load.unwrap_or(Load::GUESSED), testbed.realtime, most);
    let mut manifest = match &plan.earlier {
        None => {
            let mut facts = environment::facts(&scenario.run, &testbed, &machine, privilege);
            facts.extend(load.map(|load| ("a message takes".to_owned(), load.words())));
            let buffer = scenario.tcp.buffer.map(|most| format!("up to {most}"));
            facts.extend(buffer.map(|buffer| ("tcp buffers of the hosts".to_owned(), buffer)));
            facts.extend(iperf3.map(|version| ("iperf3".to_owned(), version.to_string())));
            manifest::of(plan, repeats, facts)?
        }
        Some(earlier) => earlier.clone(),
    };
    manifest.own_cost = own_cost;
    store.manifest(&manifest).map_err(|error| if plan.earlier.is_none() { error.at_the_start() } else { error })?;
    let _unless_rendered = LastWords::new(&plan.dir, &testbed.stop);
    manifest.network.iter().filter(|line| line.contains(" -> ")).for_each(|path| plan.tell(path));
    let queue = Queue::new(&plan.sweep, repeats, |job| !names.contains(job), plan.extras.clone())?;
    ensure_descriptors(&plan.sweep, queue.jobs)?;
    let chosen = scenario.run.repeat == Repeat::Auto && jobs == Jobs::All;
    plan.tell(&queue.announcement(&scenario.name, repeats, chosen));
    let mut results = queue.run(&testbed, &machine, &mut store);
    for _ in 0..scenario.run.reruns {
        if results.error.is_some() || testbed.stop.is_set() {
            break;
        }
        match again::run(plan, repeats, &mut results.records, &testbed, &machine, &mut store) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => results.error = Some(error),
        }
    }
    let interrupted = testbed.stop.is_set();
    if queue.total > 0 {
        environment::conclude(&mut manifest.environment, &machine, plan.earlier.is_some());
    }
    drop((testbed, machine));

    manifest.elapsed_s = before + started.elapsed().as_secs_f64();
    manifest.interrupted = interrupted;
    let mut records: Vec<Record> = done.into_iter().chain(results.records).collect();
    store::put_in_order(&manifest, &mut records);
    if records.is_empty()
        && let Some(error) = results.error.take()
    {
        return Err(error);
    }
    // What was measured is kept and shown, whatever else went wrong.
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
    if let Some(error) = results.error {
        return Err(error);
    }
    rendered.with_context(|| format!("render what was measured (again: `weir lab report {}`)", plan.dir.display()))?;
    if let Some(error) = results.unwritten {
        return Err(error);
    }
    Ok(Summary {
        dir: plan.dir.clone(),
        disturbed: records.iter().filter(|record| !record.row.valid).count(),
        interrupted,
        unmet: judge::fails(&manifest, &records),
    })
}

/// Refuses more than anybody could wait for, and memory holds.
fn check_size(sweep: &Sweep) -> Result<()> {
    let cells = sweep.cells.len();
    if let Repeat::Count(repeats) = sweep.scenario().run.repeat {
        let all = (repeats.get() as usize).saturating_mul(cells);
        ensure!(all <= MOST_JOBS, "run.repeat: {repeats} times {cells} cells are {all}; at most {MOST_JOBS} can run");
    }
    Ok(())
}

fn uses_iperf3(cell: &Cell) -> bool {
    let traffic = std::iter::once(&cell.scenario.traffic).chain(cell::load(&cell.scenario));
    traffic.into_iter().any(|traffic| traffic.engine == Engine::Iperf3)
}

/// Those of these records whose cell had got as far as a record for each of its receivers, and has the settings still.
fn finished(sweep: &Sweep, mut records: Vec<Record>) -> Vec<Record> {
    let now: BTreeMap<&str, String> =
        sweep.cells.iter().map(|cell| (cell.name.as_str(), cell.scenario.fingerprint())).collect();
    let all = records.len();
    // Those of earlier versions do not tell.
    records.retain(|record| {
        record.settings.is_empty() || now.get(sweep_name(record)).is_none_or(|settings| record.settings == *settings)
    });
    if records.len() < all {
        complain!(
            "weir: {} of {all} records are of other settings than {} has now (was it edited?): their cells run again",
            all - records.len(),
            store::MANIFEST
        );
    }
    let key = |record: &Record| (sweep_name(record).to_owned(), record.row.repeat);
    let mut had = BTreeMap::<_, usize>::new();
    records.iter().for_each(|record| *had.entry(key(record)).or_default() += 1);
    let wanted: BTreeMap<&str, usize> = sweep.cells.iter().map(|cell| (cell.name.as_str(), receivers(cell))).collect();
    records.retain(|record| wanted.get(sweep_name(record)).is_none_or(|wanted| had[&key(record)] >= *wanted));
    records
}

/// Receivers of a cell, each of which has a record.
fn receivers(cell: &Cell) -> usize {
    cell.scenario.traffic.to.names().len()
}

/// The name of the sweep's cell that a record is of: without its receiver.
fn sweep_name(record: &Record) -> &str {
    let receiver = record.axes.iter().find(|(key, _)| key == RECEIVER);
    let name = &record.row.cell;
    receiver.and_then(|(_, receiver)| name.strip_suffix(&format!("@{receiver}"))).unwrap_or(name)
}

/// Makes sure that this many cells of a sweep can be up at once. Returns how many descriptors there are.
pub(super) fn ensure_descriptors(sweep: &Sweep, cells: usize) -> Result<u64> {
    Ok(limits::ensure_file_descriptors((cells * descriptors(sweep) + DESCRIPTORS_OF_THE_RUN) as u64)?)
}

/// Cells that so many descriptors suffice for.
fn most_cells(sweep: &Sweep, limit: u64) -> usize {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    limit.saturating_sub(DESCRIPTORS_OF_THE_RUN) / descriptors(sweep).max(1)
}

/// Descriptors of the largest cell: four a node (namespace, netlink socket, counters), two ports a link, two ends a
/// connection, sockets and events, those that wait for switches to know a group, and the emulator's.
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
    time.chars().filter(|c| c.is_ascii_digit() || *c == 'T').map(|c| if c == 'T' { '-' } else { c }).collect()
}

/// Cells times repeats.
const MOST_JOBS: usize = 100_000;

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
        assert_eq!((planned("2380"), planned("auto")), (Ok(()), Ok(())));
        let refused = "run.repeat: 4000000000 times 42 cells are 168000000000; at most 100000 can run";
        assert_eq!(planned("4000000000"), Err(refused.into()));
    }

    #[test]
    fn a_cell_is_done_when_each_of_its_receivers_has_a_record() {
        let (_, text) = Scenario::find("multicast").unwrap();
        let overrides = [("links.lossy.forward.loss".to_owned(), "0%,1%".to_owned())];
        let sweep = Sweep::new("multicast.toml", &text, &overrides).unwrap();
        let receivers = sweep.scenario().traffic.to.names();
        let record = |cell: &str, receiver: &String| {
            let mut record = Record::default();
            record.row.cell = format!("{cell}@{receiver}");
            record.row.repeat = 1;
            record.axes = vec![(RECEIVER.to_owned(), receiver.clone())];
            record
        };
        let whole: Vec<Record> = receivers.iter().map(|name| record("0%", name)).collect();
        let part = receivers[1..].iter().map(|name| record("1%", name));
        let records = whole.iter().cloned().chain(part).collect();
        let names = |records: &[Record]| records.iter().map(|record| record.row.cell.clone()).collect::<Vec<_>>();
        assert_eq!(names(&finished(&sweep, records)), names(&whole));

        // What the manifest has now is not what they were measured by.
        let own = sweep.cells[0].scenario.fingerprint();
        let settled = |settings: &str| -> Vec<Record> {
            whole.iter().map(|record| Record { settings: settings.to_owned(), ..record.clone() }).collect()
        };
        assert_eq!(finished(&sweep, settled(&own)).len(), whole.len());
        let edited = [overrides[0].clone(), ("run.duration".to_owned(), "7s".to_owned())];
        let edited = Sweep::new("multicast.toml", &text, &edited).unwrap();
        assert!(finished(&edited, settled(&own)).is_empty());
        let told =
            [overrides[0].clone(), ("title".to_owned(), "Another".to_owned()), ("run.jobs".to_owned(), "3".to_owned())];
        let told = Sweep::new("multicast.toml", &text, &told).unwrap();
        assert_eq!(finished(&told, settled(&own)).len(), whole.len(), "how it is told is not measured");
    }
}
