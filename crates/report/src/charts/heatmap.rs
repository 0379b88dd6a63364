//! Heat maps: a grid with a value in each field that also sets its colour.
//!
//! A field of a cell that is not valid is hatched; a 0 on a logarithmic scale is grey. Very many fields are drawn
//! without numbers and tooltips, and fields of similar colour as one element.

use indexmap::IndexMap;
use weir_units::format;

use super::axis::Axis;
use super::palette::Rgb;
use super::plot::MAX_MARKED;
use super::svg::{Anchor, Svg, width_of};
use super::{WIDTH, known};
use crate::cells::{Cell, Measured};
use crate::columns::in_unit;
use crate::grid::{Grid, Place};
use crate::record::{Chart, Scale};

const MARGIN: f64 = 24.0;
const ROW: f64 = 23.0;
/// Max width of a field: a small grid need not fill the picture.
const WIDEST: f64 = 96.0;
/// Min width of a field with a number.
const NARROWEST: f64 = 18.0;
/// Max grids of one picture; the results have the others.
const MAX_GRIDS: usize = 100;
/// Number of colours of a map without numbers.
const STEPS: f64 = 63.0;

struct HeatMap<'a> {
    chart: &'a Chart,
    units: [&'a str; 3],
    axis: Axis,
    crowded: bool,
}

/// Draws a chart of kind `heatmap`.
pub(super) fn render(chart: &Chart, cells: &[Cell<'_>]) -> String {
    let grids = Grid::all(cells, &chart.y, &chart.x);
    let units = [&chart.y, &chart.x, &chart.value].map(|column| known(cells).unit(column));
    let measured = || grids.iter().flat_map(Grid::iter).filter_map(|(.., cell)| cell.measured(&chart.value));
    let values: Vec<f64> = measured().map(|measured| measured.value()).collect();
    let usable = |v: &&f64| v.is_finite() && (chart.scale == Scale::Linear || **v > 0.0);
    let low = values.iter().filter(usable).copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().filter(usable).copied().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = match (low < high, chart.scale) {
        (true, Scale::Linear) => (low.min(0.0), high),
        (true, Scale::Log) => (low, high),
        (false, Scale::Linear) => (0.0, if high > 0.0 { high } else { 1.0 }),
        (false, Scale::Log) if low.is_finite() => (low / 2.0, high * 2.0),
        (false, Scale::Log) => (1.0, 10.0),
    };
    let axis = match chart.scale {
        Scale::Linear => Axis::linear(&[low, high], false, units[2]),
        Scale::Log => Axis::log(&[low, high], units[2]).tight(&[low, high]),
    };
    let crowded = grids.iter().map(|grid| grid.rows.len() * grid.columns.len()).sum::<usize>() > MAX_MARKED;
    HeatMap { chart, units, axis, crowded }.render(&grids)
}

impl HeatMap<'_> {
    fn render(&self, grids: &[Grid<'_>]) -> String {
        let named = grids.iter().any(|grid| !grid.name.is_empty());
        let heading = if named { 28.0 } else { 0.0 };
        let drawn = &grids[..grids.len().min(MAX_GRIDS)];
        let left_out = grids.len() - drawn.len();
        let inner: f64 = drawn.iter().map(|grid| grid.rows.len() as f64 * ROW + 52.0 + heading).sum();
        let inner = if drawn.is_empty() { 80.0 } else { inner };
        let mut svg = Svg::new(WIDTH, 122.0 + inner + if left_out > 0 { ROW } else { 0.0 });
        let or = |label: &str, column: &str| if label.is_empty() { column.to_owned() } else { label.to_owned() };
        let unit = if self.units[2].is_empty() { String::new() } else { format!(", {}", self.units[2]) };
        let value_label = or(&self.chart.value_label, &format!("{}{unit}", self.chart.value));
        let [x_label, y_label] =
            [(&self.chart.x_label, &self.chart.x), (&self.chart.y_label, &self.chart.y)].map(|(l, c)| or(l, c));
        svg.text((MARGIN, 34.0), 17.0, Anchor::Start, "class=\"ink bold\"", &self.chart.title);
        svg.text((MARGIN, 55.0), 13.0, Anchor::Start, "class=\"faint\"", &value_label);
        self.legend(&mut svg, grids);
        let mut top = 112.0;
        for grid in drawn {
            svg.text((MARGIN, top + 18.0), 13.0, Anchor::Start, "class=\"ink bold\"", &grid.name);
            top += heading;
            self.grid(&mut svg, grid, top, [&y_label, &x_label]);
            top += grid.rows.len() as f64 * ROW + 52.0;
        }
        if left_out > 0 {
            let words = format!("and {left_out} more in results.csv");
            svg.text((MARGIN, top + 8.0), 12.0, Anchor::Start, "class=\"faint\"", &words);
        }
        if grids.is_empty() {
            svg.text((WIDTH / 2.0, 140.0), 14.0, Anchor::Middle, "class=\"faint\"", "nothing was measured");
        }
        svg.finish(&self.chart.title, &format!("{value_label} by {y_label} and {x_label}"))
    }

    fn legend(&self, svg: &mut Svg, grids: &[Grid<'_>]) {
        let (left, top, width) = (MARGIN, 70.0, 250.0);
        for step in 0..50 {
            let place = (f64::from(step) + 0.5) / 50.0;
            // Half a pixel of overlap avoids seams.
            let (x, size) = (left + width * f64::from(step) / 50.0, (width / 50.0 + 0.5, 10.0));
            svg.rect((x, top), size, &format!("fill=\"{}\"", Rgb::sequential(place).hex()), "");
        }
        let mut free = f64::NEG_INFINITY;
        for (value, label) in &self.axis.ticks {
            let Some(place) = self.axis.place(*value) else { continue };
            let (x, half) = (left + width * place, width_of(label, 11.0) / 2.0);
            svg.line((x, top + 10.0), (x, top + 13.0), "class=\"axis\"");
            if x - half > free {
                svg.text((x.max(left + half), top + 25.0), 11.0, Anchor::Middle, "class=\"faint\"", label);
                free = x + half + 6.0;
            }
        }
        let cells = || grids.iter().flat_map(Grid::iter).map(|(.., cell)| cell);
        let (mut x, size) = (left + width + 36.0, (20.0, 14.0));
        let is_zero =
            |cell: &Cell<'_>| cell.measured(&self.chart.value).is_some_and(|m| self.axis.place(m.value()).is_none());
        let zero = if self.units[2] == "Mbit/s" { "0: nothing got through" } else { "0" };
        for (there, name) in
            [(cells().any(is_zero), zero), (cells().any(|cell| !cell.believes(&self.chart.value)), "not valid")]
        {
            if there {
                svg.rect((x, top - 2.0), size, "class=\"none\" rx=\"2\"", "");
                if name != zero {
                    hatch(svg, (x, top - 2.0), size, "#8b949e");
                }
                svg.text((x + 28.0, top + 9.0), 12.0, Anchor::Start, "class=\"ink\"", name);
                x += 46.0 + width_of(name, 12.0);
            }
        }
    }

    fn grid(&self, svg: &mut Svg, grid: &Grid<'_>, top: f64, [y_label, x_label]: [&str; 2]) {
        let name = |unit: &str, place: &Place| place.number.map_or(place.text.clone(), |value| in_unit(unit, value));
        let rows: Vec<String> = grid.rows.iter().map(|place| name(self.units[0], place)).collect();
        let columns: Vec<String> = grid.columns.iter().map(|place| name(self.units[1], place)).collect();
        let widest = rows.iter().map(|name| width_of(name, 12.0)).fold(0.0, f64::max);
        let left = MARGIN + widest.max(width_of(y_label, 12.0).min(170.0)) + 10.0;
        let width = ((WIDTH - MARGIN - left) / columns.len().max(1) as f64).min(WIDEST);
        svg.text((left - 8.0, top + 14.0), 12.0, Anchor::End, "class=\"faint\"", y_label);
        let mut free = f64::NEG_INFINITY;
        for (index, name) in columns.iter().enumerate() {
            let (x, half) = (left + (index as f64 + 0.5) * width, width_of(name, 11.5) / 2.0);
            if x - half > free {
                svg.text((x, top + 14.0), 11.5, Anchor::Middle, "class=\"faint\"", name);
                free = x + half + 2.0;
            }
        }
        let (top, size) = (top + 22.0, (width - 1.5, ROW - 1.5));
        let mut crowd: IndexMap<String, Vec<(f64, f64)>> = IndexMap::new();
        for (index, (row, cells)) in rows.iter().zip(&grid.cells).enumerate() {
            let y = top + index as f64 * ROW + 0.75;
            svg.text((left - 8.0, y + ROW / 2.0 + 2.75), 12.0, Anchor::End, "class=\"faint\"", row);
            for (index, (column, cell)) in columns.iter().zip(cells).enumerate() {
                let at = (left + index as f64 * width + 0.75, y);
                let place = [grid.name.as_str(), row, column];
                match cell.and_then(|cell| Some((cell, cell.measured(&self.chart.value)?))) {
                    None => crowd.entry("class=\"empty\"".into()).or_default().push(at),
                    Some((_, measured)) if self.crowded => {
                        let rounded = self.axis.place(measured.value()).map(|place| (place * STEPS).round() / STEPS);
                        crowd.entry(fill(rounded)).or_default().push(at);
                    }
                    Some((cell, measured)) => self.field(svg, cell, measured, place, (at, size)),
                }
                if self.crowded && cell.is_some_and(|cell| !cell.believes(&self.chart.value)) {
                    svg.line((at.0, at.1 + size.1), (at.0 + size.0, at.1), "stroke=\"#59636e\"");
                }
            }
        }
        for (style, at) in &crowd {
            svg.scatter(at, &format!("h{:.1}v{:.1}h-{:.1}z", size.0, size.1, size.0), style);
        }
        let middle = (left + columns.len().max(1) as f64 * width / 2.0, top + rows.len() as f64 * ROW + 20.0);
        svg.text(middle, 12.0, Anchor::Middle, "class=\"faint\"", x_label);
    }

    fn field(
        &self,
        svg: &mut Svg,
        cell: &Cell<'_>,
        measured: Measured,
        place: [&str; 3],
        (at, size): ((f64, f64), (f64, f64)),
    ) {
        let word = |value| in_unit(self.units[2], value);
        let ends = match measured {
            Measured::Estimate(e) => format!(" ({} to {})", word(e.low), word(e.high)),
            Measured::Exact(_, low, high) if low < high => format!(" ({} to {})", word(low), word(high)),
            _ => String::new(),
        };
        let (value, valid) = (measured.value(), cell.believes(&self.chart.value));
        let mark = if valid { "" } else { ", not valid" };
        let whereabouts = place.iter().filter(|name| !name.is_empty()).copied().collect::<Vec<_>>().join(", ");
        let shade = self.axis.place(value);
        let style = format!("{} rx=\"2\"", fill(shade));
        svg.rect(at, size, &style, &format!("{whereabouts}: {}{ends}{mark}", word(value)));
        let ink = shade.map(|place| Rgb::sequential(place).ink());
        if !valid {
            hatch(svg, at, size, ink.filter(|ink| *ink == "#ffffff").unwrap_or("#59636e"));
        }
        if size.0 >= NARROWEST {
            // Rates with at most three digits, durations with their unit.
            let text = match self.units[2] {
                "Mbit/s" => format::rate(value),
                "us" | "ms" | "bytes" => word(value),
                _ => format::short(value),
            };
            let fit = (size.0 - 3.0) / width_of(&text, 1.0).max(1e-3);
            let ink = ink.map_or("class=\"ink\"".to_owned(), |ink| format!("fill=\"{ink}\""));
            // The background shows around the numbers, so that they are readable between the hatches.
            let ground = shade.map_or("#e9ecef".into(), |place| Rgb::sequential(place).hex());
            let halo = format!(" stroke=\"{ground}\" stroke-width=\"3\" paint-order=\"stroke\"");
            let style = format!("{ink}{} pointer-events=\"none\"", if valid { "" } else { &halo });
            let middle = (at.0 + size.0 / 2.0, at.1 + size.1 / 2.0 + 4.0);
            svg.text(middle, fit.clamp(6.0, 11.5), Anchor::Middle, &style, &text);
        }
    }
}

fn fill(place: Option<f64>) -> String {
    place.map_or("class=\"none\"".into(), |place| format!("fill=\"{}\"", Rgb::sequential(place).hex()))
}

/// Slanted lines across a rectangle.
fn hatch(svg: &mut Svg, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
    let style = format!("stroke=\"{colour}\" stroke-opacity=\"0.55\" pointer-events=\"none\"");
    let mut offset = 3.0 - height;
    while offset < width {
        // From the lower edge up to the right, clipped at the sides.
        let from = if offset < 0.0 { (x, y + height + offset) } else { (x + offset, y + height) };
        let over = offset + height - width;
        let to = if over > 0.0 { (x + width, y + over) } else { (x + offset + height, y) };
        svg.line(from, to, &style);
        offset += 6.0;
    }
}
