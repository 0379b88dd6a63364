//! The table at the end of a run.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use weir_units::format::{self, printable};

use crate::asserts::{self, Checked, State};
use crate::cells::{self, Cell};
use crate::claims::{self, NO_CELL, Verdict};
use crate::columns;
use crate::compare::{self, Comparison};
use crate::critical;
use crate::grid::{Grid, MATRIX};
use crate::headline::Headline;
use crate::monotony::Monotony;
use crate::oracle;
use crate::pivot::Pivot;
use crate::record::{Manifest, Record};
use crate::summary;

/// Widest line, in characters.
const WIDTH: u16 = 100;

/// Column, heading.
const SHOWN: &[(&str, &str)] =
    &[("msgs_per_s", "msgs/s"), (LOST, "lost"), ("delay_mean_us", "mean"), ("delay_max_us", "max delay")];

/// Shown as a percentage, and only where datagrams were sent.
const LOST: &str = "lost_share";

const SHOWN_OF_BULK: &[(&str, &str)] =
    &[("mbit_per_s", "Mbit/s"), ("retransmits", "sent again"), ("rtt_mean_us", "mean rtt")];

/// The run as text of at most 100 columns: the answer, the table, the verdicts, how much was run, the warnings. `styled`
/// for a terminal: lines, colours and a small picture; else it is plain text.
pub fn render(manifest: &Manifest, records: &[Record], styled: bool) -> String {
    let cells = cells::group(records);
    let mut text = answer(&Headline::new(manifest, records, &cells), styled);
    text += &table(manifest, &cells, styled);
    let judged = claims::judge(&manifest.claims, records);
    if !judged.is_empty() {
        text.push('\n');
    }
    // Of another run than the published one there may be many.
    let (elsewhere, judged): (Vec<_>, Vec<_>) = judged.into_iter().partition(|judgement| judgement.reason == NO_CELL);
    let (one, many) = if elsewhere.len() > 1 { (Vec::new(), elsewhere.len()) } else { (elsewhere, 0) };
    for judgement in judged.iter().chain(&one) {
        let colour = match judgement.verdict {
            Verdict::Reproduced => "32",
            Verdict::Refuted => "31",
            Verdict::Undecided => "33",
        };
        let word = format!("{:<11}", judgement.verdict.word());
        let word = if styled { format!("\x1b[{colour}m{word}\x1b[0m") } else { word };
        let statement = wrap(&printable(&judgement.claim.text), 12);
        let measured = judgement.measured.map(|interval| format!("{}: ", interval.text(&judgement.claim)));
        let reason = printable(&format!("{}{}", measured.unwrap_or_default(), judgement.reason));
        text += &format!(
            "{word} {statement}
{:12}{}
",
            "",
            wrap(&reason, 12)
        );
    }
    if many > 0 {
        let word = format!("{:<11}", Verdict::Undecided.word());
        let word = if styled { format!("\x1b[33m{word}\x1b[0m") } else { word };
        text += &format!("{word} {many} further statements: {NO_CELL} what they are of\n");
    }
    text += &checked(&asserts::check(manifest, records), styled);
    let notes = [
        Monotony::check(&Grid::matrix(&cells)).map(|monotony| monotony.sentence()),
        oracle::sentence(&oracle::expectations(&cells)),
        manifest.own_cost.as_ref().map(summary::own_cost),
        summary::machine(manifest),
    ];
    if notes.iter().any(Option::is_some) {
        text.push('\n');
    }
    for note in notes.into_iter().flatten() {
        text += &format!("{}\n", wrap(&printable(&note), 0));
    }
    text += &critical_rates(&cells, styled);
    text += &format!("\n{}\n", wrap(&summary::carried(manifest, records), 0));
    let warnings = summary::warnings(manifest, records);
    if !warnings.is_empty() {
        text.push('\n');
    }
    for warning in warnings {
        text += &format!("warning: {}\n", wrap(&printable(&warning), 9));
    }
    text
}

/// The answer, in a terminal with its picture, and what voids it.
fn answer(headline: &Headline, styled: bool) -> String {
    let mut text = format!("{}\n", wrap(&printable(&headline.answer), 0));
    if let Some(caveat) = &headline.caveat {
        let mark = if styled { "\x1b[33mwarning:\x1b[0m" } else { "warning:" };
        text += &format!("{mark} {}\n", wrap(&printable(caveat), 9));
    }
    // With its indent it fits the narrowest usual terminal, of 80 columns.
    let picture = if styled { headline.blocks(78) } else { Vec::new() };
    if !picture.is_empty() {
        text.push('\n');
    }
    for line in picture {
        text += &format!("  {}\n", printable(&line).trim_end());
    }
    text.push('\n');
    text
}

/// The critical rate of each series, where a rate was swept.
fn critical_rates(cells: &[Cell<'_>], styled: bool) -> String {
    let series = critical::series(cells);
    if series.is_empty() {
        return String::new();
    }
    let mut lines =
        vec![["series", "most arrives", "of", "critical rate, messages a second"].map(str::to_owned).to_vec()];
    for series in &series {
        let number = |value: f64| format::count(value.round() as i64);
        let (most, of) = (number(series.peak.received), number(series.peak.offered));
        lines.push(vec![label(&series.name), most, of, series.critical()]);
    }
    format!("\nBeyond the critical rate fewer arrive:\n{}", aligned(&lines, if styled { "─" } else { "-" }))
}

/// The assertions, a paragraph each.
fn checked(checked: &[Checked], styled: bool) -> String {
    let mut text = if checked.is_empty() { String::new() } else { "\n".to_owned() };
    for checked in checked {
        let colour = match checked.state {
            State::Pass => "32",
            State::Fail => "31",
            State::Skipped => "33",
        };
        let word = format!("{:<7}", checked.state.word());
        let word = if styled { format!("\x1b[{colour}m{word}\x1b[0m") } else { word };
        text += &format!("{word} {}\n", wrap(&printable(&format!("{}: {}", checked.name, checked.sentence())), 8));
    }
    text
}

/// Two runs side by side as text: a line a cell and column, what the verdicts rest on, the warnings.
pub fn comparison(compared: &Comparison) -> String {
    let side = |name: &str, side: &compare::Side| {
        let repeats = if side.repeats == 1 { "1 repeat".to_owned() } else { format!("{} repeats", side.repeats) };
        let words = format!("{} of {}, seed {}, {repeats}", side.scenario, side.started, side.seed);
        format!("{name}: {}, weir {}\n", printable(&words), printable(&side.weir_version))
    };
    let mut text = side("A", &compared.a) + &side("B", &compared.b);
    for warning in &compared.warnings {
        text += &format!("warning: {}\n", wrap(&printable(warning), 9));
    }
    for (name, cells) in [("A", &compared.only_a), ("B", &compared.only_b)] {
        if !cells.is_empty() {
            let cells = cells.iter().map(|cell| printable(cell)).collect::<Vec<_>>().join(", ");
            text += &format!("warning: {}\n", wrap(&format!("only in {name}: {cells}"), 9));
        }
    }
    text.push('\n');
    let headings = ["cell", "column", "A", "B", "B/A", "from", "to", "verdict"];
    let mut lines = vec![headings.map(str::to_owned).to_vec()];
    for row in &compared.rows {
        let value = |value: Option<f64>| value.map_or("–".into(), |value| columns::words(&row.column, value));
        let ratio = row.ratio.map_or([f64::NAN; 3], |ratio| [ratio.value, ratio.low, ratio.high]);
        let [ratio, low, high] = ratio.map(format::short);
        let verdict = match &row.reason {
            Some(reason) => format!("{}: {reason}", row.verdict.words()),
            None => row.verdict.words().to_owned(),
        };
        lines.push(vec![label(&row.cell), label(&row.column), value(row.a), value(row.b), ratio, low, high, verdict]);
    }
    text += &aligned(&lines, "-");
    text.push('\n');
    for sentence in compared.assurance() {
        text += &format!("{}\n", wrap(&sentence, 0));
    }
    text
}

/// Throughput over loss and latency where a run has both; loss down and transport across, say; one cell a line where
/// that would be too wide.
fn table(manifest: &Manifest, cells: &[Cell<'_>], styled: bool) -> String {
    let shown = shown(cells);
    let grids = Grid::matrix(cells);
    let mut text = surface(&grids, styled).unwrap_or_else(|| pivot(manifest, cells, shown, styled));
    // The list has them already.
    let beside: Vec<&Cell<'_>> = cells.iter().filter(|cell| cell.beside && !text.contains(cell.name)).collect();
    if !beside.is_empty() {
        text.push('\n');
    }
    for cell in beside {
        let measured = shown.iter().filter(|(column, _)| is_shown(column, &[Some(cell)]));
        let values = measured.map(|(column, heading)| format!("{heading} {}", value(Some(cell), column)));
        text += &format!("{}: {}\n", label(cell.name), values.collect::<Vec<_>>().join(", "));
    }
    if cells.iter().any(|cell| shown.iter().any(|(column, _)| !cell.believes(column))) {
        text += "* not valid\n";
    }
    text
}

/// The mean throughput of each grid; `None` if there is none, or one is too wide.
fn surface(grids: &[Grid<'_>], styled: bool) -> Option<String> {
    let mut text = String::new();
    for grid in grids {
        let mut lines = vec![vec!["loss".to_owned()]];
        lines[0].extend(grid.columns.iter().map(|place| place.text.clone()));
        for (row, cells) in grid.rows.iter().zip(&grid.cells) {
            let values = cells.iter().map(|cell| {
                let Some((cell, measured)) = cell.and_then(|cell| Some((cell, cell.measured(MATRIX[2])?))) else {
                    return "–".to_owned();
                };
                let mark = if cell.believes(MATRIX[2]) { "" } else { "*" };
                format!("{}{mark}", format::rate(measured.value()))
            });
            lines.push(std::iter::once(format!("{}%", row.text)).chain(values).collect());
        }
        let widest = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let width: usize = (0..lines[0].len()).map(|column| widest(column) + 2).sum();
        // Between columns one space is enough, two are better.
        let between = if width <= usize::from(WIDTH) { 2 } else { 1 };
        if width - lines[0].len() * (2 - between) > usize::from(WIDTH) {
            return None;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        let name = if grid.name.is_empty() { String::new() } else { format!("{}: ", label(&grid.name)) };
        text += &format!("{name}mean Mbit/s by loss (down) and latency in ms (across)\n");
        text += &padded(&lines, if styled { "─" } else { "-" }, between as u16);
    }
    (!grids.is_empty()).then_some(text)
}

/// Of bulk transfers other columns tell more.
fn shown(cells: &[Cell<'_>]) -> &'static [(&'static str, &'static str)] {
    if cells.iter().any(|cell| columns::is_bulk(cell.first())) { SHOWN_OF_BULK } else { SHOWN }
}

/// Whether a column says anything of these cells.
fn is_shown(column: &str, cells: &[Option<&Cell<'_>>]) -> bool {
    column != LOST || cells.iter().flatten().any(|cell| cell.measured(column).is_some())
}

fn pivot(manifest: &Manifest, cells: &[Cell<'_>], shown: &[(&str, &str)], styled: bool) -> String {
    let pivot = Pivot::new(manifest, cells);
    let mut lines = vec![vec![label(&pivot.down)]];
    lines.extend(pivot.rows.iter().map(|name| vec![label(name)]));
    for (index, name) in pivot.columns.iter().enumerate() {
        let across: Vec<_> = pivot.cells.iter().map(|row| row[index]).collect();
        for (column, heading) in shown.iter().filter(|(column, _)| is_shown(column, &across)) {
            lines[0].push(format!("{} {heading}", label(name)).trim().to_owned());
            for (line, cell) in lines[1..].iter_mut().zip(&across) {
                line.push(value(*cell, column));
            }
        }
    }
    if lines[0].iter().map(|heading| heading.chars().count() + 2).sum::<usize>() > usize::from(WIDTH) {
        let all: Vec<_> = cells.iter().map(Some).collect();
        let shown: Vec<_> = shown.iter().filter(|(column, _)| is_shown(column, &all)).collect();
        let headings = shown.iter().map(|(_, heading)| (*heading).to_owned());
        lines = vec![std::iter::once("cell".to_owned()).chain(headings).collect()];
        lines.extend(cells.iter().map(|cell| {
            let values = shown.iter().map(|(column, _)| value(Some(cell), column));
            std::iter::once(label(cell.name)).chain(values).collect()
        }));
    }
    aligned(&lines, if styled { "─" } else { "-" })
}

/// Columns set right, with a rule under the first line.
fn aligned(lines: &[Vec<String>], rule: &str) -> String {
    padded(lines, rule, 2)
}

/// The same with so many spaces between columns.
fn padded(lines: &[Vec<String>], rule: &str, between: u16) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table.add_rows(lines);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
        column.set_padding((1, between - 1));
    }
    let drawn = table.to_string();
    let width = drawn.lines().map(|line| line.trim_end().chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (index, line) in drawn.lines().enumerate() {
        if index == 1 {
            text += &format!("{}\n", rule.repeat(width));
        }
        text += &format!("{}\n", line.trim_end());
    }
    text
}

fn value(cell: Option<&Cell<'_>>, column: &str) -> String {
    let Some(measured) = cell.and_then(|cell| cell.measured(column)) else {
        return "–".into();
    };
    let mark = if cell.is_some_and(|cell| cell.believes(column)) { "" } else { "*" };
    let value = measured.value();
    // Rates line up by their decimal.
    let shown = match column {
        "msgs_per_s" if value < 1e4 => format!("{value:.1}"),
        "mbit_per_s" => format::rate(value),
        LOST => format!("{:.1} %", value * 100.0),
        _ => columns::words(column, value),
    };
    format!("{shown}{mark}")
}

/// Breaks a text between words, so that with `indent` before it no line is too long.
fn wrap(text: &str, indent: usize) -> String {
    let room = usize::from(WIDTH) - indent;
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > room {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join(&format!("\n{:indent$}", ""))
}

/// A name short enough not to wrap.
fn label(text: &str) -> String {
    const LONGEST: usize = 50;
    let text = printable(text);
    if text.chars().count() <= LONGEST { text } else { text.chars().take(LONGEST - 1).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::record::{Assert, IntervalUse, Value};

    #[test]
    fn summary_of_a_run() {
        insta::assert_snapshot!(render(&fixture::manifest(), &fixture::records(), true));
    }

    #[test]
    fn statements_about_other_cells_are_one_line() {
        let mut manifest = fixture::manifest();
        let claim = manifest.claims[0].clone();
        let elsewhere = || {
            let selection = [("loss_pct".to_owned(), Value::Number(77.0))].into();
            crate::record::Claim { selection, text: "Elsewhere.".into(), ..claim.clone() }
        };
        manifest.claims.push(elsewhere());
        assert_eq!(render(&manifest, &fixture::records(), false).matches("Elsewhere.").count(), 1);
        manifest.claims.push(elsewhere());
        let text = render(&manifest, &fixture::records(), false);
        assert!(!text.contains("Elsewhere."), "{text}");
        assert_eq!(
            text.matches("undecided   2 further statements: no cell of this run matches what they are of").count(),
            1
        );
    }

    #[test]
    fn a_matrix_is_one_table() {
        insta::assert_snapshot!(render(&fixture::matrix_manifest(), &fixture::matrix_records(), false));
    }

    #[test]
    fn a_matrix_that_is_too_wide_becomes_lines() {
        let mut records = fixture::matrix_records();
        for record in &mut records {
            record.row.mbit_per_s += 1e6;
            record.estimates.clear();
        }
        let text = render(&fixture::matrix_manifest(), &records, false);
        assert!(text.lines().any(|line| line.trim_start().starts_with("1%/10ms ")), "{text}");
        assert_eq!(text.matches("baseline").count(), 1);
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn two_runs_side_by_side() {
        let (manifest, records) = (fixture::manifest(), fixture::records());
        let mut other = records[..8].to_vec();
        for record in other.iter_mut().filter(|record| record.row.cell == "1%/tcp") {
            let halved = record.estimates["msgs_per_s"].times(0.5);
            record.row.msgs_per_s = halved.value;
            record.estimates.insert("msgs_per_s".into(), halved);
        }
        let settings = compare::CompareSettings { columns: vec!["msgs_per_s".into()], false_alarms: 0.05, least: 0.02 };
        let compared = compare::compare((&manifest, &records[..10]), (&manifest, &other), &settings);
        insta::assert_snapshot!(comparison(&compared));
    }

    #[test]
    fn assertions_are_a_line_each() {
        let assert = |name: &str, at_least, min_duration_s| Assert {
            name: Some(name.into()),
            selection: [("loss_pct".into(), Value::Number(20.0))].into(),
            relative_to: None,
            column: "msgs_per_s".into(),
            at_least: Some(at_least),
            at_most: None,
            confidence: 0.95,
            interval: IntervalUse::Inside,
            min_duration_s,
        };
        let asserts = vec![assert("slow", 1.0, None), assert("fast", 70.0, None), assert("long", 1.0, Some(3600.0))];
        let manifest = Manifest { asserts, ..fixture::manifest() };
        insta::assert_snapshot!(checked(&asserts::check(&manifest, &fixture::records()), false));
    }

    #[test]
    fn many_columns_become_lines() {
        let mut records = fixture::records();
        records.truncate(4);
        for (record, name) in records.iter_mut().zip(["udp", "tcp", "quic", "a very long name of a transport"]) {
            record.row.cell = format!("0%/{name}");
            record.axes[0].1 = "0%".into();
            record.axes[1].1 = name.into();
        }
        let mut manifest = fixture::manifest();
        manifest.axes[1].1 = records.iter().map(|r| r.axes[1].1.clone()).collect();
        manifest.claims.clear();
        let text = render(&manifest, &records, false);
        assert!(text.lines().any(|line| line.split_whitespace().next() == Some("cell")), "{text}");
        assert!(text.lines().any(|line| line.trim_start().starts_with("0%/quic ")), "{text}");
    }

    #[test]
    fn fits_the_terminal_and_is_plain_elsewhere() {
        let mut manifest = fixture::manifest();
        manifest.claims[0].text = "A long statement with \x1b[31mcolours. ".repeat(20);
        for styled in [true, false] {
            let text = render(&manifest, &fixture::records(), styled);
            for line in text.lines() {
                let shown =
                    line.replace("\x1b[32m", "").replace("\x1b[31m", "").replace("\x1b[33m", "").replace("\x1b[0m", "");
                assert!(shown.chars().count() <= 100, "{line}");
            }
            assert_eq!(text.contains('\x1b'), styled);
        }
        assert!(!render(&manifest, &fixture::records(), true).contains("with \x1b"));
        assert!(render(&manifest, &[], false).contains("warning: 42 of 42 cells are missing."));
    }
}
