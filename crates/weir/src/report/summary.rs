//! A run in a few sentences, and what a reader must be warned of.

use super::cells::Cell;
use super::claims::{Judgement, Verdict};
use super::columns;
use super::format;
use super::record::{Chart, Manifest, Record};

/// What happened, a sentence each.
pub fn sentences(manifest: &Manifest, records: &[Record], cells: &[Cell<'_>], judged: &[Judgement]) -> Vec<String> {
    let sent = records.iter().map(|record| record.row.sent).sum::<u64>();
    let delivered = records.iter().map(|record| record.row.delivered).sum::<u64>();
    let number = |n: u64| format::count(i64::try_from(n).unwrap_or(i64::MAX));
    let mut sentences = vec![format!(
        "{} of {} cells ran in {}: {} messages were sent, {} delivered.",
        records.len(),
        manifest.planned_cells,
        format::duration(manifest.elapsed_s * 1e6),
        number(sent),
        number(delivered),
    )];
    sentences.extend(manifest.charts.iter().filter_map(|chart| course(chart, cells)));
    let known = records.iter().filter(|record| record.row.unexplained.is_some()).count();
    if known > 0 && records.iter().all(|record| record.row.unexplained.unwrap_or(0) == 0) {
        let which = if known == records.len() {
            "every cell".to_owned()
        } else {
            format!("{known} cells")
        };
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
    sentences
}

/// What a reader must know before believing the numbers; empty if there is nothing.
pub fn warnings(manifest: &Manifest, records: &[Record]) -> Vec<String> {
    let mut warnings = Vec::new();
    if manifest.interrupted {
        let (had, planned) = (records.len(), manifest.planned_cells);
        warnings.push(format!("The run was interrupted: {had} of {planned} cells are here."));
    } else if records.len() < manifest.planned_cells {
        warnings.push(format!(
            "{} of {} cells are missing.",
            manifest.planned_cells - records.len(),
            manifest.planned_cells
        ));
    }
    let repeated = records.iter().any(|record| record.row.repeat > 1);
    for record in records {
        let repeat = if repeated {
            format!(" (repeat {})", record.row.repeat)
        } else {
            String::new()
        };
        let cell = format!("Cell {}{repeat}", record.row.cell);
        if let Some(n) = record.row.unexplained.filter(|&n| n != 0) {
            warnings.push(format!(
                "{cell}: {} messages are unexplained; this is a fault.",
                format::count(n)
            ));
        }
        if !record.row.valid {
            let why = if record.remarks.is_empty() {
                String::new()
            } else {
                format!(": {}", record.remarks.join("; "))
            };
            warnings.push(format!("{cell} is not valid after {} reruns{why}.", record.reruns));
        }
    }
    warnings
}

/// How each series of a chart goes from its first to its last place.
fn course(chart: &Chart, cells: &[Cell<'_>]) -> Option<String> {
    let mut series: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.valid()) {
        let x = columns::number(cell.first(), &chart.x)?;
        let Some(y) = cell.measured(&chart.y) else { continue };
        let name = columns::text(cell.first(), &chart.series)?;
        match series.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push((x, y.value())),
            None => series.push((name, vec![(x, y.value())])),
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
        let [from, to] = [first.1, last.1].map(|y| format::value(&chart.y, y));
        let [at, end] = [first.0, last.0].map(|x| format::value(&chart.x, x));
        parts.push(format!("{name} {from} at {at}, {to} at {end}"));
    }
    if parts.is_empty() {
        None
    } else {
        Some(format!("{}: {}.", chart.title, parts.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{cells, claims, fixture};

    #[test]
    fn a_run_in_words() {
        let (manifest, mut records) = (fixture::manifest(), fixture::records());
        records[0].row.unexplained = Some(-3);
        let judged = claims::judge(&manifest.claims, &records);
        let words = sentences(&manifest, &records, &cells::group(&records), &judged);
        let warnings = warnings(
            &Manifest {
                interrupted: true,
                planned_cells: 84,
                ..manifest
            },
            &records,
        );
        insta::assert_snapshot!(format!("{}\n---\n{}", words.join("\n"), warnings.join("\n")));
    }
}
