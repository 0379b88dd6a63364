//! The table at the end of a run.

use comfy_table::{Cell as Field, CellAlignment, ContentArrangement, Table, presets};

use super::cells::{self, Cell};
use super::claims::{self, Verdict};
use super::format;
use super::pivot::Pivot;
use super::record::{Manifest, Record};
use super::summary;

/// Widest line, in characters.
const WIDTH: u16 = 100;

/// Column, heading.
const SHOWN: [(&str, &str); 3] = [
    ("msgs_per_s", "msgs/s"),
    ("delay_mean_us", "mean"),
    ("delay_max_us", "max delay"),
];

/// The run as text of at most 100 columns: the table, the verdicts, the warnings. `styled` for a terminal: lines and
/// colours; else it is plain text.
pub fn render(manifest: &Manifest, records: &[Record], styled: bool) -> String {
    let cells = cells::group(records);
    let mut text = table(manifest, &cells, styled);
    let judged = claims::judge(&manifest.claims, records);
    if !judged.is_empty() {
        text.push('\n');
    }
    for judgement in &judged {
        let colour = match judgement.verdict {
            Verdict::Reproduced => "32",
            Verdict::Refuted => "31",
            Verdict::Undecided => "33",
        };
        let word = format!("{:<11}", judgement.verdict.word());
        let word = if styled {
            format!("\x1b[{colour}m{word}\x1b[0m")
        } else {
            word
        };
        let statement = wrap(&printable(&judgement.claim.text), 12);
        let measured = judgement
            .measured
            .map(|interval| format!("{}: ", interval.text(&judgement.claim)));
        let reason = printable(&format!("{}{}", measured.unwrap_or_default(), judgement.reason));
        text += &format!(
            "{word} {statement}
{:12}{}
",
            "",
            wrap(&reason, 12)
        );
    }
    let warnings = summary::warnings(manifest, records);
    if !warnings.is_empty() {
        text.push('\n');
    }
    for warning in warnings {
        text += &format!("warning: {}\n", wrap(&printable(&warning), 9));
    }
    text
}

fn table(manifest: &Manifest, cells: &[Cell<'_>], styled: bool) -> String {
    let pivot = Pivot::new(manifest, cells);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH);
    let names = pivot.columns.iter().map(|name| printable(name));
    let headings = names.flat_map(|name| SHOWN.map(|(_, heading)| format!("{name} {heading}").trim().to_owned()));
    table.set_header(std::iter::once(printable(&pivot.down)).chain(headings));
    for (row, cells) in pivot.rows.iter().zip(&pivot.cells) {
        let values = cells
            .iter()
            .flat_map(|cell| SHOWN.map(|(column, _)| value(*cell, column)));
        table.add_row(std::iter::once(printable(row)).chain(values).map(Field::new));
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines = table.to_string();
    let rule = if styled { "─" } else { "-" }.repeat(lines.lines().map(|line| line.chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for (index, line) in lines.lines().enumerate() {
        if index == 1 {
            text += &format!("{rule}\n");
        }
        text += &format!("{}\n", line.trim_end());
    }
    if cells.iter().any(|cell| !cell.valid()) {
        text += "* not valid\n";
    }
    text
}

fn value(cell: Option<&Cell<'_>>, column: &str) -> String {
    let Some(measured) = cell.and_then(|cell| cell.measured(column)) else {
        return "–".into();
    };
    let mark = if cell.is_some_and(Cell::valid) { "" } else { "*" };
    format!("{}{mark}", format::value(column, measured.value()))
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

/// Without control characters, which a scenario's text could steer a terminal with.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn summary_of_a_run() {
        insta::assert_snapshot!(render(&fixture::manifest(), &fixture::records(), true));
    }

    #[test]
    fn fits_the_terminal_and_is_plain_elsewhere() {
        let mut manifest = fixture::manifest();
        manifest.claims[0].text = "A long statement with \x1b[31mcolours. ".repeat(20);
        for styled in [true, false] {
            let text = render(&manifest, &fixture::records(), styled);
            for line in text.lines() {
                let shown = line
                    .replace("\x1b[32m", "")
                    .replace("\x1b[31m", "")
                    .replace("\x1b[33m", "")
                    .replace("\x1b[0m", "");
                assert!(shown.chars().count() <= 100, "{line}");
            }
            assert_eq!(text.contains('\x1b'), styled);
        }
        assert!(!render(&manifest, &fixture::records(), true).contains("with \x1b"));
        assert!(render(&manifest, &[], false).contains("warning: 42 of 42 cells are missing."));
    }
}
