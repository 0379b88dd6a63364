//! `summary.xlsx`: what one would build from `results.csv` by hand.
//!
//! Sheets: Summary (words, claims, how to read), Results (every row, a filterable table), one pivot with its chart for
//! each charted column, Published (theirs beside ours), Environment. A run over loss and latency has the sheets of
//! [`matrix`] instead of the pivots.

use std::io;
use std::path::Path;

use rust_xlsxwriter::{
    ConditionalFormat3ColorScale, ConditionalFormatType, DocProperties, ExcelDateTime, Format, FormatAlign,
    FormatBorder, Note, Table, TableColumn, TableStyle, Workbook, Worksheet, XlsxError,
};

use crate::cells::{self, Cell, Measured};
use crate::claims;
use crate::columns::{self, Field};
use crate::comparison;
use crate::grid::{Grid, MATRIX};
use crate::record::{Manifest, Record};
use crate::store::{self, StoreError};

mod matrix;
mod overview;
mod pivots;
mod published;

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
    let cells = cells::group(records);
    let judged = claims::judge(&manifest.claims, records);
    let mut book = Workbook::new();
    book.set_properties(&properties(manifest)?);
    overview::sheet(book.add_worksheet(), manifest, records, &cells, &judged)?;
    results(book.add_worksheet(), records)?;
    let grids = Grid::matrix(&cells);
    let headlines = pivots::headlines(manifest);
    if grids.is_empty() {
        for (index, column) in headlines.iter().enumerate() {
            pivots::sheet(book.add_worksheet(), manifest, &cells, column, index)?;
        }
    } else {
        let own = |column: &&str| ![MATRIX[2], "retransmits"].contains(column);
        let further: Vec<String> =
            headlines.iter().map(pivots::Headline::column).filter(own).map(String::from).collect();
        matrix::sheets(&mut book, &grids, &cells, &further)?;
    }
    if let Some(theirs) = &manifest.published {
        let (in_grids, others) = comparison::compare(theirs, &cells);
        if !in_grids.is_empty() {
            published::grids(book.add_worksheet(), &theirs.source, &in_grids)?;
        }
        if !others.is_empty() || in_grids.is_empty() {
            published::list(book.add_worksheet(), &theirs.source, &others)?;
        }
    }
    environment(book.add_worksheet(), manifest)?;
    book.save_to_buffer()
}

/// The creation time is the run's, so that rendering again changes nothing.
fn properties(manifest: &Manifest) -> Result<DocProperties, XlsxError> {
    let started = manifest.started.get(..19).unwrap_or_default();
    let created = ExcelDateTime::parse_from_str(started).or_else(|_| ExcelDateTime::from_ymd(2000, 1, 1))?;
    let author = format!("weir {}", manifest.weir_version);
    Ok(DocProperties::new().set_title(cut(&manifest.title)).set_author(author).set_creation_datetime(&created))
}

fn results(sheet: &mut Worksheet, records: &[Record]) -> Result<(), XlsxError> {
    sheet.set_name("Results")?.set_freeze_panes(1, 2)?.set_repeat_rows(0, 0)?;
    sheet.set_landscape().set_print_fit_to_pages(1, 0);
    let names = columns::names(records);
    for (column, name) in (0u16..).zip(&names) {
        sheet.set_column_width(column, (name.len() as f64 + 4.0).max(10.0))?;
        let note = explained(name);
        sheet.insert_note(0, column, &Note::new(note).add_author_prefix(false))?;
    }
    if records.is_empty() {
        sheet.write_row_with_format(0, 0, names, &heading())?;
        return Ok(());
    }
    let headers: Vec<TableColumn> = names.iter().map(|name| TableColumn::new().set_header(*name)).collect();
    let table = Table::new().set_name("Results").set_style(TableStyle::Light1).set_columns(&headers);
    sheet.add_table(0, 0, records.len() as u32, names.len() as u16 - 1, &table)?;
    let counts = number("#,##0");
    let numbers: Vec<Format> = names.iter().map(|name| number(number_format(name))).collect();
    for (row, record) in (1u32..).zip(records) {
        for ((column, name), format) in (0u16..).zip(&names).zip(&numbers) {
            let (value, format) = match columns::field(record, name).unwrap_or(Field::Empty) {
                Field::Text(text) => {
                    sheet.write(row, column, cut(text))?;
                    continue;
                }
                Field::Flag(flag) => {
                    sheet.write(row, column, flag)?;
                    continue;
                }
                Field::Empty => continue,
                Field::Count(count) => (count as f64, &counts),
                Field::Number(number) => (number, format),
            };
            // A spreadsheet knows no infinity.
            if value.is_finite() {
                sheet.write_number_with_format(row, column, value, format)?;
            }
        }
    }
    let invalid = rust_xlsxwriter::ConditionalFormatFormula::new()
        .set_rule("=$Y2=FALSE")
        .set_format(Format::new().set_font_color("#8C959F").set_italic());
    sheet.add_conditional_format(1, 0, records.len() as u32, names.len() as u16 - 1, &invalid)?;
    Ok(())
}

fn environment(sheet: &mut Worksheet, manifest: &Manifest) -> Result<(), XlsxError> {
    sheet
        .set_name("Environment")?
        .set_column_width(0, 32)?
        .set_column_width(1, 100)?
        .set_landscape()
        .set_print_fit_to_pages(1, 0);
    let seed = manifest.seed.to_string();
    let command = manifest.command.join(" ");
    let run = [
        ("weir", manifest.weir_version.as_str()),
        ("scenario", manifest.scenario.as_str()),
        ("command", command.as_str()),
        ("seed", seed.as_str()),
        ("started", manifest.started.as_str()),
    ];
    let facts = manifest.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let network = manifest.network.iter().map(|line| ("network", line.as_str()));
    let mut row = 0;
    for (name, value) in run.into_iter().chain(facts).chain(network) {
        sheet.write_with_format(row, 0, cut(name), &Format::new().set_bold())?;
        sheet.write_with_format(row, 1, cut(value), &wrapped())?;
        row += 1;
    }
    row += 1;
    sheet.write_with_format(row, 0, "scenario as it ran", &heading())?;
    for line in manifest.source.lines() {
        sheet.write_with_format(row, 1, cut(line), &Format::new().set_font_name("Consolas"))?;
        row += 1;
    }
    Ok(())
}

/// What a column says, and its unit.
fn explained(name: &str) -> String {
    let about = columns::about(name);
    let unit = columns::unit(name);
    if unit.is_empty() { about.to_owned() } else { format!("{about} ({unit})") }
}

fn write_number(sheet: &mut Worksheet, row: u32, column: u16, value: f64, format: &str) -> Result<(), XlsxError> {
    // A spreadsheet knows no infinity.
    if value.is_finite() {
        sheet.write_number_with_format(row, column, value, &number(format))?;
    }
    Ok(())
}

fn number(format: &str) -> Format {
    Format::new().set_num_format(format).set_align(FormatAlign::Top)
}

/// A spreadsheet's own number format for a column.
fn number_format(column: &str) -> &'static str {
    match columns::unit(column) {
        "us" => "#,##0.0",
        "1/s" => "0.0",
        "Mbit/s" => "0.0000",
        "s" | "ms" | "%" => "General",
        _ => "#,##0.####",
    }
}

/// A colour scale, from good to bad or from bad to good.
fn colours(more_is_better: bool) -> ConditionalFormat3ColorScale {
    let (good, middle, bad) = ("#8FCFB5", "#FFFFFF", "#F2B08C");
    let (low, high) = if more_is_better { (bad, good) } else { (good, bad) };
    ConditionalFormat3ColorScale::new()
        .set_midpoint(ConditionalFormatType::Percentile, 50)
        .set_minimum_color(low)
        .set_midpoint_color(middle)
        .set_maximum_color(high)
}

/// The same for ratios to what others measured: 1 is the middle, a third and three are the ends.
fn ratio_colours() -> ConditionalFormat3ColorScale {
    colours(true)
        .set_minimum(ConditionalFormatType::Number, 1.0 / 3.0)
        .set_midpoint(ConditionalFormatType::Number, 1)
        .set_maximum(ConditionalFormatType::Number, 3)
}

fn title() -> Format {
    Format::new().set_bold().set_font_size(16)
}

fn heading() -> Format {
    Format::new().set_bold().set_border_bottom(FormatBorder::Thin).set_background_color("#F0F3F6")
}

fn wrapped() -> Format {
    Format::new().set_text_wrap().set_align(FormatAlign::Top)
}

/// As much of a text as a field takes.
fn cut(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || *c == '\n').take(30_000).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use calamine::{Data, DataType, Reader, Xlsx};

    use super::*;
    use crate::fixture;

    fn open(manifest: &Manifest, records: &[Record]) -> Xlsx<Cursor<Vec<u8>>> {
        Xlsx::new(Cursor::new(build(manifest, records).unwrap())).unwrap()
    }

    #[test]
    fn reads_back() {
        let (manifest, records) = (fixture::manifest(), fixture::records());
        let mut book = open(&manifest, &records);
        let sheets = ["Summary", "Results", "msgs_per_s", "delay_mean_us", "delay_max_us", "Published", "Environment"];
        assert_eq!(book.sheet_names(), sheets);

        let results = book.worksheet_range("Results").unwrap();
        assert_eq!(results.height(), 1 + records.len());
        for (row, record) in results.rows().skip(1).zip(&records) {
            assert_eq!(row[1], Data::String(record.row.cell.clone()));
            assert_eq!(row[9], Data::Float(record.row.sent as f64));
            assert_eq!(row[24], Data::Bool(record.row.valid));
        }
        assert_eq!(results.get((1, 11)), Some(&Data::Empty), "udp: undelivered is not defined");

        let pivot = book.worksheet_range("msgs_per_s").unwrap();
        let at = |row, column| pivot.get_value((row, column)).cloned();
        assert_eq!(at(3, 1), Some(Data::String("udp".into())));
        assert_eq!((at(24, 0), at(24, 2)), (Some(Data::Float(20.0)), Some(Data::Float(records[41].row.msgs_per_s))));

        let summary = book.worksheet_range("Summary").unwrap();
        let words = summary.rows().flatten().filter_map(|field| match field {
            Data::String(text) => Some(text.as_str()),
            _ => None,
        });
        let words: Vec<&str> = words.collect();
        for word in ["reproduced", "refuted", "undecided", "The mean delay of UDP is 160 µs at any loss."] {
            assert!(words.contains(&word), "{word}");
        }
    }

    #[test]
    fn a_matrix_is_pivoted_and_its_percentages_are_formulas() {
        let (manifest, records) = (fixture::matrix_manifest(), fixture::matrix_records());
        let mut book = open(&manifest, &records);
        let sheets = book.sheet_names();
        for name in
            ["Mean Mbit per s", "% of first column", "% of first row", "Retransmits", "Interval low", "Interval high"]
        {
            assert!(sheets.iter().any(|sheet| sheet == name), "{name} in {sheets:?}");
        }
        assert!(sheets.iter().all(|name| name.chars().count() <= 31));
        assert!(!sheets.iter().any(|name| name == "Published" || name == "mbit_per_s"), "{sheets:?}");
        // 5 %, 10 ms is row 5 of the losses and column 5 of the latencies; records go row by row, 14 each.
        let rate = |row: usize, column: usize| records[row * 14 + column].row.mbit_per_s;
        let mut at =
            |sheet: &str, row: u32, column: u32| book.worksheet_range(sheet).unwrap().get_value((row, column)).cloned();
        assert_eq!(at("Mean Mbit per s", 3, 6), Some(Data::Float(10.0)));
        assert_eq!(at("Mean Mbit per s", 9, 0), Some(Data::Float(5.0)));
        assert_eq!(at("Mean Mbit per s", 9, 6), Some(Data::Float(rate(5, 5))));
        assert_eq!(at("Mean Mbit per s", 22, 14), Some(Data::Float(0.0)), "never connected");
        assert_eq!(at("% of first column", 9, 6), Some(Data::Float(rate(5, 5) / rate(5, 0))));
        assert_eq!(at("% of first row", 9, 6), Some(Data::Float(rate(5, 5) / rate(0, 5))));
        assert_eq!(at("Interval low", 9, 6), Some(Data::Float(records[75].estimates["mbit_per_s"].low)));
        assert_eq!(at("Published grid", 5, 6), Some(Data::Float(37.28)));
        assert_eq!(at("Published grid", 15, 6), Some(Data::Float(rate(1, 5) / 37.28)));
        let formulas = book.worksheet_formula("% of first column").unwrap();
        assert_eq!(formulas.get_value((9, 6)).unwrap(), "'Mean Mbit per s'!G10/'Mean Mbit per s'!$B$10");
    }

    #[test]
    fn further_axes_are_blocks_of_the_same_sheets() {
        let (manifest, mut records) = (fixture::matrix_manifest(), fixture::matrix_records());
        let mut others = records.clone();
        for (congestion, records) in [("cubic", &mut records), ("bbr", &mut others)] {
            for record in records {
                record.row.cell += congestion;
                record.axes.push(("tcp.congestion".into(), congestion.into()));
            }
        }
        for record in &mut others {
            record.row.mbit_per_s *= 2.0;
            record.estimates.clear();
        }
        records.extend(others);
        let mut book = open(&manifest, &records);
        let range = book.worksheet_range("Mean Mbit per s").unwrap();
        assert_eq!(range.get_value((3, 0)), Some(&Data::String("cubic".into())));
        assert_eq!(range.get_value((29, 0)), Some(&Data::String("bbr".into())));
        assert_eq!(range.get_value((31, 1)), Some(&Data::Float(records[267].row.mbit_per_s)));
    }

    /// A chart's line goes from the left to the right: its column has a value for each row, and rows ascend.
    #[test]
    fn a_second_axis_makes_lines_and_no_zigzag() {
        let (mut manifest, records) = (fixture::manifest(), fixture::records_by_congestion());
        manifest.axes.push(("tcp.congestion".into(), vec!["cubic".into(), "bbr".into()]));
        let mut book = open(&manifest, &records);
        let pivot = book.worksheet_range("msgs_per_s").unwrap();
        let down: Vec<f64> =
            (4..25).map(|row| pivot.get_value((row, 0)).and_then(DataType::get_float).unwrap()).collect();
        assert_eq!(down, (0..=20).map(f64::from).collect::<Vec<_>>());
        let across: Vec<_> = (1..5).map(|column| pivot.get_value((3, column)).cloned().unwrap()).collect();
        assert_eq!(across, ["udp/cubic", "udp/bbr", "tcp/cubic", "tcp/bbr"].map(|name| Data::String(name.into())));
        assert_eq!(pivot.get_value((24, 4)), Some(&Data::Float(records[83].row.msgs_per_s)));
    }

    #[test]
    fn the_same_run_gives_the_same_bytes() {
        let run = || build(&fixture::manifest(), &fixture::records()).unwrap();
        assert_eq!(run(), run());
        let run = || build(&fixture::matrix_manifest(), &fixture::matrix_records()).unwrap();
        assert_eq!(run(), run());
    }

    #[test]
    fn a_large_run_has_every_row() {
        let (manifest, records) = fixture::large(fixture::Shape::Messages, 600);
        let mut book = open(&manifest, &records);
        let results = book.worksheet_range("Results").unwrap();
        assert_eq!(results.height(), 1 + records.len());
        assert_eq!(results.get((0, 1)), Some(&Data::String("cell".into())));
        for (row, record) in results.rows().skip(1).zip(&records) {
            assert_eq!(row[1], Data::String(record.row.cell.clone()));
            assert_eq!(row[9], Data::Float(record.row.sent as f64));
        }
    }

    #[test]
    fn a_run_without_results_is_a_book_too() {
        let manifest = Manifest { title: "\u{0}=1+1".repeat(20_000), started: "now".into(), ..fixture::manifest() };
        assert_eq!(open(&manifest, &[]).worksheet_range("Results").unwrap().height(), 1);
    }
}
