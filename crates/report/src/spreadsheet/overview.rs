//! The first sheet: the run in words, its claims, and how to read the book.

use rust_xlsxwriter::{Color, Format, FormatAlign, Worksheet, XlsxError};

use super::{Cell, cut, explained, heading, title, wrapped, write_number};
use crate::asserts::{self, State};
use crate::claims::{self, Judgement, Verdict};
use crate::columns;
use crate::record::{Manifest, Record};
use crate::summary;

/// Column widths of the summary, in characters.
const SUMMARY_WIDTHS: [f64; 8] = [46.0, 38.0, 13.0, 15.0, 15.0, 15.0, 9.0, 70.0];

const HOW_TO_READ: [&str; 5] = [
    "Results has one row a cell and repeat. An empty field was not measured or is not defined; it is not 0.",
    "The pivots show each cell once: one repeat as measured, several combined, valid ones only where there are any.",
    "Intervals hold with 95 % confidence: Student's t over batches of time within a run, or over three repeats or more.",
    "A quantile that the sample is too small for is empty. A largest value is that of this run; a longer run may exceed it.",
    "A cell that is not valid was disturbed from outside: do not use it.",
];

/// Fills the sheet.
pub(super) fn sheet(
    sheet: &mut Worksheet,
    manifest: &Manifest,
    records: &[Record],
    cells: &[Cell<'_>],
    judged: &[Judgement],
) -> Result<(), XlsxError> {
    sheet.set_name("Summary")?.set_landscape().set_print_fit_to_pages(1, 0);
    for (column, width) in (0u16..).zip(SUMMARY_WIDTHS) {
        sheet.set_column_width(column, width)?;
    }
    let (wrapped, warned) = (wrapped(), Format::new().set_font_color("#B42318"));
    sheet.write_with_format(0, 0, cut(&manifest.title), &title())?;
    let mut row = 2;
    for sentence in summary::sentences(manifest, records, cells, judged) {
        sheet.write(row, 0, cut(&sentence))?;
        row += 1;
    }
    for warning in summary::warnings(manifest, records) {
        sheet.write_with_format(row, 0, cut(&format!("Warning: {warning}")), &warned)?;
        row += 1;
    }
    if !judged.is_empty() {
        row += 1;
        let headings = ["Published statement", "Read as", "Verdict", "Measured", "Low", "High", "Unit", "Why"];
        sheet.write_row_with_format(row, 0, headings, &heading())?;
        for judgement in judged {
            row += 1;
            let claim = &judgement.claim;
            let reading = format!("{} {} {}", claim.reading, claim.column, claims::bounds(claim));
            let (text, reading) = (cut(&claim.text), cut(reading.trim()));
            // Not every program fits the height to wrapped text.
            let lines = |text: &str, width: f64| (text.chars().count() as f64 / width).ceil().max(1.0);
            let most = lines(&text, SUMMARY_WIDTHS[0]).max(lines(&reading, SUMMARY_WIDTHS[1]));
            sheet.set_row_height(row, 15.0 * most.min(20.0))?;
            sheet.write_with_format(row, 0, text, &wrapped)?;
            sheet.write_with_format(row, 1, reading, &wrapped)?;
            sheet.write_with_format(row, 2, judgement.verdict.word(), &badge(judgement.verdict))?;
            if let Some(measured) = judgement.measured {
                for (column, value) in (3..).zip([measured.value, measured.low, measured.high]) {
                    write_number(sheet, row, column, value, "#,##0.0##")?;
                }
                let unit = if claim.relative_to.is_some() { "ratio" } else { columns::unit(&claim.column) };
                sheet.write_with_format(row, 6, unit, &wrapped)?;
            }
            sheet.write_with_format(row, 7, cut(&judgement.reason), &wrapped)?;
        }
        row += 1;
    }
    let checked = asserts::check(manifest, records);
    if !checked.is_empty() {
        row += 1;
        let headings = ["Assertion", "Bounds", "Result", "Measured", "Low", "High", "Unit", "Why"];
        sheet.write_row_with_format(row, 0, headings, &heading())?;
        for checked in &checked {
            row += 1;
            let assert = &checked.assert;
            sheet.write_with_format(row, 0, cut(&checked.name), &wrapped)?;
            sheet.write_with_format(row, 1, cut(&format!("{} {}", assert.column, checked.bounds())), &wrapped)?;
            sheet.write_with_format(row, 2, checked.state.word(), &badge(like(checked.state)))?;
            if let Some(measured) = checked.measured {
                for (column, value) in (3..).zip([measured.value, measured.low, measured.high]) {
                    write_number(sheet, row, column, value, "#,##0.0##")?;
                }
                let unit = if assert.relative_to.is_some() { "ratio" } else { columns::unit(&assert.column) };
                sheet.write_with_format(row, 6, unit, &wrapped)?;
            }
            sheet.write_with_format(row, 7, cut(&checked.reason), &wrapped)?;
        }
        row += 1;
    }
    row += 1;
    sheet.write_with_format(row, 0, "How to read", &heading())?;
    for line in HOW_TO_READ {
        row += 1;
        sheet.write(row, 0, line)?;
    }
    row += 2;
    sheet.write_row_with_format(row, 0, ["Column", "Meaning and unit"], &heading())?;
    for name in columns::names(records) {
        row += 1;
        sheet.write(row, 0, cut(name))?;
        sheet.write(row, 1, explained(name))?;
    }
    Ok(())
}

/// The verdict that looks alike.
fn like(state: State) -> Verdict {
    match state {
        State::Pass => Verdict::Reproduced,
        State::Fail => Verdict::Refuted,
        State::Skipped => Verdict::Undecided,
    }
}

fn badge(verdict: Verdict) -> Format {
    let (ink, ground) = match verdict {
        Verdict::Reproduced => ("#0A5C41", "#D6F0E5"),
        Verdict::Refuted => ("#8A3200", "#FBE0D1"),
        Verdict::Undecided => ("#424A53", "#E6EAEF"),
    };
    Format::new().set_bold().set_font_color(ink).set_background_color(Color::from(ground)).set_align(FormatAlign::Top)
}
