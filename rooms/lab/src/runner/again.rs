//! Cells that are run again: those that the machine disturbed, as long as it is calm now.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use weir_kernel::processors::Processors;
use weir_program::stop::Stop;
use weir_report::record::Record;
use weir_report::store::Store;
use weir_units::format;

use super::queue::{Extras, Queue};
use super::{Plan, sweep_name};
use crate::cell::Testbed;
use crate::machine::Machine;
use crate::scenario::Run;

/// Runs the disturbed cells once more, if the machine is calm by now, and puts the better records into place. Tells
/// whether any ran.
pub(super) fn run(
    plan: &Plan,
    repeats: u32,
    records: &mut [Record],
    testbed: &Testbed,
    machine: &Machine,
    store: &mut Store,
) -> Result<bool> {
    let disturbed = disturbed(records);
    if disturbed.is_empty() {
        return Ok(false);
    }
    let reason = reason(records, &disturbed);
    let cells = if disturbed.len() == 1 { "1 cell was".to_owned() } else { format!("{} cells were", disturbed.len()) };
    if !is_calm(machine, &plan.sweep.scenario().run, &testbed.stop) {
        plan.tell(&format!("{cells} disturbed ({reason}); not run again, the machine is not calm now"));
        return Ok(false);
    }
    let extras = Extras::default();
    let queue = Queue::new(&plan.sweep, repeats, |job| disturbed.contains(job), extras)?.without_store();
    plan.tell(&format!("{cells} disturbed ({reason}): again, {}", queue.time()));
    let again = queue.run(testbed, machine, store);
    for better in replace(records, again.records) {
        store.append(&better)?;
    }
    again.error.map_or(Ok(true), Err)
}

/// The cells, and their repeats, of records that are not valid and were not stopped.
fn disturbed(records: &[Record]) -> BTreeSet<(String, u32)> {
    let disturbed = records.iter().filter(|record| !record.row.valid && !record.stopped);
    disturbed.map(|record| (sweep_name(record).to_owned(), record.row.repeat)).collect()
}

/// Why, in a line: the first few of them, and what was wrong with the very first.
fn reason(records: &[Record], again: &BTreeSet<(String, u32)>) -> String {
    let of = |(cell, repeat): &(String, u32)| {
        records.iter().find(|record| sweep_name(record) == cell && record.row.repeat == *repeat)
    };
    let names: Vec<&str> = again.iter().take(NAMED).map(|(cell, _)| cell.as_str()).collect();
    let more = again.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let why = again.first().and_then(of).map(|record| record.doubts().join("; ")).unwrap_or_default();
    format!("{}{more}: {why}", format::printable(&names.join(", ")))
}

/// Whether a cell that begins now would fare better: the machine is looked at for a second.
fn is_calm(machine: &Machine, run: &Run, stop: &Stop) -> bool {
    let (mark, before) = (machine.mark(), Processors::read().ok());
    stop.wait(std::time::Instant::now() + LOOK);
    let observed = machine.since(&mark);
    let foreign = before.zip(Processors::read().ok()).map_or(0.0, |(before, now)| now.foreign_share(&before));
    observed.share(observed.from, observed.to) <= run.max_standstill.fraction() && foreign <= run.max_foreign.fraction()
}

/// Puts records of a second run in the place of those of the first, where they are less disturbed. Returns those that
/// are better.
fn replace(records: &mut [Record], again: Vec<Record>) -> Vec<Record> {
    let mut better = Vec::new();
    for mut new in again {
        let same = |old: &&mut Record| old.row.cell == new.row.cell && old.row.repeat == new.row.repeat;
        let Some(old) = records.iter_mut().find(same) else { continue };
        new.reruns = old.reruns + 1;
        if !new.stopped && new.disturbed.len() < old.disturbed.len() {
            *old = new.clone();
            better.push(new);
        } else {
            old.reruns += 1;
        }
    }
    better
}

/// Cells that are named.
const NAMED: usize = 3;

const LOOK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use weir_report::record::Statistic;

    use super::*;

    fn record(cell: &str, repeat: u32, doubts: &[Statistic]) -> Record {
        let mut record = Record::default();
        (record.row.cell, record.row.repeat, record.row.valid) = (cell.into(), repeat, doubts.is_empty());
        record.disturbed = doubts.iter().map(|statistic| (*statistic, format!("{statistic:?} suffered"))).collect();
        record
    }

    #[test]
    fn the_less_disturbed_record_stays() {
        use Statistic::{Mean, Rate};
        let mut records = vec![record("a", 1, &[Mean, Rate]), record("a", 2, &[]), record("b", 1, &[Mean])];
        let again = disturbed(&records);
        assert_eq!(again, [("a".to_owned(), 1), ("b".to_owned(), 1)].into());
        assert_eq!(reason(&records, &again), "a, b: Rate suffered; Mean suffered");
        let stopped = Record { stopped: true, ..record("b", 1, &[]) };
        let better = replace(&mut records, vec![record("a", 1, &[Rate]), stopped]);
        assert_eq!(better.len(), 1);
        assert_eq!(records.iter().map(|record| record.reruns).collect::<Vec<_>>(), [1, 0, 1]);
        assert_eq!((records[0].disturbed.len(), records[2].disturbed.len()), (1, 1));
    }
}
