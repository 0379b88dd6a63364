//! A summary of the run in sentences, and its warnings.

use std::collections::BTreeSet;

use weir_units::format;

use crate::columns;
use crate::record::{
    CAPTURE_LACKS, EMPTY_COLUMN, LATE_SENDER, MESSAGES_LACK, Manifest, OwnCost, Record, SENDER_FAILED, STANDSTILLS,
};

/// Size of the run, the machine, and whether the ledgers close, one sentence each.
pub fn sentences(manifest: &Manifest, records: &[Record]) -> Vec<String> {
    let mut sentences = vec![carried(manifest, records)];
    let known = records.iter().filter(|record| record.row.unexplained.is_some()).count();
    if known > 0 && records.iter().all(|record| record.row.unexplained.unwrap_or(0) == 0) {
        let which = if known == records.len() { "every cell".to_owned() } else { format!("{known} cells") };
        sentences.push(format!("The ledger closes in {which}: nothing is unexplained."));
    }
    sentences.extend(manifest.own_cost.as_ref().map(own_cost));
    sentences.extend(machine(manifest));
    sentences
}

/// Size of the run, in a sentence.
pub fn carried(manifest: &Manifest, records: &[Record]) -> String {
    let (bulk, messages): (Vec<&Record>, Vec<&Record>) = records.iter().partition(|record| columns::is_bulk(record));
    // Each receiver of a group counts the messages sent to all of them.
    let mut counted = BTreeSet::new();
    let sent = messages.iter().filter(|record| counted.insert(record.run())).map(|record| record.row.sent);
    let sent: u64 = sent.sum();
    let several = if counted.len() < messages.len() { " to several receivers" } else { "" };
    let number = |n: u64| format::count(i64::try_from(n).unwrap_or(i64::MAX));
    let received: f64 = bulk.iter().filter_map(|record| columns::number(record, "received_bytes")).sum();
    let mut carried = Vec::new();
    if sent > 0 {
        let delivered: u64 = messages.iter().map(|record| record.row.delivered).sum();
        carried.push(format!("{} messages were sent, {} delivered{several}", number(sent), number(delivered)));
    }
    if !bulk.is_empty() {
        carried.push(format!("{} were received in bulk", format::bytes(received)));
    }
    let (had, planned, colon) = (records.len(), manifest.planned_cells, if carried.is_empty() { "" } else { ": " });
    format!("{had} of {planned} cells ran in {}{colon}{}.", format::span(manifest.elapsed_s), carried.join("; "))
}

/// The delay that the lab itself adds, in a sentence.
pub fn own_cost(cost: &OwnCost) -> String {
    let at = |name: &str, value: Option<f64>| value.map(|value| format!("{name} {}", format::duration(value)));
    let parts =
        [at("median", cost.delay.get(0.5)), at("99th percentile", cost.delay.get(0.99)), at("largest", cost.delay.max)];
    let parts = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let n = format::count(i64::try_from(cost.n).unwrap_or(i64::MAX));
    format!(
        "The lab itself adds this to a path: {parts} (one-way delay of {n} messages over {} through the same network \
         without impairments, in {}).",
        cost.transport.to_uppercase(),
        format::duration(cost.seconds * 1e6)
    )
}

/// The machine's standstills, in a sentence. `None`: not recorded.
pub fn machine(manifest: &Manifest) -> Option<String> {
    let fact =
        |wanted: &str| manifest.environment.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    Some(format!("The machine: {STANDSTILLS}: {}.", fact(STANDSTILLS)?))
}

/// Warnings about the numbers; empty if there are none.
pub fn warnings(manifest: &Manifest, records: &[Record]) -> Vec<String> {
    let mut warnings = Vec::new();
    if manifest.interrupted {
        let (had, planned) = (records.len(), manifest.planned_cells);
        let stopped = records.iter().filter(|record| record.stopped).count();
        let stopped = if stopped > 0 { format!(", {stopped} of them not to their end") } else { String::new() };
        let rest = "`weir lab resume` runs the rest";
        warnings.push(format!("The run was interrupted: {had} of {planned} cells ran{stopped}; {rest}."));
    } else if records.len() < manifest.planned_cells {
        warnings.push(format!(
            "{} of {} cells are missing.",
            manifest.planned_cells - records.len(),
            manifest.planned_cells
        ));
    }
    let repeated = records.iter().any(|record| record.row.repeat > 1);
    let name = |record: &Record| {
        let repeat = if repeated { format!(" (repeat {})", record.row.repeat) } else { String::new() };
        format!("{}{repeat}", record.row.cell)
    };
    let faulty = records.iter().filter(|record| record.row.unexplained.is_some_and(|n| n != 0));
    warnings.extend(several(faulty, "does not close its ledger", "do not close their ledgers", &|record| {
        let unexplained = format::count(record.row.unexplained.unwrap_or(0));
        (name(record), format!("{unexplained} unexplained, a bug in Weir"))
    }));
    // A path may carry nothing, but a program's failure must not look like that.
    warnings.extend(several(records.iter().filter(is_silent), "carried nothing", "carried nothing", &|record| {
        let about = record.remarks.iter().filter(|remark| !remark.starts_with(EMPTY_COLUMN));
        (name(record), about.map(|remark| remark.trim_end_matches('.')).collect::<Vec<_>>().join("; "))
    }));
    for (beginning, is, are) in SHORTFALLS {
        warnings.extend(shortfalls(records, beginning, is, are, &name));
    }
    let disturbed = records.iter().filter(|record| !record.row.valid);
    warnings.extend(several(disturbed, "is not valid", "are not valid", &|record| {
        let reruns = match record.reruns {
            0 => String::new(),
            1 => "after a rerun; ".into(),
            reruns => format!("after {reruns} reruns; "),
        };
        // Stopped, or of an earlier version: the remarks have the reason.
        let why = if record.disturbed.is_empty() { record.remarks.join("; ") } else { record.doubts().join("; ") };
        (name(record), format!("{reruns}{}", why.trim_end_matches('.')))
    }));
    let side_by_side = manifest.source.lines().any(|line| line.trim() == "jobs = \"all\"");
    let spoiled = records.iter().any(|record| !record.row.valid && !record.disturbed.is_empty());
    if spoiled && side_by_side && manifest.planned_cells > 1 {
        warnings.push("Cells that run at once compete for CPUs: `--set run.jobs=1` runs one at a time.".into());
    }
    warnings
}

/// Whether nothing was received in it, with all reasons in its remarks.
fn is_silent(record: &&Record) -> bool {
    let is_about = |remark: &String| !remark.starts_with(EMPTY_COLUMN);
    record.row.valid && !record.row.by_programs && record.row.mbit_per_s == 0.0 && record.remarks.iter().any(is_about)
}

/// Remarks that become warnings: the beginning of the remark, and the text for one cell and for several.
const SHORTFALLS: [(&str, &str, &str); 5] = [
    (LATE_SENDER, "was sent late", "were sent late"),
    (SENDER_FAILED, "was not sent completely", "were not sent completely"),
    (CAPTURE_LACKS, "is not captured completely", "are not captured completely"),
    (MESSAGES_LACK, "is not listed completely", "are not listed completely"),
    (EMPTY_COLUMN, "lacks values", "lack values"),
];

/// The warnings of the remarks with this beginning: one per cell, whose receivers all have the same.
fn shortfalls(
    records: &[Record],
    beginning: &str,
    is: &str,
    are: &str,
    name: &dyn Fn(&Record) -> String,
) -> Vec<String> {
    let words = |record: &Record| {
        let those = record.remarks.iter().filter(|remark| remark.starts_with(beginning));
        those.map(String::as_str).collect::<Vec<_>>().join("; ")
    };
    let mut said = BTreeSet::new();
    let short = records.iter().filter(|record| {
        let words = words(record);
        !words.is_empty() && (beginning == EMPTY_COLUMN || !is_silent(record)) && said.insert((record.run(), words))
    });
    several(short, is, are, &|record| (name(record), words(record).trim_end_matches('.').to_owned()))
}

/// Max cells that a warning names.
const SPELLED_OUT: usize = 3;

/// One warning per record for a few; for many, one with the names of the first and the reason of the very first.
fn several<'a>(
    records: impl Iterator<Item = &'a Record>,
    is: &str,
    are: &str,
    say: &dyn Fn(&Record) -> (String, String),
) -> Vec<String> {
    let said: Vec<(String, String)> = records.map(say).collect();
    if said.len() <= SPELLED_OUT {
        return said.into_iter().map(|(name, why)| format!("Cell {name} {is}: {why}.")).collect();
    }
    let names: Vec<&str> = said.iter().take(SPELLED_OUT).map(|(name, _)| name.as_str()).collect();
    let (first, why) = &said[0];
    let more = said.len() - SPELLED_OUT;
    vec![format!("{} cells {are}: {} and {more} more. {first}: {why}.", said.len(), names.join(", "))]
}

#[cfg(test)]
#[path = "tests/summary.rs"]
mod tests;
