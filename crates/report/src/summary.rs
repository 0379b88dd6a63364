//! A run in a few sentences, and what a reader must be warned of.

use std::collections::BTreeSet;

use weir_units::format;

use crate::asserts::{self, State};
use crate::cells::{self, Cell};
use crate::claims::{Judgement, Verdict};
use crate::columns;
use crate::critical;
use crate::grid::Grid;
use crate::monotony::Monotony;
use crate::oracle;
use crate::record::{
    CAPTURE_LACKS, Chart, ChartKind, LATE_SENDER, MESSAGES_LACK, Manifest, OwnCost, PROCESSORS, Record, SENDER_FAILED,
    STANDSTILLS, Statistic,
};

/// What happened, a sentence each.
pub fn sentences(manifest: &Manifest, records: &[Record], cells: &[Cell<'_>], judged: &[Judgement]) -> Vec<String> {
    let mut sentences = vec![carried(manifest, records)];
    sentences.extend(manifest.charts.iter().filter_map(|chart| match chart.kind {
        ChartKind::Lines => course(chart, cells),
        ChartKind::Heatmap => span(chart, cells),
        ChartKind::Time | ChartKind::Distribution | ChartKind::Signal => None,
    }));
    sentences.extend(Monotony::check(&Grid::matrix(cells)).map(|monotony| monotony.sentence()));
    sentences.extend(critical::sentence(&critical::series(cells)));
    sentences.extend(oracle::sentence(&oracle::expectations(cells)));
    sentences.extend(manifest.own_cost.as_ref().map(own_cost));
    sentences.extend(machine(manifest));
    let known = records.iter().filter(|record| record.row.unexplained.is_some()).count();
    if known > 0 && records.iter().all(|record| record.row.unexplained.unwrap_or(0) == 0) {
        let which = if known == records.len() { "every cell".to_owned() } else { format!("{known} cells") };
        sentences.push(format!("The ledger closes in {which}: nothing is unexplained."));
    }
    if !judged.is_empty() {
        let of = |verdict| judged.iter().filter(|j| j.verdict == verdict).count();
        let noun = if judged.len() == 1 { "statement" } else { "statements" };
        sentences.push(format!(
            "Of {} published {noun} {} reproduced, {} refuted, {} undecided.",
            judged.len(),
            of(Verdict::Reproduced),
            of(Verdict::Refuted),
            of(Verdict::Undecided),
        ));
    }
    let checked = asserts::check(manifest, records);
    if !checked.is_empty() {
        let of = |state| checked.iter().filter(|checked| checked.state == state).count();
        let noun = if checked.len() == 1 { "assertion" } else { "assertions" };
        let (held, failed, skipped) = (of(State::Pass), of(State::Fail), of(State::Skipped));
        sentences.push(format!("Of {} {noun} {held} hold, {failed} fail, {skipped} skipped.", checked.len()));
    }
    sentences
}

/// How much was run, in a sentence.
pub fn carried(manifest: &Manifest, records: &[Record]) -> String {
    let (bulk, messages): (Vec<&Record>, Vec<&Record>) = records.iter().partition(|record| columns::is_bulk(record));
    // Each receiver of a group has what was sent to all of them.
    let mut counted = BTreeSet::new();
    let sent = messages.iter().filter(|record| counted.insert(run_of(record))).map(|record| record.row.sent);
    let sent: u64 = sent.sum();
    let several = if counted.len() < messages.len() { " to several receivers" } else { "" };
    let number = |n: u64| format::count(i64::try_from(n).unwrap_or(i64::MAX));
    let received: f64 = bulk.iter().filter_map(|record| columns::number(record, "received_bytes")).sum();
    let mut carried = Vec::new();
    if !messages.is_empty() || bulk.is_empty() {
        let delivered: u64 = messages.iter().map(|record| record.row.delivered).sum();
        carried.push(format!("{} messages were sent, {} delivered{several}", number(sent), number(delivered)));
    }
    if !bulk.is_empty() {
        carried.push(format!("{} were received in bulk", format::bytes(received)));
    }
    let carried = carried.join("; ");
    let (had, planned) = (records.len(), manifest.planned_cells);
    format!("{had} of {planned} cells ran in {}: {carried}.", format::span(manifest.elapsed_s))
}

/// The run of a cell that a record is of, whichever receiver it tells of: the cell's name, and the repeat.
fn run_of(record: &Record) -> (&str, u32) {
    let cell = record.row.cell.as_str();
    let receiver = record.axes.iter().find(|(key, _)| key == columns::RECEIVER);
    let without = receiver.and_then(|(_, name)| cell.strip_suffix(name.as_str())?.strip_suffix('@'));
    (without.unwrap_or(cell), record.row.repeat)
}

/// What the lab itself adds, in a sentence.
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

/// What the machine did meanwhile, in a sentence; `None` for runs of earlier versions.
pub fn machine(manifest: &Manifest) -> Option<String> {
    let fact =
        |wanted: &str| manifest.environment.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let (processors, standstills) = (fact(PROCESSORS)?, fact(STANDSTILLS)?);
    Some(format!("The machine: processors {processors}; {STANDSTILLS}: {standstills}."))
}

/// What a reader must know before believing the numbers; empty if there is nothing.
pub fn warnings(manifest: &Manifest, records: &[Record]) -> Vec<String> {
    let mut warnings = Vec::new();
    if manifest.interrupted {
        let (had, planned) = (records.len(), manifest.planned_cells);
        let stopped = records.iter().filter(|record| record.stopped).count();
        let stopped = if stopped > 0 { format!(", {stopped} of them stopped in their middle") } else { String::new() };
        let rest = "`weir lab resume` runs the rest whole";
        warnings.push(format!("The run was interrupted: {had} of {planned} cells are here{stopped}; {rest}."));
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
        (name(record), format!("{unexplained} unexplained, which is a fault"))
    }));
    let cells = cells::group(records);
    if let Some(Monotony { violations, .. }) = Monotony::check(&Grid::matrix(&cells)) {
        let shown = violations.iter().take(SPELLED_OUT);
        warnings
            .extend(shown.map(|violation| format!("Throughput rises where it should fall: {}.", violation.words())));
        if let more @ 1.. = violations.len().saturating_sub(SPELLED_OUT) {
            warnings.push(format!("Throughput rises where it should fall in {more} more pairs of cells."));
        }
    }
    // Nothing may get through a path; but what a program refused must not pass for that.
    warnings.extend(several(records.iter().filter(is_silent), "carried nothing", "carried nothing", &|record| {
        (name(record), record.remarks.join("; ").trim_end_matches('.').to_owned())
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
        let words = match record.disturbed.keys().collect::<Vec<_>>()[..] {
            // Stopped, or of an earlier version: the remarks say why.
            [] => record.remarks.join("; "),
            [Statistic::Throughput] => format!("its throughput cannot be believed: {}", record.doubts().join("; ")),
            [Statistic::Delay] => format!("its delays cannot be believed: {}", record.doubts().join("; ")),
            _ => record.doubts().join("; "),
        };
        (name(record), format!("{reruns}{}", words.trim_end_matches('.')))
    }));
    warnings.extend(advice(manifest, records));
    warnings
}

/// What to do about cells that are not valid, by the setting that voids them.
fn advice(manifest: &Manifest, records: &[Record]) -> Vec<String> {
    let voided_by = |what: &str| {
        let mut doubts = records.iter().filter(|record| !record.row.valid).flat_map(Record::doubts);
        doubts.any(|doubt| doubt.contains(what))
    };
    // What is not here yet may have run beside it.
    let runs = records.iter().map(run_of).collect::<BTreeSet<_>>().len()
        + manifest.planned_cells.saturating_sub(records.len());
    let alone = || manifest.source.lines().any(|line| ["jobs = 1", "jobs = \"1\""].contains(&line.trim()));
    let mut advice = Vec::new();
    if (voided_by("run.max_standstill") || voided_by("--jobs")) && runs > 1 && !alone() {
        advice.push(
            "Cells that run side by side take processors from each other: `--set run.jobs=1` runs one after the other."
                .into(),
        );
    }
    if voided_by("run.max_foreign") {
        advice.push(
            "Programs that are none of the lab's may take the share `run.max_foreign` of the processors: end them and run \
             again, or believe what was measured beside them by `--set run.max_foreign=100%`."
                .into(),
        );
    }
    advice
}

/// Whether nothing came in it, for reasons that are all told.
fn is_silent(record: &&Record) -> bool {
    record.row.valid && record.row.mbit_per_s == 0.0 && !record.remarks.is_empty()
}

/// Remarks that nobody should have to look for: what was asked for is not what there is. How they begin, and what is said
/// of one cell and of several.
const SHORTFALLS: [(&str, &str, &str); 4] = [
    (LATE_SENDER, "was sent late", "were sent late"),
    (SENDER_FAILED, "was not sent whole", "were not sent whole"),
    (CAPTURE_LACKS, "is not captured whole", "are not captured whole"),
    (MESSAGES_LACK, "is not listed whole", "are not listed whole"),
];

/// The warnings of the remarks that begin so: one a cell, whose receivers all have the same.
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
        let cell = record.row.cell.split('@').next().unwrap_or_default();
        !words.is_empty() && !is_silent(record) && said.insert((cell, record.row.repeat, words))
    });
    several(short, is, are, &|record| (name(record), words(record).trim_end_matches('.').to_owned()))
}

/// How many cells a warning spells out.
const SPELLED_OUT: usize = 3;

/// A warning for each of a few records; for many, one with the names of the first and the reason of the very first.
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

/// Between which fields a heat map lies.
fn span(chart: &Chart, cells: &[Cell<'_>]) -> Option<String> {
    let fields = cells.iter().filter(|cell| !cell.beside && cell.believes(&chart.value));
    let fields = fields.filter_map(|cell| Some((cell.measured(&chart.value)?.value(), cell.name)));
    let mut fields: Vec<(f64, &str)> = fields.filter(|(value, _)| value.is_finite()).collect();
    fields.sort_by(|a, b| b.0.total_cmp(&a.0));
    let ((most, at_most), (least, at_least)) = (fields.first()?, fields.last()?);
    let word = |value: &f64| columns::words(&chart.value, *value);
    // All that carried nothing share the least.
    let alike = fields.iter().filter(|(value, _)| value == least).count();
    let where_least = if alike == 1 { format!("at {at_least}") } else { format!("in {alike} cells") };
    Some(format!("{}: from {} at {at_most} down to {} {where_least}.", chart.title, word(most), word(least)))
}

/// More series than these make no sentence.
const MOST_SERIES: usize = 6;

/// How each series of a chart goes from its first to its last place.
fn course(chart: &Chart, cells: &[Cell<'_>]) -> Option<String> {
    let mut series: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.believes(&chart.y) && !cell.beside) {
        let x = columns::number(cell.first(), &chart.x)?;
        let Some(y) = cell.measured(&chart.y) else { continue };
        let name = columns::text(cell.first(), &chart.series)?;
        match series.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push((x, y.value())),
            None => series.push((name, vec![(x, y.value())])),
        }
        if series.len() > MOST_SERIES {
            return None;
        }
    }
    let mut parts = Vec::new();
    for (name, mut points) in series {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (first, last) = (*points.first()?, *points.last()?);
        // Several cells at one place have no course.
        if points.windows(2).any(|pair| pair[0].0 == pair[1].0) || first.0 == last.0 {
            return None;
        }
        let [from, to] = [first.1, last.1].map(|y| columns::words(&chart.y, y));
        let [at, end] = [first.0, last.0].map(|x| columns::words(&chart.x, x));
        parts.push(format!("{name} {from} at {at}, {to} at {end}"));
    }
    if parts.is_empty() { None } else { Some(format!("{}: {}.", chart.title, parts.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Estimate;
    use crate::{claims, fixture};

    #[test]
    fn a_run_in_words() {
        let (manifest, mut records) = (fixture::manifest(), fixture::records());
        records[0].row.unexplained = Some(-3);
        let judged = claims::judge(&manifest.claims, &records);
        let words = sentences(&manifest, &records, &cells::group(&records), &judged);
        let warnings = warnings(&Manifest { interrupted: true, planned_cells: 84, ..manifest }, &records);
        insta::assert_snapshot!(format!("{}\n---\n{}", words.join("\n"), warnings.join("\n")));
    }

    #[test]
    fn a_matrix_in_words() {
        let (manifest, mut records) = (fixture::matrix_manifest(), fixture::matrix_records());
        let judged = claims::judge(&manifest.claims, &records);
        let words = sentences(&manifest, &records, &cells::group(&records), &judged);
        let estimate = records[19].estimates.get_mut("mbit_per_s").unwrap();
        *estimate = Estimate { value: 700.0, low: 650.0, high: 750.0, ..*estimate };
        records[19].row.mbit_per_s = 700.0;
        insta::assert_snapshot!(format!("{}\n---\n{}", words.join("\n"), warnings(&manifest, &records).join("\n")));
    }

    #[test]
    fn what_to_do_about_cells_that_are_not_valid_is_said_once() {
        let mut records = fixture::records();
        for record in &mut records {
            record.row.valid = false;
            let why = "the emulator was late for 23.1 % of the time (run.max_standstill is 5%)";
            record.disturbed = [(Statistic::Throughput, why.to_owned())].into();
        }
        let alone = Manifest { source: "[run]\njobs = 1\n".into(), ..fixture::manifest() };
        let all = Manifest { source: "[run]\njobs = \"all\"\n".into(), ..fixture::manifest() };
        assert_eq!(warnings(&alone, &records).len(), 1);
        let told = warnings(&all, &records);
        assert!(told.len() == 2 && told[1].contains("`--set run.jobs=1`"), "{told:?}");
        records[0].disturbed = [(Statistic::Delay, "others took 61 % (run.max_foreign is 10%)".to_owned())].into();
        let told = warnings(&alone, &records);
        assert!(told.len() == 2 && told[1].contains("`--set run.max_foreign=100%`"), "{told:?}");
    }

    #[test]
    fn receivers_of_one_cell_are_no_cells_beside_it() {
        let mut records: Vec<Record> = fixture::records().into_iter().take(2).collect();
        for (record, receiver) in records.iter_mut().zip(["a", "b"]) {
            record.row.cell = format!("single@{receiver}");
            record.axes = vec![(columns::RECEIVER.to_owned(), receiver.to_owned())];
            (record.row.sent, record.row.delivered, record.row.valid) = (3000, 2990, false);
            let why = "the emulator was late for 23.1 % of the time (run.max_standstill is 5%)";
            record.disturbed = [(Statistic::Throughput, why.to_owned())].into();
        }
        let manifest = Manifest { source: String::new(), planned_cells: 2, ..fixture::manifest() };
        let said = carried(&manifest, &records);
        assert!(said.ends_with("3000 messages were sent, 5980 delivered to several receivers."), "{said}");
        let beside = |records: &[Record]| warnings(&manifest, records).iter().any(|said| said.contains("side by side"));
        assert!(!beside(&records));
        records[1].row.cell = "other@b".into();
        assert!(beside(&records));
    }

    #[test]
    fn what_falls_short_of_what_was_asked_for_is_a_warning() {
        let mut records = fixture::records();
        records[1].remarks = vec![format!("{LATE_SENDER} its schedule: its last message left 2.0 s after the window")];
        // Both receivers of one cell have what became of its capture.
        for (record, receiver) in records[2..4].iter_mut().zip(["a", "b"]) {
            record.row.cell = format!("1%@{receiver}");
            record.remarks = vec!["nothing".into(), format!("{CAPTURE_LACKS} 3 of 9 packets: x.pcapng")];
        }
        records[0].remarks = vec![format!("{SENDER_FAILED}: send: operation not permitted (47 times)")];
        assert_eq!(
            warnings(&fixture::manifest(), &records)[..3],
            [
                "Cell 0%/tcp was sent late: the sender fell behind its schedule: its last message left 2.0 s after the window.",
                "Cell 0%/udp was not sent whole: the sender met errors: send: operation not permitted (47 times).",
                "Cell 1%@a is not captured whole: the capture lacks 3 of 9 packets: x.pcapng."
            ]
        );
    }

    #[test]
    fn many_disturbed_cells_are_one_warning() {
        let mut records = fixture::records();
        for record in &mut records {
            record.row.valid = false;
            record.remarks = vec!["the machine stood still for 40 ms".into()];
        }
        assert_eq!(
            warnings(&fixture::manifest(), &records),
            ["42 cells are not valid: 0%/udp, 0%/tcp, 1%/udp and 39 more. 0%/udp: the machine stood still for 40 ms."]
        );
    }
}
