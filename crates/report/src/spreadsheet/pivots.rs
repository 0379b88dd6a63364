//! Pivot sheets: a column over the run's axes, with its chart.

use rust_xlsxwriter::chart::{
    Chart, ChartAxisCrossing, ChartErrorBars, ChartErrorBarsType, ChartFormat, ChartLegendPosition, ChartLine,
    ChartMarker, ChartMarkerType, ChartRange, ChartSolidFill, ChartType,
};
use rust_xlsxwriter::{Format, FormatAlign, Worksheet, XlsxError};

use super::{Cell, Manifest, Measured, colours, columns, cut, heading, number_format, title, write_number};
use crate::charts::COLOURS;
use crate::pivot::Pivot;
use crate::record::{self, ChartKind, Scale};

/// First row of the table: its headings.
const TOP: u32 = 3;

/// More points than these are lines without marks and intervals: a spreadsheet program draws each mark and whisker singly, which
/// takes minutes for thousands. The intervals are in the table.
pub(super) const MOST_MARKED: usize = 500;

/// As many as a chart of a spreadsheet may have.
const MOST_LINES: usize = 255;

/// A column that gets a sheet, and how it is drawn.
pub(super) struct Headline {
    column: String,
    title: String,
    x: String,
    x_label: String,
    y_label: String,
    scale: Scale,
}

impl Headline {
    /// The column.
    pub(super) fn column(&self) -> &str {
        &self.column
    }
}

/// The charted columns; without charts, throughput and the delays.
pub(super) fn headlines(manifest: &Manifest) -> Vec<Headline> {
    let mut found: Vec<Headline> = Vec::new();
    // The others show no column.
    let has_columns = |chart: &&record::Chart| matches!(chart.kind, ChartKind::Lines | ChartKind::Heatmap);
    for chart in manifest.charts.iter().filter(has_columns) {
        let column = if chart.kind == ChartKind::Heatmap { &chart.value } else { &chart.y };
        if found.iter().all(|known| known.column != *column) {
            found.push(Headline {
                column: column.clone(),
                title: chart.title.clone(),
                x: chart.x.clone(),
                x_label: chart.x_label.clone(),
                y_label: if chart.kind == ChartKind::Heatmap { column.clone() } else { chart.y_label.clone() },
                scale: chart.scale,
            });
        }
    }
    if found.is_empty() {
        let plain = [("msgs_per_s", Scale::Linear), ("delay_mean_us", Scale::Log), ("delay_max_us", Scale::Log)];
        found.extend(plain.map(|(column, scale)| Headline {
            column: column.into(),
            title: column.into(),
            x: "loss_pct".into(),
            x_label: "loss_pct".into(),
            y_label: column.into(),
            scale,
        }));
    }
    found
}

/// Fills a sheet: table at the left, its intervals beside it, the chart at the right.
pub(super) fn sheet(
    sheet: &mut Worksheet,
    manifest: &Manifest,
    cells: &[Cell<'_>],
    headline: &Headline,
    index: usize,
) -> Result<(), XlsxError> {
    let name = sheet_name(&headline.column, index);
    let mut pivot = Pivot::new(manifest, cells);
    let turns = |values: Vec<f64>| !values.is_sorted_by(|a, b| a < b) && !values.is_sorted_by(|a, b| a > b);
    if row_numbers(&pivot, &headline.x).is_some_and(turns) {
        // A line through such rows would go to and fro.
        let over = Pivot::over(&headline.x, cells);
        if over.columns.len() <= MOST_LINES {
            pivot = over;
        }
    }
    sheet.set_name(&name)?.set_freeze_panes(TOP + 1, 1)?.set_landscape().set_print_fit_to_pages(1, 0);
    sheet.write_with_format(0, 0, cut(&headline.title), &title())?;
    let unit = columns::unit(&headline.column);
    let suffix = if unit.is_empty() { String::new() } else { format!(", {unit}") };
    sheet.write(1, 0, cut(&format!("{}{suffix}", headline.column)))?;

    let across = pivot.columns.len() as u16;
    sheet.set_column_range_width(0, interval_column(across, across) + 1, 15)?;
    sheet.write_with_format(TOP, 0, cut(&pivot.down), &heading())?;
    for (column, label) in (1u16..).zip(&pivot.columns) {
        sheet.write_with_format(
            TOP,
            column,
            cut(if label.is_empty() { &headline.column } else { label }),
            &heading().set_align(FormatAlign::Right),
        )?;
        for (offset, sign) in [(0, "−"), (1, "+")] {
            let column = interval_column(across, column) + offset;
            let label = cut(format!("{label} 95 % {sign}").trim());
            sheet.write_with_format(TOP, column, label, &heading().set_align(FormatAlign::Right))?;
        }
    }
    let numeric = numeric_rows(&pivot, &headline.x);
    for (at, label) in pivot.rows.iter().enumerate() {
        let row = TOP + 1 + at as u32;
        match &numeric {
            Some(values) => write_number(sheet, row, 0, values[at], "General")?,
            None => sheet.write(row, 0, cut(label)).map(drop)?,
        }
        for (column, cell) in (1u16..).zip(&pivot.cells[at]) {
            field(sheet, row, column, across, *cell, &headline.column)?;
        }
    }
    let last = TOP + pivot.rows.len() as u32;
    if pivot.rows.is_empty() {
        return Ok(());
    }
    sheet.add_conditional_format(TOP + 1, 1, last, across, &colours(unit == "1/s" || unit == "Mbit/s"))?;
    let chart = chart(&name, headline, across, last, numeric.as_deref());
    sheet.insert_chart(TOP, interval_column(across, across) + 3, &chart)?;
    Ok(())
}

fn field(
    sheet: &mut Worksheet,
    row: u32,
    column: u16,
    across: u16,
    cell: Option<&Cell<'_>>,
    name: &str,
) -> Result<(), XlsxError> {
    let Some((cell, measured)) = cell.and_then(|cell| Some((cell, cell.measured(name)?))) else {
        return Ok(());
    };
    let format = number_format(name);
    if cell.believes(name) {
        write_number(sheet, row, column, measured.value(), format)?;
    } else {
        let struck = Format::new().set_num_format(format).set_font_strikethrough();
        sheet.write_number_with_format(row, column, measured.value(), &struck)?;
    }
    if let Measured::Estimate(e) = measured {
        let beside = interval_column(across, column);
        write_number(sheet, row, beside, e.value - e.low, format)?;
        write_number(sheet, row, beside + 1, e.high - e.value, format)?;
    }
    Ok(())
}

/// Columns of the lower and upper half of the interval of a table's column.
fn interval_column(across: u16, column: u16) -> u16 {
    across + 2 + column.saturating_sub(1) * 2
}

fn chart(name: &str, headline: &Headline, across: u16, last: u32, numeric: Option<&[f64]>) -> Chart {
    let mut chart = Chart::new(match numeric {
        Some(_) => ChartType::ScatterStraightWithMarkers,
        None => ChartType::Line,
    });
    chart.set_width(760).set_height(440);
    chart.title().set_name(&name_of(&headline.title));
    chart.legend().set_position(ChartLegendPosition::Top);
    let range = |column: u16| ChartRange::new_from_range(name, TOP + 1, column, last, column);
    for column in 1..=across {
        let colour = COLOURS[usize::from(column - 1) % COLOURS.len()].to_uppercase();
        let line = ChartLine::new().set_color(colour.as_str()).set_width(2).clone();
        let mut fill = ChartFormat::new();
        fill.set_solid_fill(ChartSolidFill::new().set_color(colour.as_str()));
        let mut marker = ChartMarker::new();
        marker.set_type(ChartMarkerType::Circle).set_size(6).set_format(&mut fill);
        let heading = ChartRange::new_from_range(name, TOP, column, TOP, column);
        let series = chart.add_series();
        series.set_name(&heading).set_categories(&range(0)).set_values(&range(column));
        series.set_format(ChartFormat::new().set_line(&line));
        if (last - TOP) as usize * usize::from(across) > MOST_MARKED {
            series.set_marker(ChartMarker::new().set_none());
            continue;
        }
        let beside = interval_column(across, column);
        let mut bars = ChartErrorBars::new();
        bars.set_type(ChartErrorBarsType::Custom(range(beside + 1), range(beside)));
        bars.set_format(ChartFormat::new().set_line(ChartLine::new().set_color(colour.as_str())));
        series.set_marker(&marker).set_y_error_bars(&bars);
    }
    chart.x_axis().set_name(&name_of(&headline.x_label)).set_major_gridlines(false);
    if let Some([first, .., last]) = numeric
        && first < last
    {
        chart.x_axis().set_min(*first).set_max(*last);
    }
    // Unlike our own charts, these have bare numbers on their axis.
    let unit = columns::unit(&headline.column);
    let label = name_of(&headline.y_label);
    let label = if label.contains(unit) { label } else { format!("{label} ({unit})") };
    let faint = ChartLine::new().set_color("#E6EAEF").clone();
    chart.y_axis().set_name(&label).set_num_format("#,##0").set_major_gridlines_line(&faint);
    match headline.scale {
        // The x axis crosses at the lowest mark; else it does at 1.
        Scale::Log => chart.y_axis().set_log_base(10).set_crossing(ChartAxisCrossing::Min),
        Scale::Linear => chart.y_axis().set_min(0),
    };
    chart
}

/// A text as a chart takes it: one that begins with `=` would be a reference.
fn name_of(text: &str) -> String {
    cut(text.trim_start_matches(['=', ' ']))
}

/// The column `x` for each row, if it is a number and the same across each row.
fn numeric_rows(pivot: &Pivot<'_>, x: &str) -> Option<Vec<f64>> {
    row_numbers(pivot, x).filter(|values| values.windows(2).all(|pair| pair[0] != pair[1]))
}

/// The value of `x` of each row; `None` where a row has several, or none.
fn row_numbers(pivot: &Pivot<'_>, x: &str) -> Option<Vec<f64>> {
    let of_row = |row: &Vec<Option<&Cell<'_>>>| {
        let mut values = row.iter().flatten().map(|cell| columns::number(cell.first(), x));
        let first = values.next()??;
        values.all(|value| value == Some(first)).then_some(first)
    };
    pivot.cells.iter().map(of_row).collect()
}

/// A column's name as a sheet may be called.
pub(super) fn sheet_name(column: &str, index: usize) -> String {
    let allowed: String =
        column.chars().filter(|c| c.is_ascii_alphanumeric() || " _-.".contains(*c)).take(28).collect();
    let taken = ["summary", "results", "published", "published grid", "retransmits", "environment", "history", ""]
        .contains(&allowed.to_lowercase().as_str());
    if taken || allowed != column { format!("{allowed} {}", index + 1) } else { allowed }
}
