//! `summary.xlsx`: Summary, Results (a filterable table), and for each charted column a matrix of its values over the
//! chart's two axes, one in percent of the first column, and a native chart.

use std::io;
use std::path::Path;

use indexmap::IndexMap;
use rust_xlsxwriter::{
    Chart, ChartAxisCrossing, ChartEmptyCells, ChartType, Color, ConditionalFormat3ColorScale,
    ConditionalFormatFormula, ConditionalFormatType, DocProperties, ExcelDateTime, Format, FormatBorder, Note, Table,
    TableColumn, TableStyle, Workbook, Worksheet, XlsxError,
};

use crate::cells::{self, Cell};
use crate::columns::{self, Columns, Field, Kind};
use crate::grid::{Grid, Place};
use crate::record::{ChartKind, Manifest, Record, Scale};
use crate::store::{self, StoreError};
use crate::{answer, judge, record, summary};

/// Writes the spreadsheet. The same records give the same bytes.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, manifest: &Manifest, records: &[Record]) -> Result<(), StoreError> {
    let fail = |error: XlsxError| StoreError::new("write", path, io::Error::other(error));
    let bytes = build(manifest, records).map_err(fail)?;
    store::replace(path, |out| out.write_all(&bytes))
}

fn build(manifest: &Manifest, records: &[Record]) -> Result<Vec<u8>, XlsxError> {
    let cells = cells::group(manifest.columns(), records);
    let mut book = Workbook::new();
    // The creation time is the run's, so that rendering again gives the same file.
    let started = ExcelDateTime::parse_from_str(manifest.started.get(..19).unwrap_or_default());
    let started = started.or_else(|_| ExcelDateTime::from_ymd(2000, 1, 1))?;
    let author = format!("weir {}", manifest.weir_version);
    let title = cut(&manifest.title);
    book.set_properties(&DocProperties::new().set_title(title).set_author(author).set_creation_datetime(&started));
    summary_sheet(book.add_worksheet(), manifest, records, &cells)?;
    results_sheet(book.add_worksheet(), manifest.columns(), records)?;
    for (column, chart) in charted(manifest) {
        matrix_sheet(book.add_worksheet(), chart, column, &cells)?;
    }
    book.save_to_buffer()
}

/// The charted columns over two axes, each with its first chart.
fn charted(manifest: &Manifest) -> IndexMap<&str, &record::Chart> {
    let mut charted = IndexMap::new();
    for chart in &manifest.charts {
        match chart.kind {
            ChartKind::Lines => _ = charted.entry(chart.y.as_str()).or_insert(chart),
            ChartKind::Heatmap => _ = charted.entry(chart.value.as_str()).or_insert(chart),
            ChartKind::Time | ChartKind::Distribution => {}
        }
    }
    charted
}

fn summary_sheet(
    sheet: &mut Worksheet,
    manifest: &Manifest,
    records: &[Record],
    cells: &[Cell<'_>],
) -> Result<(), XlsxError> {
    sheet.set_name("Summary")?.set_landscape().set_print_fit_to_pages(1, 0);
    for (column, width) in [(0, 58.0), (1, 13.0), (2, 40.0), (3, 26.0), (4, 80.0)] {
        sheet.set_column_width(column, width)?;
    }
    let judged = judge::judge(manifest, records);
    sheet.write_with_format(0, 0, cut(&manifest.title), &Format::new().set_bold().set_font_size(16))?;
    let mut row = 2;
    for answer in answer::answers(manifest, cells, &judged) {
        sheet.write_with_format(row, 0, cut(&answer.title), &bold())?;
        row += u32::from(!answer.title.is_empty());
        for line in &answer.lines {
            sheet.write(row, 0, cut(line))?;
            row += 1;
        }
        row += 1;
    }
    for sentence in summary::sentences(manifest, records) {
        sheet.write(row, 0, cut(&sentence))?;
        row += 1;
    }
    for warning in summary::warnings(manifest, records) {
        let warned = Format::new().set_font_color("#B42318");
        sheet.write_with_format(row, 0, cut(&format!("Warning: {warning}")), &warned)?;
        row += 1;
    }
    if !judged.is_empty() {
        row += 1;
        sheet.write_row_with_format(row, 0, ["Statement", "Verdict", "Bounds", "Measured", "Why"], &heading())?;
        for judged in &judged {
            row += 1;
            let bounds = format!("{} {}", judged.claim.column, judged.bounds);
            let colour = match judged.word {
                "reproduced" | "pass" => Color::from("#0A7D57"),
                "refuted" | "fail" => Color::from("#B45309"),
                _ => Color::from("#59636E"),
            };
            let wrapped = Format::new().set_text_wrap().set_align(rust_xlsxwriter::FormatAlign::Top);
            let verdict = wrapped.clone().set_bold().set_font_color(colour);
            let measured = judged.measured_in_words.as_str();
            let texts = [(0, judged.name.as_str()), (2, &bounds), (3, measured), (4, &judged.reason)];
            for (column, text) in texts {
                sheet.write_with_format(row, column, cut(text), &wrapped)?;
            }
            sheet.write_with_format(row, 1, judged.word, &verdict)?;
            // Not every program fits the height to wrapped text.
            let lines = (judged.name.chars().count() as f64 / 58.0).ceil().max(1.0);
            sheet.set_row_height(row, 15.0 * lines)?;
        }
    }
    Ok(())
}

fn results_sheet(sheet: &mut Worksheet, known: Columns<'_>, records: &[Record]) -> Result<(), XlsxError> {
    sheet.set_name("Results")?.set_freeze_panes(1, 2)?.set_repeat_rows(0, 0)?;
    sheet.set_landscape().set_print_fit_to_pages(1, 0);
    let names = columns::names(records);
    for (column, name) in (0u16..).zip(&names) {
        sheet.set_column_width(column, (name.len() as f64 + 4.0).max(10.0))?;
        let unit = known.unit(name);
        let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
        let note = Note::new(format!("{}{unit}", known.about(name))).add_author_prefix(false);
        sheet.insert_note(0, column, &note)?;
    }
    let last = (records.len() as u32, names.len() as u16 - 1);
    let headers: Vec<TableColumn> = names.iter().map(|name| TableColumn::new().set_header(*name)).collect();
    let table = Table::new().set_name("Results").set_style(TableStyle::Light1).set_columns(&headers);
    sheet.add_table(0, 0, last.0.max(1), last.1, &table)?;
    let formats: Vec<Format> = names.iter().map(|name| number(known, name)).collect();
    for (row, record) in (1u32..).zip(records) {
        for ((column, name), format) in (0u16..).zip(&names).zip(&formats) {
            match columns::field(record, name).unwrap_or(Field::Empty) {
                Field::Text(text) => _ = sheet.write(row, column, cut(text))?,
                Field::Flag(flag) => _ = sheet.write(row, column, flag)?,
                field => write_number(sheet, (row, column), field.number(), format)?,
            }
        }
    }
    // Column Y is `valid`.
    let invalid = Format::new().set_font_color("#8C959F").set_italic();
    let invalid = ConditionalFormatFormula::new().set_rule("=$Y2=FALSE").set_format(invalid);
    sheet.add_conditional_format(1, 0, last.0.max(1), last.1, &invalid)?;
    Ok(())
}

/// One column over two axes: its values, then each in percent of its row's first value; next to them a chart.
fn matrix_sheet(
    sheet: &mut Worksheet,
    chart: &record::Chart,
    column: &str,
    cells: &[Cell<'_>],
) -> Result<(), XlsxError> {
    let Some(known) = cells.first().map(|cell| cell.columns) else { return Ok(()) };
    // A sheet's name has at most 31 characters.
    let name: String = column.chars().take(31).collect();
    sheet.set_name(&name)?.set_landscape().set_print_fit_to_pages(1, 0).set_column_width(0, 22)?;
    let (down, across) = match chart.kind {
        ChartKind::Lines => (&chart.x, &chart.series),
        _ => (&chart.y, &chart.x),
    };
    let title = if chart.title.is_empty() { column } else { &chart.title };
    sheet.write_with_format(0, 0, cut(title), &Format::new().set_bold().set_font_size(14))?;
    let mut top = 2;
    for grid in Grid::all(cells, down, across) {
        let of = if grid.name.is_empty() { String::new() } else { format!("{}: ", grid.name) };
        let value = |cell: &Cell<'_>| cell.measured(column).map(|m| m.value()).filter(|value| value.is_finite());
        let unit = known.unit(column);
        let words = format!("{of}{column}{}{unit}", if unit.is_empty() { "" } else { ", " });
        let height = grid.rows.len() as u32;
        let width = grid.columns.len() as u16;
        let values: Vec<Vec<Option<f64>>> =
            grid.cells.iter().map(|row| row.iter().map(|cell| value(cell.as_ref()?)).collect()).collect();
        let first = (top + 2, 1);
        table(sheet, top, &words, (down, across), &grid, &values, &number(known, column))?;
        let lower = known.get(column).is_some_and(|column| column.better == Some(columns::Better::Lower));
        let (middle, max) = if lower { ("#FBE3D6", "#F2B08C") } else { ("#DCEBF5", "#8FBFDD") };
        let scale = ConditionalFormat3ColorScale::new().set_midpoint(ConditionalFormatType::Percentile, 50);
        let scale = scale.set_minimum_color("#FFFFFF").set_midpoint_color(middle).set_maximum_color(max);
        sheet.add_conditional_format(first.0, 1, top + 1 + height, width, &scale)?;
        sheet.set_column_range_width(1, width, 13)?;
        sheet.insert_chart(top, width + 2, &native(chart, &name, first, (height, width), &grid, &values))?;
        top += height + 4;
        if width > 1 {
            let percent = |row: &Vec<Option<f64>>| {
                let first = row[0].filter(|first| *first != 0.0);
                row.iter().map(|value| Some((*value)? / first?)).collect()
            };
            let relative: Vec<Vec<Option<f64>>> = values.iter().map(percent).collect();
            let words = format!("{of}{column} in percent of the first column");
            table(sheet, top, &words, (down, across), &grid, &relative, &Format::new().set_num_format("0.0 %"))?;
            top += height + 4;
        }
        // Space for the chart, which is 20 rows high.
        top = top.max(first.0 + 22);
    }
    Ok(())
}

fn table(
    sheet: &mut Worksheet,
    top: u32,
    words: &str,
    (down, across): (&str, &str),
    grid: &Grid<'_>,
    values: &[Vec<Option<f64>>],
    format: &Format,
) -> Result<(), XlsxError> {
    sheet.write_with_format(top, 0, cut(words), &bold())?;
    sheet.write_with_format(top + 1, 0, format!("{down} \\ {across}"), &heading())?;
    let label = |sheet: &mut Worksheet, at: (u32, u16), place: &Place, format: &Format| match place.number {
        Some(number) => sheet.write_number_with_format(at.0, at.1, number, format).map(drop),
        None => sheet.write_with_format(at.0, at.1, cut(&place.text), format).map(drop),
    };
    for (column, place) in (1u16..).zip(&grid.columns) {
        label(sheet, (top + 1, column), place, &heading())?;
    }
    for ((row, place), values) in (top + 2..).zip(&grid.rows).zip(values) {
        label(sheet, (row, 0), place, &bold())?;
        for (column, value) in (1u16..).zip(values) {
            write_number(sheet, (row, column), *value, format)?;
        }
    }
    Ok(())
}

/// The values as lines over the rows, one series per column.
fn native(
    chart: &record::Chart,
    sheet: &str,
    (top, left): (u32, u16),
    (height, width): (u32, u16),
    grid: &Grid<'_>,
    values: &[Vec<Option<f64>>],
) -> Chart {
    let numeric = grid.rows.iter().all(|place| place.number.is_some());
    let mut native = Chart::new(if numeric { ChartType::ScatterStraightWithMarkers } else { ChartType::Line });
    let bottom = top + height - 1;
    for column in 0..width {
        native
            .add_series()
            .set_name((sheet, top - 1, left + column))
            .set_categories((sheet, top, 0, bottom, 0))
            .set_values((sheet, top, left + column, bottom, left + column));
    }
    native.title().set_name(
        &[&grid.name, &chart.title].into_iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(": "),
    );
    native.show_empty_cells_as(ChartEmptyCells::Gaps).set_width(720).set_height(400);
    let (x, y) = match chart.kind {
        ChartKind::Lines => (&chart.x_label, &chart.y_label),
        _ => (&chart.y_label, &chart.value_label),
    };
    native.x_axis().set_name(x.as_str());
    native.y_axis().set_name(y.as_str());
    if chart.scale == Scale::Log {
        // The other axis would cross at 1, above smaller values.
        let lowest = values.iter().flatten().flatten().filter(|value| **value > 0.0).copied().fold(1.0, f64::min);
        native
            .y_axis()
            .set_log_base(10)
            .set_min(10f64.powf(lowest.log10().floor()))
            .set_crossing(ChartAxisCrossing::Min);
    }
    native
}

fn write_number(
    sheet: &mut Worksheet,
    (row, column): (u32, u16),
    value: Option<f64>,
    format: &Format,
) -> Result<(), XlsxError> {
    // Spreadsheets have no infinity.
    if let Some(value) = value.filter(|value| value.is_finite()) {
        sheet.write_number_with_format(row, column, value, format)?;
    }
    Ok(())
}

/// A spreadsheet's own number format for a column.
fn number(known: Columns<'_>, column: &str) -> Format {
    let format = match (known.kind(column), known.unit(column)) {
        (Some(Kind::Share), _) => "0.00 %",
        (_, "us" | "1/s") => "#,##0.0",
        (_, "Mbit/s") => "#,##0.00",
        (_, "s" | "ms" | "%") => "General",
        _ => "#,##0.####",
    };
    Format::new().set_num_format(format)
}

fn bold() -> Format {
    Format::new().set_bold()
}

fn heading() -> Format {
    bold().set_background_color("#EEF1F4").set_border_bottom(FormatBorder::Thin)
}

/// A cell holds 32,767 characters.
fn cut(text: &str) -> String {
    text.chars().take(32_767).collect()
}

#[cfg(test)]
#[path = "tests/spreadsheet.rs"]
mod tests;
