//! The sheets of a run over loss and latency: the pivot that one would build by hand, and what one derives from it.
//!
//! Every sheet has the same layout, a block for each combination of further axes, so that a field has the same address
//! in all of them; percentages are formulas over the first.

use rust_xlsxwriter::chart::{
    Chart, ChartAxisCrossing, ChartFormat, ChartLegendPosition, ChartLine, ChartMarker, ChartMarkerType, ChartRange,
    ChartSolidFill, ChartType,
};
use rust_xlsxwriter::utility::{row_col_to_cell, row_col_to_cell_absolute};
use rust_xlsxwriter::{Format, FormatAlign, Formula, Workbook, Worksheet, XlsxError};

use super::pivots::MOST_MARKED;
use super::{Cell, Measured, colours, columns, cut, heading, number_format, title};
use crate::grid::{Grid, MATRIX, Place};
use crate::palette::Rgb;

/// Name of the sheet of the throughput itself.
pub(super) const THROUGHPUT: &str = "Mean Mbit per s";
/// Rates with three digits or more.
pub(super) const RATE: &str = "[>=100]#,##0;[>=1]0.00;0.000";
/// First row of the first block.
const TOP: u32 = 3;
/// Blocks that have charts: a spreadsheet program draws hundreds of them before it shows anything.
const MOST_CHARTED: usize = 6;
/// Rows of a chart of a block.
const CHART_ROWS: u32 = 26;

/// What a sheet has in its fields.
struct Sheet<'a> {
    name: &'a str,
    title: &'a str,
    about: String,
    format: &'static str,
    more_is_better: bool,
    field: Content<'a>,
}

enum Content<'a> {
    /// A number of a cell.
    Value(&'a dyn Fn(&Cell<'_>) -> Option<f64>),
    /// The throughput in parts of that of the first column, or of the first row.
    PartOf(First),
}

#[derive(Clone, Copy)]
enum First {
    Column,
    Row,
}

/// Adds the sheets; `further` are the columns beside the throughput that the run charts.
pub(super) fn sheets(
    book: &mut Workbook,
    grids: &[Grid<'_>],
    cells: &[Cell<'_>],
    further: &[String],
) -> Result<(), XlsxError> {
    let [down, across, rate] = MATRIX;
    let ends = |cell: &Cell<'_>| match cell.measured(rate)? {
        Measured::Estimate(e) => Some((e.low, e.high)),
        _ => None,
    };
    let (lowest, cleanest) = (end(grids, |grid| &grid.columns, across), end(grids, |grid| &grid.rows, down));
    let value = |column: &'static str| move |cell: &Cell<'_>| cell.measured(column).map(|m| m.value());
    let (throughput, retransmits) = (value(rate), value("retransmits"));
    let (low, high) = (|cell: &Cell<'_>| Some(ends(cell)?.0), |cell: &Cell<'_>| Some(ends(cell)?.1));
    let mut sheets = vec![
        Sheet {
            name: THROUGHPUT,
            title: "Mean throughput, Mbit/s",
            about: "Payload received within the sending window; several repeats: their mean. Struck out: not valid."
                .into(),
            format: RATE,
            more_is_better: true,
            field: Content::Value(&throughput),
        },
        Sheet {
            name: "% of first column",
            title: "Throughput in percent of the first column",
            about: format!("What is left at a latency, of the same loss at {lowest}. Each field is a formula."),
            format: "0.0%",
            more_is_better: true,
            field: Content::PartOf(First::Column),
        },
        Sheet {
            name: "% of first row",
            title: "Throughput in percent of the first row",
            about: format!("What is left at a loss, of the same latency at {cleanest}. Each field is a formula."),
            format: "0.0%",
            more_is_better: true,
            field: Content::PartOf(First::Row),
        },
        Sheet {
            name: "Retransmits",
            title: "Segments sent again",
            about: "As the sending kernel or engine counts them; several repeats: their mean.".into(),
            format: "#,##0",
            more_is_better: false,
            field: Content::Value(&retransmits),
        },
        Sheet {
            name: "Interval low",
            title: "Lower end of the 95 % interval, Mbit/s",
            about: "Student's t over batches of time within a run, or over three repeats or more.".into(),
            format: RATE,
            more_is_better: true,
            field: Content::Value(&low),
        },
        Sheet {
            name: "Interval high",
            title: "Upper end of the 95 % interval, Mbit/s",
            about: "Student's t over batches of time within a run, or over three repeats or more.".into(),
            format: RATE,
            more_is_better: true,
            field: Content::Value(&high),
        },
    ];
    if !cells.iter().any(|cell| cell.measured("retransmits").is_some()) {
        sheets.retain(|sheet| sheet.name != "Retransmits");
    }
    for sheet in &sheets {
        write(book.add_worksheet(), sheet, grids, cells)?;
    }
    for (index, column) in further.iter().enumerate() {
        let value = |cell: &Cell<'_>| cell.measured(column).map(|m| m.value());
        let unit = columns::unit(column);
        let sheet = Sheet {
            name: &super::pivots::sheet_name(column, index),
            title: column,
            about: if unit.is_empty() { String::new() } else { format!("in {unit}") },
            format: number_format(column),
            more_is_better: ["1/s", "Mbit/s"].contains(&unit),
            field: Content::Value(&value),
        };
        write(book.add_worksheet(), &sheet, grids, cells)?;
    }
    Ok(())
}

/// The first place of an axis, where the grids agree on it: `1 ms`.
fn end(grids: &[Grid<'_>], places: impl for<'a> Fn(&'a Grid<'_>) -> &'a Vec<Place>, column: &str) -> String {
    let firsts: Vec<String> = grids.iter().filter_map(|grid| places(grid).first()).map(|p| p.text.clone()).collect();
    match firsts.first() {
        Some(first) if firsts.iter().all(|other| other == first) => format!("{first} {}", columns::unit(column)),
        _ => "its first value".into(),
    }
}

/// Row of the headings of each block.
pub(super) fn tops(grids: &[Grid<'_>]) -> Vec<u32> {
    let mut top = TOP;
    let mut tops = Vec::new();
    for grid in grids {
        tops.push(top + u32::from(!grid.name.is_empty()));
        top += (grid.rows.len() as u32 + 4).max(CHART_ROWS);
    }
    tops
}

/// Headings of a block: loss down, latency across, as numbers with their unit.
pub(super) fn headings(
    sheet: &mut Worksheet,
    top: u32,
    grid: (&str, &[Place], &[Place]),
    [down, across]: [&str; 2],
) -> Result<(), XlsxError> {
    let (name, rows, columns) = grid;
    if !name.is_empty() {
        sheet.write_with_format(top - 1, 0, cut(name), &Format::new().set_bold())?;
    }
    let word = |column: &str| column.split('_').next().unwrap_or(column).to_owned();
    let corner = format!("{} ↓  {} →", word(down), word(across));
    sheet.write_with_format(top, 0, corner, &heading())?;
    let unit = |column: &str| format!("General\" {}\"", columns::unit(column));
    let right = heading().set_align(FormatAlign::Right);
    for (at, place) in (1u16..).zip(columns) {
        label(sheet, (top, at), place, &right.clone().set_num_format(unit(across)))?;
    }
    for (at, place) in (top + 1..).zip(rows) {
        label(sheet, (at, 0), place, &Format::new().set_bold().set_num_format(unit(down)))?;
    }
    Ok(())
}

fn label(sheet: &mut Worksheet, (row, column): (u32, u16), place: &Place, format: &Format) -> Result<(), XlsxError> {
    match place.number {
        Some(number) => sheet.write_number_with_format(row, column, number, format).map(drop),
        None => sheet.write_with_format(row, column, cut(&place.text), format).map(drop),
    }
}

fn write(sheet: &mut Worksheet, of: &Sheet<'_>, grids: &[Grid<'_>], cells: &[Cell<'_>]) -> Result<(), XlsxError> {
    let [down, across, _] = MATRIX;
    sheet.set_name(of.name)?.set_landscape().set_print_fit_to_pages(1, 0);
    sheet.write_with_format(0, 0, cut(of.title), &title())?;
    let about = match grids.len() {
        0..=MOST_CHARTED => of.about.clone(),
        _ => format!("{} Charts are of the first {MOST_CHARTED} blocks.", of.about),
    };
    sheet.write_with_format(1, 0, cut(about.trim()), &Format::new().set_font_color("#59636E"))?;
    sheet.set_column_width(0, 17)?;
    let widest = grids.iter().map(|grid| grid.columns.len()).max().unwrap_or(1) as u16;
    sheet.set_column_range_width(1, widest, 8.5)?;
    let tops = tops(grids);
    if let [only] = tops[..] {
        sheet.set_freeze_panes(only + 1, 1)?;
    }
    let last_charted = tops.iter().take(MOST_CHARTED).copied().max().unwrap_or(0);
    for (grid, top) in grids.iter().zip(&tops) {
        headings(sheet, *top, (&grid.name, &grid.rows, &grid.columns), [down, across])?;
        for (row, column, cell) in grid.iter() {
            let at = (top + 1 + row as u32, column as u16 + 1);
            let format = Format::new().set_num_format(of.format);
            let format = if cell.valid() { format } else { format.set_font_strikethrough() };
            match &of.field {
                Content::Value(value) => {
                    if let Some(value) = value(cell).filter(|value| value.is_finite()) {
                        sheet.write_number_with_format(at.0, at.1, value, &format)?;
                    }
                }
                Content::PartOf(first) => part_of(sheet, grid, *first, *top, (row, column), &format)?,
            }
        }
        let (last_row, last_column) = (top + grid.rows.len() as u32, grid.columns.len() as u16);
        sheet.add_conditional_format(top + 1, 1, last_row, last_column, &colours(of.more_is_better))?;
        if matches!(of.field, Content::Value(_)) && !of.name.starts_with("Interval") && *top <= last_charted {
            let named = |over: &str| {
                let block = if grid.name.is_empty() { String::new() } else { format!(", {}", grid.name) };
                let what = of.title.split(',').next().unwrap_or_default();
                format!("{what} over {over}{block}")
            };
            let lowest = of_grid(grid, &of.field);
            let chart = chart(of, grid, *top, First::Row, &named("latency"), lowest);
            sheet.insert_chart(*top, last_column + 2, &chart)?;
            let chart = self::chart(of, grid, *top, First::Column, &named("loss"), lowest);
            // Beside the first one, which is about as wide as eleven columns of the usual width.
            sheet.insert_chart(*top, last_column + 14, &chart)?;
        }
    }
    let beside: Vec<&Cell<'_>> = cells.iter().filter(|cell| cell.beside).collect();
    if let (Content::Value(value), Some(last)) = (&of.field, tops.last().zip(grids.last())) {
        let mut row = last.0 + last.1.rows.len() as u32 + 3;
        for cell in beside {
            if let Some(value) = value(cell).filter(|value| value.is_finite()) {
                sheet.write(row, 0, cut(cell.name))?;
                sheet.write_number_with_format(row, 1, value, &Format::new().set_num_format(of.format))?;
                row += 1;
            }
        }
    }
    Ok(())
}

/// A formula over the sheet of the throughput, with its result, so that it shows where nothing calculates.
fn part_of(
    sheet: &mut Worksheet,
    grid: &Grid<'_>,
    first: First,
    top: u32,
    (row, column): (usize, usize),
    format: &Format,
) -> Result<(), XlsxError> {
    let (first_row, first_column) = match first {
        First::Column => (row, 0),
        First::Row => (0, column),
    };
    let value = |row: usize, column: usize| {
        let cell = grid.cells.get(row)?.get(column)?.as_ref()?;
        cell.measured(MATRIX[2]).map(|m| m.value()).filter(|value| value.is_finite())
    };
    let (Some(own), Some(whole)) = (value(row, column), value(first_row, first_column).filter(|whole| *whole > 0.0))
    else {
        return Ok(());
    };
    let at = |row: usize, column: usize| (top + 1 + row as u32, column as u16 + 1);
    let (own_at, whole_at) = (at(row, column), at(first_row, first_column));
    let formula = format!(
        "='{THROUGHPUT}'!{}/'{THROUGHPUT}'!{}",
        row_col_to_cell(own_at.0, own_at.1),
        row_col_to_cell_absolute(whole_at.0, whole_at.1)
    );
    let formula = Formula::new(formula).set_result((own / whole).to_string());
    sheet.write_formula_with_format(own_at.0, own_at.1, formula, format).map(drop)
}

/// The least value above 0.
fn of_grid(grid: &Grid<'_>, field: &Content<'_>) -> Option<f64> {
    let Content::Value(value) = field else {
        return None;
    };
    let values = grid.iter().filter_map(|(_, _, cell)| value(cell)).filter(|value| *value > 0.0);
    values.min_by(f64::total_cmp)
}

/// A line for each row (`First::Row`), over the headings above, or for each column, over those at the left.
fn chart(of: &Sheet<'_>, grid: &Grid<'_>, top: u32, lines: First, name: &str, lowest: Option<f64>) -> Chart {
    let [down, across, _] = MATRIX;
    let (last_row, last_column) = (top + grid.rows.len() as u32, grid.columns.len() as u16);
    let mut chart = Chart::new(ChartType::ScatterStraightWithMarkers);
    chart.set_width(760).set_height(500);
    chart.title().set_name(&cut(name));
    chart.legend().set_position(ChartLegendPosition::Right);
    let range = |from: (u32, u16), to: (u32, u16)| ChartRange::new_from_range(of.name, from.0, from.1, to.0, to.1);
    let (count, places) = match lines {
        First::Row => (grid.rows.len(), &grid.columns),
        First::Column => (grid.columns.len(), &grid.rows),
    };
    for index in 0..count {
        let shade = 0.16 + 0.84 * index as f64 / (count - 1).max(1) as f64;
        let colour = Rgb::sequential(shade).hex().to_uppercase();
        let (own_row, own_column) = (top + 1 + index as u32, index as u16 + 1);
        let (name, categories, values) = match lines {
            First::Row => {
                ((own_row, 0), range((top, 1), (top, last_column)), range((own_row, 1), (own_row, last_column)))
            }
            First::Column => (
                (top, own_column),
                range((top + 1, 0), (last_row, 0)),
                range((top + 1, own_column), (last_row, own_column)),
            ),
        };
        let mut fill = ChartFormat::new();
        fill.set_solid_fill(ChartSolidFill::new().set_color(colour.as_str()));
        let mut marker = ChartMarker::new();
        if grid.rows.len() * grid.columns.len() > MOST_MARKED {
            marker.set_none();
        } else {
            marker.set_type(ChartMarkerType::Circle).set_size(4).set_format(&mut fill);
        }
        let line = ChartLine::new().set_color(colour.as_str()).set_width(1.5).clone();
        let series = chart.add_series();
        series.set_name(&range(name, name)).set_categories(&categories).set_values(&values);
        series.set_format(ChartFormat::new().set_line(&line)).set_marker(&marker);
    }
    let column = if matches!(lines, First::Row) { across } else { down };
    let axis = column.split('_').next().unwrap_or(column);
    chart.x_axis().set_name(&format!("{axis} ({})", columns::unit(column))).set_major_gridlines(false);
    let numbers: Vec<f64> = places.iter().filter_map(|place| place.number).collect();
    if let [first, .., last] = numbers[..] {
        // A logarithmic axis has no 0.
        if matches!(lines, First::Row) && first > 0.0 {
            chart.x_axis().set_log_base(10).set_min(decade(first));
        } else {
            chart.x_axis().set_min(first).set_max(last);
        }
    }
    let faint = ChartLine::new().set_color("#E6EAEF").clone();
    chart.y_axis().set_name(&cut(of.title)).set_num_format("General").set_major_gridlines_line(&faint);
    if let Some(lowest) = lowest {
        chart.y_axis().set_log_base(10).set_min(decade(lowest)).set_crossing(ChartAxisCrossing::Min);
    }
    chart
}

/// The power of ten at or below a positive value.
fn decade(value: f64) -> f64 {
    10f64.powf((value.log10() + 1e-9).floor())
}
