//! The results of a run in short: the verdicts, then for each chart the ends of each line.

use weir_units::format;

use crate::cells::Cell;
use crate::charts::{self, Line, Point};
use crate::columns::Columns;
use crate::judge::{Judged, Verdict};
use crate::record::{Chart, ChartKind, Manifest};

/// A chart, or the verdicts, in a few lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Heading of the lines; empty for the verdicts.
    pub title: String,
    /// At least one.
    pub lines: Vec<String>,
}

/// Max lines; of more only the first and the last ones are shown.
const MAX_LINES: usize = 8;

/// A value between a line's ends is shown if it is beyond both by this factor: twice the widest usual interval of 5 %.
const STANDS_OUT: f64 = 1.1;

/// The answers of a run.
pub fn answers(manifest: &Manifest, cells: &[Cell<'_>], judged: &[Judged]) -> Vec<Answer> {
    let verdicts = verdicts(judged);
    let verdicts = (!verdicts.is_empty()).then(|| Answer { title: String::new(), lines: verdicts });
    let charts = manifest.charts.iter().filter_map(|chart| {
        let lines = match chart.kind {
            ChartKind::Lines => courses(manifest.columns(), chart, cells),
            ChartKind::Heatmap => span(chart, cells).into_iter().collect(),
            ChartKind::Time | ChartKind::Distribution => Vec::new(),
        };
        (!lines.is_empty()).then(|| Answer { title: chart.title.clone(), lines })
    });
    verdicts.into_iter().chain(charts).collect()
}

/// The answers as text for `lab run --json`.
pub fn in_words(answers: &[Answer]) -> String {
    let one = |answer: &Answer| {
        let title = if answer.title.is_empty() { String::new() } else { format!("{}: ", answer.title) };
        format!("{title}{}", answer.lines.join("; "))
    };
    answers.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn verdicts(judged: &[Judged]) -> Vec<String> {
    let mut lines = Vec::new();
    let of = |required: bool| judged.iter().filter(|judged| judged.claim.required == required).collect::<Vec<_>>();
    let (asserts, claims) = (of(true), of(false));
    let count = |of: &[&Judged], verdict| of.iter().filter(|judged| judged.verdict == verdict).count();
    if !asserts.is_empty() {
        let failed: Vec<&str> = asserts.iter().filter(|judged| judged.fails()).map(|judged| &*judged.name).collect();
        let (held, skipped) = (count(&asserts, Verdict::Reproduced), count(&asserts, Verdict::Skipped));
        let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
        let failed = match failed[..] {
            [] => String::new(),
            [only] => format!(", 1 fails: {only}"),
            [first, ..] => format!(", {} fail: {first} and {} more", failed.len(), failed.len() - 1),
        };
        lines.push(format!("{held} of {} hold{skipped}{failed}", format::counted(asserts.len(), "assertion")));
    }
    if !claims.is_empty() {
        let counts = [Verdict::Reproduced, Verdict::Refuted, Verdict::Undecided].map(|verdict| count(&claims, verdict));
        let [reproduced, refuted, undecided] = counts;
        let all = format::counted(claims.len(), "statement");
        lines.push(format!("{all}: {reproduced} reproduced, {refuted} refuted, {undecided} undecided"));
    }
    lines
}

/// `tcp: 812 → 3.1 Mbit/s from 0 % to 20 %`, a line each.
fn courses(columns: Columns<'_>, chart: &Chart, cells: &[Cell<'_>]) -> Vec<String> {
    let arranged = charts::arranged(chart, cells);
    let word = |value: f64| columns.words(&chart.y, value);
    let place = |x: f64| {
        let named = arranged.words.get(x as usize).filter(|_| !arranged.words.is_empty());
        named.cloned().unwrap_or_else(|| columns.words(&chart.x, x))
    };
    let course = |line: &Line| {
        let valid: Vec<&Point> = line.points.iter().filter(|point| point.valid && point.y.is_finite()).collect();
        let name = if line.name.is_empty() { String::new() } else { format!("{}: ", line.name) };
        let (first, last) = (*valid.first()?, *valid.last()?);
        if first.x == last.x {
            return Some(format!("{name}{} at {}", word(first.y), place(first.x)));
        }
        let (low, high) = (first.y.min(last.y), first.y.max(last.y));
        let by_value = |a: &&&Point, b: &&&Point| a.y.total_cmp(&b.y);
        let top = valid.iter().max_by(by_value).filter(|point| point.y > high * STANDS_OUT);
        let bottom = valid.iter().min_by(by_value).filter(|point| point.y * STANDS_OUT < low);
        let between = |what: &str, point: Option<&&Point>| {
            point.map(|point| format!(", {what} {} at {}", word(point.y), place(point.x))).unwrap_or_default()
        };
        let beyond = between("at most", top) + &between("at least", bottom);
        let (from, to) = (word(first.y), word(last.y));
        // A unit of both appears once.
        let unit = to.trim_start_matches(|c: char| c.is_ascii_digit() || ".-e".contains(c)).to_owned();
        let from = from.strip_suffix(&unit).filter(|_| !unit.is_empty()).unwrap_or(&from);
        Some(format!("{name}{from} → {to} from {} to {}{beyond}", place(first.x), place(last.x)))
    };
    let mut lines: Vec<String> = arranged.lines.iter().filter_map(course).collect();
    if let between @ MAX_LINES.. = lines.len() {
        let last = lines.pop();
        lines.truncate(1);
        lines.push(format!("… {} more …", between - 2));
        lines.extend(last);
    }
    lines
}

/// The range of a heat map, with its fields.
fn span(chart: &Chart, cells: &[Cell<'_>]) -> Option<String> {
    let fields = cells.iter().filter(|cell| !cell.beside && cell.believes(&chart.value));
    let fields = fields.filter_map(|cell| Some((cell.measured(&chart.value)?.value(), cell)));
    let mut fields: Vec<(f64, &Cell<'_>)> = fields.filter(|(value, _)| value.is_finite()).collect();
    fields.sort_by(|a, b| b.0.total_cmp(&a.0));
    let ((max, at_most), (min, at_least)) = (fields.first()?, fields.last()?);
    let [max, words] = [max, min].map(|value| at_most.columns.words(&chart.value, *value));
    // All cells that carried nothing share the min.
    let alike = fields.iter().filter(|(value, _)| value == min).count();
    let whereabouts = if alike == 1 { format!("at {}", at_least.name) } else { format!("in {alike} cells") };
    Some(format!("{max} at {} → {words} {whereabouts}", at_most.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cells, fixture, judge};

    fn said(manifest: &Manifest, records: &[crate::record::Record]) -> String {
        let cells = cells::group(manifest.columns(), records);
        let answers = answers(manifest, &cells, &judge::judge(manifest, records));
        in_words(&answers)
    }

    #[test]
    fn each_line_has_its_ends() {
        insta::assert_snapshot!(said(&fixture::manifest(), &fixture::records()));
        insta::assert_snapshot!(said(&fixture::matrix_manifest(), &fixture::matrix_records()));
    }
}
