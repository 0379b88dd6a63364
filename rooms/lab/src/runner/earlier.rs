//! Existing records: of an earlier run that is resumed, and of cells that the machine disturbed.

use std::collections::{BTreeMap, BTreeSet};

use weir_program::output::complain;
use weir_report::record::Record;
use weir_report::store;

use crate::sweep::{Cell, Sweep};

/// Key of a record: a cell of the sweep and its repeat.
pub(super) type Key = (String, u32);

/// The cell of a record.
pub(super) fn key(record: &Record) -> Key {
    let (cell, repeat) = record.run();
    (cell.to_owned(), repeat)
}

/// Receivers of a cell; each has a record.
pub(super) fn receivers(cell: &Cell) -> usize {
    cell.scenario.traffic.to.names().len()
}

/// The records whose cell has one for each of its receivers, and unchanged settings.
pub(super) fn finished(sweep: &Sweep, mut records: Vec<Record>) -> Vec<Record> {
    let cells: BTreeMap<_, _> = sweep.cells.iter().map(|cell| (cell.name.as_str(), cell)).collect();
    let settings: BTreeMap<_, _> = cells.iter().map(|(name, cell)| (*name, cell.scenario.fingerprint())).collect();
    records.retain(|record| !record.stopped && !record.changed);
    let all = records.len();
    records.retain(|record| settings.get(&*key(record).0).is_none_or(|settings| record.settings == *settings));
    if records.len() < all {
        complain!(
            "weir: {} of {all} records have other settings than {}: their cells run again",
            all - records.len(),
            store::MANIFEST
        );
    }
    let mut had = BTreeMap::<Key, usize>::new();
    records.iter().for_each(|record| *had.entry(key(record)).or_default() += 1);
    records.retain(|record| {
        let key = key(record);
        cells.get(&*key.0).is_none_or(|cell| had[&key] >= receivers(cell))
    });
    records
}

/// The cells of records that are not valid and were not stopped.
pub(super) fn disturbed(records: &[Record]) -> BTreeSet<Key> {
    records.iter().filter(|record| !record.row.valid && !record.stopped).map(key).collect()
}

/// Whether a record is less disturbed than an existing one of the same run, if there is one.
pub(super) fn is_better(records: &[Record], new: &Record) -> bool {
    let mut same = records.iter().filter(|old| is_same(old, new));
    same.all(|old| !new.stopped && new.disturbed.len() < old.disturbed.len())
}

fn is_same(a: &Record, b: &Record) -> bool {
    a.row.cell == b.row.cell && a.row.repeat == b.row.repeat
}

/// Replaces records by those of a second run that are less disturbed. Returns the new ones.
pub(super) fn replace(records: &mut [Record], again: Vec<Record>) -> Vec<Record> {
    let mut better = Vec::new();
    for mut new in again {
        let is_better = is_better(records, &new);
        let Some(old) = records.iter_mut().find(|old| is_same(old, &new)) else { continue };
        old.reruns += 1;
        if is_better {
            new.reruns = old.reruns;
            *old = new.clone();
            better.push(new);
        }
    }
    better
}

#[cfg(test)]
mod tests {
    use weir_report::columns::RECEIVER;
    use weir_report::record::Statistic;

    use super::*;
    use crate::scenario::Scenario;

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
            record.settings = sweep.cells.iter().find(|own| own.name == cell).unwrap().scenario.fingerprint();
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
        assert_eq!(disturbed(&records), [("a".to_owned(), 1), ("b".to_owned(), 1)].into());
        let stopped = Record { stopped: true, ..record("b", 1, &[]) };
        let better = replace(&mut records, vec![record("a", 1, &[Rate]), stopped]);
        assert_eq!(better.len(), 1);
        assert_eq!(records.iter().map(|record| record.reruns).collect::<Vec<_>>(), [1, 0, 1]);
        assert_eq!((records[0].disturbed.len(), records[2].disturbed.len()), (1, 1));
    }
}
