//! What a worker does with a cell.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use weir_report::record::{MESSAGES_LACK, Record};
use weir_report::store::StoreError;

use super::queue::Meeting;
use crate::account;
use crate::cell::{self, Measured, Prepared, Testbed};
use crate::endpoints;
use crate::machine::Machine;
use crate::messages;
use crate::scenario::{Jobs, Mode, Scenario};
use crate::sweep::{Cell, Sweep};

/// A cell to be run, and which of its repeats.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    /// Of all of the run.
    place: usize,
    pub(super) cell: &'a Cell,
    pub(super) repeat: u32,
}

/// What is done with a cell besides measuring it.
#[derive(Clone, Debug)]
pub(super) struct Extras {
    /// The cell to capture the packets of, the directory to put them into, and how many bytes of each to keep.
    pub(super) capture: Option<(String, PathBuf, u32)>,
    /// The directory to put the times of messages into.
    pub(super) messages: PathBuf,
}

/// A worker: which of how many it is, and what it shares with the others.
pub(super) struct Worker<'r> {
    pub(super) number: usize,
    pub(super) workers: usize,
    pub(super) testbed: &'r Testbed,
    pub(super) machine: &'r Machine,
    pub(super) extras: &'r Extras,
    /// The last cell's network, which stays until the next one is made, or all traffic has ended.
    pub(super) last: Option<Measured<'r>>,
}

/// The records of a cell, and why its file of messages could not be written.
pub(super) type Outcome = (Vec<Record>, Option<StoreError>);

/// All jobs of a sweep that are `wanted`: each repeat of all cells after the one before it.
pub(super) fn jobs<'a>(sweep: &'a Sweep, wanted: impl Fn(&Cell, u32) -> bool) -> Vec<Job<'a>> {
    let repeats = 1..=sweep.scenario().run.repeat.get();
    let all = repeats.flat_map(|repeat| sweep.cells.iter().map(move |cell| (cell, repeat))).enumerate();
    let jobs = all.map(|(place, (cell, repeat))| Job { place, cell, repeat });
    jobs.filter(|job| wanted(job.cell, job.repeat)).collect()
}

/// How many of so many jobs run at once.
pub(super) fn workers(sweep: &Sweep, jobs: usize) -> usize {
    let is_light = |scenario: &Scenario| {
        let interval = endpoints::interval(&scenario.traffic);
        scenario.traffic.mode == Mode::Messages && cell::load(scenario).is_none() && interval >= LIGHT
    };
    match sweep.scenario().run.jobs {
        Jobs::All => jobs,
        Jobs::Count(count) => count.min(jobs),
        Jobs::Auto if sweep.cells.iter().all(|cell| is_light(&cell.scenario)) => LIGHT_AT_ONCE.min(jobs),
        Jobs::Auto => 1.min(jobs),
    }
}

impl Job<'_> {
    /// About how long it takes, its network included.
    pub(super) fn time(&self) -> Duration {
        let scenario = &self.cell.scenario;
        let warmups =
            cell::load(scenario).into_iter().chain([&scenario.traffic]).map(|traffic| traffic.warmup.duration());
        // Bulk transfers end with their window, whatever is under way.
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
            // Repeats may run side by side.
            let name = if job.repeat > 1 { format!("{name}-{}", job.repeat) } else { name.clone() };
            prepared = prepared.and_then(|mut prepared| prepared.capture(dir, &name, *snap).map(|()| prepared));
        }
        meeting.before_traffic();
        // Cells that run side by side do not send in step, nor start at once.
        let number = self.number as u32;
        let stagger = endpoints::interval(&cell.scenario.traffic) * number / self.workers as u32 + SPACING * number;
        let measured = prepared.and_then(|prepared| prepared.run(stagger, self.machine));
        let measured = self.last.insert(measured.with_context(|| format!("cell {}", cell.name))?);
        let mut records = account::records(cell, job.repeat, measured);
        // What was measured is kept without it.
        let unwritten = run
            .messages
            .then(|| messages::write(&self.extras.messages, cell, job.repeat, measured).err())
            .flatten()
            .map(StoreError::outside_the_lab);
        if let Some(error) = &unwritten {
            let remark = format!("{MESSAGES_LACK} all messages, and is not there: {error}");
            records.iter_mut().for_each(|record| record.remarks.push(remark.clone()));
        }
        Ok((records, unwritten))
    }
}

/// Messages at such an interval, and slower ones, leave most of a processor to others: each takes about 60 us of one.
const LIGHT: Duration = Duration::from_millis(1);

/// So many of those at once take half of one processor: 8 * 60 us / 1 ms.
const LIGHT_AT_ONCE: usize = 8;

/// Building and settling a network, and connecting.
const NETWORK: Duration = Duration::from_millis(700);

/// Between the starts of cells that run side by side.
const SPACING: Duration = Duration::from_millis(10);

/// Far apart and odd, so that the seeds of repeats never meet those of neighbouring runs.
const REPEAT_STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn light_messages_run_eight_at_once_and_all_else_alone() {
        let at_once = |set: &[(&str, &str)]| {
            let (_, text) = Scenario::find("telemetry").unwrap();
            let sweep = Sweep::of_test("telemetry.toml", &text, set).unwrap();
            workers(&sweep, 42)
        };
        let auto = ("run.jobs", "auto");
        assert_eq!([at_once(&[]), at_once(&[auto]), at_once(&[("run.jobs", "5")])], [42, 8, 5]);
        assert_eq!(at_once(&[auto, ("traffic.interval", "1ms")]), 8);
        assert_eq!(at_once(&[auto, ("traffic.interval", "999us")]), 1);
        assert_eq!(at_once(&[auto, ("traffic.mode", "bulk")]), 1);
    }
}
