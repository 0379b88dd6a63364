//! The work on one cell.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use weir_report::record::{MESSAGES_LACK, Record};
use weir_report::store::StoreError;
use weir_traffic::Transport;

use super::earlier;
use super::queue::Meeting;
use crate::account;
use crate::cell::{self, Measured, Prepared, Testbed};
use crate::endpoints;
use crate::machine::Machine;
use crate::messages;
use crate::scenario::{Jobs, Mode, Scenario};
use crate::sweep::{Cell, Sweep};
use crate::topology::Topology;

/// A cell to run, and its repeat.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    /// Its place among all jobs of the run.
    place: usize,
    pub(super) cell: &'a Cell,
    pub(super) repeat: u32,
}

/// Extra output of a cell.
#[derive(Clone, Debug)]
pub(super) struct Extras {
    /// The cell whose packets to capture, the directory for them, and how many bytes of each to keep.
    pub(super) capture: Option<(String, PathBuf, u32)>,
    /// The directory for the times of messages.
    pub(super) messages: PathBuf,
}

/// A worker: its number, the number of workers, and what they share.
pub(super) struct Worker<'r> {
    pub(super) number: usize,
    pub(super) workers: usize,
    pub(super) testbed: &'r Testbed,
    pub(super) machine: &'r Machine,
    pub(super) extras: &'r Extras,
    /// Earlier records of the same cell, which its own must improve on.
    pub(super) earlier: &'r [Record],
    /// The last cell's network, which stays until the next one is built or all traffic has ended.
    pub(super) last: Option<Measured<'r>>,
}

/// The records of a cell, and why its messages file could not be written.
pub(super) type Outcome = (Vec<Record>, Option<StoreError>);

/// All `wanted` jobs of a sweep: first all cells' first repeats, then their second ones, and so on.
pub(super) fn jobs<'a>(sweep: &'a Sweep, wanted: impl Fn(&Cell, u32) -> bool) -> Vec<Job<'a>> {
    let repeats = 1..=sweep.scenario().run.repeat.get();
    let all = repeats.flat_map(|repeat| sweep.cells.iter().map(move |cell| (cell, repeat))).enumerate();
    let jobs = all.map(|(place, (cell, repeat))| Job { place, cell, repeat });
    jobs.filter(|job| wanted(job.cell, job.repeat)).collect()
}

/// Jobs in groups, each with its number of parallel jobs: those that fill a CPU come first.
pub(super) fn groups(jobs: Vec<Job<'_>>) -> Vec<(usize, Vec<Job<'_>>)> {
    let mut groups = BTreeMap::<usize, Vec<Job<'_>>>::new();
    for job in jobs {
        let at_once = match job.cell.scenario.run.jobs {
            Jobs::All => usize::MAX,
            Jobs::Count(count) => count,
            Jobs::Auto => at_once(job.cell),
        };
        groups.entry(at_once).or_default().push(job);
    }
    groups.into_iter().map(|(at_once, jobs)| (at_once.min(jobs.len()), jobs)).collect()
}

/// How many cells like this one two CPUs can run.
fn at_once(cell: &Cell) -> usize {
    let Scenario { traffic, tcp, .. } = &cell.scenario;
    // BBR does not yield to loss.
    let yields = traffic.transport == Transport::Tcp && traffic.streams == 1 && tcp.congestion != "bbr";
    let is_slow = |topology: Topology| {
        let path = &topology.traffic.paths[0].forward;
        topology.loss(path) >= LOSSY && topology.latency_ms(path) >= FAR_MS
    };
    match traffic.mode {
        _ if cell::load(&cell.scenario).is_some() => 1,
        Mode::Messages if endpoints::interval(traffic) >= LIGHT => LIGHT_AT_ONCE,
        Mode::Bulk if yields && cell.topology().is_ok_and(is_slow) => SLOW_AT_ONCE,
        _ => 1,
    }
}

impl Job<'_> {
    /// Its estimated duration, including its network.
    pub(super) fn time(&self) -> Duration {
        let scenario = &self.cell.scenario;
        let warmups =
            cell::load(scenario).into_iter().chain([&scenario.traffic]).map(|traffic| traffic.warmup.duration());
        // Bulk transfers end with their window, whatever is in flight.
        let drain = if scenario.traffic.mode == Mode::Bulk { Duration::ZERO } else { scenario.run.drain.duration() };
        warmups.sum::<Duration>() + scenario.run.duration.duration() + drain + NETWORK
    }
}

impl Worker<'_> {
    pub(super) fn run(&mut self, job: Job<'_>, meeting: &mut Meeting<'_>) -> Result<Outcome> {
        let (cell, run) = (job.cell, &job.cell.scenario.run);
        let seed = run.seed.wrapping_add(u64::from(job.repeat - 1).wrapping_mul(REPEAT_STRIDE));
        drop(self.last.take());
        let mut prepared = Prepared::new(self.testbed, cell, seed, job.place as u16, self.number);
        if let Some((name, dir, snap)) = &self.extras.capture
            && *name == cell.name
        {
            // Repeats may run in parallel.
            let name = if job.repeat > 1 { format!("{name}-{}", job.repeat) } else { name.clone() };
            prepared = prepared.and_then(|mut prepared| prepared.capture(dir, &name, *snap).map(|()| prepared));
        }
        meeting.before_traffic();
        // Parallel cells do not send in step or start at the same time.
        let number = self.number as u32;
        let stagger = endpoints::interval(&cell.scenario.traffic) * number / self.workers as u32 + SPACING * number;
        let measured = prepared.and_then(|prepared| prepared.run(stagger, self.machine));
        let measured = self.last.insert(measured.with_context(|| format!("cell {}", cell.name))?);
        let mut records = account::records(cell, job.repeat, measured);
        let kept = |new: &Record| run.messages && earlier::is_better(self.earlier, new);
        let written = messages::write(&self.extras.messages, &records, &measured.traffic, kept);
        // The records are kept without the file.
        let unwritten = written.err().map(StoreError::outside_the_lab);
        if let Some(error) = &unwritten {
            let remark = format!("{MESSAGES_LACK} all messages, and is not there: {error}");
            records.iter_mut().for_each(|record| record.remarks.push(remark.clone()));
        }
        Ok((records, unwritten))
    }
}

/// Messages at this interval or a longer one leave most of a CPU to others: each takes about 60 us.
const LIGHT: Duration = Duration::from_millis(1);

/// This many of them take half of one CPU: 8 * 60 us / 1 ms.
const LIGHT_AT_ONCE: usize = 8;

/// On a path with this loss and delay, TCP that yields to loss reaches at most 70 Mbit/s (Mathis et al., "The
/// macroscopic behavior of the TCP congestion avoidance algorithm", 1997: 1448 B / 2 ms * 1.22 / sqrt(1 %)), 0.11 of a
/// CPU.
const LOSSY: f64 = 0.01;
const FAR_MS: f64 = 1.0;

/// If all were at that limit, this many of them would use nine tenths of two CPUs.
const SLOW_AT_ONCE: usize = 16;

/// Building and settling a network, and connecting.
const NETWORK: Duration = Duration::from_millis(700);

/// Time between the starts of parallel cells.
const SPACING: Duration = Duration::from_millis(10);

/// Large and odd, so that seeds of repeats never equal those of neighbouring runs.
const REPEAT_STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn light_messages_and_lossy_tcp_run_side_by_side_and_all_else_alone() {
        let grouped = |name: &str, set: &[(&str, &str)]| -> Vec<(usize, usize)> {
            let (_, text) = Scenario::find(name).unwrap();
            let sweep = Sweep::of_test("any.toml", &text, set).unwrap();
            let groups = groups(jobs(&sweep, |_, repeat| repeat == 1));
            groups.into_iter().map(|(at_once, jobs)| (at_once, jobs.len())).collect()
        };
        let (auto, telemetry) = (("run.jobs", "auto"), |set: &[_]| grouped("telemetry", set));
        assert_eq!([telemetry(&[]), telemetry(&[auto])], [[(42, 42)], [(8, 42)]]);
        assert_eq!(telemetry(&[("run.jobs", "5")]), [(5, 42)]);
        assert_eq!(telemetry(&[auto, ("traffic.interval", "1ms")]), [(8, 42)]);
        assert_eq!(telemetry(&[auto, ("traffic.interval", "999us")]), [(1, 42)]);
        assert_eq!(grouped("matrix", &[]), [(1, 15), (16, 252)]);
        assert_eq!(grouped("matrix", &[("tcp.congestion", "bbr")]), [(1, 267)]);
    }
}
