//! The result of a run for a terminal.

use std::fmt::{self, Display, Formatter};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use weir_units::format::{self, printable};

use crate::cells::{self, Cell};
use crate::columns;
use crate::compare::{self, Comparison};
use crate::grid::{Grid, MATRIX};
use crate::judge::{self, Judged, NO_CELL, Verdict};
use crate::record::{Manifest, Record};
use crate::{answer, summary};

/// Max line width, characters.
const WIDTH: u16 = 80;

/// Column, heading.
const SHOWN: &[(&str, &str)] =
    &[("msgs_per_s", "msgs/s"), (LOST, "lost"), ("delay_mean_us", "mean"), ("delay_max_us", "max")];

/// Shown as a percentage, and only for datagrams.
const LOST: &str = "lost_share";

const SHOWN_OF_BULK: &[(&str, &str)] =
    &[("mbit_per_s", "Mbit/s"), ("retransmits", "retransmits"), ("rtt_mean_us", "mean rtt")];

/// The run as text of at most 80 columns: the answer, the table, the verdicts, the summary, the warnings. `styled` for
/// a terminal: lines and colours; else plain text.
pub fn render(manifest: &Manifest, records: &[Record], styled: bool) -> String {
    let cells = cells::group(manifest.columns(), records);
    let judged = judge::judge(manifest, records);
    let mut text = String::new();
    for answer in answer::answers(manifest, &cells, &judged) {
        let indent = if answer.title.is_empty() { 0 } else { 2 };
        if indent > 0 {
            text += &format!("{}\n", coloured(&wrap(&printable(&answer.title), 0), "1", styled));
        }
        for line in answer.lines {
            text += &format!("{:indent$}{}\n", "", wrap(&printable(&line), indent + 2));
        }
    }
    text += &format!("{}{}", if text.is_empty() { "" } else { "\n" }, table(manifest, &cells, styled));
    text += &verdicts(&judged, styled);
    text.push('\n');
    for sentence in summary::sentences(manifest, records) {
        text += &format!("{}\n", wrap(&printable(&sentence), 0));
    }
    for warning in summary::warnings(manifest, records) {
        text += &format!("{} {}\n", coloured("warning:", "33", styled), wrap(&printable(&warning), 9));
    }
    text
}

/// The claims and assertions, one paragraph each; those about cells that the run does not have are only counted.
fn verdicts(judged: &[Judged], styled: bool) -> String {
    let mut text = if judged.is_empty() { String::new() } else { "\n".to_owned() };
    let (elsewhere, here): (Vec<_>, Vec<_>) =
        judged.iter().partition(|judged| !judged.claim.required && judged.reason == NO_CELL);
    for judged in here {
        let colour = match judged.verdict {
            Verdict::Reproduced => "32",
            Verdict::Refuted => "31",
            _ if judged.fails() => "31",
            Verdict::Undecided | Verdict::Skipped => "33",
        };
        let word = coloured(&format!("{:<11}", judged.word), colour, styled);
        let statement = wrap(&printable(&judged.name), 12);
        text += &format!("{word} {statement}\n{:12}{}\n", "", wrap(&printable(&judged.sentence()), 12));
    }
    if !elsewhere.is_empty() {
        let word = coloured("undecided  ", "33", styled);
        text += &format!("{word} {}: {NO_CELL}\n", format::counted(elsewhere.len(), "further statement"));
    }
    text
}

fn coloured(text: &str, colour: &str, styled: bool) -> String {
    if styled { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Two runs side by side as text: one line per cell and column, the basis of the verdicts, the warnings.
impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let side = |name: &str, side: &compare::Side| {
            let repeats = if side.repeats == 1 { "1 repeat".to_owned() } else { format!("{} repeats", side.repeats) };
            let words = format!("{} of {}, seed {}, {repeats}", side.scenario, side.started, side.seed);
            format!("{name}: {}, weir {}\n", printable(&words), printable(&side.weir_version))
        };
        let mut text = side("A", &self.a) + &side("B", &self.b);
        for warning in &self.warnings {
            text += &format!("warning: {}\n", wrap(&printable(warning), 9));
        }
        for (name, cells) in [("A", &self.only_a), ("B", &self.only_b)] {
            if !cells.is_empty() {
                let cells = cells.iter().map(|cell| printable(cell)).collect::<Vec<_>>().join(", ");
                text += &format!("warning: {}\n", wrap(&format!("only in {name}: {cells}"), 9));
            }
        }
        text.push('\n');
        let headings = ["cell", "column", "A", "B", "B/A", "from", "to", "verdict"];
        let mut lines = vec![headings.map(str::to_owned).to_vec()];
        for row in &self.rows {
            let value = |value: Option<f64>| value.map_or("–".into(), |value| columns::in_unit(&row.unit, value));
            let ratio = row.ratio.map_or([f64::NAN; 3], |ratio| [ratio.value, ratio.low, ratio.high]);
            let [ratio, low, high] = ratio.map(format::short);
            let verdict = match &row.reason {
                Some(reason) => format!("{}: {reason}", row.verdict.words()),
                None => row.verdict.words().to_owned(),
            };
            lines.push(vec![
                label(&row.cell),
                label(&row.column),
                value(row.a),
                value(row.b),
                ratio,
                low,
                high,
                verdict,
            ]);
        }
        text += &padded(&lines, "-", 2);
        text.push('\n');
        for sentence in self.assurance() {
            text += &format!("{}\n", wrap(&sentence, 0));
        }
        f.write_str(&text)
    }
}

/// Throughput over loss and latency if a run has both; otherwise e.g. loss down and transport across; one cell per line
/// if that would be too wide.
fn table(manifest: &Manifest, cells: &[Cell<'_>], styled: bool) -> String {
    let shown = shown(manifest, cells);
    let grids = Grid::matrix(cells);
    let mut text = surface(&grids, styled).unwrap_or_else(|| pivot(manifest, cells, &shown, styled));
    // The list has them already.
    let beside: Vec<&Cell<'_>> = cells.iter().filter(|cell| cell.beside && !text.contains(cell.name)).collect();
    if !beside.is_empty() {
        text.push('\n');
    }
    for cell in beside {
        let measured = shown.iter().filter(|(column, _)| cell.measured(column).is_some());
        let values = measured.map(|(column, heading)| format!("{heading} {}", value(Some(cell), column)));
        text += &format!("{}: {}\n", label(cell.name), values.collect::<Vec<_>>().join(", "));
    }
    if cells.iter().any(|cell| shown.iter().any(|(column, _)| !cell.believes(column))) {
        text += "* not valid\n";
    }
    text
}

/// The mean throughput of each grid. `None`: there is none, or one is too wide.
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

/// Columns and headings: those that the scenario defines, or those of its kind of traffic.
fn shown<'a>(manifest: &'a Manifest, cells: &[Cell<'_>]) -> Vec<(&'a str, &'a str)> {
    let own = manifest.columns.iter().map(|own| (own.name.as_str(), own.name.as_str()));
    let kind = if cells.iter().any(|cell| columns::is_bulk(cell.first())) { SHOWN_OF_BULK } else { SHOWN };
    let values = |column: &str| cells.iter().map(|cell| value(Some(cell), column)).collect::<Vec<_>>();
    let is_measured = |(column, _): &(&str, &str)| cells.iter().any(|cell| cell.measured(column).is_some());
    // Next to columns of the scenario, the others are shown only if they distinguish the cells.
    let varies = |(column, _): &(&str, &str)| {
        let values = values(column);
        manifest.columns.is_empty() || values.iter().any(|value| *value != values[0])
    };
    let mut all: Vec<_> = own.chain(kind.iter().copied().filter(varies)).filter(is_measured).collect();
    let widest = |heading: &str, values: &[String]| {
        values.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(label(heading).chars().count()) + 2
    };
    let names: Vec<String> = cells.iter().map(|cell| label(cell.name)).collect();
    let mut width = widest("cell", &names);
    let fits = |(column, heading): &&(&str, &str)| {
        width += widest(heading, &values(column));
        width <= usize::from(WIDTH)
    };
    // At least one, however long the cell names are.
    all.truncate(all.iter().take_while(fits).count().max(1));
    all
}

/// One table per combination of further axes: one axis down, the transport or another short one across. One cell per
/// line if there are not two axes, or that would be too wide.
fn pivot(manifest: &Manifest, cells: &[Cell<'_>], shown: &[(&str, &str)], styled: bool) -> String {
    let (rule, mut text) = (if styled { "─" } else { "-" }, String::new());
    let short = manifest.axes.iter().filter(|(_, values)| (2..=4).contains(&values.len()));
    let across = short.min_by_key(|(key, values)| (!key.ends_with("transport"), values.len()));
    let others = manifest.axes.iter().filter(|(key, _)| across.is_some_and(|(across, _)| key != across));
    let axes = others.max_by_key(|(_, values)| values.len()).zip(across);
    for grid in axes.map(|((down, _), (across, _))| Grid::all(cells, down, across)).unwrap_or_default() {
        let (down, across) = axes.map(|((down, _), (across, _))| (down.as_str(), across.as_str())).unwrap_or_default();
        let mut lines = vec![vec![label(down.rsplit('.').next().unwrap_or(down))]];
        lines.extend(grid.rows.iter().map(|place| vec![label(&place.text)]));
        for (index, place) in grid.columns.iter().enumerate() {
            let there = |column: &str| {
                grid.cells.iter().any(|row| row[index].is_some_and(|cell| cell.measured(column).is_some()))
            };
            for (column, heading) in shown.iter().filter(|(column, _)| *column != LOST || there(column)) {
                lines[0].push(format!("{} {heading}", label(&cells::heading(across, place.text.clone()))));
                for (line, row) in lines[1..].iter_mut().zip(&grid.cells) {
                    line.push(value(row[index], column));
                }
            }
        }
        if lines[0].iter().map(|heading| heading.chars().count() + 2).sum::<usize>() > usize::from(WIDTH) {
            text.clear();
            break;
        }
        let name = if grid.name.is_empty() { String::new() } else { format!("{}\n", label(&grid.name)) };
        text += &format!("{}{name}{}", if text.is_empty() { "" } else { "\n" }, padded(&lines, rule, 2));
    }
    if text.is_empty() {
        let mut lines =
            vec![std::iter::once("cell".to_owned()).chain(shown.iter().map(|(_, name)| label(name))).collect()];
        lines.extend(cells.iter().map(|cell| {
            let values = shown.iter().map(|(column, _)| value(Some(cell), column));
            std::iter::once(label(cell.name)).chain(values).collect()
        }));
        text = padded(&lines, rule, 2);
    }
    text
}

/// Right-aligned columns with this many spaces between them, and a rule under the first line.
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
    let (value, known) = (measured.value(), cell.map(|cell| cell.columns).unwrap_or_default());
    // Rates are aligned by their decimal point.
    let shown = match column {
        "msgs_per_s" if value < 1e4 => format!("{value:.1}"),
        "mbit_per_s" => format::rate(value),
        LOST => format!("{:.1} %", value * 100.0),
        _ => known.words(column, value),
    };
    format!("{shown}{mark}")
}

/// Wraps a text between words, so that no line with `indent` before it is too long.
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
#[path = "tests/terminal.rs"]
mod tests;
